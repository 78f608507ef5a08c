"""A disk that is full, that may not be written, or that lies; and values that cannot be written at all."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, Send, SQLiteStore, append, node, route
from clew.errors import EncodeError, StoreCorruptError, StoreUnavailableError
from clew.testing import crash_points
from tests.crash import program


@pytest.fixture(autouse=True)
def _nothing_watched() -> Iterator[None]:
    yield
    crash_points.watch(None)


def fill(store: SQLiteStore, undo: ExitStack) -> None:
    """No file of this process may grow beyond what the log of the database has now: the kernel refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = Path(f"{store.path}-wal").stat().st_size
    undo.callback(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def forbid(store: SQLiteStore, undo: ExitStack) -> None:
    """SQLite refuses to write, with the error that it has for a file that may only be read."""
    undo.callback(store._db.execute, "PRAGMA query_only = OFF")
    store._db.execute("PRAGMA query_only = ON")


def at(place: str, do: Callable[[], None]) -> None:
    name, count = place.split(":")
    left = int(count)

    def on_reach(reached: str) -> None:
        nonlocal left
        left -= reached == name
        if not left and reached == name:
            do()

    crash_points.watch(on_reach)


def test_the_chain_of_the_unbroken_run(tmp_path: Path) -> None:
    assert len(unbroken(tmp_path)) == 17


def unbroken(folder: Path) -> list[str]:
    program.set_world(str(folder / "effects of the unbroken"))
    engine = Engine(program.GRAPH, store=SQLiteStore(folder / "unbroken.db"), seed=7, max_concurrent_nodes=1)
    engine.run(program.VALUES, run_id="killed")
    digests = [checkpoint.digest for checkpoint in engine.history("killed")]
    engine.close()
    return digests


@pytest.mark.parametrize("break_it", [fill, forbid])
@pytest.mark.parametrize(
    "durability, place",
    [
        *[("sync", f"before-append:{n}") for n in (1, 6, 17)],
        *[(mode, place) for mode in ("sync", "async") for place in ("after-call:5", "before-update:1")],
        ("async", "before-append:1"),
        ("exit", "before-append:1"),
    ],
)
def test_the_disk_refuses_and_then_does_not(
    tmp_path: Path, place: str, break_it: Callable[[SQLiteStore, ExitStack], None], durability: str
) -> None:
    expected = unbroken(tmp_path)
    program.set_world(str(tmp_path / "effects"))
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(program.GRAPH, store=store, seed=7, max_concurrent_nodes=1, durability=durability)
    with ExitStack() as undo:
        at(place, lambda: break_it(store, undo))
        with pytest.raises(StoreUnavailableError, match="nothing is lost"):
            engine.run(program.VALUES, run_id="killed")
    crash_points.watch(None)
    assert [row.status for row in engine.runs()] == ["running"]
    assert engine.resume("killed").status == "completed"
    assert [checkpoint.digest for checkpoint in engine.history("killed")] == expected
    lines = (tmp_path / "effects").read_text().splitlines()
    assert len(lines) - len(set(lines)) <= (1 if durability != "exit" else len(set(lines)))
    engine.close()


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    program.set_world(str(tmp_path / "effects"))
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(program.GRAPH, store=store)
    with ExitStack() as undo:
        forbid(store, undo)
        with pytest.raises(StoreUnavailableError):
            engine.run(program.VALUES, run_id="r")
    assert engine.runs() == []
    assert engine.run(program.VALUES, run_id="r").status == "completed"
    engine.close()


def test_a_flipped_byte(tmp_path: Path) -> None:
    program.set_world(str(tmp_path / "effects"))
    path = tmp_path / "runs.db"
    engine = Engine(program.GRAPH, store=SQLiteStore(path), max_concurrent_nodes=1)
    for run_id in ("one", "two", "three"):
        engine.run(program.VALUES, run_id=run_id)
    (step,) = (e for e in engine.store.entries("two") if (e.kind, e.path, e.n) == ("step", "", 6))
    engine.close()
    data = bytearray(path.read_bytes())
    place = data.index(step.body)
    assert data.count(step.body) == 1
    data[place + len(step.body) // 2] ^= 1
    path.write_bytes(data)
    engine = Engine(program.GRAPH, store=SQLiteStore(path))
    with pytest.raises(StoreCorruptError, match=r"run 'two': step 6 is damaged"):
        engine.state("two")
    assert [engine.state(run).values["sent"] for run in ("one", "three")] == ["SEND", "SEND"]
    assert [row.run_id for row in engine.runs()] == ["one", "two", "three"]
    with pytest.raises(StoreCorruptError, match=r"run 'two': step 6"):
        engine.resume("two")
    engine.close()


# -- values that cannot be stored


class Handle:
    """Something that has no encoding."""


class Found(TypedDict, total=False):
    x: int
    found: Annotated[list[Any], append]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("driver", ["run", "arun"])
def test_a_value_that_cannot_be_stored(tmp_path: Path, durability: str, driver: str) -> None:
    made: list[str] = []
    mended = False

    @node(output="a")
    def first(x: int) -> int:
        made.append("first")
        return x

    @node(output="b")
    def second(a: int) -> Any:
        made.append("second")
        return {"deep": [a if mended else Handle()]}

    @node(output="c")
    def third(b: Any) -> int:
        made.append("third")
        return 3

    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(Graph([first, second, third]), store=store, durability=durability)
    if driver == "run":
        result = engine.run({"x": 1}, run_id="r", check=False)
    else:
        result = asyncio.run(engine.arun({"x": 1}, run_id="r", check=False))
    assert result.status == "failed"
    assert isinstance(result.error, EncodeError)
    assert "node 'second' at second#0 returned a value that cannot be stored: b" in str(result.error)
    assert "Handle" in str(result.error)
    assert (result.last_step, "b" in result, result["a"]) == (1, False, 1)
    (row,) = engine.runs(status="failed")
    assert isinstance(row.error, EncodeError)
    assert engine.state("r").step == 1
    mended = True
    made.clear()
    assert engine.resume("r")["c"] == 3
    assert made == ["second", "third"]
    engine.close()


def test_one_of_many_cannot_be_stored(tmp_path: Path) -> None:
    mended = False

    @route(targets=["each"], multi=True)
    def split(x: int) -> Any:
        return [Send("each", {"i": i}) for i in range(4)]

    @node(output="found")
    def each(i: int) -> Any:
        return Handle() if i == 2 and not mended else i

    engine = Engine(Graph([split, each], state=Found), store=SQLiteStore(tmp_path / "runs.db"))
    result = engine.run({"x": 1}, run_id="r", check=False)
    assert isinstance(result.error, EncodeError)
    assert "each#0[2]" in str(result.error)
    assert engine.state("r").step == 1
    mended = True
    assert engine.resume("r")["found"] == [0, 1, 2, 3]
    engine.close()
