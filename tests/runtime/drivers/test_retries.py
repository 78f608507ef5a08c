"""Retries: documented delays, whether to try again at all, and no worker held meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SQLiteStore, node
from clew.testing import VirtualClock
from tests.runtime.killed import as_if_killed


def failing(times: int, policy: Any, asynchronous: bool = False) -> Any:
    def act(a: int, ctx: Context) -> int:
        if ctx.attempt < times:
            raise ValueError(ctx.attempt)
        return ctx.attempt

    async def aact(a: int, ctx: Context) -> int:
        return act(a, ctx)

    return node(aact if asynchronous else act, name="act", output="x", retry=policy)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_delays_double_up_to_the_most_with_jitter_below_the_base(asynchronous: bool) -> None:
    delays: list[float] = []
    clock = VirtualClock()
    policy = RetryPolicy(max_attempts=5, base_delay=1.0, max_delay=6.0)
    engine = Engine(
        Graph([failing(4, policy, asynchronous)]),
        clock=clock,
        listeners=[lambda e: delays.append(e.delay) if e.kind == "item_retried" else None],
    )
    assert engine.run({"a": 1})["x"] == 4
    assert [int(delay) for delay in delays] == [1, 2, 4, 6]
    assert delays[3] == 6.0
    assert clock.monotonic() == pytest.approx(sum(delays))


def test_jitter_comes_from_the_run_s_seed() -> None:
    def waited(seed: int) -> float:
        clock = VirtualClock()
        Graph([failing(2, 3)]).run({"a": 1}, clock=clock, seed=seed)
        return clock.monotonic()

    assert waited(1) == waited(1) != waited(2)


def test_an_hour_passes_at_once() -> None:
    clock = VirtualClock()
    policy = RetryPolicy(max_attempts=2, base_delay=3600.0, max_delay=7200.0)
    assert Graph([failing(1, policy)]).run({"a": 1}, clock=clock)["x"] == 1
    assert clock.monotonic() >= 3600


def test_real_delays_are_waited_for() -> None:
    policy = RetryPolicy(max_attempts=2, base_delay=0.001)
    assert Graph([failing(1, policy)]).run(a=1)["x"] == 1
    assert asyncio.run(Graph([failing(1, policy)]).arun(a=1))["x"] == 1


def test_the_last_error_is_the_run_s() -> None:
    result = Graph([failing(9, 3)]).run({"a": 1}, clock=VirtualClock(), check=False)
    assert (repr(result.error), result.metrics.total_retries) == ("ValueError(2)", 2)
    assert [(found.path, found.step, found.attempts) for found in result.failures] == [("act#0", 1, 3)]


def test_an_error_that_is_not_retryable_fails_at_once() -> None:
    policy = RetryPolicy(max_attempts=5, retryable=lambda error: isinstance(error, OSError))
    result = Graph([failing(9, policy)]).run({"a": 1}, check=False)
    assert repr(result.error) == "ValueError(0)"


def test_attempts_go_on_counting_after_resume() -> None:
    engine = Engine(Graph([failing(4, 3)]), clock=VirtualClock())
    assert repr(engine.run({"a": 1}, run_id="r", check=False).error) == "ValueError(2)"
    assert repr(engine.resume("r", check=False).error) == "ValueError(2)"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_waiting_retry_holds_no_worker(asynchronous: bool) -> None:
    order: list[str] = []
    policy = RetryPolicy(max_attempts=2, base_delay=20.0)

    def flaky(a: int, ctx: Context) -> None:
        order.append(f"flaky {ctx.attempt}")
        if ctx.attempt == 0:
            raise ValueError

    def other(a: int) -> None:
        order.append("other")

    async def aflaky(a: int, ctx: Context) -> None:
        flaky(a, ctx)

    async def aother(a: int) -> None:
        other(a)

    nodes = [
        node(aflaky if asynchronous else flaky, name="x", output="x", retry=policy),
        node(aother if asynchronous else other, name="y", output="y"),
    ]
    Graph(nodes).run({"a": 1}, max_concurrent_nodes=1, clock=VirtualClock())
    assert order == ["flaky 0", "other", "flaky 1"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_node_that_takes_no_context_is_retried(asynchronous: bool) -> None:
    calls: list[int] = []

    def flaky(a: int) -> int:
        calls.append(a)
        if len(calls) == 1:
            raise ValueError
        return a

    async def aflaky(a: int) -> int:
        return flaky(a)

    policy = RetryPolicy(max_attempts=2, base_delay=1e-9)
    graph = Graph([node(aflaky if asynchronous else flaky, name="x", output="x", retry=policy)])
    assert (graph.run(a=1)["x"], calls) == (1, [1, 1])


@pytest.mark.parametrize(
    "later, least, most",
    [
        (0.0, 4.0, 5.0),
        (3.0, 1.0, 2.0),  # the rest of the delay, not all of it again
        (86_400.0, 0.0, 0.0),
        (-86_400.0, 4.0, 5.0),  # the clock was set back: the wait is no longer than it was
    ],
)
def test_a_wait_goes_on_after_a_crash(tmp_path: Path, later: float, least: float, most: float) -> None:
    file, left = tmp_path / "runs.db", []

    class Killed(VirtualClock):
        def advance(self, to: float) -> None:
            if not left:
                left.append(as_if_killed(file))
            super().advance(to)

    @node(output="y", retry=RetryPolicy(max_attempts=2, base_delay=4.0, max_delay=5.0))
    def flaky(x: int, ctx: Context) -> int:
        if ctx.attempt == 0:
            raise ValueError("no")
        return ctx.attempt

    graph = Graph([flaky])
    Engine(graph, store=SQLiteStore(file), clock=Killed()).run({"x": 1}, run_id="r")
    clock = VirtualClock(1_700_000_000.0 + later)
    assert Engine(graph, store=left[0], clock=clock).resume("r")["y"] == 1
    assert least <= clock.monotonic() <= most
