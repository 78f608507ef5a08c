"""Data that nodes emit, stored for other processes: numbered, bounded, no part of the run, deleted with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, MemoryStore, SQLiteStore, interrupt, node
from clew.errors import DefinitionError, EncodeError
from clew.runtime.log.checks.verification import problems
from clew.runtime.log.entries.records import MOST_PUBLISHED, PUBLISHED
from tests.runtime.handles.worker import GRAPHS

Open = Callable[..., Engine]


def emitting(data: Callable[[int], Any], count: int = 1) -> Graph:
    @node(output="m")
    def emit(n: int, ctx: Context) -> int:
        for number in range(count):
            ctx.emit("data", data(number))
        return n

    return Graph([emit])


def published(engine: Engine, run_id: str = "r") -> list[int]:
    return [entry.n for entry in engine.store.find(run_id, PUBLISHED.name, "")]


def test_only_the_last_are_stored_and_all_of_them_are_deleted(address: str, engine_on: Open) -> None:
    with Engine(emitting(lambda n: n, MOST_PUBLISHED + 10), store=engine_on().store, publish=True) as engine:
        assert engine.run({"n": 1}, run_id="r").status == "completed"
        assert published(engine) == list(range(11, MOST_PUBLISHED + 11))
        with Engine(store=engine.store) as other:
            found = [e.data["data"] for e in other.handle("r").events() if e.kind == "emitted"]
            assert found == list(range(10, MOST_PUBLISHED + 10))
            other.delete("r")
            engine.run({"n": 1}, run_id="r")
            assert published(engine)[0] == 11


def test_nothing_is_stored_without_publish(address: str, engine_on: Open) -> None:
    engine = engine_on()
    engine.run({"n": 0}, run_id="r")
    assert published(engine) == []
    assert [e.kind for e in engine.handle("r").events() if e.kind == "emitted"] == []


@pytest.mark.parametrize("data", [object(), b"x" * 100_000, ["x" * 1_000] * 100])
def test_data_that_cannot_be_stored_fails_its_node(tmp_path: Path, data: Any) -> None:
    with Engine(emitting(lambda n: data), store=tmp_path / "runs.db", publish=True) as engine:
        result = engine.start({"n": 1}, run_id="r").result(check=False)
        assert (result.status, type(result.error)) == ("failed", EncodeError)
        assert published(engine) == []


def test_data_does_not_change_the_run(tmp_path: Path) -> None:
    digests = []
    for publish in (False, True):
        with Engine(GRAPHS["loop"], store=tmp_path / f"{publish}.db", publish=publish) as engine:
            digests.append(engine.run({"n": 0}, run_id="r").state.digest)
            assert engine.replay("r").ok
            assert len(engine.history("r")) == 8
            assert list(problems(engine.store, engine.store.row("r"))) == []
            document = engine.export_run("r")
        with Engine(GRAPHS["loop"], store=tmp_path / f"{publish}-copy.db") as copy:
            copy.import_run(document)
            assert published(copy) == []
            digests.append(copy.state("r").digest)
    assert len(set(digests)) == 1


def test_numbers_continue_after_a_resume(tmp_path: Path) -> None:
    @interrupt(output="ok")
    def ask() -> str:
        return "well?"

    @node(output="first")
    def before(ctx: Context) -> int:
        ctx.emit("before")
        return 1

    @node(output="second")
    def after(ok: bool, ctx: Context) -> int:
        ctx.emit("after")
        return 2

    graph = Graph([before, ask, after])
    with Engine(graph, store=tmp_path / "runs.db", publish=True) as engine:
        handle = engine.start({}, run_id="r")
        first = list(handle.events())
        assert [e.number for e in first if e.kind == "emitted"] == [1]
    with Engine(graph, store=tmp_path / "runs.db", publish=True) as engine:
        handle = engine.handle("r").answer(True)
        rest = list(handle.events(after=first[-1].cursor))
        assert [(e.name, e.number) for e in rest if e.kind == "emitted"] == [("after", 2)]
        assert [(e.name, e.number) for e in handle.events() if e.kind == "emitted"] == [
            ("before", 1),
            ("after", 2),
        ]
        assert engine.handle("r").result()["second"] == 2


def test_an_engine_in_memory_needs_no_publishing() -> None:
    engine = Engine(emitting(lambda n: object()), store=MemoryStore(), publish=True)
    events = list(engine.start({"n": 1}).events())
    assert [e.kind for e in events].count("emitted") == 1
    with pytest.raises(DefinitionError):
        Engine(emitting(lambda n: n), publish=1)


def test_an_async_node_publishes_without_waiting_on_the_loop(tmp_path: Path) -> None:
    import asyncio

    @node(output="m")
    async def emit(n: int, ctx: Context) -> int:
        ctx.emit("data", n)
        await asyncio.sleep(0)
        ctx.emit("data", n + 1)
        return n

    async def main() -> list[Any]:
        with Engine(Graph([emit]), store=SQLiteStore(tmp_path / "runs.db"), publish=True) as engine:
            handle = engine.start({"n": 1}, run_id="r")
            seen = [event async for event in handle.events() if event.kind == "emitted"]
            assert published(engine) == [1, 2]
            return [event.data["data"] for event in seen]

    assert asyncio.run(main()) == [1, 2]
