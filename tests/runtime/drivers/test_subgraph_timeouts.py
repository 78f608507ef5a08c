"""A timeout on a subgraph node holds for everything that happens inside it."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from clew import Context, Engine, Graph, RetryPolicy, node
from clew.errors import NodeTimeoutError, RunCancelledError
from clew.testing import VirtualClock


def test_async_work_inside_is_cancelled_on_time() -> None:
    seen: list[str] = []

    @node(output="y")
    async def slow(x: int) -> int:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return x

    result = Graph([Graph([slow], name="inner").as_node(timeout=0.5)]).run({"x": 1}, check=False)
    assert result.status == "failed"
    assert isinstance(result.error, NodeTimeoutError)
    assert "node 'inner' at inner#0 did not finish within 0.5 s" in str(result.error)
    assert seen == ["cancelled"]


def test_a_stuck_sync_node_inside_does_not_hold_up_its_subgraph() -> None:
    let_go = Event()

    @node(output="y")
    def stuck(x: int) -> int:
        let_go.wait(60)
        return x

    try:
        result = Graph([Graph([stuck], name="inner").as_node(timeout=0.05)]).run({"x": 1}, check=False)
    finally:
        let_go.set()
    assert isinstance(result.error, NodeTimeoutError)


def test_the_next_attempt_of_the_subgraph_starts_anew() -> None:
    attempts: list[str] = []

    @node(output="y")
    async def slow(x: int, ctx: Context) -> int:
        attempts.append(ctx.path)
        if len(attempts) == 1:
            await ctx.sleep(5)
        return x + 1

    @node(output="z")
    def after(y: int) -> int:
        return y + 1

    policy = RetryPolicy(max_attempts=2, base_delay=1.0, max_delay=10.0)
    graph = Graph([Graph([slow, after], name="inner").as_node(timeout=3.0, retry=policy)])
    result = Engine(graph, clock=VirtualClock()).run({"x": 1})
    assert result.status == "completed"
    assert result["z"] == 3
    assert attempts == ["inner#0/slow#0", "inner#0/slow#0"]
    assert result.metrics.total_retries == 1


def test_a_subgraph_that_ends_in_time_is_left_alone() -> None:
    @node(output="y")
    def quick(x: int) -> int:
        return x + 1

    assert Graph([Graph([quick], name="inner").as_node(timeout=60.0)]).run(x=1)["y"] == 2


def test_a_cancelled_run_says_so_when_it_is_asked_for_a_value() -> None:
    @node(output="y")
    def stop(x: int, ctx: Context) -> int:
        engine.cancel(ctx.run_id)
        return x

    @node(output="z")
    def never(y: int) -> int:
        return y

    engine = Engine(Graph([stop, never]))
    result = engine.run({"x": 1}, run_id="r", check=False)
    assert result.status == "cancelled"
    with pytest.raises(RunCancelledError, match="run 'r' was cancelled"):
        result["z"]


def test_nodes_of_the_step_that_failed_are_not_listed_as_never_ran() -> None:
    @node(output="a")
    def bad(x: int) -> int:
        raise ValueError(x)

    @node(output="b")
    def other(x: int) -> int:
        return x

    @node(output="c")
    def later(a: int) -> int:
        return a

    assert dict(Graph([bad, other, later]).run({"x": 1}, check=False).never_ran) == {"later": ("a",)}
