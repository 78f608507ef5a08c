"""Stopping runs: from outside, by cancelling the caller, by an interrupt from the keyboard."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, Send, SideEffectPolicy, SQLiteStore, node, route
from clew.stores import WouldWait

WITHIN = 300.0
"""How long a test waits for something that has to come."""


@route(targets=["work"])
def fan(n: int) -> list[Send]:
    return [Send("work", {"i": i}) for i in range(n)]


def in_thread(function: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    return thread, found


# -- engine.cancel


def test_cancel_stops_a_thousand_async_nodes_within_a_second() -> None:
    running, cancelled = threading.Semaphore(0), 0

    @node(output="last")
    async def work(i: int) -> None:
        nonlocal cancelled
        running.release()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    engine = Engine(Graph([fan, work]), max_concurrent_nodes=1000)
    thread, found = in_thread(lambda: engine.run({"n": 1000}, run_id="r", check=False))
    for _ in range(1000):
        assert running.acquire(timeout=WITHIN)
    began = time.process_time()
    assert engine.cancel("r") is True
    thread.join(WITHIN)
    assert time.process_time() - began < 1.0
    assert (found[0].status, cancelled) == ("cancelled", 1000)


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("timeout", [600.0, None])
def test_cancel_from_another_thread_stops_an_inline_async_node(context: bool, timeout: float | None) -> None:
    running = threading.Event()

    async def wait() -> None:
        running.set()
        await asyncio.sleep(3600)

    @node(output="x", name="x")
    async def plain(n: int) -> None:
        await wait()

    @node(output="x", name="x")
    async def with_context(n: int, ctx: Context) -> None:
        await wait()

    engine = Engine(Graph([with_context if context else plain]), default_node_timeout=timeout)
    thread, found = in_thread(lambda: engine.run({"n": 1}, run_id="r", check=False))
    assert running.wait(WITHIN)
    engine.cancel("r")
    engine.cancel("r")
    thread.join(WITHIN)
    assert found[0].status == "cancelled"


def test_cancel_from_another_task_does_not_cancel_the_caller() -> None:
    async def main() -> tuple[str, int]:
        running = asyncio.Event()

        @node(output="x")
        async def wait(n: int) -> None:
            running.set()
            await asyncio.sleep(3600)

        engine = Engine(Graph([wait]))

        async def cancel() -> None:
            await running.wait()
            engine.cancel("r")

        other = asyncio.create_task(cancel())
        result = await engine.arun({"n": 1}, run_id="r", check=False)
        await other
        task = asyncio.current_task()
        assert task is not None
        return result.status, task.cancelling()

    assert asyncio.run(main()) == ("cancelled", 0)


def test_a_sync_node_is_told_by_its_context() -> None:
    running = threading.Event()

    @node(output="x")
    def loop(n: int, ctx: Context) -> str:
        running.set()
        while not ctx.cancelled:
            pass
        return "stopped by itself"

    engine = Engine(Graph([loop, node(lambda x: x, name="after")]))
    thread, found = in_thread(lambda: engine.run({"n": 1}, run_id="r", check=False))
    assert running.wait(WITHIN)
    engine.cancel("r")
    thread.join(WITHIN)
    assert (found[0].status, "x" in found[0], "after" in found[0]) == ("cancelled", False, False)


def test_cancel_does_not_wait_for_stuck_threads() -> None:
    running, hold = threading.Barrier(3, timeout=WITHIN), threading.Event()

    def stuck(n: int) -> None:
        running.wait()
        hold.wait(2 * WITHIN)

    engine = Engine(Graph([node(stuck, name=name, output=name) for name in "xy"]))
    thread, found = in_thread(lambda: engine.run({"n": 1}, run_id="r", check=False))
    running.wait()
    engine.cancel("r")
    thread.join(WITHIN)
    alive = hold.is_set()
    hold.set()
    assert (found[0].status, alive) == ("cancelled", False)


def test_a_short_way_of_steps_stops_between_two_steps() -> None:
    engine: Engine

    @node(output="n")
    def up(n: int) -> int:
        if n == 3:
            engine.cancel("r")
        return n + 1

    @route(targets=["up"])
    def again(n: int) -> str:
        return "up"

    engine = Engine(Graph([up, again]))
    result = engine.run({"n": 0}, run_id="r", check=False)
    assert (result.status, result["n"]) == ("cancelled", 4)


def test_an_async_run_stops_between_two_steps() -> None:
    engine: Engine

    @node(output="n")
    async def up(n: int) -> int:
        if n == 3:
            engine.cancel("r")
        return n + 1

    @route(targets=["up"])
    def again(n: int) -> str:
        return "up"

    engine = Engine(Graph([up, again]))
    result = engine.run({"n": 0}, run_id="r", check=False)
    assert (result.status, result["n"]) == ("cancelled", 4)


def test_a_node_that_ends_its_run_by_cancelling_it_last_has_completed_it() -> None:
    engine: Engine

    @node(output="x")
    def last(n: int, ctx: Context) -> int:
        engine.cancel(ctx.run_id)
        return n

    engine = Engine(Graph([last]))
    assert engine.run({"n": 1}).status == "completed"


# -- the caller's task


@pytest.mark.parametrize("n", [1, 50])
def test_cancelling_the_caller_s_task_cancels_the_run_and_all_its_nodes(n: int) -> None:
    cancelled = 0

    async def main() -> tuple[Any, int]:
        running = asyncio.Semaphore(0)

        @node(output="last")
        async def work(i: int) -> None:
            nonlocal cancelled
            running.release()
            try:
                await asyncio.sleep(3600)
            finally:
                cancelled += 1

        engine = Engine(Graph([fan, work]), max_concurrent_nodes=50)
        task = asyncio.create_task(engine.arun({"n": n}, run_id="r"))
        for _ in range(n):
            await running.acquire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return engine.runs()[0].status, len(asyncio.all_tasks())

    assert asyncio.run(main()) == ("cancelled", 1)
    assert cancelled == n


def test_a_run_whose_caller_was_cancelled_is_resumed_without_lost_attempts() -> None:
    async def main() -> Any:
        running = asyncio.Semaphore(0)
        attempts: list[int] = []

        def work(name: str) -> Any:
            async def wait(n: int, ctx: Context) -> int:
                attempts.append(ctx.attempt)
                running.release()
                if len(attempts) <= 2:
                    await asyncio.sleep(3600)
                return ctx.attempt

            return node(wait, name=name, output=name, retry=2)

        engine = Engine(Graph([work("x"), work("y")]))
        task = asyncio.create_task(engine.arun({"n": 1}, run_id="r"))
        await running.acquire()
        await running.acquire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await engine.aresume("r")
        return attempts

    assert asyncio.run(main()) == [0, 0, 0, 0]


def test_a_timeout_around_a_run_belongs_to_the_caller() -> None:
    @node(output="x")
    async def slow(n: int) -> None:
        await asyncio.sleep(3600)

    async def main() -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Graph([slow]).arun(n=1)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(main()) == 0


def test_a_caller_that_cancels_while_a_node_times_out_is_cancelled() -> None:
    async def main() -> None:
        caller = asyncio.current_task()
        assert caller is not None

        @node(output="x")
        async def slow(n: int) -> None:
            try:
                await asyncio.sleep(3600)
            finally:  # while it cleans up, the caller is cancelled
                asyncio.get_running_loop().call_soon(caller.cancel)
                await asyncio.sleep(3600)

        with pytest.raises(asyncio.CancelledError):
            await Graph([slow]).arun({"n": 1}, default_node_timeout=0.5)
        assert caller.uncancel() == 0

    asyncio.run(main())


# -- the keyboard


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("context", [False, True])
def test_an_interrupt_from_the_keyboard_reaches_the_caller_and_the_run_goes_on_later(
    asynchronous: bool, context: bool
) -> None:
    calls: list[str] = []

    def interrupted() -> int:
        calls.append("second")
        if calls.count("second") == 1:
            raise KeyboardInterrupt
        return 2

    @node(output="x")
    def first(n: int) -> int:
        calls.append("first")
        return 1

    @node(output="y", name="second")
    def plain(x: int) -> int:
        return interrupted()

    @node(output="y", name="second")
    def with_context(x: int, ctx: Context) -> int:
        return interrupted()

    @node(output="y", name="second")
    async def aplain(x: int) -> int:
        return interrupted()

    @node(output="y", name="second")
    async def awith_context(x: int, ctx: Context) -> int:
        return interrupted()

    second = (awith_context if context else aplain) if asynchronous else (with_context if context else plain)
    engine = Engine(Graph([first, second]))
    with pytest.raises(KeyboardInterrupt):
        engine.run({"n": 1}, run_id="r")
    assert engine.runs()[0].status == "cancelled"
    assert engine.resume("r")["y"] == 2
    assert calls == ["first", "second", "second"]


def test_an_interrupt_from_the_keyboard_in_a_task_reaches_the_caller() -> None:
    async def interrupted(n: int) -> None:
        raise KeyboardInterrupt

    engine = Engine(Graph([node(interrupted, name=name, output=name) for name in "xy"]))
    with pytest.raises(KeyboardInterrupt):
        engine.run({"n": 1}, run_id="r")
    assert engine.runs()[0].status == "cancelled"


def test_nodes_on_threads_are_told_when_the_caller_leaves() -> None:
    told = threading.Event()

    @node(output="x")
    def loop(n: int, ctx: Context) -> None:
        ctx.emit("running")
        while not ctx.cancelled:
            pass
        told.set()

    stream = Engine(Graph([loop])).stream({"n": 1})
    assert any(event.kind == "emitted" for event in stream)
    stream.close()
    assert told.wait(WITHIN)


class Stop(BaseException):
    """Of a user's own: neither an Exception nor one that Python knows."""


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("where", ["inline", "beside", "timed"])
def test_what_is_no_exception_reaches_the_caller_wherever_the_node_runs(
    where: str, asynchronously: bool
) -> None:
    @node(output="x", timeout=60 if where == "timed" else None, retry=3)
    def stops(a: int) -> int:
        calls.append(1)
        raise Stop("now")

    @node(output="y")
    def beside(a: int) -> int:
        return a

    calls: list[int] = []
    engine = Engine(Graph([stops, beside] if where == "beside" else [stops]))

    def drive() -> None:
        if asynchronously:
            asyncio.run(engine.arun({"a": 1}, run_id="r"))
        else:
            engine.run({"a": 1}, run_id="r")

    with pytest.raises(Stop, match="now"):
        drive()
    assert (calls, [row.status for row in engine.runs()]) == ([1], ["cancelled"])


def test_a_node_that_notices_the_cancellation_does_not_fail_the_run(tmp_path: Path) -> None:
    engine: Engine

    @node(output="b", side_effects=SideEffectPolicy(recordable=True))
    async def call(a: int, ctx: Context) -> int:
        engine.cancel("r")
        return int(ctx.record("double", lambda: a * 2))

    engine = Engine(Graph([call]), store=SQLiteStore(tmp_path / "runs.db"))
    result = engine.run({"a": 1}, run_id="r", check=False)
    assert (result.status, result.failures) == ("cancelled", ())


@pytest.mark.parametrize("waits", [False, True])
def test_a_task_that_is_cancelled_after_the_engine_was_closed_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    def at_once(self: SQLiteStore) -> SQLiteStore:
        raise WouldWait

    if waits:
        monkeypatch.setattr(SQLiteStore, "at_once", at_once)

    async def main() -> None:
        began = asyncio.Event()

        @node(output="b")
        async def work(a: int) -> None:
            began.set()
            await asyncio.sleep(3600)

        engine = Engine(Graph([work]), store=SQLiteStore(tmp_path / "runs.db"))
        task = asyncio.ensure_future(engine.arun({"a": 1}))
        await began.wait()
        engine.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
