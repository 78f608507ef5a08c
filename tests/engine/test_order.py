"""No result depends on time.

The digests of all steps are identical for any number of workers, any order of completion, and any hash seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from clew.state import position_of
from clew.testing import random_order, run_in_order
from tests.campaigns import first
from tests.engine.graphs import RUN, Skipped, cases, play, quietly
from tests.engine.nested import nested_cases
from tests.engine.rich import GIVEN, digests_of, rich_engine
from tests.reference.generate import Knobs, to_clew

ROOT = Path(__file__).resolve().parents[2]


@cache
def expected() -> tuple[str, ...]:
    """The digests with one worker, which goes step by step."""
    engine = rich_engine(max_concurrent_nodes=1)
    assert engine.run(GIVEN, run_id=RUN).status == "completed"
    return tuple(digests_of(engine, RUN))


def test_the_graph_is_rich() -> None:
    engine = rich_engine()
    engine.run(GIVEN, run_id=RUN)
    ran = Counter(item.partition("#")[0] for c in engine.history(RUN) for item in c.items)
    assert ran["outline"] >= 2
    assert ran["dig"] == 4 * ran["outline"]
    assert len(expected()) > 60


@pytest.mark.parametrize("workers", [1, 2, 64])
def test_any_number_of_workers_gives_the_same_digests(workers: int) -> None:
    engine = rich_engine(max_concurrent_nodes=workers)
    engine.run(GIVEN, run_id=RUN)
    assert tuple(digests_of(engine, RUN)) == expected()


@pytest.mark.parametrize("part", first(1, of=10))
def test_a_thousand_orders_of_completion_give_the_same_digests(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        engine = rich_engine()
        run_in_order(engine, GIVEN, choose=random_order(seed), workers=seed % 5 or None, run_id=RUN)
        assert tuple(digests_of(engine, RUN)) == expected(), seed


@pytest.mark.parametrize("choose", [min, max, lambda running: running[0], lambda running: running[-1]])
def test_always_the_first_or_the_last_gives_the_same_digests(choose: object) -> None:
    engine = rich_engine()
    run_in_order(engine, GIVEN, choose=choose, run_id=RUN)
    assert tuple(digests_of(engine, RUN)) == expected()


@pytest.mark.parametrize("hash_seed", ["0", "1", "31337"])
def test_another_process_with_another_hash_seed_gives_the_same_digests(hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.rich"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["completed", *expected()]


def refusing(current: list[int], update: list[int]) -> list[int]:
    """A reducer that takes some updates, and not others; which, depends on what came before."""
    if (sum(current) + sum(update)) % 3 == 0:
        raise ValueError(f"{update} after {current}")
    return current + update


REFUSED = Knobs(least=3, most=10, gates=0.25, backwards=0.2, reduced=1.0, sends=0.3, failures=0.05, eager=0.2)


@pytest.mark.parametrize("part", first(1, of=4))
def test_a_reducer_that_refuses_does_not_make_the_order_show(part: int) -> None:
    counts: Counter[str] = Counter()
    for case in cases(range(part * 60, part * 60 + 60), REFUSED):
        graph = quietly(lambda case=case: to_clew(case.model, refusing))
        try:
            one = play(case.engine(graph, max_concurrent_nodes=1), case.given)
            for seed in range(3):
                other = play(case.engine(graph), case.given, random_order(seed), (None, 2, 3)[seed])
                assert digests_of(other.engine, RUN) == digests_of(one.engine, RUN), case.seed
                assert (other.result.status, other.result.values) == (one.result.status, one.result.values)
                assert repr(other.result.error) == repr(one.result.error), case.seed
                assert position_of(other.state).failed == position_of(one.state).failed, case.seed
            counts["refused"] += any(failure.refused == "log" for failure in one.result.failures)
            counts[case.on_error] += 1
        except Skipped:
            counts["skipped"] += 1
    assert counts["refused"] > 5, counts


EVENTFUL = Knobs(gates=0.3, failures=0.12, interrupts=0.08, asks=0.06, sends=0.5, reduced=0.5)


@pytest.mark.parametrize("part", first(1, of=8))
def test_nested_random_graphs_give_the_same_digests_in_any_order(part: int) -> None:
    counts: Counter[str] = Counter()
    for case in nested_cases(range(part * 50, part * 50 + 50), EVENTFUL, share=0.5):
        try:
            one = play(case.engine(max_concurrent_nodes=1), case.given)
            for other in (
                play(case.engine(), case.given, random_order(case.seed)),
                play(case.engine(), case.given, random_order(case.seed + 1), 3),
                play(case.engine(max_concurrent_nodes=64), case.given),
            ):
                assert digests_of(other.engine, RUN) == digests_of(one.engine, RUN), case.seed
                assert (other.result.status, other.result.values) == (one.result.status, one.result.values)
                assert repr(other.result.error) == repr(one.result.error), case.seed
            counts[one.result.status] += 1
        except Skipped:
            counts["skipped"] += 1
    assert counts["completed"] > 4, counts
    assert counts["failed"] > 5, counts
