"""The end of an attempt ends its children: they are stopped before the next attempt, which resumes them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, node
from clew.errors import NodeTimeoutError
from clew.runtime.drivers import child_sessions
from clew.stores import Store

NOW = RetryPolicy(max_attempts=3, base_delay=0)


class Pair:
    """A node that runs two children at once: one fails once, the other calls a service that hangs once."""

    def __init__(self, **policy: Any) -> None:
        self.calls: list[str] = []
        self.at_work = 0
        self.most_at_work = 0
        self.failures = 1

        async def service(x: int) -> int:
            self.calls.append("service")
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            try:
                if self.calls.count("service") == 1:
                    await asyncio.Event().wait()
            finally:
                self.at_work -= 1
            return x

        @node(output="first")
        def first(x: int) -> int:
            self.calls.append("first")
            return x

        @node(output="second")
        async def second(first: int, ctx: Context) -> int:
            return await ctx.record("service", service, first)

        @node(output="z")
        async def fails(x: int) -> int:
            while "service" not in self.calls:
                await asyncio.sleep(0)
            if self.failures:
                self.failures -= 1
                raise ValueError("once")
            return x

        self.slow = Graph([first, second], name="slow")
        self.bad = Graph([fails], name="bad")

        @node(output="o", **policy)
        async def both(x: int, ctx: Context) -> int:
            one, two = await asyncio.gather(ctx.run(self.bad, {"x": x}), ctx.run(self.slow, {"x": x}))
            return int(one["z"]) + int(two["second"])

        self.graph = Graph([both])


def _statuses(store: Store) -> list[str]:
    return sorted(row.status for row in store.rows(of="r"))


def test_a_retry_resumes_the_sibling_of_a_failed_child(store: Store) -> None:
    pair = Pair(retry=NOW)
    engine = Engine(pair.graph, store=store)
    result = engine.run({"x": 1}, run_id="r")
    assert result["o"] == 2
    assert pair.calls == ["first", "service", "service"]  # the open call again, the finished node not
    assert pair.most_at_work == 1
    assert _statuses(store) == ["completed", "completed"]
    assert engine.replay("r").ok


def test_a_failed_run_has_stopped_its_children(store: Store) -> None:
    async def run() -> None:
        pair = Pair()
        engine = Engine(pair.graph, store=store)
        with pytest.raises(ValueError, match="once"):
            await engine.arun({"x": 1}, run_id="r")
        assert pair.at_work == 0
        assert _statuses(store) == ["cancelled", "failed"]
        result = await engine.aresume("r")
        assert result["o"] == 2
        assert pair.calls == ["first", "service", "service"]

    asyncio.run(run())


def test_a_node_that_returns_stops_the_children_that_still_run(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair()

    @node(output="o")
    async def one(x: int, ctx: Context) -> str:
        tasks = [asyncio.ensure_future(ctx.run(graph, {"x": x})) for graph in (pair.slow, pair.bad)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return type(done.pop().exception()).__name__

    @node(output="p")
    def after(o: str) -> int:
        return pair.at_work

    engine = Engine(Graph([one, after]), store=store)
    result = engine.run({"x": 1}, run_id="r")
    assert (result["o"], result["p"]) == ("ValueError", 0)
    gc.collect()
    assert caplog.records == []  # of asyncio, about a task that nobody has awaited
    assert _statuses(store) == ["cancelled", "failed"]


@pytest.mark.parametrize("beside", [False, True])
def test_a_retry_after_a_timeout_resumes_the_children(store: Store, beside: bool) -> None:
    pair = Pair()

    @node(output="o", timeout=1.0, retry=NOW)
    async def slow(x: int, ctx: Context) -> int:
        child = asyncio.ensure_future(ctx.run(pair.slow, {"x": x}))
        if ctx.attempt == 0:
            while not pair.at_work:
                await asyncio.sleep(0)
            child.cancel()  # stops waiting, so that its own time counts
            await asyncio.Event().wait()
        return int((await child)["second"])

    @node(output="p")
    async def other(x: int) -> int:
        return x

    engine = Engine(Graph([slow, other] if beside else [slow]), store=store)
    result = engine.run({"x": 1}, run_id="r")
    assert result["o"] == 1
    assert pair.calls == ["first", "service", "service"]
    assert pair.most_at_work == 1


def test_a_child_that_does_not_end_is_handed_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_sessions, "_PATIENCE", 0.01)
    release = asyncio.Event()
    started: list[int] = []

    @node(output="a")
    async def stubborn(x: int) -> int:
        started.append(1)
        while len(started) == 1 and not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass
        return x

    graph = Graph([stubborn], name="stubborn")

    @node(output="o", timeout=300, retry=NOW)
    async def outer(x: int, ctx: Context) -> int:
        child = asyncio.ensure_future(ctx.run(graph, {"x": x}))
        if ctx.attempt == 0:
            while not started:
                await asyncio.sleep(0)
            raise NodeTimeoutError("given up")
        asyncio.get_running_loop().call_later(0.01, release.set)
        return int((await child)["a"])

    result = Engine(Graph([outer]), store=store).run({"x": 1}, run_id="r")
    assert result["o"] == 1
