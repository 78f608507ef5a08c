"""Mistakes in the use of children: a forgotten await, and a graph that has changed."""

from __future__ import annotations

import asyncio
import gc
import inspect
from typing import Any

import pytest

from clew import Context, Engine, Graph, interrupt, node
from clew.errors import GraphChangedError, OutputError, RunStateError
from clew.stores import Store


@node(output="b")
def double(a: int) -> int:
    return a * 2


LEAF = Graph([double], name="leaf")


@node(output="o")
async def subscripts(x: int, ctx: Context) -> Any:
    return ctx.run(LEAF, {"a": x})["b"]


@node(output="o")
async def reads(x: int, ctx: Context) -> Any:
    return ctx.run(LEAF, {"a": x}).status


@node(output="o")
async def returns(x: int, ctx: Context) -> Any:
    return [ctx.run(LEAF, {"a": x})]


@node(output="o")
async def ignores(x: int, ctx: Context) -> int:
    ctx.run(LEAF, {"a": x})
    return x


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", [subscripts, reads, returns, ignores], ids=lambda each: each.name)
def test_a_forgotten_await_names_the_line(store: Store, function: Any) -> None:
    engine = Engine(Graph([function]), store=store)
    result = engine.run({"x": 1}, run_id="r", check=False)
    assert type(result.error) is OutputError
    lines, first = inspect.getsourcelines(function.func)
    line = first + next(number for number, text in enumerate(lines) if "ctx.run" in text)
    assert f"{__file__}:{line}" in str(result.error)
    assert store.rows(of="r") == []
    assert engine.replay("r").ok
    gc.collect()  # a coroutine that was never awaited would warn now


def test_a_child_can_be_awaited_in_every_way(store: Store) -> None:
    @node(output="o")
    async def ways(x: int, ctx: Context) -> list[Any]:
        task = asyncio.create_task(ctx.run(LEAF, {"a": x}))
        async with asyncio.TaskGroup() as group:
            in_group = group.create_task(ctx.run(LEAF, {"a": x}))
        results = await asyncio.gather(ctx.run(LEAF, {"a": x}), task)
        timed = await asyncio.wait_for(ctx.run(LEAF, {"a": x}), 60)
        shielded = await asyncio.shield(ctx.run(LEAF, {"a": x}))
        return [result["b"] for result in (in_group.result(), *results, timed, shielded)]

    assert len(set(Engine(Graph([ways]), store=store).run({"x": 1})["o"])) == 1


def test_a_changed_graph_of_a_child_names_the_run_to_resume(store: Store) -> None:
    @interrupt(output="ok")
    def ask(x: int) -> str:
        return "ok?"

    @node(output="more")
    def more(ok: str) -> str:
        return ok

    graph = Graph([ask], name="asks")

    @node(output="b")
    def inner(x: int, ctx: Context) -> Any:
        return ctx.run(graph, {"x": x})["ok"]

    @node(output="o")
    def outer(x: int, ctx: Context) -> Any:
        return ctx.run(Graph([inner], name="inner"), {"x": x})["b"]

    engine = Engine(Graph([outer]), store=store)
    assert engine.run({"x": 1}, run_id="r").status == "waiting"
    graph = Graph([ask, more], name="asks")
    with pytest.raises(GraphChangedError, match=r"resume\('r', accept_changes=True\)"):
        engine.resume("r", answer="yes")
    child = store.rows(of="r")[0].run_id
    grandchild = store.rows(of=child)[0].run_id
    with pytest.raises(RunStateError, match="use 'r'"):
        engine.resume(grandchild)
    assert engine.resume("r", accept_changes=True)["o"] == "yes"
