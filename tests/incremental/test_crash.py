"""A process that works on a dependency graph is killed, and another one opens its database.

It must find what the oracle predicts: every finished operation, and the operation in flight completely or not at all.
A pull keeps each node that it has finished. Afterwards both continue in step, so hidden data (old values, revisions) is
correct too.
"""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.errors import InvalidNodeError
from tests.campaigns import PARTS
from tests.incremental.oracle import FRESH, Model
from tests.incremental.oracle_child import Ended, Nursery, Task
from tests.incremental.oracle_pair import KINDS, Operation, Pair, an_operation, spoken
from tests.incremental.oracle_worlds import Node, a_world

ALIVE = tuple(kind for kind in KINDS if kind != "restart")
AFTERWARDS = 15


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def killed(seed: int, end: tuple[str, float], nursery: Nursery, folder: Path, lives: int = 3) -> int:
    """Several processes, one after the other, on one database; how many were killed before they were done."""
    choose = random.Random(seed).choice
    world = a_world(choose)
    file = folder / "graph.db"
    model, modes, kills = Model(world), {}, 0
    for _ in range(lives):
        twin = Pair(world, copied(file), model)
        twin.modes.update(modes)
        operations = tuple(an_operation(choose, world, ALIVE) for _ in range(60))
        ended = nursery.child(Task(world, file, modes, operations, end))
        assert not ended.told, ended.told
        kills += ended.killed
        candidates = found(file, twin, operations, ended)
        survivors = gone_on(file, candidates, twin.modes, [choose(range(10**9)) for _ in range(AFTERWARDS)])
        if len(survivors) > 1:
            break  # it could be either of them
        model, modes = survivors[0]
        world = model.world
    return kills


def gone_on(
    file: Path, candidates: list[Model], modes: dict[Node, str], seeds: list[int]
) -> list[tuple[Model, dict[Node, str]]]:
    """Life after the kill, and all states that it is possible in: two may look alike and differ in what will happen."""
    survivors: list[tuple[Model, dict[Node, str]]] = []
    problems = []
    later = file.with_name("later.db")
    for candidate in candidates:
        pair = Pair(candidate.world, copied(file), copy.deepcopy(candidate))
        pair.modes.update(modes)
        try:
            for seed in seeds:
                pair.do(an_operation(random.Random(seed).choice, pair.model.world, KINDS))
                pair.check()
        except AssertionError as error:
            problems.append(error)
            continue
        finally:
            pair.close()
        assert pair.store is not None
        shutil.move(pair.store, later)
        if all(pair.model.rows != model.rows for model, _ in survivors):
            survivors.append((pair.model, pair.modes))
    assert candidates, "the database is neither as before the operation in flight nor as after it"
    if not survivors:
        raise ExceptionGroup("the database is in no state that goes on like this", problems)
    for part in ("", "-wal", "-shm"):
        Path(f"{file}{part}").unlink(missing_ok=True)
    shutil.move(later, file)
    return survivors


def copied(file: Path) -> Path:
    """The database as it is now, for the twin that lives on."""
    copy_of = file.with_name("twin.db")
    for part in ("", "-wal", "-shm"):
        Path(f"{copy_of}{part}").unlink(missing_ok=True)
        if Path(f"{file}{part}").exists():
            shutil.copy(f"{file}{part}", f"{copy_of}{part}")
    return copy_of


def found(file: Path, twin: Pair, operations: tuple[Operation, ...], ended: Ended) -> list[Model]:
    """What the database may hold: the twin's state before or after the operation in flight, or a part of a pull."""
    for operation in operations[: max(ended.begun, 0)]:
        twin.do(operation)
    before = copy.deepcopy(twin.model)
    if ended.begun >= 0:
        twin.do(operations[ended.begun])
    after = twin.model
    twin.close()
    reopened = Pair(after.world, file, after)
    try:
        states = [after, before, partly(reopened, before, after)]
        return [state for state in states if agrees(reopened, state)]
    finally:
        reopened.close()


def agrees(pair: Pair, model: Model) -> bool:
    pair.model = model
    try:
        pair.check()
    except (AssertionError, InvalidNodeError):  # of a node that one of the two states does not know
        return False
    return True


def partly(pair: Pair, before: Model, after: Model) -> Model:
    """The rows that a pull had finished are as after it, the others as before."""
    rows = dict(before.rows)
    for node, row in after.rows.items():
        computed = row.origin == "computed" and before.freshness(node) != FRESH
        if computed and pair.graph.freshness(*spoken(node)) == FRESH:
            rows[node] = row
    return Model(after.world, copy.deepcopy(rows))


@pytest.mark.parametrize("seed", range(12))
def test_killed_after_some_time(seed: int, nursery: Nursery, tmp_path: Path) -> None:
    killed(seed, ("after", random.Random(seed).uniform(0.0, 0.01)), nursery, tmp_path)


@pytest.mark.parametrize("seed", range(20, 32))
def test_killed_at_a_call(seed: int, nursery: Nursery, tmp_path: Path) -> None:
    killed(seed, ("call", 1 + seed % 12), nursery, tmp_path)


@pytest.mark.parametrize("seed", range(40, 64))
def test_killed_at_a_statement(seed: int, nursery: Nursery, tmp_path: Path) -> None:
    assert killed(seed, ("statement", 1 + (seed - 40) * 5), nursery, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_killed_everywhere(part: int, nursery: Nursery, tmp_path: Path) -> None:
    """One world, and a kill at every statement of its life; then many worlds at random times."""
    kills = 0
    for number in range(1, 120):
        folder = tmp_path / f"statement{number}"
        folder.mkdir()
        kills += killed(part, ("statement", number), nursery, folder, lives=2)
    for seed in range(100):
        folder = tmp_path / f"after{seed}"
        folder.mkdir()
        chosen = random.Random(f"{part}-{seed}")
        kills += killed(1000 * part + seed, ("after", chosen.uniform(0.0, 0.02)), nursery, folder)
    assert kills > 150
