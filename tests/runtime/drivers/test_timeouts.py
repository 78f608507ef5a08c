"""Attempts that take too long: they fail on time, and what they still do changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, node
from clew.errors import NodeError, NodeTimeoutError, RunCancelledError
from clew.runtime.drivers.dispatch import submit
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.state import position_of
from clew.testing import VirtualClock

SOON = 0.02
"""A timeout that is over soon, perhaps before the node has begun."""
BEGUN = 1.0
"""A timeout before which the node has begun, also on a busy machine."""
GENEROUS = 120.0
"""Far more than anything here takes, and far less than what is cut short."""
AT_ONCE = RetryPolicy(max_attempts=2, base_delay=1e-9)
OFTEN = RetryPolicy(max_attempts=50, base_delay=1e-9)
"""Also an attempt that should be in time may be late on a busy machine."""


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Stuck nodes wait for this; it is set at the end, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


def drive(graph: Graph, asynchronously: bool, **options: Any) -> Any:
    if asynchronously:
        return asyncio.run(graph.arun({"a": 1}, **options, check=False))
    return graph.run({"a": 1}, **options, check=False)


def test_a_timeout_is_a_timeout_error_of_python(hold: threading.Event) -> None:
    """So a policy can name it, and a node that runs a child can catch it, without a class of Clew."""

    @node(output="x", timeout=SOON, retry=RetryPolicy(max_attempts=2, base_delay=0, retry_on=(TimeoutError,)))
    def stuck(a: int) -> None:
        hold.wait(600)

    result = Graph([stuck]).run({"a": 1}, check=False)
    assert isinstance(result.error, TimeoutError)
    assert result.failures[0].attempts == 2


# -- sync nodes


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_stuck_sync_node_fails_its_run_on_time(hold: threading.Event, asynchronously: bool) -> None:
    @node(output="x", timeout=SOON)
    def stuck(a: int) -> None:
        hold.wait(600)

    began = time.monotonic()
    result = drive(Graph([stuck]), asynchronously)
    assert time.monotonic() - began < GENEROUS
    assert isinstance(result.error, NodeTimeoutError)
    assert "node 'stuck' at stuck#0 did not finish within 0.02 s" in str(result.error)


@pytest.mark.parametrize("asynchronously", [False, True])
def test_the_default_timeout_holds_for_nodes_on_threads(hold: threading.Event, asynchronously: bool) -> None:
    @node(output="x")
    def stuck(a: int) -> None:
        hold.wait(600)

    @node(output="y")
    def quick(a: int) -> int:
        return a

    result = drive(Graph([stuck, quick]), asynchronously, default_node_timeout=SOON)
    assert isinstance(result.error, NodeTimeoutError)


def test_a_timeout_of_its_own_goes_before_the_default(hold: threading.Event) -> None:
    @node(output="x", timeout=600)
    def patient(a: int) -> int:
        assert hold.wait(300)
        return a

    @node(output="y")
    def stuck(a: int, ctx: Context) -> int:
        while not ctx.cancelled:
            pass
        hold.set()
        return a

    result = Graph([patient, stuck]).run({"a": 1}, default_node_timeout=BEGUN, check=False)
    assert (result.error.__class__, result.provisional) == (NodeTimeoutError, {"x": 1})


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_late_result_changes_nothing(asynchronously: bool) -> None:
    late, over = threading.Event(), threading.Event()

    @node(output="x", timeout=BEGUN)
    def slow(a: int, ctx: Context) -> str:
        while not ctx.cancelled:
            pass
        late.set()
        return "late"

    @node(output="y")
    def beside(a: int) -> int:
        assert late.wait(300)
        return a

    engine = Engine(Graph([slow, beside]))
    result = (
        asyncio.run(engine.arun({"a": 1}, run_id="r", check=False))
        if asynchronously
        else engine.run({"a": 1}, run_id="r", check=False)
    )
    over.set()
    assert (result.status, result.provisional, "x" in engine.state("r").values) == ("failed", {"y": 1}, False)


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_late_first_attempt_does_not_count_as_the_second(asynchronously: bool, fails: bool) -> None:
    first_returned = threading.Event()
    second_runs = threading.Event()

    @node(output="x", timeout=BEGUN, retry=OFTEN)
    def slow(a: int, ctx: Context) -> str:
        if ctx.attempt == 0:
            assert second_runs.wait(300)
            first_returned.set()
            if fails:
                raise ValueError("first, late")
            return "first, late"
        second_runs.set()
        assert first_returned.wait(300)
        for _ in range(100):  # the result of the first is on its way to the driver meanwhile
            time.sleep(0)
        return "second"

    assert drive(Graph([slow]), asynchronously)["x"] == "second"


def test_a_stuck_node_does_not_take_a_worker(hold: threading.Event) -> None:
    @node(output="x", timeout=SOON, retry=OFTEN)
    def stuck(a: int, ctx: Context) -> int:
        if ctx.attempt < 2:
            hold.wait(600)
        return ctx.attempt

    assert Graph([stuck]).run({"a": 1}, max_concurrent_nodes=1)["x"] >= 2


# -- async nodes


def async_graph(beside: bool, function: Any, **options: Any) -> Graph:
    """A graph of one async node, alone (awaited inline) or beside another one (a task)."""

    async def other(a: int) -> int:
        return a

    nodes = [node(function, name="x", output="x", **options)]
    return Graph([*nodes, node(other, name="y", output="y")] if beside else nodes)


def outcome(graph: Graph, **options: Any) -> tuple[Any, int]:
    """The result, and whether cancellation leaked into the caller's task, which must be able to go on."""

    async def main() -> tuple[Any, int]:
        result = await graph.arun({"a": 1}, **options, check=False)
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return result, task.cancelling()

    return asyncio.run(main())


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("options", [{"timeout": 10 * SOON}, {}], ids=["own", "default"])
def test_an_async_node_is_cancelled_at_its_timeout(beside: bool, options: dict[str, Any]) -> None:
    seen: list[str] = []

    async def slow(a: int) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    result, cancelling = outcome(async_graph(beside, slow, **options), default_node_timeout=10 * SOON)
    assert (type(result.error), seen, cancelling) == (NodeTimeoutError, ["cancelled"], 0)


