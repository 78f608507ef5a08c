"""Sync nodes find no running event loop, wherever they run: the same code works in every graph."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node


async def fetch(n):
    await asyncio.sleep(0)
    return n + 1


@node(output="b")
def call_an_async_library(a):
    return asyncio.run(fetch(a))


@node(output="b")
def call_with_a_context(a, ctx: Context):
    return ctx.record("fetch", lambda: asyncio.run(fetch(a)))


@node(output="y")
async def inner(x):
    return await fetch(x)


@node(output="b")
def run_a_child(a, ctx: Context):
    return ctx.run(Graph([inner]), {"x": a})["y"]


@node(output="b")
def run_a_graph(a):
    return Graph([inner]).run(x=a)["y"]


@node(output="c")
async def after(b):
    assert asyncio.get_running_loop().is_running()
    return await fetch(b)


@node(output="d")
async def beside(a):
    return await fetch(a)


def engine(kind: str, folder: Path, nodes: list[Any]) -> Engine:
    return Engine(Graph(nodes), store=None if kind == "memory" else SQLiteStore(folder / "runs.db"))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "first",
    [call_an_async_library, call_with_a_context, run_a_child, run_a_graph],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize("others", [[after], [after, beside]], ids=["alone", "beside another"])
def test_a_sync_node_may_run_a_loop_of_its_own(
    tmp_path: Path, kind: str, first: Any, others: list[Any]
) -> None:
    with engine(kind, tmp_path, [first, *others]) as opened:
        assert opened.run({"a": 1})["c"] == 3
        assert asyncio.run(opened.arun({"a": 1}, run_id="r"))["c"] == 3
        assert opened.replay("r").ok


def test_the_loop_goes_on_after_a_sync_node_failed() -> None:
    @node(output="b", retry=2)
    def fail_once(a, ctx: Context):
        if ctx.attempt == 0:
            raise ValueError("once")
        return a

    assert Graph([fail_once, after]).run(a=1)["c"] == 2
