"""A travel agent books and asks at the same time: the bank is called once, whatever happens to the question."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node

BANK: list[int] = []


async def pay(amount: int) -> str:
    BANK.append(amount)
    for _ in range(30):  # the bank is slower than the question
        await asyncio.sleep(0)
    return f"receipt for {amount}"


@node(output="trip")
async def book(price, ctx: Context):
    async def choose():
        return ctx.interrupt("Which hotel?")

    hotel, receipt = await asyncio.gather(ctx.record("choose", choose), ctx.record("pay", pay, price))
    return f"{hotel}, {receipt}"


@interrupt(output="seat")
def ask_for_seat(price):
    return "Window or aisle?"


@node(output="receipt")
async def pay_fare(price, ctx: Context):
    return await ctx.record("pay", pay, price)


SEAT, FARE = Graph([ask_for_seat], name="seat"), Graph([pay_fare], name="fare")


@node(output="trip")
async def fly(price, ctx: Context):
    async with asyncio.TaskGroup() as group:
        seat = group.create_task(ctx.run(SEAT, {"price": price}))
        fare = group.create_task(ctx.run(FARE, {"price": price}))
    return f"{seat.result()['seat']}, {fare.result()['receipt']}"


@pytest.mark.parametrize("on_ambiguous", ["retry", "fail", "ask"])
@pytest.mark.parametrize("work", [book, fly], ids=["calls", "children"])
def test_the_bank_is_called_once(tmp_path: Path, work: Any, on_ambiguous: Any) -> None:
    BANK.clear()
    graph = Graph([work], name="travel")
    with Engine(graph, store=SQLiteStore(tmp_path / "trips.db"), on_ambiguous=on_ambiguous) as engine:
        assert engine.run({"price": 80}, run_id="trip").status == "waiting"
    with Engine(graph, store=SQLiteStore(tmp_path / "trips.db"), on_ambiguous=on_ambiguous) as engine:
        assert engine.resume("trip", answer="the good one")["trip"] == "the good one, receipt for 80"
        assert engine.replay("trip").ok
    assert BANK == [80]
