"""The engine against the reference: the same chain on random graphs, in every mode of execution.

The modes are: one worker, which uses the fast path; several workers with shuffled completion, which use lookahead; a
listener, which disables the fast path; and threads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from clew.engine.program import CHOSEN
from clew.errors import InputError, NodeTimeoutError
from clew.graph.analysis.topology import links
from clew.state import position_of
from clew.testing import Stepper, random_order
from tests.campaigns import PARTS, first
from tests.engine.graphs import (
    RUN,
    Case,
    Played,
    Skipped,
    cases,
    expected_chain,
    go_on,
    plain_decision,
    play,
    play_shuffled,
    without_context,
)
from tests.reference.generate import Knobs
from tests.reference.interpreter import Pending

TROUBLED = Knobs(failures=0.2, interrupts=0.12, asks=0.1, sends=0.5, reduced=0.5, eager=0.15)
WINDING = Knobs(least=5, most=14, gates=0.45, backwards=0.5, control=0.4, multi=0.5, entry=0.2)
DENSE = Knobs(least=4, most=12, gates=0.25, defaults=0.5, whole_state=0.15, seeds=0.5, cutoff=0.4, bound=0.3)
WIDE = Knobs(least=10, most=24, gates=0.2, backwards=0.15, shared=0.02, failures=0.05)
RETRIED = Knobs(failures=0.4, retries=0.6, sends=0.4, reduced=0.4, interrupts=0.05, asks=0.05, eager=0.15)
LATE = Knobs(failures=0.3, retries=0.6, late=0.8, backwards=0.15, sends=0.2, reduced=0.4)
SENDING = Knobs(
    least=6,
    most=14,
    gates=0.4,
    gotos=0.2,
    backwards=0.6,
    sends=0.9,
    reduced=1.0,
    shared=0.0,
    eager=0.1,
    control=0.4,
    failures=0.0,
)
REFUSED = Knobs(
    least=8,
    most=20,
    gates=0.12,
    gotos=0.03,
    backwards=0.1,
    shared=0.02,
    failures=0.0,
    reduced=1.0,
    refusals=1.0,
    sends=0.5,
    eager=0.2,
    defaults=0.4,
    control=0.3,
    whole_state=0.04,
)
JOINED = Knobs(
    least=4,
    most=14,
    control=0.5,
    joins=0.7,
    gates=0.25,
    backwards=0.2,
    sends=0.4,
    reduced=0.4,
    eager=0.12,
    failures=0.02,
    interrupts=0.05,
)
KINDS = {
    "joined": JOINED,
    "troubled": TROUBLED,
    "winding": WINDING,
    "dense": DENSE,
    "wide": WIDE,
    "retried": RETRIED,
    "late": LATE,
    "sending": SENDING,
}


def check(case: Case, played: Played) -> None:
    """Everything that a run leaves behind is what the rules say."""
    expected, result, state = case.expected, played.result, played.state
    assert played.chain == expected_chain(expected), case.seed
    assert (result.status, result.values) == (expected.status, expected.values), case.seed
    assert (state.versions, state.gate_decisions) == (expected.versions, expected.decisions), case.seed
    assert state.terminated == expected.terminated, case.seed
    # the reference knows committed steps alone; a node of the step that failed has run
    began = set(expected.never_ran) - set(result.never_ran)
    assert result.never_ran == {n: lacked for n, lacked in expected.never_ran.items() if n not in began}, (
        case.seed
    )
    assert not began or result.status != "completed", case.seed
    assert state.visits == {name: count for name, count in expected.visits.items() if count}, case.seed
    assert pending(played) == expected.pending, case.seed
    check_error(case, played)


def pending(played: Played) -> dict[str, Pending]:
    """The decisions and Sends that no run has consumed."""
    position = position_of(played.state)
    found = {}
    for name in played.engine.graph.nodes:
        selections = tuple(sorted(position.selections.get(name, ())))
        sends = tuple((gate, dict(payload), final) for gate, payload, final in position.sends.get(name, ()))
        assert bool(selections) == bool(position.wakes.get(name, 0) & CHOSEN)
        if selections or sends:
            found[name] = (selections, sends)
    return found


def check_error(case: Case, played: Played) -> None:
    error = played.result.error
    if case.expected.error is None:
        assert error is None, case.seed
        return
    kind, node = case.expected.error
    # with items that are completed by hand nothing times out: what is late says so itself
    assert {"Late": "NodeTimeoutError"}.get(type(error).__name__, type(error).__name__) == kind, case.seed
    if node is not None:
        assert played.result.failures[0].node == node, case.seed
    if played.result.status == "completed":  # every confined failure is listed, in the order of the chain
        found = [(failure.node, failure.rescued) for failure in played.result.failures]
        assert found == [(node, False) for _, node in case.expected.confined], case.seed


def ways(case: Case) -> Iterator[Played]:
    """The case, run in each way."""
    plain = without_context(case)
    if plain is not None:
        yield play(case.engine(plain, max_concurrent_nodes=1), case.given)
    yield play(case.engine(max_concurrent_nodes=1), case.given)
    yield play_shuffled(case)
    yield play(case.engine(), case.given, random_order(case.seed + 1))
    yield play(case.engine(listeners=[lambda event: None]), case.given)
    yield play(case.engine(max_concurrent_nodes=64), case.given)


def compare(seeds: range, knobs: Knobs = Knobs()) -> Counter[str]:  # noqa: B008 - frozen
    """Run each graph in each way; what was counted on the way."""
    counts: Counter[str] = Counter()
    for case in cases(seeds, knobs, counts):
        digests: list[str] | None = None
        try:
            for played in ways(case):
                check(case, played)
                assert digests is None or played.digests == digests, case.seed
                digests = played.digests
                counts["short steps"] += played.short_steps
                counts["runs"] += 1
        except Skipped:
            counts["run"] += 1
        else:
            counts["steps"] += len(case.expected.chain)
            counts["attempts"] += sum(item.attempt for step in case.expected.chain for item in step)
            counts["timed out"] += isinstance(played.result.error, NodeTimeoutError)
            counts[case.expected.status] += 1
    return counts


def check_counts(seeds: range, counts: Counter[str]) -> None:
    """The comparison means something: few graphs are left out, and all ways were gone."""
    assert counts["graph"] + counts["run"] < len(seeds) * 0.4, counts
    assert counts["steps"] > len(seeds), counts
    assert counts["completed"] > len(seeds) * 0.2, counts
    assert counts["failed"] > 0, counts


def test_what_was_sent_is_laid_on_views_with_a_turn_that_has_begun() -> None:
    """A graph that a search found: a gate sends late, in a step before a lookahead step that begins a turn."""
    for case in cases([611], SENDING):
        for order in range(3):
            check(case, play(case.engine(), case.given, random_order(611 * 7 + order)))


@pytest.mark.parametrize("part", first(1, of=10))
def test_every_way_gives_the_chain_of_the_rules(part: int) -> None:
    seeds = range(part * 100, part * 100 + 100)
    counts = compare(seeds)
    check_counts(seeds, counts)
    assert counts["short steps"] > 50, counts


@pytest.mark.parametrize("part", first(1, of=6))
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_gives_the_chain_of_the_rules_on_harder_graphs(kind: str, part: int) -> None:
    size = 80 if kind == "late" else 40  # few of its graphs have retries
    seeds = range(part * size, part * size + size)
    counts = compare(seeds, KINDS[kind])
    check_counts(seeds, counts)
    assert kind not in ("retried", "late") or counts["attempts"] > 2, counts
    assert kind != "late" or counts["timed out"] > 3, counts


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", ["ordinary", *KINDS])
def test_campaign(kind: str, part: int) -> None:
    """200 graphs in each part, none of which the normal run has seen."""
    seeds = range(1_000_000 + part * 200, 1_000_000 + part * 200 + 200)
    check_counts(seeds, compare(seeds, KINDS.get(kind, Knobs())))


# ---- reducers that refuse


def refused_in_a_row(case: Case) -> bool:
    """Return whether reducers rejected updates in two successive steps."""
    refused = [any(item.error == "Refused" for item in step) for step in case.expected.chain]
    return any(one and other for one, other in pairwise(refused))


def compare_refused(seeds: range) -> Counter[str]:
    """Graphs whose reducers sometimes reject updates, completed in several orders, so lookahead is often discarded."""
    counts: Counter[str] = Counter()
    for case in cases(seeds, REFUSED):
        case = replace(case, on_error="continue" if case.seed % 4 else "stop")
        try:
            for order, workers in enumerate((None, 2, 3, 1)):
                check(case, play(case.engine(), case.given, random_order(case.seed * 7 + order), workers))
        except Skipped:
            continue
        counts["refused in a row"] += refused_in_a_row(case)
        counts["refused"] += any(item.error == "Refused" for step in case.expected.chain for item in step)
        counts["stopped"] += case.expected.error is not None and case.expected.error[0] == "Refused"
    return counts


@pytest.mark.parametrize("part", first(1, of=3))
def test_what_reducers_refuse_in_step_after_step_is_what_the_rules_refuse(part: int) -> None:
    counts = compare_refused(range(part * 100, part * 100 + 100))
    assert counts["refused"] > 30, counts
    assert counts["refused in a row"] > 2, counts
    assert counts["stopped"] > 5, counts


def compare_broken_off(seeds: range) -> Counter[str]:
    """The same, each interrupted after some items and resumed: exactly the finished items in the log are used."""
    counts: Counter[str] = Counter()
    for case in cases(seeds, REFUSED):
        case = replace(case, on_error="continue")
        choose, rng = random_order(case.seed), Random(case.seed)
        try:
            for _ in range(3):
                run = Stepper(case.engine(), case.given, run_id=RUN)
                for _ in range(rng.randint(1, 12)):
                    if run.running:
                        run.complete(choose(run.running))
                        counts["completed"] += 1
                run.finish()
                check(case, go_on(run.engine))
        except (InputError, Skipped):
            continue
        counts["refused"] += any(item.error == "Refused" for step in case.expected.chain for item in step)
    return counts


@pytest.mark.parametrize("part", first(1, of=4))
def test_what_was_done_on_a_refused_update_is_not_gone_on_with(part: int) -> None:
    counts = compare_broken_off(range(part * 50, part * 50 + 50))
    assert counts["refused"] > 15, counts


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_campaign_of_refusals(part: int) -> None:
    seeds = range(2_000_000 + part * 300, 2_000_000 + part * 300 + 300)
    assert compare_refused(seeds)["refused in a row"] > 5
    assert compare_broken_off(seeds)["refused"] > 100


# ---- laws, on the engine alone


def check_visits_count_up(played: Played) -> None:
    """The batches of a node are numbered without a gap, and each runs in one step."""
    visits: Counter[str] = Counter()
    for step in played.steps:
        for name, visit in dict.fromkeys((outcome.node, outcome.visit) for outcome in step.outcomes):
            assert visit == visits[name]
            visits[name] += 1
    assert played.state.visits == visits


def check_no_decision_is_lost(played: Played) -> None:
    """A batch consumes all that was decided for its node before its step; what is left over is pending. A plain item
    withdraws what its node's plain items selected before, and no Send is ever withdrawn.
    """
    plain: dict[str, set[tuple[str, bool]]] = defaultdict(set)
    sent: Counter[str] = Counter()
    for step in played.steps:
        with_plain_item = set()
        for name, size in Counter(outcome.node for outcome in step.outcomes).items():
            assert size - sent[name] in ((1,) if plain[name] else (0, 1))
            if size > sent[name]:
                with_plain_item.add(name)
            del plain[name], sent[name]
        for selected in plain.values():
            selected -= {(name, False) for name in with_plain_item}
        for outcome in step.outcomes:
            came_from_send = outcome.node not in with_plain_item or outcome.index > 0
            for choice in plain_decision(outcome.decision):
                if isinstance(choice, tuple):
                    sent[choice[0]] += 1
                elif choice != "END":
                    plain[choice].add((outcome.node, came_from_send))
    left = {n: (tuple(sorted(plain[n])), sent[n]) for n in {*plain, *sent} if plain[n] or sent[n]}
    assert {name: (selected, len(sends)) for name, (selected, sends) in pending(played).items()} == left


def check_every_run_has_a_cause(played: Played) -> None:
    """Between two runs of a node another one selected it, ran before it, or wrote an input."""
    graph = played.engine.graph
    controls = {
        (link.source, link.target) for link in links(graph.nodes, graph.edges) if link.kind == "control"
    }
    last: dict[str, int] = {}
    for number, step in enumerate(played.steps):
        for name in dict.fromkeys(outcome.node for outcome in step.outcomes):
            since = [o for earlier in played.steps[last.get(name, number) : number] for o in earlier.outcomes]
            chosen = {c[0] if isinstance(c, tuple) else c for o in since for c in plain_decision(o.decision)}
            followed = any((o.node, name) in controls for o in since)
            written = {value for o in since if o.node != name for value in o.update}
            inputs = set(graph.nodes[name].inputs)
            assert name not in last or name in chosen or followed or written & inputs
            last[name] = number


def check_laws(seeds: range, knobs: Knobs) -> None:
    runs = 0
    for case in cases(seeds, knobs):
        try:
            played = play_shuffled(case)
        except Skipped:
            continue
        assert played.result.status in ("completed", "failed"), f"{case.seed} is stuck"
        check_visits_count_up(played)
        check_no_decision_is_lost(played)
        check_every_run_has_a_cause(played)
        runs += 1
    assert runs > len(seeds) * 0.6


@pytest.mark.parametrize("kind", ["ordinary", *KINDS])
def test_laws_on_random_graphs(kind: str) -> None:
    check_laws(range(5000, 5060), KINDS.get(kind, Knobs()))
