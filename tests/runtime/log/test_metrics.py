"""What is counted over the lifetime of a run, and what the scheduler says while it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

from clew import Context, Engine, Graph, RetryPolicy, Send, SQLiteStore, append, interrupt, node, route
from clew.runtime.settings import Settings
from clew.stores import MemoryStore, Store
from clew.testing import VirtualClock
from tests.runtime.killed import as_if_killed
from tests.store_fixtures import local_store

store = local_store


def counts(metrics: Any) -> dict[str, Any]:
    """Metrics without the time."""
    plain: dict[str, Any] = msgspec.to_builtins(metrics)
    return {name: value for name, value in plain.items() if name != "avg_step_latency_ms"}


class Found(TypedDict, total=False):
    items: list[int]
    found: Annotated[list[int], append]
    answer: str
    end: str


@route(targets=["work"])
def scatter(items: list[int]) -> list[Send]:
    return [Send("work", {"item": item}) for item in items]


@node(output="found", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
def work(item: int, ctx: Context) -> int:
    if item == 1 and ctx.attempt == 0:
        raise OSError("once")
    return item


@interrupt(output="answer")
def ask(found: list[int]) -> str:
    return "fine?"


@node(output="end")
def end(answer: str) -> str:
    return answer


FAN = Graph([scatter, work], state=Found)
ASKS = Graph([scatter, work, ask, end], state=Found)
ITEMS = {"items": [1, 2, 3, 4]}


def test_a_finished_run_has_the_metrics_that_its_result_had(store: Store) -> None:
    engine = Engine(FAN, store=store, queue_depth=2)
    live = engine.run(ITEMS, run_id="r").metrics
    assert (live.total_steps, live.total_nodes_executed, live.total_retries) == (2, 6, 1)
    assert live.total_backpressure_blocks > 0
    assert engine.result("r").metrics == engine.resume("r").metrics
    assert counts(engine.result("r").metrics) == counts(live)


def test_a_run_without_backpressure_is_read_off_its_log(store: Store) -> None:
    engine = Engine(FAN, store=store)
    live = engine.run(ITEMS, run_id="r").metrics
    assert counts(engine.result("r").metrics) == counts(live)
    assert engine.result("r").metrics.avg_step_latency_ms > 0


@pytest.mark.parametrize("verb", ["stream", "astream"])
def test_metrics_are_complete_after_a_stream(store: Store, verb: str) -> None:
    engine = Engine(FAN, store=store, queue_depth=2)

    async def streamed() -> list[Any]:
        return [event async for event in engine.astream(ITEMS, run_id="r")]

    events = asyncio.run(streamed()) if verb == "astream" else list(engine.stream(ITEMS, run_id="r"))
    reported = events[-1].metrics
    assert events[-1].kind == "run_finished"
    assert (reported.total_steps, reported.total_nodes_executed, reported.total_retries) == (2, 6, 1)
    assert reported.total_backpressure_blocks > 0
    assert counts(engine.result("r").metrics) == counts(reported)
    assert engine.result("r").metrics.avg_step_latency_ms > 0


def test_a_resumed_run_counts_from_its_beginning(store: Store) -> None:
    reported: list[Any] = []
    engine = Engine(ASKS, store=store, listeners=[lambda event: reported.append(event)])
    first = engine.run(ITEMS, run_id="r").metrics
    assert (first.total_steps, first.total_nodes_executed, first.total_retries) == (2, 7, 1)
    second = engine.resume("r", answer="yes").metrics
    assert (second.total_steps, second.total_nodes_executed, second.total_retries) == (4, 8, 1)
    assert second.avg_step_latency_ms > 0
    assert reported[-1].metrics == second
    assert counts(engine.result("r").metrics) == counts(second)


def test_a_run_that_failed_and_went_on_counts_what_failed(store: Store) -> None:
    broken = [True]

    @node(output="b", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    def flaky(a: int) -> int:
        if broken:
            raise OSError("no")
        return a

    engine = Engine(Graph([flaky]), store=store)
    failed = engine.run({"a": 1}, run_id="r", check=False).metrics
    assert (failed.total_steps, failed.total_nodes_executed, failed.total_retries) == (0, 2, 1)
    assert counts(engine.result("r").metrics) == counts(failed)
    broken.clear()
    done = engine.resume("r").metrics
    assert (done.total_steps, done.total_nodes_executed, done.total_retries) == (1, 3, 1)
    assert counts(engine.result("r").metrics) == counts(done)


def test_backpressure_is_counted_over_several_resumptions(store: Store) -> None:
    engine = Engine(ASKS, store=store, queue_depth=2)
    first = engine.run(ITEMS, run_id="r").metrics
    assert first.total_backpressure_blocks > 0
    second = engine.resume("r", answer="yes").metrics
    assert second.total_backpressure_blocks == first.total_backpressure_blocks
    assert engine.result("r").metrics.total_backpressure_blocks == first.total_backpressure_blocks


def test_a_killed_resumption_is_read_from_the_log(tmp_path: Path) -> None:
    left: list[SQLiteStore] = []
    file = tmp_path / "runs.db"

    @node(output="b", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    def one(a: int, ctx: Context) -> int:
        if ctx.attempt == 0:
            raise OSError("once")
        return a

    @node(output="c")
    def two(b: int) -> int:
        left.append(as_if_killed(file))
        return b

    engine = Engine(Graph([one, two]), store=SQLiteStore(file))
    engine.run({"a": 1}, run_id="r")
    metrics = Engine(engine.graph, store=left[0]).resume("r").metrics
    assert (metrics.total_steps, metrics.total_nodes_executed, metrics.total_retries) == (2, 3, 1)


def test_a_fork_counts_its_own_steps(store: Store) -> None:
    engine = Engine(ASKS, store=store)
    engine.run(ITEMS, run_id="r")
    forked = engine.fork("r", step=2, run_id="f")
    assert counts(forked.metrics)["total_steps"] == 0
    metrics = engine.resume("f", answer="yes").metrics
    assert (metrics.total_steps, metrics.total_nodes_executed) == (2, 2)
    assert counts(engine.result("f").metrics) == counts(metrics)


def test_latency_is_in_milliseconds() -> None:
    @node(output="b")
    def first(a: int, ctx: Context) -> int:
        ctx.sleep(3.0)
        return a

    @node(output="c")
    def second(b: int, ctx: Context) -> int:
        ctx.sleep(1.0)
        return b

    engine = Engine(Graph([first, second]), clock=VirtualClock())
    assert engine.run({"a": 1}, run_id="r").metrics.avg_step_latency_ms == pytest.approx(2000.0)
    assert engine.result("r").metrics.avg_step_latency_ms == pytest.approx(2000.0)


# -- the scheduler of a run that runs ---------------------------------------------------------------------


def seen_in(driver: str, kind: str) -> list[Any]:
    """What the scheduler says in each of three nodes in a row."""
    seen: list[Any] = []
    engine: Engine

    def look() -> int:
        seen.append(engine.scheduler_state("r"))
        return len(seen)

    def of(name: str, source: str) -> Any:
        if kind == "async":

            async def anode(value: Any) -> int:
                return look()

            return node(anode, name=name, output=name).rename(inputs={"value": source})
        if kind == "context":

            def cnode(value: Any, ctx: Context) -> int:
                return look()

            return node(cnode, name=name, output=name).rename(inputs={"value": source})
        return node(lambda value: look(), name=name, output=name).rename(inputs={"value": source})

    engine = Engine(Graph([of("a", "x"), of("b", "a"), of("c", "b")]))
    if driver == "run":
        engine.run({"x": 1}, run_id="r")
    else:
        asyncio.run(engine.arun({"x": 1}, run_id="r"))
    return seen


@pytest.mark.parametrize("driver", ["run", "arun"])
@pytest.mark.parametrize("kind", ["sync", "async", "context"])
def test_a_lone_node_is_active_and_steps_are_counted(driver: str, kind: str) -> None:
    seen = seen_in(driver, kind)
    assert [state.active_nodes for state in seen] == [1, 1, 1]
    assert [state.completed_steps for state in seen] == [0, 1, 2]
    assert [state.metrics.total_steps for state in seen] == [0, 1, 2]


def test_a_node_that_failed_or_retried_is_active_no_more(store: Store) -> None:
    seen: list[int] = []
    engine: Engine

    @node(output="b", retry=RetryPolicy(max_attempts=3, base_delay=1e-9))
    def flaky(a: int) -> int:
        seen.append(engine.scheduler_state("r").active_nodes)
        raise OSError("no")

    engine = Engine(Graph([flaky]), store=store)
    engine.run({"a": 1}, run_id="r", check=False)
    assert seen == [1, 1, 1]


def test_the_scheduler_of_a_resumed_run_counts_from_the_beginning(store: Store) -> None:
    seen: list[Any] = []
    engine: Engine

    @node(output="end")
    def look(answer: str) -> str:
        seen.append(engine.scheduler_state("r"))
        return answer

    engine = Engine(Graph([scatter, work, ask, look], state=Found), store=store)
    engine.run(ITEMS, run_id="r")
    engine.resume("r", answer="yes")
    assert (seen[0].completed_steps, seen[0].metrics.total_retries) == (3, 1)


def test_the_defaults_are_those_of_the_specification() -> None:
    defaults = Settings()
    assert (defaults.default_node_timeout, defaults.max_concurrent_nodes, defaults.queue_depth) == (
        30.0,
        8,
        1024,
    )
    assert Engine(FAN)._settings == defaults


def test_a_retried_step_has_the_same_latency_whenever_it_is_looked_up(tmp_path: Path) -> None:
    tried = 0

    @node(output="b", retry=RetryPolicy(max_attempts=2, base_delay=20.0, max_delay=20.0))
    def flaky(a: int, ctx: Context) -> int:
        nonlocal tried
        tried += 1
        ctx.sleep(1.0)
        if tried % 2:
            raise OSError("busy")
        return a

    @node(output="c")
    def beside(a: int, ctx: Context) -> int:
        ctx.sleep(0.25)
        return a

    for store in (MemoryStore(), SQLiteStore(tmp_path / "runs.db")):
        reported: list[Any] = []
        engine = Engine(
            Graph([flaky, Graph([beside], name="inside")]),
            store=store,
            clock=VirtualClock(),
            max_concurrent_nodes=1,
            listeners=[reported.append],
        )
        metrics = engine.run({"a": 1}, run_id="r").metrics
        assert metrics.total_retries == 1
        assert metrics == engine.result("r").metrics == reported[-1].metrics
        engine.close()
    again = Engine(store=SQLiteStore(tmp_path / "runs.db"))
    assert again.result("r").metrics == metrics
    again.close()


def test_a_resumed_run_has_the_same_latency_whenever_it_is_looked_up(tmp_path: Path) -> None:
    heals = False

    @node(output="b")
    def first(a: int, ctx: Context) -> int:
        ctx.sleep(3.0)
        return a

    @node(output="c")
    def second(b: int, ctx: Context) -> int:
        ctx.sleep(1.0)
        if not heals:
            raise OSError("busy")
        return b

    for store in (MemoryStore(), SQLiteStore(tmp_path / "runs.db")):
        heals = False
        engine = Engine(Graph([first, second]), store=store, clock=VirtualClock())
        metrics = engine.run({"a": 1}, run_id="r", check=False).metrics
        assert metrics.avg_step_latency_ms == engine.result("r").metrics.avg_step_latency_ms == 3000.0
        heals = True
        metrics = engine.resume("r").metrics
        assert metrics.avg_step_latency_ms == 2000.0
        assert metrics == engine.result("r").metrics
        engine.close()
