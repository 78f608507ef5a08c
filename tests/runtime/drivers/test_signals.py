"""Signals: `ctx.wait_for`, and messages that reach a run wherever it is."""

from __future__ import annotations

import asyncio
import operator
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, MemoryStore, RetryPolicy, Send, SQLiteStore, Worker, node, route
from clew.errors import EncodeError, InputError, RunStateError, UnknownRunError, WaitTimeoutError
from clew.testing import VirtualClock


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


def waiter(mode: str, began: threading.Event, timeout: float | None = None) -> Any:
    @node(output="x")
    def sync(a: int, ctx: Context) -> Any:
        began.set()
        return ctx.wait_for("paid", timeout=timeout)

    @node(output="x")
    async def later(a: int, ctx: Context) -> Any:
        began.set()
        return await ctx.wait_for("paid", timeout=timeout)

    return sync if mode == "sync" else later


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_signal_ends_a_wait(mode: str, store: Any) -> None:
    began = threading.Event()
    with Engine(Graph([waiter(mode, began)]), store=store) as engine:
        handle = engine.start({"a": 1}, run_id="r")
        assert began.wait(60)
        handle.signal("paid", {"amount": 3})
        assert handle.result(60)["x"] == {"amount": 3}
        assert engine.replay("r").ok
        assert handle.result().signals == ()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_another_engine_sends_it(mode: str, store: Any) -> None:
    began = threading.Event()
    engine = Engine(Graph([waiter(mode, began)]), store=store)
    handle = engine.start({"a": 1}, run_id="r")
    assert began.wait(60)
    Engine(store=store).signal("r", "paid", 7)
    assert handle.result(60)["x"] == 7


def test_early_signals_are_kept_first_in_first_out(store: Any) -> None:
    ready, go = threading.Event(), threading.Event()

    @node(output="early")
    def first(a: int) -> int:
        ready.set()
        assert go.wait(60)
        return a

    @node(output="x")
    def take(early: int, ctx: Context) -> list[Any]:
        return [ctx.wait_for("paid"), ctx.wait_for("paid"), ctx.wait_for("other")]

    engine = Engine(Graph([first, take]), store=store)
    handle = engine.start({"a": 1}, run_id="r")
    assert ready.wait(60)
    for value in (1, 2, 3):
        engine.signal("r", "paid", value, id=f"pay-{value}")
    engine.signal("r", "paid", 99, id="pay-1")  # the same id is the same signal
    engine.signal("r", "other")
    go.set()
    result = handle.result(60)
    assert result["x"] == [1, 2, None]
    assert [(each.name, each.value) for each in engine.result("r").signals] == [("paid", 3)]


class Numbers(TypedDict, total=False):
    a: int
    done: Annotated[list[Any], operator.add]


def test_the_lowest_waiter_takes_a_signal(store: Any) -> None:
    began = threading.Semaphore(0)

    @route(targets=["work"])
    def spread(a: int) -> list[Send]:
        return [Send("work", {"i": i}) for i in range(4)]

    @node(output="done")
    def work(i: int, ctx: Context) -> list[Any]:
        began.release()
        return [(i, ctx.wait_for("next"))]

    engine = Engine(Graph([spread, work], state=Numbers), store=store)
    handle = engine.start({"a": 1}, run_id="r")
    for _ in range(4):
        assert began.acquire(timeout=60)
    while len(_waiting(engine)) < 4:
        threading.Event().wait(0.001)
    for value in "abcd":
        engine.signal("r", "next", value)
    assert handle.result(60)["done"] == [(0, "a"), (1, "b"), (2, "c"), (3, "d")] or handle.result(60)[
        "done"
    ] == [
        [0, "a"],
        [1, "b"],
        [2, "c"],
        [3, "d"],
    ]


def _waiting(engine: Engine) -> Any:
    waits = engine._live["r"].waits
    return () if waits is None else waits._waiting


def test_a_wait_in_vain_raises_in_the_node() -> None:
    @node(output="x")
    def patient(a: int, ctx: Context) -> str:
        try:
            return str(ctx.wait_for("paid", timeout=60))
        except WaitTimeoutError:
            return "none"

    clock = VirtualClock()
    engine = Engine(Graph([patient]), clock=clock)
    assert engine.run({"a": 1}, run_id="r")["x"] == "none"
    assert clock.monotonic() == pytest.approx(60)
    assert engine.replay("r").ok


def test_a_later_attempt_waits_again() -> None:
    @node(output="x", retry=RetryPolicy(max_attempts=3, base_delay=1.0))
    def impatient(a: int, ctx: Context) -> int:
        if ctx.attempt < 2:
            ctx.wait_for("paid", timeout=60)
        return ctx.attempt

    clock = VirtualClock()
    assert Engine(Graph([impatient]), clock=clock).run({"a": 1})["x"] == 2
    assert 120 <= clock.monotonic() <= 130


