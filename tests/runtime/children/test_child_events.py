"""What a child emits: in the stream of its run, for handles in other processes, and behind every cursor once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.errors import EncodeError


@node(output="b")
def says(a: Any, ctx: Context) -> Any:
    ctx.emit("inner", a)
    return a


@node(output="b")
async def asays(a: Any, ctx: Context) -> Any:
    ctx.emit("inner", a)
    await asyncio.sleep(0)
    return a


@node(output="c")
def middle(a: Any, ctx: Context) -> Any:
    return ctx.run(Graph([says], name="leaf"), {"a": a})["b"]


@node(output="y")
def outer(x: int, ctx: Context) -> int:
    ctx.emit("outer", "first")
    ctx.run(Graph([says], name="leaf"), {"a": 1})
    ctx.run(Graph([middle], name="middle"), {"a": 2})
    ctx.emit("outer", "last")
    return x


@node(output="y")
async def aouter(x: int, ctx: Context) -> int:
    ctx.emit("outer", "first")
    await ctx.run(Graph([asays], name="leaf"), {"a": 1})
    await ctx.run(Graph([middle], name="middle"), {"a": 2})
    ctx.emit("outer", "last")
    return x


@node(output="z")
def after(y: int) -> int:
    return y


def _emitted(events: Any) -> list[tuple[str, Any]]:
    return [(event.path, event.data["data"]) for event in events if event.kind == "emitted"]


def _expected(name: str, leaf: str) -> list[tuple[str, Any]]:
    inner = [(f"{name}#0!0/{leaf}#0", 1), (f"{name}#0!1/middle#0!0/says#0", 2)]
    return [(f"{name}#0", "first"), *inner, (f"{name}#0", "last")]


CASES = [(outer, "says"), (aouter, "asays")]


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("function, leaf", CASES, ids=["sync", "async"])
def test_published_data_of_children(tmp_path: Path, function: Any, leaf: str, durability: Any) -> None:
    graph, file = Graph([function, after]), tmp_path / "runs.db"
    engine = Engine(graph, store=SQLiteStore(file), publish=True, durability=durability)
    seen = list(engine.start({"x": 1}, run_id="r").events())
    assert _emitted(seen) == _expected(function.name, leaf)
    assert [event.path for event in seen if event.kind == "run_finished"] == [""]
    for number, event in enumerate(seen):
        rest = list(engine.handle("r").events(after=event.cursor))
        assert _emitted(rest) == _emitted(seen[number + 1 :])
    engine.close()
    elsewhere = list(Engine(graph, store=SQLiteStore(file)).handle("r").events())
    assert _emitted(elsewhere) == _expected(function.name, leaf)


def test_data_is_published_without_a_reader(tmp_path: Path) -> None:
    engine = Engine(Graph([outer]), store=SQLiteStore(tmp_path / "runs.db"), publish=True)
    engine.run({"x": 1}, run_id="r")
    assert _emitted(engine.handle("r").events()) == _expected("outer", "says")


@pytest.mark.parametrize("data", [object(), "x" * 100_000], ids=["an object", "too large"])
def test_data_that_cannot_be_published_fails_the_node_of_the_child(tmp_path: Path, data: Any) -> None:
    @node(output="b")
    def bad(a: int, ctx: Context) -> int:
        ctx.emit("bad", data)
        return a

    @node(output="y")
    def start(x: int, ctx: Context) -> Any:
        return ctx.run(Graph([bad], name="leaf"), {"a": x})["b"]

    engine = Engine(Graph([start]), store=SQLiteStore(tmp_path / "runs.db"), publish=True)
    result = engine.run({"x": 1}, check=False)
    assert type(result.error) is EncodeError
    assert result.failures[0].inside is not None


def test_concurrent_children_lose_nothing(tmp_path: Path) -> None:
    @node(output="y")
    async def many(x: int, ctx: Context) -> int:
        leaf = Graph([asays], name="leaf")
        await asyncio.gather(*(ctx.run(leaf, {"a": number}) for number in range(x)))
        return x

    engine = Engine(Graph([many]), store=SQLiteStore(tmp_path / "runs.db"), publish=True)
    live = _emitted(engine.start({"x": 20}, run_id="r").events())
    assert sorted(data for _, data in live) == list(range(20))
    assert sorted(_emitted(engine.handle("r").events())) == sorted(live)
