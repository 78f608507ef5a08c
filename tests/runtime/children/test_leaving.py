"""A node that is left while it runs children: its children are resumed, and it cannot continue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import RunCancelledError, RunOwnedError
from clew.runtime.calls.scopes import Leaving
from clew.stores import Store

# -- left with a question ------------------------------------------------------------------------------------------


@interrupt(output="b")
def ask(a: int) -> str:
    return f"{a}?"


ASKS = Graph([ask], name="asks")


class Siblings:
    """A node that runs a child that asks, and next to it one that works; and what the node has seen."""

    def __init__(self, gather: Callable[..., Any]) -> None:
        self.has_begun = asyncio.Event()
        self.begun = 0
        self.seen: list[BaseException] = []

        @node(output="b")
        async def work(a: int) -> int:
            self.begun += 1
            self.has_begun.set()
            for _ in range(50):  # longer than the question takes
                await asyncio.sleep(0)
            return a

        works = Graph([work], name="works")

        async def begun(ctx: Context) -> Any:
            await self.has_begun.wait()
            return (await ctx.run(ASKS, {"a": 1}, key="ask"))["b"]

        async def beside(ctx: Context) -> Any:
            try:
                return (await ctx.run(works, {"a": 2}, key="work"))["b"]
            except Exception as error:
                self.seen.append(error)
                return type(error).__name__
            except BaseException as error:
                self.seen.append(error)
                raise

        @node(output="y")
        async def both(x: int, ctx: Context) -> list[Any]:
            return list(await gather(beside(ctx), begun(ctx)))

        self.graph = Graph([both])


async def _in_a_group(*work: Any) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
    return [task.result() for task in tasks]


async def _answered(siblings: Siblings, store: Store) -> None:
    engine = Engine(siblings.graph, store=store)
    result = await engine.arun({"x": 1}, run_id="r", check=False)
    assert result.status == "waiting"
    while len(asyncio.all_tasks()) > 1:  # those of the node that was left
        await asyncio.sleep(0)
    assert {row.status for row in store.rows(of="r")} == {"waiting", "completed"}
    assert [error for error in siblings.seen if isinstance(error, Exception)] == []
    result = await engine.aresume("r", answer=10, check=False)
    assert (result.status, result.get("y"), siblings.begun) == ("completed", [2, 10], 1)
    assert {row.status for row in store.rows(of="r")} == {"completed"}


@pytest.mark.parametrize("gather", [asyncio.gather, _in_a_group])
def test_a_sibling_of_a_question_completes_first(store: Store, gather: Any) -> None:
    async def main() -> None:
        await _answered(Siblings(gather), store)

    asyncio.run(main())


# -- left because the run was cancelled ----------------------------------------------------------------------------


class Careful:
    """A node that catches what its children raise, and a child that lets the test cancel the run."""

    def __init__(self, caught: type[BaseException], *, depth: int = 1, groups: bool = False) -> None:
        self.cancel: Callable[[], object] | None = None
        self.seen: list[BaseException] = []
        self.begun = 0

        @node(output="b")
        def first(a: int) -> int:
            if self.cancel is not None:
                self.cancel()
                self.cancel = None
            return a

        @node(output="c")
        def second(b: int) -> int:
            return b * 10

        @node(output="c")
        def between(a: int, ctx: Context) -> Any:
            return careful(ctx, graphs[0], a)

        def careful(ctx: Context, graph: Graph, a: int) -> Any:
            try:
                return ctx.run(graph, {"a": a})["c"]
            except caught as error:
                self.seen.append(error)
                return "caught"

        graphs = [Graph([first, second], name="inner")]
        if depth == 2:
            graphs.append(Graph([between], name="between"))

        @node(output="y")
        def start(x: int, ctx: Context) -> list[Any]:
            self.begun += 1
            return [careful(ctx, graphs[-1], a) for a in (x, x + 1)]

        @node(name="start", output="y")
        async def astart(x: int, ctx: Context) -> list[Any]:
            self.begun += 1

            async def one(a: int) -> Any:
                try:
                    return (await ctx.run(graphs[-1], {"a": a}, key=str(a)))["c"]
                except caught as error:
                    self.seen.append(error)
                    return "caught"

            return await (_in_a_group if groups else asyncio.gather)(one(x), one(x + 1))

        @node(output="z")
        def after(y: list[Any]) -> list[Any]:
            return y

        @node(output="other")
        def other(x: int) -> int:
            return x

        self.sync, self.alone = Graph([start, after, other]), Graph([start])
        self.on_loop, self.alone_on_loop = Graph([astart, after, other]), Graph([astart])


def _settled(store: Store) -> None:
    """Wait until abandoned threads have ended the children."""
    of = ["r"]
    for run_id in of:
        while any(row.status == "running" for row in store.rows(of=run_id)):
            threading.Event().wait(0.001)
        of += [row.run_id for row in store.rows(of=run_id)]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("caught", [Exception, BaseException])
@pytest.mark.parametrize("graph", ["sync", "alone", "on_loop", "alone_on_loop"])
def test_a_node_cannot_swallow_a_cancellation(
    store: Store, caught: type[BaseException], graph: str, depth: int
) -> None:
    careful = Careful(caught, depth=depth)
    engine = Engine(getattr(careful, graph), store=store)
    careful.cancel = lambda: engine.cancel("r")
    result = engine.run({"x": 1}, run_id="r", check=False)
    assert (result.status, "y" in result.values) == ("cancelled", False)
    assert [error for error in careful.seen if isinstance(error, Exception)] == []
    _settled(store)
    careful.seen.clear()
    result = engine.resume("r", check=False)
    assert (result.status, result["y"], careful.begun) == ("completed", [10, 20], 2)
    # the thread of the cancelled attempt may still be leaving
    assert [error for error in careful.seen if isinstance(error, Exception)] == []


@pytest.mark.parametrize("graph", ["on_loop", "alone_on_loop"])
def test_a_task_group_cannot_hide_a_cancellation(store: Store, graph: str) -> None:
    careful = Careful(Exception, groups=True)
    engine = Engine(getattr(careful, graph), store=store)
    careful.cancel = lambda: engine.cancel("r")
    assert engine.run({"x": 1}, run_id="r", check=False).status == "cancelled"
    _settled(store)
    assert engine.resume("r")["y"] == [10, 20]


@pytest.mark.parametrize("graph", ["sync", "alone", "on_loop", "alone_on_loop"])
def test_a_node_cannot_swallow_that_its_run_has_another_owner(tmp_path: Path, graph: str) -> None:
    careful, store = Careful(BaseException), SQLiteStore(tmp_path / "runs.db")
    engine = Engine(getattr(careful, graph), store=store)

    def lose() -> None:  # as the renewal of the lease does
        session = engine._live["r"]
        session.lost = RunOwnedError("r")
        session.stop()

    careful.cancel = lose
    with pytest.raises(RunOwnedError):
        engine.run({"x": 1}, run_id="r")
    assert [error for error in careful.seen if isinstance(error, Exception)] == []
    _settled(store)
    assert engine.resume("r")["y"] == [10, 20]


def test_a_handle_cancels_a_careful_node(store: Store) -> None:
    careful = Careful(Exception)
    engine = Engine(careful.alone, store=store)
    has_handle = threading.Event()

    def cancel() -> None:
        assert has_handle.wait(60)
        handle.cancel()

    careful.cancel = cancel
    handle = engine.start({"x": 1}, run_id="r")
    has_handle.set()
    with pytest.raises(RunCancelledError):
        handle.result()
    _settled(store)
    assert engine.resume("r")["y"] == [10, 20]


def test_a_new_child_is_not_started_after_a_cancellation(store: Store) -> None:
    seen: list[BaseException] = []
    cancels = [True]

    @node(output="y")
    def start(x: int, ctx: Context) -> Any:
        if cancels.pop():
            engine.cancel("r")
        try:
            return ctx.run(Graph([ask]), {"a": x})["b"]
        except BaseException as error:
            seen.append(error)
            return "caught"

    engine = Engine(Graph([start]), store=store)
    assert engine.run({"x": 1}, run_id="r", check=False).status == "cancelled"
    assert [type(error) for error in seen] == [Leaving]
    assert store.rows(of="r") == []
