"""A recorded call or a sleep that a node did not await fails the node with the line to fix: it was not made."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from clew import Context, Engine, Graph, node
from clew.errors import OutputError
from clew.stores import Store
from tests.store_fixtures import local_store

made: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


store = local_store


async def charge(card: str) -> str:
    made.append(card)
    return "receipt"


def behind(card: str) -> Any:
    return charge(card)


async def ignores(card: str, ctx: Context) -> bool:
    ctx.record("charge", charge, card)  # here
    return True


async def returns(card: str, ctx: Context) -> Any:
    return ctx.record("charge", charge, card)  # here


async def holds(card: str, ctx: Context) -> Any:
    return {"paid": [ctx.record("charge", charge, card)]}  # here


async def the_second(card: str, ctx: Context) -> Any:
    await ctx.record("charge", charge, card)
    ctx.record("charge", charge, card)  # here
    await ctx.record("charge", charge, card)
    return True


async def in_a_helper(card: str, ctx: Context) -> Any:
    def pay() -> None:
        ctx.record("charge", charge, card)  # here

    pay()
    return True


async def in_a_task_that_never_began(card: str, ctx: Context) -> Any:
    asyncio.create_task(ctx.record("charge", charge, card))  # noqa: RUF006  # here
    return True


async def chunks(card: str, ctx: Context) -> Any:
    ctx.record("charge", charge, card)  # here
    yield 1


def sync(card: str, ctx: Context) -> Any:
    ctx.record("charge", charge, card)  # here
    return True


async def naps(card: str, ctx: Context) -> Any:
    ctx.sleep(3600)  # here
    return True


async def returns_a_nap(card: str, ctx: Context) -> Any:
    return ctx.sleep(3600)  # here


CASES = [
    (ignores, "record"),
    (returns, "record"),
    (holds, "record"),
    (the_second, "record"),
    (in_a_helper, "record"),
    (in_a_task_that_never_began, "record"),
    (chunks, "record"),
    (sync, "record"),
    (naps, "sleep"),
    (returns_a_nap, "sleep"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function, method", CASES, ids=lambda each: getattr(each, "__name__", each))
@pytest.mark.parametrize("others", [0, 1])
def test_it_fails_the_node_with_the_line(
    store: Store, function: Callable[..., Any], method: str, others: int
) -> None:
    beside = [node(lambda card: card, name="beside", output="z")][:others]
    engine = Engine(Graph([node(function, output="paid"), *beside]), store=store)
    result = engine.run({"card": "1234"}, run_id="r", check=False)
    assert type(result.error) is OutputError
    lines, first = inspect.getsourcelines(function)
    line = first + next(number for number, text in enumerate(lines) if "# here" in text)
    assert f"{__file__}:{line}" in str(result.error)
    assert f"`await ctx.{method}(...)`" in str(result.error)
    assert ("async def" in str(result.error)) == (function is sync)
    assert made == (["1234"] * 2 if function is the_second else [])
    assert engine.replay("r").ok
    gc.collect()  # a coroutine that was never awaited would warn now


@pytest.mark.filterwarnings("error")
def test_every_way_to_await_counts(store: Store) -> None:
    async def ways(card: str, ctx: Context) -> list[Any]:
        task = asyncio.create_task(ctx.record("a", charge, card))
        async with asyncio.TaskGroup() as group:
            in_group = group.create_task(ctx.record("b", charge, card))
            group.create_task(ctx.sleep(0))
        results = await asyncio.gather(*(ctx.record("c", charge, card) for _ in range(40)), task)
        timed = await asyncio.wait_for(ctx.record("d", behind, card), 60)
        shielded = await asyncio.shield(ctx.record("e", charge, card))
        await ctx.sleep(0)
        return [in_group.result(), *results, timed, shielded]

    engine = Engine(Graph([node(ways, output="paid")]), store=store)
    assert engine.run({"card": "1"}, run_id="r")["paid"] == ["receipt"] * 44
    assert engine.replay("r").ok
    gc.collect()


@pytest.mark.filterwarnings("error")
def test_the_error_of_the_node_counts_more(store: Store) -> None:
    async def raises(card: str, ctx: Context) -> Any:
        task = asyncio.create_task(ctx.record("charge", charge, card))
        ctx.record("charge", charge, card)
        raise KeyError(str(task))

    result = Engine(Graph([node(raises, output="paid")]), store=store).run({"card": "1"}, check=False)
    assert type(result.error) is KeyError
    assert made == []
    gc.collect()


def test_many_calls_leave_nothing_behind() -> None:
    kept: list[Any] = []

    async def many(card: str, ctx: Context) -> int:
        for _ in range(100):
            await ctx.record("charge", charge, card)
        kept.append(sum(type(each).__name__ == "coroutine" for each in gc.get_objects()))
        return 1

    gc.collect()
    before = sum(type(each).__name__ == "coroutine" for each in gc.get_objects())
    Graph([node(many, output="paid")]).run({"card": "1"})
    assert kept[-1] - before < 20
