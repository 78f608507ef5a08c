"""A process that is killed at any instant of a run with children: the resumed run is the unbroken one."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from clew import Engine, PostgresStore, SQLiteStore
from clew.runtime.process import crash_points
from clew.stores import Store
from tests.stores.servers import PostgresServer

PROGRAM = Path(__file__).with_name("program.py")
RESULT = "completed ['x0X0', 'x1X1', 'xdeepXDEEP', 'f']"
EFFECTS = Counter(["x0", "x1", "xdeep", "between", "f-before", "f-failed"])
STRIDES = [
    3,
    pytest.param(1, marks=pytest.mark.slow),
]  # a kill at every third count of a point, or at every one
POINTS = [point for point in crash_points.POINTS if "snapshot" not in point]
IN_FLIGHT = ("before-append", "after-call")  # a call may be made and not recorded yet: it is made once more

Go = Callable[..., str]


@pytest.fixture(scope="module")
def go() -> Iterator[Go]:
    """Run or resume the run in a fork of the program; return what it prints."""
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(address: str, effects: Path, kind: str, crash: str = "") -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{address}\t{effects}\t{kind}\t{crash}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield ask
        process.stdin.close()


def digests(store: Store) -> list[list[str]]:
    """Return the digests of the run and of all its children, in the order of their places."""
    with Engine(store=store) as engine:
        rows = sorted(engine.runs(children=True), key=lambda row: (row.child_of or "", row.place))
        assert {row.status for row in rows} == {"completed"}
        return [[row.run_id, *(each.digest for each in engine.history(row.run_id))] for row in rows]


def survives(
    go: Go, point: str, stride: int, kind: str, place: Path, new: Callable[[], tuple[str, Store]]
) -> None:
    """Kill the program at counts of a point, and compare with the unbroken run."""
    address, store = new()
    assert go(address, place / "unbroken", kind) == RESULT
    unbroken = digests(store)
    for count in range(1, 100, stride):
        address, store = new()
        effects = place / str(count)
        ended = go(address, effects, kind, f"{point}:{count}")
        if ended != "killed":  # the program reaches the point less often
            assert ended == RESULT
            assert count > 1
            break
        assert go(address, effects, kind) == RESULT, (point, count)
        assert digests(store) == unbroken, (point, count)
        made = Counter(effects.read_text().split())
        assert set(made) == set(EFFECTS)
        assert made.total() <= EFFECTS.total() + (point in IN_FLIGHT), (point, count, made)


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_counts_of_a_point(point: str, kind: str, stride: int, go: Go, tmp_path: Path) -> None:
    def new() -> tuple[str, Store]:
        file = tmp_path / f"{token_hex(6)}.db"
        return str(file), SQLiteStore(file)

    survives(go, point, stride, kind, tmp_path, new)


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("point", ["before-append", "after-append", "after-create", "before-update"])
def test_a_kill_on_postgres(point: str, stride: int, go: Go, tmp_path: Path, server: PostgresServer) -> None:
    def new() -> tuple[str, Store]:
        schema = f"t_{token_hex(6)}"
        return f"{server.dsn}|{schema}", PostgresStore(server.dsn, schema=schema)

    survives(go, point, stride, "sync", tmp_path, new)