@pytest.mark.parametrize("beside", [False, True])
def test_an_async_node_is_cancelled_at_each_of_its_timeouts(beside: bool) -> None:
    seen: list[int] = []

    async def slow(a: int, ctx: Context) -> int:
        if len(seen) < 3:
            try:
                await asyncio.sleep(600)
            finally:
                seen.append(ctx.attempt)
        return ctx.attempt

    result, cancelling = outcome(async_graph(beside, slow, timeout=SOON, retry=OFTEN))
    assert (seen, cancelling) == (sorted(set(seen)), 0)
    assert result["x"] > seen[2]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("options", [{"timeout": SOON}, {}], ids=["own", "default"])
def test_a_node_that_swallows_its_cancellation_has_failed_all_the_same(
    beside: bool, options: dict[str, Any]
) -> None:
    async def stubborn(a: int) -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            return "late"
        return "never"

    result, cancelling = outcome(async_graph(beside, stubborn, **options), default_node_timeout=SOON)
    assert (type(result.error), "x" in result, cancelling) == (NodeTimeoutError, False, 0)


@pytest.mark.parametrize("beside", [False, True])
def test_a_node_that_raises_something_else_when_cancelled_has_timed_out(beside: bool) -> None:
    async def clumsy(a: int) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            raise ValueError("in the cleanup") from None

    result, cancelling = outcome(async_graph(beside, clumsy), default_node_timeout=SOON)
    assert (type(result.error), cancelling) == (NodeTimeoutError, 0)


def test_what_comes_after_a_timeout_has_a_timeout_again() -> None:
    async def slow(a: int) -> None:
        await asyncio.sleep(600)

    graph = async_graph(False, slow, timeout=SOON)

    async def main() -> list[str]:
        first, second = await graph.arun({"a": 1}, check=False), await graph.arun({"a": 1}, check=False)
        return [first.status, second.status]

    assert asyncio.run(main()) == ["failed", "failed"]


def test_a_short_timeout_after_a_long_one_is_on_time() -> None:
    @node(output="x", timeout=600)
    async def patient(a: int) -> int:
        return a

    @node(output="y")
    async def slow(x: int) -> None:
        await asyncio.sleep(600)

    began = time.monotonic()
    result = Graph([patient, slow]).run({"a": 1}, default_node_timeout=SOON, check=False)
    assert isinstance(result.error, NodeTimeoutError)
    assert time.monotonic() - began < GENEROUS


def test_an_alarm_that_rings_early_is_set_again() -> None:
    @node(output="x")
    async def quick(a: int) -> int:
        await asyncio.sleep(0.05)
        return a

    @node(output="y")
    async def until_cancelled(x: int) -> None:
        await asyncio.sleep(600)

    # the alarm was set for the first node; it rings while the second one, which has started later, is under way
    result = Graph([quick, until_cancelled]).run({"a": 1}, default_node_timeout=0.1, check=False)
    assert isinstance(result.error, NodeTimeoutError)


