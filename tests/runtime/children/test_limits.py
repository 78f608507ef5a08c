"""Children and the limits of their run: slots, timeouts, cancellation, fencing, executors."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, RetryPolicy, Send, SQLiteStore, append, node, route
from clew.errors import NodeTimeoutError, RunCancelledError, RunOwnedError
from clew.stores import Store
from clew.testing import VirtualClock


class Running:
    """Counts how many of its calls run at the same time, and whether that are as many as expected."""

    def __init__(self, expected: int = 1) -> None:
        self.now = self.most = self.all = 0
        self._expected = expected
        self._lock = threading.Lock()

    @property
    def is_enough(self) -> bool:
        return self.most >= self._expected

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.all += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *exc_info: object) -> None:
        with self._lock:
            self.now -= 1


class Parts(TypedDict, total=False):
    n: int
    x: int
    parts: Annotated[list[int], append]


def wide(running: Running, *, is_async: bool) -> Graph:
    """Make a graph with a fan-out of three."""

    @route(targets=["part"])
    def spread(n: int) -> list[Send]:
        return [Send("part", {"x": i}) for i in range(3)]

    @node(output="parts")
    def part(x: int) -> int:
        with running:
            while not running.is_enough:
                threading.Event().wait(0.001)
            return x

    @node(name="part", output="parts")
    async def apart(x: int) -> int:
        with running:
            while not running.is_enough:
                await asyncio.sleep(0.001)
            return x

    return Graph([spread, apart if is_async else part], state=Parts)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_family_shares_its_slots(store: Store, most: int, is_async: bool) -> None:
    running = Running(most)
    graph = wide(running, is_async=is_async)

    @route(targets=["start"])
    def split(n: int) -> list[Send]:
        return [Send("start", {"x": i}) for i in range(6)]

    @node(output="parts")
    def start(x: int, ctx: Context) -> int:
        return sum(ctx.run(graph, {"n": x, "parts": []})["parts"])

    @node(name="start", output="parts")
    async def astart(x: int, ctx: Context) -> int:
        return sum((await ctx.run(graph, {"n": x, "parts": []}))["parts"])

    outer = Graph([split, astart if is_async else start], state=Parts)
    engine = Engine(outer, store=store, max_concurrent_nodes=most)
    assert engine.run({"n": 1, "parts": []})["parts"] == [3] * 6
    assert running.all == 18
    assert running.most == most


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_children_of_one_node_share_the_slots(store: Store, most: int, is_async: bool) -> None:
    running = Running(most)

    @node(output="y")
    def work(x: int) -> int:
        with running:
            while not running.is_enough:
                threading.Event().wait(0.001)
            return x

    @node(name="work", output="y")
    async def awork(x: int) -> int:
        with running:
            while not running.is_enough:
                await asyncio.sleep(0.001)
            return x

    graph = Graph([awork if is_async else work], name="one")

    @node(output="o")
    async def many(n: int, ctx: Context) -> int:
        results = await asyncio.gather(*(ctx.run(graph, {"x": x}) for x in range(n)))
        return sum(result["y"] for result in results)

    @node(name="many", output="o")
    def on_threads(n: int, ctx: Context) -> int:
        with ThreadPoolExecutor(n) as threads:
            contexts = [copy_context() for _ in range(n)]
            runs = [
                threads.submit(context.run, ctx.run, graph, {"x": x}, key=str(x))
                for x, context in enumerate(contexts)
            ]
            return sum(run.result()["y"] for run in runs)

    outer = Graph([many if is_async else on_threads])
    engine = Engine(outer, store=store, max_concurrent_nodes=most)
    assert engine.run({"n": 8})["o"] == 28
    assert running.all == 8
    assert running.most == most


def test_children_of_children_share_the_slots(store: Store) -> None:
    running = Running(2)

    @node(output="y")
    async def work(x: int) -> int:
        with running:
            while not running.is_enough:
                await asyncio.sleep(0.001)
            return x

    leaf = Graph([work], name="leaf")

    @node(output="z")
    async def inner(x: int, ctx: Context) -> int:
        return sum(
            result["y"] for result in await asyncio.gather(*(ctx.run(leaf, {"x": x}) for _ in range(3)))
        )

    middle = Graph([inner], name="middle")

    @node(output="o")
    async def outer(n: int, ctx: Context) -> int:
        return sum(
            result["z"] for result in await asyncio.gather(*(ctx.run(middle, {"x": 1}) for _ in range(n)))
        )

    engine = Engine(Graph([outer]), store=store, max_concurrent_nodes=2)
    assert engine.run({"n": 4})["o"] == 12
    assert running.most == 2


@pytest.mark.parametrize("ending", ["fails", "is cancelled"])
def test_a_child_that_waits_for_a_slot_is_left(store: Store, ending: str) -> None:
    started: list[int] = []

    @node(output="y")
    async def work(x: int) -> int:
        started.append(x)
        return int(await asyncio.Event().wait())

    leaf = Graph([work], name="leaf")

    async def end() -> None:
        while not started:
            await asyncio.sleep(0)
        if ending == "fails":
            raise ValueError
        engine.cancel("r")

    @node(output="o")
    async def outer(n: int, ctx: Context) -> int:
        return len(await asyncio.gather(end(), *(ctx.run(leaf, {"x": x}) for x in range(n))))

    engine = Engine(Graph([outer]), store=store, max_concurrent_nodes=1)
    status = engine.run({"n": 3}, run_id="r", check=False).status
    assert status == ("failed" if ending == "fails" else "cancelled")
    assert started == [0]
    assert len(store.rows(of="r")) == 1


def test_a_thread_pool_of_one_thread_is_enough(store: Store) -> None:
    running = Running()
    graph = wide(running, is_async=False)

    @node(output="y", timeout=300)
    def start(x: int, ctx: Context) -> int:
        return sum(ctx.run(graph, {"n": x, "parts": []})["parts"])

    with ThreadPoolExecutor(1) as pool:
        assert Engine(Graph([start]), store=store, executor=pool).run({"x": 1})["y"] == 3


# -- timeouts ------------------------------------------------------------------------------------------------------


@node(output="b")
def slow(a: float, ctx: Context) -> float:
    ctx.sleep(a)
    return a


@node(output="b")
async def aslow(a: float, ctx: Context) -> float:
    await ctx.sleep(a)
    return a


@node(output="y", timeout=1.0)
def timed(x: float, ctx: Context) -> float:
    return float(ctx.run(SLOW, {"a": x})["b"])


@node(name="timed", output="y", timeout=1.0)
async def atimed(x: float, ctx: Context) -> float:
    return float((await ctx.run(ASLOW, {"a": x}))["b"])


@node(output="y", timeout=1.0)
def own(x: float, ctx: Context) -> float:
    y = ctx.run(SLOW, {"a": x})["b"]
    ctx.sleep(4.0)
    return float(y)


@node(name="own", output="y", timeout=1.0)
async def aown(x: float, ctx: Context) -> float:
    y = (await ctx.run(ASLOW, {"a": x}))["b"]
    await ctx.sleep(4.0)
    return float(y)


@node(output="z")
def beside(x: float) -> float:
    return x


SLOW, ASLOW = Graph([slow]), Graph([aslow])


@pytest.mark.parametrize("nodes", [[timed], [atimed], [timed, beside], [atimed, beside]])
def test_the_time_of_a_child_does_not_count(nodes: list[Any]) -> None:
    assert Engine(Graph(nodes)).run({"x": 1.5})["y"] == 1.5


@pytest.mark.parametrize("nodes", [[own], [aown], [own, beside], [aown, beside]])
def test_the_own_time_of_the_node_counts(nodes: list[Any]) -> None:
    result = Engine(Graph(nodes)).run({"x": 0.5}, check=False)
    assert type(result.error) is NodeTimeoutError


def test_a_node_of_a_child_times_out(store: Store) -> None:
    @node(output="b", timeout=0.05)
    async def never(a: float) -> None:
        await asyncio.Event().wait()

    graph = Graph([never])

    @node(output="y", timeout=300)
    async def start(x: float, ctx: Context) -> str:
        try:
            await ctx.run(graph, {"a": x})
        except NodeTimeoutError:
            return "timed out"
        return ""

    assert Engine(Graph([start]), store=store).run({"x": 1})["y"] == "timed out"


def test_with_a_virtual_clock(store: Store) -> None:
    engine = Engine(Graph([timed, beside]), store=store, clock=VirtualClock())
    assert engine.run({"x": 3600.0})["y"] == 3600.0


# -- cancellation --------------------------------------------------------------------------------------------------


class Held:
    """A graph whose node waits until the test lets it go, and how often its nodes ran."""

    def __init__(self, *, is_async: bool) -> None:
        self.entered = threading.Event()
        self.ran: list[str] = []
        self.holds = True

        @node(output="b")
        def first(a: int) -> int:
            self.ran.append("first")
            return a

        @node(output="c")
        def second(b: int, ctx: Context) -> int:
            self.ran.append("second")
            self.entered.set()
            while self.holds and not ctx.cancelled:
                threading.Event().wait(0.001)
            if self.holds:
                raise RunCancelledError
            return b

        @node(name="second", output="c")
        async def asecond(b: int, ctx: Context) -> int:
            self.ran.append("second")
            self.entered.set()
            if self.holds:
                await asyncio.Event().wait()
            return b

        self.graph = Graph([first, asecond if is_async else second])

        @node(output="y")
        def start(x: int, ctx: Context) -> int:
            return int(ctx.run(self.graph, {"a": x})["c"])

        @node(name="start", output="y")
        async def astart(x: int, ctx: Context) -> int:
            return int((await ctx.run(self.graph, {"a": x}))["c"])

        self.outer = Graph([astart if is_async else start, beside])


@pytest.mark.parametrize("is_async", [False, True])
def test_cancelling_a_run_cancels_its_child(store: Store, is_async: bool) -> None:
    held = Held(is_async=is_async)
    engine = Engine(held.outer, store=store)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(engine.run({"x": 1}, run_id="r", check=False)))
    thread.start()
    assert held.entered.wait(60)
    assert engine.cancel("r")
    thread.join(60)
    assert [result.status for result in results] == ["cancelled"]
    _settled(store)
    held.holds = False
    assert engine.resume("r")["y"] == 1
    assert held.ran == ["first", "second", "second"]
    assert [row.status for row in store.rows(of="r")] == ["completed"]


def _settled(store: Store) -> None:
    """Wait until the abandoned thread has ended the child."""
    while store.rows(of="r")[0].status == "running":
        threading.Event().wait(0.001)
    assert store.rows(of="r")[0].status == "cancelled"


def test_cancelling_a_child_fails_its_run(store: Store) -> None:
    held = Held(is_async=False)
    engine = Engine(held.outer, store=store)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(engine.run({"x": 1}, run_id="r", check=False)))
    thread.start()
    assert held.entered.wait(60)
    assert engine.cancel(store.rows(of="r")[0].run_id)
    thread.join(60)
    assert [type(result.error) for result in results] == [RunCancelledError]
    held.holds = False
    assert engine.resume("r")["y"] == 1


async def _cancelled(engine: Engine, held: Held) -> None:
    task = asyncio.create_task(engine.arun({"x": 1}, run_id="r"))
    await asyncio.to_thread(held.entered.wait, 300)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_the_task_cancels_the_child(store: Store) -> None:
    held = Held(is_async=True)
    engine = Engine(held.outer, store=store)
    asyncio.run(_cancelled(engine, held))
    assert {row.status for row in store.rows()} == {"cancelled"}
    held.holds = False
    assert engine.resume("r")["y"] == 1
    assert held.ran == ["first", "second", "second"]


def test_an_interrupt_in_a_child(store: Store) -> None:
    left = [1]

    @node(output="b")
    def breaks(a: int) -> int:
        if left:
            left.pop()
            raise KeyboardInterrupt
        return a

    graph = Graph([breaks])

    @node(output="y")
    def start(x: int, ctx: Context) -> int:
        return int(ctx.run(graph, {"a": x})["b"])

    engine = Engine(Graph([start]), store=store)
    with pytest.raises(KeyboardInterrupt):
        engine.run({"x": 1}, run_id="r")
    assert {row.status for row in store.rows()} == {"cancelled"}
    assert Engine(Graph([start]), store=store).resume("r")["y"] == 1


# -- fencing -------------------------------------------------------------------------------------------------------


def test_who_takes_the_run_over_takes_its_child_over(tmp_path: Path) -> None:
    held = Held(is_async=False)
    one = Engine(held.outer, store=SQLiteStore(tmp_path / "runs.db"), lease=0.001)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            one.run({"x": 1}, run_id="r")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert held.entered.wait(60)
    one._execution.lease_renewer.remove(one._live["r"])
    threading.Event().wait(0.01)
    other = Engine(held.outer, store=SQLiteStore(tmp_path / "runs.db"))
    held.entered.clear()

    def resume() -> None:
        for _ in range(10_000):
            try:
                raised.append(AssertionError(other.resume("r").status))
                return
            except RunOwnedError:  # a last renewal of the lease was under way
                threading.Event().wait(0.01)

    second = threading.Thread(target=resume)
    second.start()
    assert held.entered.wait(60)  # the other process is in the child now
    held.holds = False
    thread.join(60)
    second.join(60)
    assert sorted(type(error).__name__ for error in raised) == ["AssertionError", "RunOwnedError"]
    assert {str(error) for error in raised if isinstance(error, AssertionError)} == {"completed"}
    assert isinstance(next(error for error in raised if not isinstance(error, AssertionError)), RunOwnedError)
    assert {row.status for row in other.runs(children=True)} == {"completed"}


# -- abandoned attempts --------------------------------------------------------------------------------------------


def test_a_child_of_an_abandoned_attempt_does_not_disturb_the_next(store: Store) -> None:
    entered, release = threading.Event(), threading.Event()
    ran: list[int] = []

    @node(output="c")
    def waits(a: int) -> int:
        ran.append(a)
        if len(ran) == 1:
            entered.set()
            release.wait(60)
        return a

    graph = Graph([waits])

    @node(output="y")
    def start(x: int, ctx: Context) -> int:
        return int(ctx.run(graph, {"a": x})["c"])

    @node(output="w")
    def also(x: int) -> int:
        return x

    retry = RetryPolicy(max_attempts=50, base_delay=0.001)  # a busy machine may need more than two
    sub = Graph([start, also]).as_node("sub", outputs=["y"], timeout=0.3, retry=retry)
    engine = Engine(Graph([sub, beside]), store=store)
    assert engine.run({"x": 1}, run_id="r")["y"] == 1
    release.set()
    assert len(ran) >= 2
