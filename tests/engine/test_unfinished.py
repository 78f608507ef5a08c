"""Random graphs whose reducer assigns each item the next number: called once per update, in the order of the chain.

The reducer has state, so a missing, additional or misplaced call changes the values. Under any order of completion the
chain must equal that of a single worker, and every reader must find the numbers that the commit assigned.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from clew.engine.records import Step
from clew.errors import InputError
from clew.graph import Graph
from clew.testing import Stepper, random_order
from tests.campaigns import first
from tests.engine.graphs import RUN, Case, Played, Skipped, cases, go_on, play, quietly
from tests.engine.nested import nest
from tests.reference.generate import Knobs, to_clew

REDUCED = Knobs(
    least=4,
    most=14,
    gates=0.25,
    backwards=0.25,
    reduced=1.0,
    sends=0.4,
    eager=0.15,
    whole_state=0.06,
    only_log=0.5,
    failures=0.06,
    asks=0.03,
    interrupts=0.03,
    defaults=0.3,
)


class Numbering:
    """Gives each item the next number; `made` are all values that it returned."""

    def __init__(self) -> None:
        self.calls = 0
        self.made: list[list[Any]] = []

    def __call__(self, current: list[Any], update: list[Any]) -> list[Any]:
        self.calls += 1
        self.made.append([*current, *([self.calls, item] for item in update)])
        return self.made[-1]


def numbered(case: Case) -> tuple[Graph, Numbering]:
    reducer = Numbering()
    graph = quietly(lambda: to_clew(case.model, reducer))
    return graph, reducer


def check_reading(played: Played, reducer: Numbering) -> None:
    """Every reader of the run finds the committed values and calls no reducer."""
    calls, engine = reducer.calls, played.engine
    checkpoints = engine.history(RUN)
    made = [checkpoints[0].state.values["log"], *reducer.made]
    assert all(checkpoint.state.values["log"] in made for checkpoint in checkpoints)
    assert checkpoints[-1].state.values == played.result.values == engine.state(RUN).values
    middle = checkpoints[len(checkpoints) // 2]
    assert engine.state(RUN, step=middle.step_id).values == middle.state.values
    assert engine.result(RUN).values == played.result.values
    engine.replay(RUN, strict=False)
    assert reducer.calls == calls


def compare(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases(seeds, REDUCED):
        try:
            graph, reducer = numbered(case)
            one = play(case.engine(graph, max_concurrent_nodes=1), case.given)
            calls = reducer.calls
            check_reading(one, reducer)
            for order, workers in enumerate((None, 2, 3)):
                graph, reducer = numbered(case)
                other = play(case.engine(graph), case.given, random_order(case.seed * 5 + order), workers)
                assert other.chain == one.chain, case.seed
                assert other.result.values == one.result.values, case.seed
                assert other.digests == one.digests, case.seed
                assert reducer.calls == calls, case.seed
                check_reading(other, reducer)
        except Skipped:
            continue
        counts[one.result.status] += 1
        counts["calls"] += calls
        counts["deltas"] += sum(bool(step.deltas) for step in one.steps)
    return counts


@pytest.mark.parametrize("part", first(1, of=4))
def test_reducers_are_called_in_the_order_of_the_chain(part: int) -> None:
    counts = compare(range(part * 60, part * 60 + 60))
    assert counts["completed"] > 15, counts
    assert counts["calls"] > 100, counts
    assert counts["deltas"] > 50, counts


def compare_nested(seeds: range) -> Counter[str]:
    """Some nodes are subgraphs, whose results go through the reducer outside."""
    counts: Counter[str] = Counter()
    for case in cases(seeds, REDUCED):
        played: list[Played] = []
        try:
            for order, workers in enumerate((1, None, 3)):
                reducer = Numbering()
                model = replace(case.model, reducer=reducer)
                plain = quietly(lambda model=model: to_clew(model))
                graph = nest(Random(case.seed), model, plain, 0.5, 1)
                choose = random_order(case.seed + order) if workers != 1 else None
                options: dict[str, Any] = {"max_concurrent_nodes": 1} if workers == 1 else {}
                played.append(play(case.engine(graph, **options), case.given, choose, workers))
                assert played[-1].chain == played[0].chain, case.seed
                assert played[-1].digests == played[0].digests, case.seed
                check_reading(played[-1], reducer)
        except Skipped:
            continue
        counts["nested"] += any(
            entry.prefix for entry in played[0].engine.store.entries(RUN) if isinstance(entry, Step)
        )
        counts["deltas"] += sum(bool(step.deltas) for step in played[0].steps)
    return counts


@pytest.mark.parametrize("part", first(1, of=2))
def test_beside_subgraphs_too(part: int) -> None:
    counts = compare_nested(range(part * 50, part * 50 + 50))
    assert counts["nested"] > 10, counts
    assert counts["deltas"] > 30, counts


def compare_broken_off(seeds: range) -> Counter[str]:
    """Each run is broken off after some items and resumed: the numbers go on where they stood."""
    counts: Counter[str] = Counter()
    for case in cases(seeds, REDUCED):
        choose, rng = random_order(case.seed), Random(case.seed)
        try:
            graph, _ = numbered(case)
            one = play(case.engine(graph, max_concurrent_nodes=1), case.given)
            for _ in range(2):
                graph, reducer = numbered(case)
                run = Stepper(case.engine(graph), case.given, run_id=RUN)
                for _ in range(rng.randint(1, 10)):
                    if run.running:
                        run.complete(choose(run.running))
                run.finish()
                calls = reducer.calls
                run.engine.result(RUN)
                assert reducer.calls == calls
                other = go_on(run.engine)
                assert other.chain == one.chain, case.seed
                assert other.result.values == one.result.values, case.seed
                assert other.digests == one.digests, case.seed
                check_reading(other, reducer)
                counts["resumed"] += 0 < calls < reducer.calls
        except (InputError, Skipped):
            continue
    return counts


@pytest.mark.parametrize("part", first(1, of=2))
def test_runs_that_are_broken_off_and_resumed(part: int) -> None:
    assert compare_broken_off(range(part * 50, part * 50 + 50))["resumed"] > 5