@pytest.mark.parametrize("beside", [False, True])
def test_without_a_timeout_nodes_take_their_time(beside: bool) -> None:
    async def slow(a: int) -> int:
        for _ in range(3):
            await asyncio.sleep(0)
        return a

    assert outcome(async_graph(beside, slow), default_node_timeout=None)[0]["x"] == 1


@pytest.mark.parametrize("beside", [False, True])
def test_a_node_with_a_context_takes_its_time_without_a_timeout(beside: bool) -> None:
    async def slow(a: int, ctx: Context) -> int:
        await ctx.sleep(0)
        return a

    assert outcome(async_graph(beside, slow), default_node_timeout=None)[0]["x"] == 1


@pytest.mark.parametrize("beside", [False, True])
def test_a_timeout_error_of_the_node_s_own_is_its_failure(beside: bool) -> None:
    async def impatient(a: int) -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(600)

    result, cancelling = outcome(async_graph(beside, impatient))
    assert (type(result.error), cancelling) == (TimeoutError, 0)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("context", [False, True])
def test_a_cancellation_of_the_node_s_own_is_its_failure(beside: bool, context: bool) -> None:
    async def plain(a: int) -> None:
        raise asyncio.CancelledError

    async def with_context(a: int, ctx: Context) -> None:
        raise asyncio.CancelledError

    result, cancelling = outcome(async_graph(beside, with_context if context else plain))
    assert (type(result.error), cancelling) == (NodeError, 0)
    assert "node 'x' at x#0 raised CancelledError" in str(result.error)
    assert isinstance(result.error.__cause__, asyncio.CancelledError)


def test_a_late_first_attempt_of_a_task_does_not_end_the_second() -> None:
    async def main() -> Any:
        second_runs, first_returned = asyncio.Event(), asyncio.Event()

        @node(output="x", timeout=0.5, retry=OFTEN)
        async def slow(a: int, ctx: Context) -> str:
            if ctx.attempt == 0:
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    await second_runs.wait()
                for _ in range(5):  # until `beside` has ended, and only the second attempt is left
                    await asyncio.sleep(0)
                first_returned.set()
                return "first, late"
            second_runs.set()
            await first_returned.wait()
            for _ in range(5):
                await asyncio.sleep(0)
            return "second"

        @node(output="y")
        async def beside(a: int) -> None:
            await second_runs.wait()

        return (await Graph([slow, beside]).arun(a=1))["x"]

    assert asyncio.run(main()) == "second"


def test_a_deadline_of_an_attempt_that_is_over_does_not_count() -> None:
    done = threading.Event()

    @node(output="x", timeout=50)
    def quick(a: int) -> int:
        return a

    @node(output="y")
    def after(x: int) -> int:
        done.set()
        return x

    @node(output="z", timeout=60)
    def patient(a: int) -> int:
        assert done.wait(300)
        return a

    assert Graph([quick, after, patient]).run(a=1).status == "completed"


def test_nodes_on_threads_may_have_no_timeout_at_all() -> None:
    nodes = [node(lambda a: a, name=name, output=name) for name in "xy"]
    assert Graph(nodes).run({"a": 1}, default_node_timeout=None).status == "completed"


def test_a_late_node_tells_nobody() -> None:
    over, told = threading.Event(), threading.Event()

    @node(output="x", timeout=BEGUN)
    def stuck(a: int, ctx: Context) -> None:
        assert over.wait(300)
        ctx.emit("late")
        told.set()

    heard: list[str] = []
    Engine(Graph([stuck]), listeners=[lambda event: heard.append(event.kind)]).run({"a": 1}, check=False)
    over.set()
    assert told.wait(300)
    assert "emitted" not in heard


# -- on a virtual clock


def test_a_timeout_passes_at_once_on_a_virtual_clock() -> None:
    @node(output="x", timeout=4)
    async def slow(a: int, ctx: Context) -> None:
        await ctx.sleep(5)

    clock = VirtualClock()
    result = Graph([slow]).run({"a": 1}, clock=clock, check=False)
    assert (type(result.error), clock.monotonic()) == (NodeTimeoutError, 4)


def test_after_a_sleeper_was_cancelled_time_does_not_run_ahead() -> None:
    @node(output="x", timeout=4, retry=AT_ONCE)
    async def slow(a: int, ctx: Context) -> int:
        await ctx.sleep(2 if ctx.attempt else 5)
        return ctx.attempt

    clock = VirtualClock()
    assert (Graph([slow]).run({"a": 1}, clock=clock)["x"], round(clock.monotonic())) == (1, 6)


