"""Long random walks compared with the oracle: many worlds and operations, reproducible."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.campaigns import PARTS
from tests.incremental.oracle_pair import KINDS, VALUES, Operation, Pair, an_operation
from tests.incremental.oracle_worlds import a_world

LENGTH = 50


def walk(seed: int, store: Path | None, length: int = LENGTH, handles: int = 1) -> int:
    """Operations on one world; how many there were. A failure says which."""
    choose = random.Random(seed).choice
    pair = Pair(a_world(choose), store, handles=handles)
    done: list[Operation] = []
    begin = [("set", (name, ()), choose(VALUES)) for name in pair.model.world.sources if choose([1, 1, 1, 0])]
    try:
        while len(done) < length:
            operation = begin.pop() if begin else an_operation(choose, pair.model.world, KINDS)
            done.append(operation)
            pair.do(operation)
            for _ in range(handles):
                pair.take_turns()
                pair.check()
            if choose([True, False]):
                pair.take_turns()
            if len(done) % 10 == 0:
                pair.check_explanations()
    except BaseException as error:
        error.add_note(f"seed {seed}, world {pair.model.world}")
        error.add_note("\n".join(map(str, done)))
        raise
    finally:
        pair.close()
    return len(done)


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_on_a_file(seed: int, tmp_path: Path) -> None:
    walk(seed, tmp_path / "graph.db")


@pytest.mark.parametrize("seed", range(20, 40))
def test_a_walk_in_memory(seed: int) -> None:
    walk(seed, None)


@pytest.mark.parametrize("seed", range(40, 60))
def test_a_walk_of_two_on_one_file(seed: int, tmp_path: Path) -> None:
    walk(seed, tmp_path / "graph.db", handles=2)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_five_thousand_operations(part: int, tmp_path: Path) -> None:
    done = 0
    for seed in range(1000 + part * 100, 1100 + part * 100):
        handles = 1 + (seed % 4 == 3)
        done += walk(seed, tmp_path / f"{seed}.db" if seed % 2 else None, handles=handles)
    assert done == 5_000
