"""Nodes that catch the exception of a question or a wait: the run asks nevertheless."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from clew import Context, Engine, Graph, interrupt, node
from clew.stores import Store
from tests.store_fixtures import local_store

store = local_store


@node(output="allowed")
async def gathered(amount, ctx: Context):
    async def ask():
        return ctx.interrupt(f"Pay {amount}?")

    async def look_up():
        return amount

    found = await asyncio.gather(ask(), ctx.record("look up", look_up), return_exceptions=True)
    return found[0] is True


@node(output="allowed")
def bare(amount, ctx: Context):
    try:
        return ctx.interrupt(f"Pay {amount}?")
    except:  # noqa: E722
        return "nobody was asked"


@node(output="allowed")
def wrapped(amount, ctx: Context):
    try:
        return ctx.interrupt(f"Pay {amount}?")
    except BaseException as error:
        raise ValueError("the tool failed") from error


@node(output="allowed")
def threaded(amount, ctx: Context):
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: _collect(answers, lambda: ctx.interrupt(f"Pay {amount}?")))
    thread.start()
    thread.join()
    return bool(answers) and answers[0]


def _collect(answers: list[Any], ask: Callable[[], Any]) -> None:
    try:
        answers.append(ask())
    except BaseException:
        pass


@node(output="allowed")
def recorded(amount, ctx: Context):
    def tool():
        try:
            return ctx.interrupt(f"Pay {amount}?")
        except BaseException:
            return "nobody was asked"

    return ctx.record("tool", tool)


@node(output="allowed")
async def recorded_inside(amount, ctx: Context):
    async def approve():
        return ctx.interrupt(f"Pay {amount}?")

    async def tool():
        (found,) = await asyncio.gather(ctx.record("approve", approve), return_exceptions=True)
        return found if isinstance(found, bool) else "nobody was asked"

    return await ctx.record("tool", tool)


@interrupt(output="answer")
def question(amount):
    return f"Pay {amount}?"


ask_inside = Graph([question], name="ask")


@node(output="allowed")
async def children(amount, ctx: Context):
    found = await asyncio.gather(
        *(ctx.run(ask_inside, {"amount": amount}) for _ in range(2)), return_exceptions=True
    )
    return all(each["answer"] for each in found)


@node(output="allowed")
def child(amount, ctx: Context):
    try:
        return ctx.run(ask_inside, {"amount": amount})["answer"]
    except BaseException:
        return "nobody was asked"


@pytest.mark.parametrize(
    "asks",
    [gathered, bare, wrapped, threaded, recorded, recorded_inside, children, child],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize("answer", [True, False])
def test_a_payment_waits_for_its_approval(store: Store, asks: Any, answer: bool) -> None:
    paid = []

    @node(output="receipt")
    def pay(amount, allowed):
        if allowed:
            paid.append(amount)
        return allowed

    engine = Engine(Graph([asks, pay]), store=store)
    result = engine.run({"amount": 5}, run_id="r")
    assert (result.status, paid) == ("waiting", [])
    assert {question.question for question in result.questions} == {"Pay 5?"}
    assert engine.replay("r").ok
    result = engine.resume("r", answers={question.path: answer for question in result.questions})
    assert (result.status, result["receipt"], paid) == ("completed", answer, [5] if answer else [])
    assert engine.replay("r").ok


def test_a_caught_wait_lasts(store: Store) -> None:
    @node(output="paid")
    async def pay(amount, ctx: Context):
        (found,) = await asyncio.gather(ctx.wait_for("paid"), return_exceptions=True)
        return found

    engine = Engine(Graph([pay]), store=store)
    handle = engine.start({"amount": 5}, run_id="r")
    handle.signal("paid", 5)
    assert handle.result(timeout=60)["paid"] == 5


def test_two_questions_of_one_place_are_refused_although_the_node_catches_that() -> None:
    @node(output="allowed")
    async def ask_twice(amount, ctx: Context):
        async def ask(number):
            return ctx.interrupt(f"{number}?")

        return await asyncio.gather(ask(1), ask(2), return_exceptions=True)

    result = Graph([ask_twice]).run({"amount": 5}, check=False)
    assert result.status == "failed"
    assert type(result.error).__name__ == "NodeError"