def test_a_sleeper_that_was_cancelled_does_not_count_as_asleep() -> None:
    def napping(name: str, seconds: float, turns: int = 0, **options: Any) -> Any:
        async def nap(a: int, ctx: Context) -> float:
            await ctx.sleep(seconds)
            for _ in range(turns):
                await asyncio.sleep(0)
            return ctx.now().timestamp()

        return node(nap, name=name, output=name, **options)

    # at 1 s x is cancelled and y is busy; z sleeps on, so time must not go on to where z wakes up
    nodes = [napping("x", 5, timeout=1), napping("y", 1, turns=20), napping("z", 2)]
    assert Graph(nodes).run({"a": 1}, clock=VirtualClock(0.0), check=False).provisional == {"y": 1, "z": 2}


def test_time_stands_still_while_nodes_do_not_sleep() -> None:
    @node(output="x")
    async def quick(a: int) -> int:
        for _ in range(100):
            await asyncio.sleep(0)
        return a

    clock = VirtualClock()
    assert (Graph([quick]).run({"a": 1}, clock=clock)["x"], clock.monotonic()) == (1, 0)


def test_time_stands_still_for_nodes_on_threads() -> None:
    @node(output="x", timeout=5)
    def on_a_thread(a: int) -> int:
        return a

    clock = VirtualClock()
    assert (
        asyncio.run(Graph([on_a_thread]).arun({"a": 1}, clock=clock, check=False))["x"],
        clock.monotonic(),
    ) == (1, 0)


def test_a_node_that_sleeps_exactly_its_timeout_has_timed_out() -> None:
    @node(output="x", timeout=3)
    async def slow(a: int, ctx: Context) -> None:
        await ctx.sleep(3)

    assert isinstance(Graph([slow]).run({"a": 1}, clock=VirtualClock(), check=False).error, NodeTimeoutError)


# -- executors with a queue


@pytest.mark.parametrize(
    "asynchronously, given", [(False, {}), (False, {"timeout": 1.8}), (True, {"timeout": 1.8})]
)
def test_waiting_for_an_executor_is_not_time_of_the_node(
    asynchronously: bool, given: dict[str, float]
) -> None:
    """One thread, twenty nodes of 0.1 s, each of which has 1.8 s: only together they take longer."""

    def slow(name: str) -> Any:
        return node(lambda a: time.sleep(0.1) or a, name=name, output=name, **given)

    with ThreadPoolExecutor(1) as one:
        graph = Graph([slow(f"x{number}") for number in range(20)])
        result = drive(graph, asynchronously, executor=one, default_node_timeout=1.8)
    assert (result.status, set(result.values.values())) == ("completed", {1})


@pytest.mark.parametrize("asynchronously", [False, True])
def test_the_time_of_a_node_counts_from_its_start(hold: threading.Event, asynchronously: bool) -> None:
    started: list[float] = []

    @node(output="x")
    def first(a: int) -> None:
        time.sleep(0.6)

    @node(output="y", timeout=0.3)
    def stuck(a: int) -> None:
        started.append(time.monotonic())
        hold.wait(600)

    with ThreadPoolExecutor(1) as one:
        result = drive(Graph([first, stuck]), asynchronously, executor=one)
        took = time.monotonic() - started[0]
        hold.set()
    assert (type(result.error), result.provisional) == (NodeTimeoutError, {"x": None})
    assert 0.1 <= took < GENEROUS  # a moment may pass until `started` is set


@pytest.mark.parametrize("asynchronously", [False, True])
def test_what_waits_for_a_worker_that_is_stuck_does_not_wait_for_ever(
    hold: threading.Event, asynchronously: bool
) -> None:
    calls: list[str] = []

    @node(output="x", timeout=0.1)
    def stuck(a: int) -> None:
        calls.append("stuck")
        hold.wait(600)

    @node(output="y", timeout=0.3)
    def behind(a: int) -> None:
        calls.append("behind")

    with ThreadPoolExecutor(1) as one:
        result = drive(Graph([stuck, behind]), asynchronously, executor=one, on_error="continue")
        hold.set()
    assert (calls, position_of(result.state).failed) == (["stuck"], {"stuck", "behind"})
    assert [type(failure.error) for failure in result.failures] == [NodeTimeoutError] * 2


