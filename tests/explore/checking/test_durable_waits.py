"""Checks of graphs whose nodes wait: every schedule, every fault, and a wait ends when that is chosen."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Context, Graph, node
from clew.errors import WaitTimeoutError
from clew.explore import check_graph


@node(output="slept")
def nap(a: int, ctx: Context) -> int:
    ctx.record("before", int)
    ctx.sleep(60)
    ctx.record("after", int)
    return a


@node(output="paid")
def pay(a: int, ctx: Context) -> Any:
    try:
        return ctx.wait_for("paid", timeout=30)
    except WaitTimeoutError:
        return "late"


@node(output="approved")
def ask(a: int, ctx: Context) -> Any:
    return ctx.interrupt("ship it?", timeout=30, default=False)


@node(output="forever")
def wait(a: int, ctx: Context) -> Any:
    return ctx.wait_for("never")


@pytest.mark.parametrize(
    "nodes, ends",
    [([nap], "completed"), ([pay], "completed"), ([nap, pay], "completed"), ([wait], "sleeping")],
)
def test_waits_are_checked(nodes: list[Any], ends: str) -> None:
    result = check_graph(Graph(nodes), {"a": 1})
    assert result.ok, str(result)
    assert list(result.ends) == [ends]


def test_questions_with_a_timeout_are_answered() -> None:
    result = check_graph(Graph([ask]), {"a": 1}, answers={"ask": [True]})
    assert result.ok, str(result)
    assert set(result.ends) <= {"completed", "waiting"}


def test_a_call_that_is_repeated_after_a_wait_is_found() -> None:
    made = []

    @node(output="x")
    def careless(a: int, ctx: Context) -> int:
        made.append(a)
        ctx.sleep(60)
        return len(made)  # the node starts over after the wait

    assert not check_graph(Graph([careless]), {"a": 1}).ok
