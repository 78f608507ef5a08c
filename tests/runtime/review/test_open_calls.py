"""Calls and children that were open when their node ended: they have no recording, and a replay does not need one."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node


async def hang(x: int) -> int:
    await asyncio.Event().wait()
    return x


async def fail(x: int) -> int:
    raise ValueError("bad")


@node(output="a")
async def hangs(x: int) -> int:
    return await hang(x)


@node(output="a")
async def fails(x: int) -> int:
    return await fail(x)


@interrupt(output="a")
def asks(x: int) -> str:
    return "ok?"


def _children(first: Any) -> Any:
    @node(output="o")
    async def both(x: int, ctx: Context) -> Any:
        run = [ctx.run(Graph([each], name=each.name), {"x": x}) for each in (first, hangs)]
        return [result["a"] for result in await asyncio.gather(*run)]

    return both


@node(output="o")
async def calls(x: int, ctx: Context) -> Any:
    return await asyncio.gather(ctx.record("a", fail, x), ctx.record("b", hang, x))


@node(output="o")
async def gives_up(x: int, ctx: Context) -> str:
    try:
        await asyncio.wait_for(ctx.record("slow", hang, x), 0.02)
    except TimeoutError:
        return "too slow"
    return "in time"


@node(output="o")
async def leaves_one(x: int, ctx: Context) -> str:
    task = asyncio.ensure_future(ctx.run(Graph([hangs]), {"x": x}))
    await asyncio.sleep(0)
    del task
    return "done"


@pytest.mark.parametrize(
    "function, status",
    [
        (_children(fails), "failed"),
        (_children(asks), "waiting"),
        (calls, "failed"),
        (gives_up, "completed"),
        (leaves_one, "completed"),
    ],
)
def test_an_open_call_is_not_a_difference(tmp_path: Path, function: Any, status: str) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(
        Graph([function]), store=store, default_node_timeout=3.0
    )  # a question waits for its siblings
    assert engine.run({"x": 1}, run_id="r", check=False).status == status
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also about a coroutine that was never awaited
        report = engine.replay("r", strict=False)
    assert report.ok, str(report)


def test_a_new_call_whose_response_is_needed_is_a_difference(tmp_path: Path) -> None:
    is_new = False

    async def double(x: int) -> int:
        return 2 * x

    @node(output="o")
    async def work(x: int, ctx: Context) -> int:
        return await ctx.record("double", double, x) if is_new else 2 * x

    engine = Engine(Graph([work]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"x": 1}, run_id="r")
    is_new = True
    assert [each.kind for each in engine.replay("r", strict=False).divergences] == ["missing"]


def test_a_new_child_whose_result_is_needed_is_a_difference(tmp_path: Path) -> None:
    is_new = False

    @node(output="a")
    def double(x: int) -> int:
        return 2 * x

    @node(output="o")
    async def work(x: int, ctx: Context) -> Any:
        return (await ctx.run(Graph([double]), {"x": x}))["a"] if is_new else 2 * x

    engine = Engine(Graph([work]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"x": 1}, run_id="r")
    is_new = True
    assert [each.kind for each in engine.replay("r", strict=False).divergences] == ["missing"]
