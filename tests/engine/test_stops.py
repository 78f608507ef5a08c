"""Stops on random graphs: a run pauses where it was asked to, and its chain is that of the run without stops."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from clew import Graph, node
from clew.errors import InputError
from clew.runtime import Engine, RunResult
from clew.testing import Stepper, random_order
from tests.campaigns import PARTS
from tests.engine.graphs import RUN, Case, Played, Skipped, cases, play
from tests.engine.test_against_reference import KINDS, check
from tests.reference.generate import Knobs
from tests.reference.model import answer


def boundaries(played: Played, before: list[str], after: list[str]) -> list[int]:
    """The steps after which the run has to pause, read off the chain without stops."""
    found = set()
    for step in played.steps:
        nodes = {outcome.node for outcome in step.outcomes}
        if nodes & set(before):
            found.add(step.number - 1)
        if nodes & set(after):
            found.add(step.number)
    open_step = played.result._machine.root.open_steps[:1]  # of a failed run
    for step in open_step:
        if {batch.node.name for batch in step.batches.values()} & set(before):
            found.add(step.number - 1)
    return sorted(found)


def first_leg(case: Case, way: int, stops: dict[str, Any]) -> tuple[Engine, RunResult]:
    if way == 0:
        engine = case.engine(max_concurrent_nodes=1)
        return engine, engine.run(case.given, run_id=RUN, check=False, **stops)
    if way == 1:
        engine = case.engine(max_concurrent_nodes=64)
        return engine, engine.run(case.given, run_id=RUN, check=False, **stops)
    engine, choose = case.engine(), random_order(case.seed)
    run = Stepper(engine, case.given, run_id=RUN, workers=case.seed % 3 or None, **stops)
    while run.running:
        run.complete(choose(run.running))
    return engine, run.finish()


def paused_run(case: Case, way: int, stops: dict[str, Any]) -> tuple[Played, list[int]]:
    """Run to the end, resuming each pause; where it paused."""
    engine, result = first_leg(case, way, stops)
    pauses = []
    for _ in range(400):
        if result.status == "paused":
            assert engine.runs()[0].status == "paused"
            assert engine.result(RUN).status == "paused"
            pauses.append(result.last_step)
            result = engine.resume(RUN, check=False)
        elif result.questions:  # also of a run that failed ahead of an open question
            asked = engine.result(RUN).questions
            answers = {each.path: answer(each.question) for each in asked}
            result = engine.resume(RUN, answers=answers, check=False)
        else:
            break
    return Played(engine, result), pauses


def compare(seeds: range, knobs: Knobs) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases(seeds, knobs):
        rng = Random(case.seed)
        names = list(case.model.names)
        before = rng.sample(names, rng.randint(0, 2))
        after = rng.sample(names, rng.randint(0, 2))
        try:
            whole = play(case.engine(max_concurrent_nodes=1), case.given)
        except Skipped:
            continue
        expected = boundaries(whole, before, after)
        for way in range(3):
            stops = {"stop_before": before, "stop_after": after}
            played, pauses = paused_run(case, way, stops)
            check(case, played)
            assert played.digests == whole.digests, case.seed
            assert pauses == expected, (case.seed, way, before, after)
            counts["pauses"] += len(pauses)
            counts["runs"] += 1
    return counts


@pytest.mark.parametrize("kind", ["ordinary", "troubled", "winding", "sending", "wide", "joined", "retried"])
def test_a_run_pauses_where_it_was_asked_to_and_nowhere_else(kind: str) -> None:
    counts = compare(range(9000, 9025), KINDS.get(kind, Knobs()))
    assert counts["runs"] > 30, counts
    assert counts["pauses"] > 30, counts


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", ["ordinary", *KINDS])
def test_campaign_of_stops(kind: str, part: int) -> None:
    compare(range(3_000_000 + part * 100, 3_000_000 + part * 100 + 100), KINDS.get(kind, Knobs()))


def test_unknown_nodes_are_rejected_before_the_run_exists() -> None:
    for case in cases([3]):
        engine = case.engine()
        for wrong in ("n00", "x/y", ["", "n0"], {1}, 5, [object]):
            with pytest.raises(InputError):
                engine.run(case.given, run_id=RUN, stop_before=wrong)
        assert engine.runs() == []


def test_lookahead_that_ends_behind_a_stop_is_not_committed() -> None:
    def value(name: str, *reads: str) -> Any:
        return node(eval(f"lambda {', '.join(reads)}: 1"), name=name, output=f"v_{name}")

    nodes = [
        value("slow", "x"),
        value("a", "x"),
        value("held", "v_slow"),
        value("b", "v_a"),
        value("c", "v_b"),
    ]
    for held in ("stop_after", "stop_before"):
        run = Stepper(Engine(Graph([*nodes, value("d", "v_held")])), {"x": 1}, run_id=RUN, **{held: ["held"]})
        for path in ("a#0", "b#0", "slow#0"):
            run.complete(path)
        if held == "stop_after":
            run.complete("held#0")
        assert run.running == ["c#0"]
        run.complete("c#0")
        result = run.finish()
        step = 2 if held == "stop_after" else 1
        assert (result.status, result.last_step, "v_c" in result.provisional) == ("paused", step, True)
        result = run.engine.resume(RUN)
        assert (result.status, result.last_step) == ("completed", 3)
        assert [c.items for c in run.engine.history(RUN)][2:] == [("held#0", "b#0"), ("c#0", "d#0")]
