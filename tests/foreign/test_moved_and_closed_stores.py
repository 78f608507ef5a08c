"""A store means the file that it was opened with, wherever the process goes, and nothing after it was closed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from clew import DependencyGraph, Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import StoreError
from clew.incremental import NodeSchema
from clew.stores.factory import open_table


@node(output="y")
def plain(x: int) -> int:
    return x


@node(output="w")
async def later(y: int) -> int:
    return y


@interrupt(output="z")
def ask(y: int) -> str:
    return "?"


SYNC = Graph([plain, ask])
ASYNC = Graph([plain, later])


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders, of which the first is the working directory."""
    here, there = tmp_path / "a", tmp_path / "b"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    return here, there


def test_a_store_stays_where_it_was_opened(places: tuple[Path, Path]) -> None:
    with Engine(SYNC, store=SQLiteStore("runs.db")) as engine:
        assert engine.run({"x": 1}, run_id="r0").status == "waiting"
        os.chdir(places[1])
        assert engine.run({"x": 1}, run_id="r1").status == "waiting"
        assert engine.resume("r0", answer=1).status == "completed"
        assert asyncio.run(engine.arun({"x": 1}, run_id="r2")).status == "waiting"
        assert asyncio.run(engine.aresume("r1", answer=1)).status == "completed"
        assert [row.run_id for row in engine.runs()] == ["r0", "r1", "r2"]
        assert list(engine.store.check()) == []
    assert list(places[1].iterdir()) == []


def test_an_engine_that_is_given_a_path_stays_there(places: tuple[Path, Path]) -> None:
    with Engine(SYNC, store="runs.db") as engine:
        os.chdir(places[1])
        assert asyncio.run(engine.arun({"x": 1}, run_id="r")).status == "waiting"
        assert [row.run_id for row in engine.runs()] == ["r"]
    assert list(places[1].iterdir()) == []


def test_a_table_stays_where_it_was_opened(places: tuple[Path, Path]) -> None:
    table = open_table("table.db", "t")
    os.chdir(places[1])
    child = os.fork()
    if not child:  # a forked process opens the file anew
        try:
            table.write([("key", b"child")])
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert table.read("key") == b"child"
    table.close()
    assert list(places[1].iterdir()) == []


def test_a_dependency_graph_stays_where_it_was_opened(places: tuple[Path, Path]) -> None:
    with DependencyGraph([NodeSchema("a")], store="graph.db") as graph:
        os.chdir(places[1])
        graph.set("a", 1)
        assert graph.pull("a") == 1
    assert list(places[1].iterdir()) == []


def descriptors(of: Path) -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith(str(of.resolve())):
            found.append(target)
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are listed in /proc")
@pytest.mark.parametrize("was_used", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_closed_store_runs_nothing_and_holds_no_descriptor(
    tmp_path: Path, was_used: bool, whole: bool
) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(ASYNC, store=store)

    async def main() -> None:
        if was_used:
            assert (await engine.arun({"x": 1}, run_id="before")).status == "completed"
        if whole:
            engine.close()
        store.close()
        assert descriptors(tmp_path) == []
        with pytest.raises(StoreError) as caught:
            await engine.arun({"x": 1}, run_id="after")
        assert type(caught.value) is StoreError
        with pytest.raises(StoreError):
            store.at_once()

    asyncio.run(main())
    assert descriptors(tmp_path) == []
    with SQLiteStoreAt(tmp_path / "runs.db") as again:
        assert [row.run_id for row in again.rows()] == (["before"] if was_used else [])


def test_a_closed_store_stays_closed_in_a_child(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    store.close()
    child = os.fork()
    if not child:
        code = 1
        try:
            store.rows()
        except StoreError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class SQLiteStoreAt(SQLiteStore):
    """A store that a `with` statement closes."""

    def __enter__(self) -> SQLiteStoreAt:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
