"""Durable sleeps: a node that sleeps long is unwound, and starts over when its time has come."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, MemoryStore, RetryPolicy, Send, SQLiteStore, node, route
from clew.errors import NodeTimeoutError
from clew.runtime.calls.waiting import LONGEST_SLEEP
from clew.testing import VirtualClock

HOUR = 3600.0


def digests(engine: Engine, run_id: str) -> list[str]:
    return [checkpoint.state.digest for checkpoint in engine.history(run_id)]


def sleeper(mode: str, calls: list[str], seconds: float = HOUR) -> Any:
    def before(ctx: Context) -> None:
        calls.append("begun")
        ctx.record("effect", lambda: calls.append("effect"))

    if mode == "sync":

        @node(output="x")
        def sync(a: int, ctx: Context) -> int:
            before(ctx)
            ctx.sleep(seconds)
            calls.append("ended")
            return a + 1

        return sync
    if mode == "generator":

        @node(output="x")
        def generate(a: int, ctx: Context) -> Iterator[int]:
            before(ctx)
            yield 1
            ctx.sleep(seconds)
            calls.append("ended")
            yield a + 1

        return generate
    if mode == "async":

        @node(output="x")
        async def later(a: int, ctx: Context) -> int:
            before(ctx)
            await ctx.sleep(seconds)
            calls.append("ended")
            return a + 1

        return later

    @node(output="x")
    async def agenerate(a: int, ctx: Context) -> Any:
        before(ctx)
        yield 1
        await ctx.sleep(seconds)
        calls.append("ended")
        yield a + 1

    return agenerate


@pytest.mark.parametrize("mode", ["sync", "generator", "async", "agenerator"])
@pytest.mark.parametrize("is_beside", [False, True])
def test_a_long_sleep_starts_the_node_over(mode: str, is_beside: bool) -> None:
    calls: list[str] = []

    @node(output="y")
    def other(a: int) -> int:
        return a

    @node(output="z")
    def third(a: int) -> int:
        return a

    nodes = [sleeper(mode, calls), *([other, third] if is_beside else [])]
    clock = VirtualClock()
    result = Engine(Graph(nodes), clock=clock).run({"a": 1})
    assert result["x"] in (2, [1, 2])
    assert calls == ["begun", "effect", "begun", "ended"]
    assert clock.time() == pytest.approx(1_700_000_000.0 + HOUR)


def test_a_short_sleep_does_not() -> None:
    calls: list[str] = []
    Engine(Graph([sleeper("sync", calls, LONGEST_SLEEP)]), clock=VirtualClock()).run({"a": 1})
    assert calls == ["begun", "effect", "ended"]


def test_a_sleep_holds_no_slot() -> None:
    running: list[str] = []

    @node(output="x")
    def first(a: int, ctx: Context) -> int:
        ctx.sleep(HOUR)
        return len(running)

    @node(output="y")
    def second(a: int) -> int:
        running.append("second")
        return 1

    result = Engine(Graph([first, second]), clock=VirtualClock(), max_concurrent_nodes=1).run({"a": 1})
    assert (result["x"], result["y"]) == (1, 1)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_the_chain_is_that_of_an_undisturbed_run(store: str, tmp_path: Path) -> None:
    def graph(seconds: float) -> Graph:
        @node(output="x")
        def nap(a: int, ctx: Context) -> float:
            drawn = ctx.random.random()
            ctx.sleep(seconds)
            return drawn + a

        return Graph([nap])

    made: list[list[str]] = []
    for number, seconds in enumerate((0.0, HOUR)):
        where = MemoryStore() if store == "memory" else SQLiteStore(tmp_path / f"{number}.db")
        with Engine(graph(seconds), store=where, clock=VirtualClock()) as engine:
            engine.run({"a": 1}, run_id="r")
            made.append(digests(engine, "r"))
            assert engine.replay("r").ok
    assert made[0] == made[1]


class Crash(BaseException):
    """Ends a process."""


def crashing(store: Any, graph: Graph, clock: VirtualClock, at: str) -> None:
    """Run until the driver waits, and stop there, as a killed process does."""
    engine = Engine(graph, store=store, clock=clock)
    original = clock.advance

    def crash(to: float) -> None:
        raise Crash(at)

    clock.advance = crash
    with pytest.raises(Crash):
        engine.run({"a": 1}, run_id="r")
    clock.advance = original


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_sleep_ends_at_its_original_time_after_a_crash(mode: str, tmp_path: Path) -> None:
    calls: list[str] = []
    graph, clock = Graph([sleeper(mode, calls)]), VirtualClock()
    crashing(SQLiteStore(tmp_path / "r.db"), graph, clock, "asleep")
    clock.advance(1800.0)
    calls.clear()
    with Engine(graph, store=SQLiteStore(tmp_path / "r.db"), clock=clock) as engine:
        assert engine.resume("r")["x"] == 2
        assert clock.monotonic() == pytest.approx(HOUR)
        assert calls == ["begun", "ended"]  # not called while it still slept
        assert engine.replay("r").ok


def test_a_sleep_that_is_over_is_not_repeated_by_a_later_attempt() -> None:
    attempts: list[int] = []

    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=1.0, jitter=0.0))
    def flaky(a: int, ctx: Context) -> int:
        ctx.sleep(HOUR)
        attempts.append(ctx.attempt)
        if ctx.attempt == 0:
            raise ValueError("once")
        return a

    clock = VirtualClock()
    Engine(Graph([flaky]), clock=clock).run({"a": 1})
    assert attempts == [0, 1]
    assert clock.monotonic() < HOUR + 10


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("then", [0.0, -0.5, 2.0, 100.0])
def test_a_sleep_until_a_time_ends_once(mode: str, then: float, tmp_path: Path) -> None:
    """A node that computes how long it sleeps gets another number when it starts over, also one below 0."""
    clock, calls = VirtualClock(), list[float]()
    until = clock.time() + HOUR

    def left() -> float:
        calls.append(until - clock.time())
        return calls[-1] if len(calls) == 1 else then

    @node(output="x")
    def sleep(a: int, ctx: Context) -> int:
        ctx.sleep(left())
        ctx.sleep(HOUR)
        return a

    @node(output="x")
    async def asleep(a: int, ctx: Context) -> int:
        await ctx.sleep(left())
        await ctx.sleep(HOUR)
        return a

    store = SQLiteStore(tmp_path / "runs.db")
    with Engine(Graph([sleep if mode == "sync" else asleep]), clock=clock, store=store) as engine:
        engine.run({"a": 1}, run_id="r")
        assert clock.time() == pytest.approx(until + HOUR)
        assert len(calls) == 3  # at first, and after each of the two sleeps
        assert engine.replay("r").ok
    store.close()


def test_a_later_attempt_may_sleep_longer() -> None:
    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=1.0, jitter=0.0))
    def flaky(a: int, ctx: Context) -> int:
        ctx.sleep(HOUR * (1 + ctx.attempt))
        if ctx.attempt == 0:
            raise ValueError("once")
        return a

    clock = VirtualClock()
    Engine(Graph([flaky]), clock=clock).run({"a": 1})
    assert 3 * HOUR <= clock.monotonic() < 3 * HOUR + 10


def test_no_timeout_counts_a_durable_wait() -> None:
    @node(output="x", timeout=10.0)
    def own(a: int, ctx: Context) -> int:
        ctx.sleep(HOUR)
        return a

    @node(output="y")
    async def default(a: int, ctx: Context) -> int:
        await ctx.sleep(HOUR)
        return a

    result = Engine(Graph([own, default]), clock=VirtualClock()).run({"a": 1})
    assert (result["x"], result["y"]) == (1, 1)


def test_no_timeout_of_a_subgraph_counts_a_durable_wait() -> None:
    @node(output="x")
    def nap(a: int, ctx: Context) -> int:
        ctx.sleep(HOUR)
        return a

    @node(output="y")
    def slow(x: int, ctx: Context) -> int:
        ctx.sleep(4)
        ctx.sleep(3)
        return x

    inner = Graph([nap, slow], name="inner")
    fits = Graph([inner.as_node("sub", timeout=20.0)])
    assert Engine(fits, clock=VirtualClock()).run({"a": 1})["y"] == 1
    late = Graph([inner.as_node("sub", timeout=6.0)])
    with pytest.raises(NodeTimeoutError):
        Engine(late, clock=VirtualClock(), max_concurrent_nodes=2).run({"a": 1})


def test_concurrent_sleeps_of_one_node_overlap() -> None:
    @node(output="x")
    async def both(a: int, ctx: Context) -> int:
        await asyncio.gather(ctx.sleep(200), ctx.sleep(100))
        async with asyncio.TaskGroup() as group:
            group.create_task(_slept(ctx, 50))
            group.create_task(_slept(ctx, 70))
        return a

    clock = VirtualClock()
    Engine(Graph([both]), clock=clock).run({"a": 1})
    assert clock.monotonic() == pytest.approx(270)


async def _slept(ctx: Context, seconds: float) -> None:
    await ctx.sleep(seconds)


class Numbers(TypedDict, total=False):
    a: int
    done: Annotated[list[int], operator.add]


def test_the_items_of_a_fan_out_sleep_together() -> None:
    @route(targets=["work"])
    def spread(a: int) -> list[Send]:
        return [Send("work", {"i": i}) for i in range(20)]

    @node(output="done")
    def work(i: int, ctx: Context) -> list[int]:
        ctx.sleep(100 + i)
        return [i]

    clock = VirtualClock()
    result = Engine(Graph([spread, work], state=Numbers), clock=clock).run({"a": 1})
    assert result["done"] == list(range(20))
    assert clock.monotonic() == pytest.approx(119)


def test_a_subgraph_and_a_child_sleep() -> None:
    calls: list[str] = []

    @node(output="inner")
    def nap(a: int, ctx: Context) -> int:
        calls.append("inner")
        ctx.sleep(HOUR)
        return a + 1

    inside = Graph([nap], name="inside")

    @node(output="child")
    def outer(a: int, ctx: Context) -> int:
        calls.append("outer")
        result = ctx.run(inside, {"a": a})
        return int(result["inner"])

    @node(output="achild")
    async def aouter(a: int, ctx: Context) -> int:
        result = await ctx.run(inside, {"a": a})
        return int(result["inner"])

    clock = VirtualClock()
    engine = Engine(Graph([outer, aouter]), clock=clock)
    result = engine.run({"a": 1}, run_id="r")
    assert (result["child"], result["achild"]) == (2, 2)
    assert clock.monotonic() == pytest.approx(HOUR)
    assert engine.replay("r").ok
    assert Engine(Graph([inside.as_node("sub")]), clock=VirtualClock()).run({"a": 1})["inner"] == 2


def test_a_failed_run_does_not_wait_and_goes_on_when_it_is_resumed() -> None:
    ok: list[bool] = []

    @node(output="x")
    def nap(a: int, ctx: Context) -> int:
        ctx.sleep(HOUR)
        return a

    @node(output="y")
    def fails(a: int) -> int:
        if not ok:
            raise ValueError("first")
        return a

    clock = VirtualClock()
    engine = Engine(Graph([nap, fails]), clock=clock)
    result = engine.run({"a": 1}, run_id="r", check=False)
    assert (result.status, clock.monotonic()) == ("failed", 0.0)
    ok.append(True)
    clock.advance(HOUR / 2)
    assert engine.resume("r")["x"] == 1
    assert clock.monotonic() == pytest.approx(HOUR)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "1", None, True])
def test_a_time_that_is_none_is_refused(seconds: Any) -> None:
    @node(output="x")
    def nap(a: int, ctx: Context) -> int:
        ctx.sleep(seconds)
        return a

    with pytest.raises(ValueError, match="sleep"):
        Graph([nap]).run(a=1)


def test_cancelling_ends_a_sleep() -> None:
    asleep = threading.Event()

    @node(output="x")
    def nap(a: int, ctx: Context) -> int:
        asleep.set()
        ctx.sleep(HOUR)
        return a

    engine = Engine(Graph([nap]))
    handle = engine.start({"a": 1}, run_id="r")
    assert asleep.wait(60)
    assert handle.cancel()
    assert handle.result(300, check=False).status == "cancelled"