def test_a_later_attempt_with_another_timeout_gets_the_same_signal() -> None:
    attempts: list[Any] = []

    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=0.0, jitter=0.0))
    def pay(a: int, ctx: Context) -> Any:
        attempts.append(ctx.wait_for("paid", timeout=60.0 - len(attempts)))
        if ctx.attempt == 0:
            raise ValueError("once")
        return attempts[-1]

    store = MemoryStore()
    engine = Engine(Graph([pay]), store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    handle.signal("paid", 3)
    Worker(Graph([pay]), store=store).run(until_idle=True)
    assert (handle.status, attempts) == ("completed", [3, 3])
    engine.close()


def test_a_race_of_a_signal_and_a_time(store: Any) -> None:
    began = threading.Event()

    @node(output="x")
    async def race(a: int, ctx: Context) -> Any:
        began.set()
        async with asyncio.TaskGroup() as group:
            signal = group.create_task(_waited(ctx))
            group.create_task(_slept(ctx))
        return signal.result()

    engine = Engine(Graph([race]), store=store, clock=VirtualClock())
    assert engine.run({"a": 1}, run_id="r")["x"] == "late"


async def _waited(ctx: Context) -> Any:
    try:
        return await ctx.wait_for("paid", timeout=500)
    except WaitTimeoutError:
        return "late"


async def _slept(ctx: Context) -> None:
    await ctx.sleep(1000)


def test_a_child_gets_the_signals_of_its_run(store: Any) -> None:
    began = threading.Event()
    inside = Graph([waiter("sync", began)], name="inside")

    @node(output="y")
    def outer(a: int, ctx: Context) -> Any:
        return ctx.run(inside, {"a": a})["x"]

    @node(output="z")
    def outermost(a: int, ctx: Context) -> Any:
        return ctx.run(Graph([outer], name="outer"), {"a": a})["y"]

    engine = Engine(Graph([outermost]), store=store)
    handle = engine.start({"a": 1}, run_id="r")
    assert began.wait(60)
    child = next(row for row in store.rows(of="r"))
    with pytest.raises(RunStateError):
        engine.signal(child.run_id, "paid", 5)
    handle.signal("paid", 5)
    assert handle.result(60)["z"] == 5
    assert engine.replay("r").ok


def test_bad_signals_are_refused(store: Any) -> None:
    @node(output="x")
    def quick(a: int) -> int:
        return a

    engine = Engine(Graph([quick]), store=store)
    engine.run({"a": 1}, run_id="over")
    with pytest.raises(UnknownRunError):
        engine.signal("none", "paid")
    with pytest.raises(RunStateError):
        engine.signal("over", "paid")
    for name in ("", 3, "x" * 300, "a\0b"):
        with pytest.raises(InputError):
            engine.signal("over", name)
    with pytest.raises(InputError):
        engine.signal("over", "paid", id="")
    if store.encodes:
        with pytest.raises(EncodeError):
            engine.signal("over", "paid", object())
    assert engine.result("over").signals == ()


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "1"])
def test_a_bad_timeout_is_refused(timeout: Any) -> None:
    @node(output="x")
    def patient(a: int, ctx: Context) -> Any:
        return ctx.wait_for("paid", timeout=timeout)

    with pytest.raises(ValueError, match="wait_for"):
        Engine(Graph([patient])).run({"a": 1})


def test_a_run_that_is_not_stored_cannot_wait_for_a_signal() -> None:
    @node(output="x")
    def patient(a: int, ctx: Context) -> Any:
        return ctx.wait_for("paid")

    with pytest.raises(RunStateError):
        Graph([patient]).run(a=1)


def test_a_signal_survives_a_crash_before_and_after_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    taken: list[Any] = []

    class Crash(BaseException):
        pass

    crash = [True]

    @node(output="x")
    def take(a: int, ctx: Context) -> list[Any]:
        first = ctx.wait_for("paid")
        ctx.record("note", taken.append, first)
        second = ctx.wait_for("paid")
        if crash:
            crash.clear()
            raise Crash
        return [first, second]

    graph = Graph([take])
    with Engine(graph, store=SQLiteStore(path)) as engine:
        session = engine._execution.open_session({"a": 1}, "r")
        engine._execution._release(session)
        engine._execution.leave(session)
        engine.signal("r", "paid", 1)
        engine.signal("r", "paid", 2)
        engine.signal("r", "paid", 3)
        with pytest.raises(Crash):
            engine.resume("r")
    with Engine(graph, store=SQLiteStore(path)) as engine:
        result = engine.resume("r")
        assert result["x"] == [1, 2]
        assert taken == [1]
        assert [each.value for each in result.signals] == [3]
        assert [each.value for each in engine.result("r").signals] == [3]
        assert engine.replay("r").ok


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_run_that_has_ended_is_resumed_first_if_that_continues_it(status: str) -> None:
    @node(output="paid")
    def pay() -> bool:
        if status == "failed":
            raise ValueError
        return True

    engine = Engine(Graph([pay]), check=False)
    if status == "cancelled":
        engine.submit({}, run_id="r").cancel()
    else:
        engine.run({}, run_id="r")
    assert engine.result("r").status == status
    with pytest.raises(RunStateError) as refused:
        engine.signal("r", "paid")
    assert ("resume" in str(refused.value)) == (status != "completed")
