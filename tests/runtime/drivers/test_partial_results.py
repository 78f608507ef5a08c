"""A node that leaves its loop because of `ctx.cancelled` has no result: it runs again when the run is resumed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from clew import Context, Engine, Graph, node
from clew.errors import RunCancelledError
from clew.stores import Store
from tests.store_fixtures import local_store

WITHIN = 300.0


store = local_store


class Loading:
    """A node that loads rows until its run is cancelled. The first call waits for that; the second one ends."""

    def __init__(self, *, raises: bool = False, timeout: float | None = None) -> None:
        self.started = threading.Event()
        self.calls = 0

        @node(output="rows", timeout=timeout)
        def load(total: int, ctx: Context) -> list[int]:
            self.calls += 1
            if self.calls > 1:
                return list(range(total))
            self.started.set()
            while not ctx.cancelled:
                pass
            if raises:
                raise ValueError("stopped")
            return [0]

        self.node = load

    def cancel(self, engine: Engine, run_id: str) -> None:
        assert self.started.wait(WITHIN)
        assert engine.cancel(run_id)


@node(output="report")
def report(rows: list[int]) -> int:
    return len(rows)


@node(output="other")
def other(total: int) -> int:
    return total


def result_of(engine: Engine, loading: Loading, *, on_loop: bool) -> Any:
    """Run a graph whose first call of the node is cancelled."""
    thread = threading.Thread(target=loading.cancel, args=(engine, "r"))
    thread.start()
    try:
        if on_loop:
            return asyncio.run(engine.arun({"total": 3}, run_id="r"))
        return engine.run({"total": 3}, run_id="r")
    finally:
        thread.join(WITHIN)


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize("where", ["inline", "with a timeout", "beside another"])
@pytest.mark.parametrize("others", [[], [report]], ids=["alone", "then a report"])
def test_what_it_returns_is_discarded(
    store: Store, others: list[Any], where: str, on_loop: bool, raises: bool
) -> None:
    loading = Loading(raises=raises, timeout=WITHIN if where == "with a timeout" else None)
    beside = [other] if where == "beside another" else []
    engine = Engine(Graph([loading.node, *others, *beside]), store=store)
    with pytest.raises(RunCancelledError):
        result_of(engine, loading, on_loop=on_loop)
    assert engine.result("r").status == "cancelled"
    assert not engine.state("r").has("rows")
    again = engine.resume("r")
    assert (again.status, again["rows"], loading.calls) == ("completed", [0, 1, 2], 2)
    assert again.get("report") == (3 if others else None)
    assert engine.replay("r").ok


def test_a_handle_cancels_it_too(store: Store) -> None:
    loading = Loading()
    engine = Engine(Graph([loading.node]), store=store)
    handle = engine.start({"total": 3}, run_id="r")
    assert loading.started.wait(WITHIN)
    assert handle.cancel()
    with pytest.raises(RunCancelledError):
        handle.result(timeout=WITHIN)
    assert handle.status == "cancelled"
    assert engine.resume("r")["rows"] == [0, 1, 2]


def test_a_child_is_cancelled_with_its_run(store: Store) -> None:
    loading = Loading()
    kid = Graph([loading.node], name="kid")

    @node(output="rows")
    def outer(total: int, ctx: Context) -> Any:
        return ctx.run(kid, {"total": total})["rows"]

    engine = Engine(Graph([outer]), store=store)
    with pytest.raises(RunCancelledError):
        result_of(engine, loading, on_loop=False)
    assert [row.status for row in store.rows(of="r")] == ["cancelled"]
    assert engine.resume("r")["rows"] == [0, 1, 2]


@pytest.mark.parametrize("looks", [False, True])
def test_a_result_of_a_node_that_was_not_told_counts(store: Store, looks: bool) -> None:
    calls: list[int] = []

    @node(output="rows")
    def load(total: int, ctx: Context) -> list[int]:
        calls.append(total)
        if looks:
            assert not ctx.cancelled
        engine.cancel("r")
        return [total]

    engine = Engine(Graph([load, report]), store=store)
    with pytest.raises(RunCancelledError):
        engine.run({"total": 3}, run_id="r")
    assert engine.resume("r")["report"] == 1
    assert calls == [3]


def test_a_cancellation_that_comes_before_the_first_node(store: Store) -> None:
    """An interrupt may cancel the task before the run awaits anything for the first time."""

    @node(output="b")
    async def waits(a: int, ctx: Context) -> int:
        await asyncio.sleep(0)
        return a

    engine = Engine(Graph([waits]), store=store)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await engine.arun({"a": 1}, run_id="r")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert {row.status for row in engine.runs()} <= {"cancelled"}
