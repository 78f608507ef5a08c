"""Recorded calls that are in flight when another task of the node asks a question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, interrupt, node
from clew.errors import RunCancelledError
from clew.stores import Store
from tests.store_fixtures import local_store

PAID: list[int] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    PAID.clear()


store = local_store


async def pay(amount: int) -> str:
    PAID.append(amount)
    for _ in range(50):  # longer than the question takes
        await asyncio.sleep(0)
    return "receipt"


async def gathered(*calls: Awaitable[Any]) -> list[Any]:
    return list(await asyncio.gather(*calls))


async def grouped(*calls: Any) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("on_ambiguous", ["retry", "fail", "ask"])
@pytest.mark.parametrize("together", [gathered, grouped])
def test_a_call_beside_a_question_is_made_once(
    store: Store, together: Callable[..., Awaitable[list[Any]]], on_ambiguous: Any
) -> None:
    @node(output="out")
    async def book(x: int, ctx: Context) -> list[Any]:
        async def ask() -> Any:
            return ctx.interrupt("which hotel?")

        return await together(ctx.record("ask", ask), ctx.record("pay", pay, 5))

    engine = Engine(Graph([book]), store=store, on_ambiguous=on_ambiguous)
    result = engine.run({"x": 1}, run_id="r")
    assert (result.status, PAID) == ("waiting", [5])
    assert engine.replay("r").ok
    result = engine.resume("r", answer="Ritz")
    assert (result["out"], PAID) == (["Ritz", "receipt"], [5])
    assert engine.replay("r").ok


@pytest.mark.parametrize("together", [gathered, grouped])
def test_a_child_beside_a_question_of_another_one_completes(
    store: Store, together: Callable[..., Awaitable[list[Any]]]
) -> None:
    @interrupt(output="ok")
    def ask(x: int) -> str:
        return "ok?"

    @node(output="paid")
    async def work(x: int) -> str:
        return await pay(x)

    asks, works = Graph([ask], name="asks"), Graph([work], name="works")

    @node(output="out")
    async def both(x: int, ctx: Context) -> list[Any]:
        one, two = await together(ctx.run(asks, {"x": x}), ctx.run(works, {"x": x}))
        return [one["ok"], two["paid"]]

    engine = Engine(Graph([both]), store=store)
    assert engine.run({"x": 1}, run_id="r").status == "waiting"
    assert sorted(run.status for run in engine.runs(children=True) if run.child_of) == [
        "completed",
        "waiting",
    ]
    assert (engine.resume("r", answer="yes")["out"], PAID) == (["yes", "receipt"], [1])
    assert engine.replay("r").ok


def test_a_call_that_fails_beside_a_question_is_recorded_as_failed(store: Store) -> None:
    async def refuse() -> None:
        await pay(1)
        raise OSError("refused")

    @node(output="out")
    async def book(x: int, ctx: Context) -> str:
        async def ask() -> Any:
            return ctx.interrupt("which hotel?")

        answers = await asyncio.gather(
            ctx.record("ask", ask), ctx.record("pay", refuse), return_exceptions=False
        )
        return str(answers)

    engine = Engine(Graph([book]), store=store)
    assert engine.run({"x": 1}, run_id="r").status == "waiting"
    result = engine.resume("r", answer="Ritz", check=False)
    assert (result.status, type(result.error), PAID) == ("failed", OSError, [1])


def test_a_cancelled_task_cancels_its_call() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    @node(output="out")
    async def leave(x: int, ctx: Context) -> str:
        task = asyncio.ensure_future(ctx.record("wait", wait))
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return "done"

    assert Engine(Graph([leave])).run({"x": 1})["out"] == "done"
    assert ended == ["cancelled"]


def test_a_timeout_ends_the_wait_for_a_call_in_flight() -> None:
    async def never() -> None:
        PAID.append(0)
        await asyncio.Event().wait()

    @node(output="out", timeout=1.0, retry=RetryPolicy(max_attempts=1))
    async def book(x: int, ctx: Context) -> list[Any]:
        async def ask() -> Any:
            return ctx.interrupt("which hotel?")

        return await gathered(ctx.record("ask", ask), ctx.record("never", never))

    result = Engine(Graph([book])).run({"x": 1}, check=False)
    assert (result.status, PAID) == ("failed", [0])


def test_a_cancelled_run_ends_the_wait_for_a_call_in_flight() -> None:
    engine: Engine

    async def never() -> None:
        engine.cancel("r")
        await asyncio.Event().wait()

    @node(output="out")
    async def book(x: int, ctx: Context) -> list[Any]:
        async def ask() -> Any:
            return ctx.interrupt("which hotel?")

        return await gathered(ctx.record("ask", ask), ctx.record("never", never))

    engine = Engine(Graph([book]))
    with pytest.raises(RunCancelledError):
        engine.run({"x": 1}, run_id="r")
