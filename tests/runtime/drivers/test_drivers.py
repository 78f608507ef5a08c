"""Where nodes run: inline, on threads, as tasks, on executors; and how many at once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, Send, node, route
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.testing import VirtualClock


def thread_of(name: str, **options: Any) -> Any:
    """A sync node that says on which thread it ran."""

    def where(a: int) -> int:
        return threading.get_ident()

    return node(where, name=name, output=name, **options)


def task_of(name: str, **options: Any) -> Any:
    """An async node that says in which task it ran."""

    async def where(a: int) -> Any:
        return asyncio.current_task()

    return node(where, name=name, output=name, **options)


def arun(graph: Graph, **options: Any) -> tuple[Any, Any]:
    """The result of `arun`, and the task that called it."""

    async def main() -> tuple[Any, Any]:
        return await graph.arun({"a": 1}, **options), asyncio.current_task()

    return asyncio.run(main())


# -- sync nodes


def test_a_sync_node_that_is_alone_runs_in_the_caller_s_thread() -> None:
    assert Graph([thread_of("x")]).run(a=1)["x"] == threading.get_ident()


def test_a_sync_node_that_is_alone_runs_in_the_loop_s_thread() -> None:
    result, _ = arun(Graph([thread_of("x"), task_of("y", after=["x"])]))
    assert result["x"] == threading.get_ident()


def test_a_sync_node_with_a_timeout_of_its_own_runs_on_another_thread() -> None:
    assert Graph([thread_of("x", timeout=60)]).run(a=1)["x"] != threading.get_ident()


def test_a_sync_node_with_a_timeout_of_its_own_runs_on_another_thread_under_asyncio() -> None:
    result, _ = arun(Graph([thread_of("x", timeout=60)]))
    assert result["x"] != threading.get_ident()


def test_what_comes_after_a_node_with_a_timeout_of_its_own_runs_inline_again() -> None:
    @node(output="y")
    def after(x: int) -> int:
        return threading.get_ident()

    assert Graph([thread_of("x", timeout=60), after]).run(a=1)["y"] == threading.get_ident()


@pytest.mark.parametrize("asynchronously", [False, True])
def test_sync_nodes_beside_each_other_run_at_the_same_time(asynchronously: bool) -> None:
    barrier = threading.Barrier(3, timeout=300)

    def meet(a: int) -> int:
        barrier.wait()
        return threading.get_ident()

    graph = Graph([node(meet, name=name, output=name) for name in "xyz"])
    result = arun(graph)[0] if asynchronously else graph.run(a=1)
    assert len({result[name] for name in "xyz"} | {threading.get_ident()}) == 4


@pytest.mark.parametrize("asynchronously", [False, True])
def test_with_one_worker_everything_runs_inline(asynchronously: bool) -> None:
    graph = Graph([thread_of("x"), thread_of("y")])
    if asynchronously:
        result, _ = arun(graph, max_concurrent_nodes=1)
    else:
        result = graph.run({"a": 1}, max_concurrent_nodes=1)
    assert {result["x"], result["y"]} == {threading.get_ident()}


def test_a_node_beside_a_waiting_retry_does_not_run_inline() -> None:
    @node(output="y")
    def after(x: int) -> int:
        return threading.get_ident()

    @node(output="z", retry=2)
    def flaky(a: int, ctx: Context) -> int:
        if ctx.attempt == 0:
            raise ValueError
        return 1

    graph = Graph([thread_of("x"), after, flaky])
    assert graph.run({"a": 1}, clock=VirtualClock())["z"] == 1


# -- async nodes


def test_an_async_node_that_is_alone_is_awaited_in_the_caller_s_task() -> None:
    result, caller = arun(Graph([task_of("x")]))
    assert result["x"] is caller


def test_an_async_node_with_a_context_is_awaited_in_the_caller_s_task() -> None:
    @node(output="x")
    async def where(a: int, ctx: Context) -> Any:
        return asyncio.current_task()

    result, caller = arun(Graph([where]))
    assert result["x"] is caller


def test_async_nodes_beside_each_other_run_at_the_same_time() -> None:
    async def meet(a: int, barrier: asyncio.Barrier) -> Any:
        await barrier.wait()
        return asyncio.current_task()

    async def main() -> set[Any]:
        graph = Graph([node(meet, name=name, output=name) for name in "xyz"]).bind(barrier=asyncio.Barrier(3))
        result = await graph.arun(a=1)
        return {result[name] for name in "xyz"} | {asyncio.current_task()}

    assert len(asyncio.run(main())) == 4


def test_async_nodes_run_under_the_loop_s_task_factory() -> None:
    made: list[str] = []

    def factory(loop: Any, coroutine: Any, **options: Any) -> Any:
        made.append("task")
        return asyncio.Task(coroutine, loop=loop, **options)

    async def main() -> list[str]:
        asyncio.get_running_loop().set_task_factory(factory)
        await Graph([task_of("x"), task_of("y")]).arun(a=1)
        return list(made)

    assert asyncio.run(main()) == ["task", "task"]


def test_run_starts_a_loop_for_async_nodes() -> None:
    result = Graph([task_of("x"), thread_of("y", after=["x"])]).run(a=1)
    assert result["y"] == threading.get_ident()


def test_sync_and_async_nodes_of_one_step_meet() -> None:
    async def main() -> tuple[int, int]:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        answered = threading.Event()

        @node(output="x")
        def on_a_thread(a: int) -> int:
            loop.call_soon_threadsafe(arrived.set)
            assert answered.wait(300)
            return 1

        @node(output="y")
        async def on_the_loop(a: int) -> int:
            await arrived.wait()
            answered.set()
            return 2

        result = await Graph([on_a_thread, on_the_loop]).arun(a=1)
        return result["x"], result["y"]

    assert asyncio.run(main()) == (1, 2)


def test_an_async_node_inside_a_subgraph_makes_run_use_a_loop() -> None:
    inner = Graph([task_of("x")], name="inner")
    assert Graph([inner.as_node()]).run(a=1).status == "completed"


# -- generators


def test_chunks_are_the_output_of_a_generator() -> None:
    @node(output="x")
    def chunks(a: int) -> Iterator[int]:
        yield a
        yield a + 1

    assert Graph([chunks]).run(a=1)["x"] == [1, 2]


def test_what_a_generator_returns_is_its_output() -> None:
    @node(output="x")
    def chunks(a: int) -> Any:
        yield a
        return "all"

    assert Graph([chunks]).run(a=1)["x"] == "all"


def test_chunks_are_the_output_of_an_async_generator() -> None:
    @node(output="x")
    async def chunks(a: int) -> AsyncIterator[int]:
        yield a
        yield a + 1

    assert Graph([chunks]).run(a=1)["x"] == [1, 2]


# -- context variables


SPOKEN: contextvars.ContextVar[str] = contextvars.ContextVar("SPOKEN", default="nothing")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_context_variables_reach_nodes(kind: str, count: int) -> None:
    def sync(a: int) -> str:
        return SPOKEN.get()

    async def asynchronous(a: int) -> str:
        return SPOKEN.get()

    function = sync if kind == "sync" else asynchronous
    graph = Graph([node(function, name=name, output=name) for name in "xy"[:count]])
    token = SPOKEN.set("word")
    try:
        assert graph.run(a=1)["x"] == "word"
    finally:
        SPOKEN.reset(token)


# -- how many at once


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_more_than_max_concurrent_nodes_run_at_once(kind: str, most: int) -> None:
    running, peak = 0, 0
    lock = threading.Lock()
    full = threading.Barrier(most, timeout=300)  # proves that so many do run at once

    @route(targets=["work"])
    def fan(a: int) -> list[Send]:
        return [Send("work", {"n": n}) for n in range(12)]

    def enter() -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)

    def leave() -> None:
        nonlocal running
        with lock:
            running -= 1

    @node(output="last", name="work")
    def work(n: int) -> int:
        enter()
        full.wait()
        for _ in range(100):
            time.sleep(0)  # more could start now, if more were allowed
        leave()
        return n

    @node(output="last", name="work")
    async def awork(n: int) -> int:
        enter()
        for _ in range(3):
            await asyncio.sleep(0)
        leave()
        return n

    graph = Graph([fan, work if kind == "sync" else awork])
    graph.run({"a": 1}, max_concurrent_nodes=most, on_conflict="last")
    assert peak == most


def test_a_slow_node_beside_three_quick_ones_in_a_row_takes_its_own_time() -> None:
    def sleeping(name: str, reads: str, seconds: float) -> Any:
        async def sleep(value: int, ctx: Context) -> int:
            await ctx.sleep(seconds)
            return value + 1

        return node(sleep, name=name, output=name).rename(inputs={"value": reads})

    graph = Graph(
        [sleeping("slow", "a", 24), sleeping("q1", "a", 8), sleeping("q2", "q1", 8), sleeping("q3", "q2", 8)]
    )
    clock = VirtualClock()
    result = graph.run({"a": 0}, clock=clock)
    assert (result["slow"], result["q3"], clock.monotonic()) == (1, 3, 24)


# -- executors


@pytest.mark.parametrize("asynchronously", [False, True])
def test_nodes_run_on_a_thread_pool_of_one_s_own(asynchronously: bool) -> None:
    def name_of_thread(a: int) -> str:
        return threading.current_thread().name

    graph = Graph([node(name_of_thread, name=name, output=name) for name in "xy"])
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as executor:
        if asynchronously:
            result, _ = arun(graph, executor=executor)
        else:
            result = graph.run({"a": 1}, executor=executor)
    assert result["x"].startswith("mine")
    assert result["y"].startswith("mine")


def test_an_executor_that_cancels_what_it_was_given_ends_the_wait() -> None:
    class Refusing(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    result = Graph([thread_of("x"), thread_of("y")]).run({"a": 1}, executor=Refusing(), check=False)
    assert "node 'x' at x#0 was cancelled by its executor" in str(result.error)


# -- the threads themselves


def test_threads_are_used_again() -> None:
    threads, seen = DaemonThreadPool(), set()
    for _ in range(1_000):
        ident = threads.submit(threading.get_ident).result()
        if ident in seen:
            break
        seen.add(ident)  # it was not idle yet: that takes a moment after its result
    else:
        pytest.fail("1,000 calls, one after the other, each on a new thread")
    threads.shutdown()


def test_threads_that_were_shut_down_take_no_more() -> None:
    threads = DaemonThreadPool()
    threads.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(int)


def test_a_future_that_was_cancelled_is_not_run() -> None:
    class Slow(DaemonThreadPool):
        """Cancels each future before a thread gets to it."""

        def _serve(self) -> None:
            assert cancelled.wait(300)
            super()._serve()

    cancelled, ran = threading.Event(), []
    threads = Slow()
    future = threads.submit(ran.append, 1)
    assert future.cancel()
    cancelled.set()
    threads.submit(int).result()
    assert ran == []
    threads.shutdown()


def test_a_node_does_not_run_inline_while_a_retry_is_due() -> None:
    """Inline it would keep the retry waiting: here for ever, since it waits for the second attempt."""
    again = threading.Event()

    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=0.01))
    def fails_once(a: int, ctx: Context) -> int:
        if ctx.attempt == 0:
            raise OSError("down")
        again.set()
        return a

    @node(output="y")
    def beside(a: int) -> int:
        while engine.scheduler_state("r").metrics.total_retries == 0:
            time.sleep(0)
        return a

    @node(output="z")
    def alone(y: int) -> bool:
        return again.wait(60)

    engine = Engine(Graph([fails_once, beside, alone]))
    assert engine.run({"a": 1}, run_id="r")["z"] is True