def test_what_waits_for_a_worker_that_was_stuck_and_came_back_has_its_time() -> None:
    late = threading.Event()

    @node(output="x", timeout=0.1)
    def slow(a: int, ctx: Context) -> None:
        while not ctx.cancelled:
            pass
        late.set()

    @node(output="y", timeout=GENEROUS)
    def behind(a: int) -> int:
        assert late.is_set()
        return a

    with ThreadPoolExecutor(1) as one:
        result = Graph([slow, behind]).run({"a": 1}, executor=one, on_error="continue")
    assert (result["y"], position_of(result.state).failed) == (1, {"slow"})


def test_an_executor_that_tells_no_start_is_given_its_time_from_the_beginning() -> None:
    class Silent(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            return Future()

    @node(output="x", timeout=SOON)
    def never(a: int) -> None: ...

    assert isinstance(Graph([never]).run({"a": 1}, executor=Silent(), check=False).error, NodeTimeoutError)


def test_what_waits_for_an_executor_when_its_subgraph_times_out_is_never_called(
    hold: threading.Event,
) -> None:
    calls: list[str] = []

    @node(output="x")
    def stuck(a: int) -> None:
        calls.append("stuck")
        hold.wait(600)

    @node(output="y")
    def queued(a: int) -> None:
        calls.append("queued")

    inner = Graph([stuck, queued], name="inner")
    with ThreadPoolExecutor(1) as one:
        result = Graph([inner.as_node(timeout=1.0)]).run({"a": 1}, executor=one, check=False)
        hold.set()
    assert (type(result.error), calls) == (NodeTimeoutError, ["stuck"])


# -- a virtual clock, and sync nodes that sleep


def sleeper(name: str, seconds: float, **options: Any) -> Any:
    def sleeps(a: int, ctx: Context) -> int:
        ctx.sleep(seconds)
        return a

    return node(sleeps, name=name, output=name, **options)


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_sync_sleep_beyond_the_timeout_is_cut_short(asynchronously: bool) -> None:
    clock = VirtualClock()
    result = drive(Graph([sleeper("x", 5, timeout=3)]), asynchronously, clock=clock)
    assert (type(result.error), clock.monotonic()) == (NodeTimeoutError, 3)


@pytest.mark.parametrize("asynchronously", [False, True])
def test_sync_sleeps_beside_each_other_overlap(asynchronously: bool) -> None:
    clock = VirtualClock()
    graph = Graph([sleeper("x", 5), sleeper("y", 2), sleeper("z", 3)])
    result = drive(graph, asynchronously, clock=clock)
    assert (result.status, clock.monotonic()) == ("completed", 5)


@pytest.mark.parametrize("asynchronously", [False, True])
def test_what_sleeps_on_after_its_timeout_moves_no_time(asynchronously: bool) -> None:
    clock, first_is_over = VirtualClock(), threading.Event()

    @node(output="x", timeout=3, retry=AT_ONCE)
    def sleeps(a: int, ctx: Context) -> int:
        if ctx.attempt == 0:
            ctx.sleep(4)
            ctx.sleep(5)
            first_is_over.set()
        else:
            assert first_is_over.wait(300)
            ctx.sleep(2)
        return ctx.attempt

    result = drive(Graph([sleeps]), asynchronously, clock=clock)
    assert (result["x"], clock.monotonic()) == (1, pytest.approx(5))


def test_cancelling_wakes_what_sleeps() -> None:
    over = threading.Event()

    @node(output="x", timeout=50)
    def sleeps(a: int, ctx: Context) -> None:
        try:
            engine.cancel("r")
            ctx.sleep(10)
            ctx.sleep(10)
        finally:
            over.set()

    engine = Engine(Graph([sleeps]), clock=VirtualClock())
    assert engine.run({"a": 1}, run_id="r", check=False).status == "cancelled"
    assert over.wait(300)


def test_a_thread_that_begins_after_its_attempt_was_over_executes_nothing() -> None:
    """It would have taken itself for the next attempt, which is under way beside it."""
    seen: list[int] = []

    @node(output="b", retry=AT_ONCE)
    def work(a: int, ctx: Context) -> int:
        seen.append(ctx.attempt)
        return a

    class Late(DaemonThreadPool):
        begins: Callable[[], Any]

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.begins = lambda: fn(*args, **kwargs)
            return Future()

    threads = Late()
    session = Engine(Graph([work]))._execution.open_session({"a": 1}, None)
    item = session.take()
    assert item is not None
    submit(session, item, threads, lambda: threads)
    session.machine.expire(item, NodeTimeoutError("it takes too long"), 0.0, 0.0)
    session.flush()
    assert item.attempt == 1
    with pytest.raises(RunCancelledError, match="attempt 0 ended before its thread started"):
        threads.begins()
    assert seen == []
