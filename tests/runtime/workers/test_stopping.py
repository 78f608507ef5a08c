"""A worker that is told to stop at a bad moment: while it takes runs, or while the server is away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clew import Engine, Graph, PostgresStore, Worker, node
from clew.errors import StoreUnavailableError
from clew.stores import MemoryStore, Store
from tests.store_fixtures import every_store
from tests.stores.servers import PostgresServer

store = every_store
executed: list[int] = []


@node(output="b")
def only(a: int) -> int:
    executed.append(a)
    return a + 1


GRAPH = Graph([only], name="stopping")


class SlowStore(MemoryStore):
    """A store that takes so long that its worker is stopped in the meantime."""

    stop: Callable[[], None] = staticmethod(lambda: None)
    slow = ""

    def expire(self) -> int:
        if self.slow == "expire":
            self.stop()
        return super().expire()

    def take(self, *args: Any, **options: Any) -> Any:
        found = super().take(*args, **options)
        if self.slow == "take":
            self.stop()
        return found


@pytest.mark.parametrize("slow", ["expire", "take"])
def test_a_worker_that_was_stopped_starts_nothing(slow: str) -> None:
    executed.clear()
    store = SlowStore()
    handle = Engine(GRAPH, store=store).submit({"a": 1})
    worker = Worker(GRAPH, store=store)
    store.slow, store.stop = slow, worker.stop
    worker.run()
    assert (executed, handle.status) == ([], "queued")
    store.slow = ""
    Worker(GRAPH, store=store).run(until_idle=True)  # another one takes it at once
    assert (executed, handle.status) == ([1], "completed")


def test_a_run_that_was_interrupted_after_the_grace_time_is_queued(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.runtime.workers.worker._UNWINDING", 300.0)
    entered = threading.Event()

    @node(output="c")
    async def wait(b: int) -> int:
        entered.set()
        await asyncio.Event().wait()  # until it is cancelled
        return b

    graph = Graph([only, wait], name="interrupted")
    handle = Engine(graph, store=store).submit({"a": 1})
    worker = Worker(graph, store=store, grace=0.0)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert entered.wait(60)
    worker.stop()
    thread.join(60)
    assert (worker.counts, handle.status) == ({"released": 1}, "queued")
    assert [row.run_id for row in store.page(status="queued")[0]] == [handle.run_id]


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    """A server of its own, because it is stopped."""
    own = PostgresServer()
    own.start()
    yield own
    own.remove()


def test_a_worker_stops_within_its_grace_time_while_the_server_is_away(own: PostgresServer) -> None:
    store = PostgresStore(own.dsn, patience=3600.0)
    entered, go = threading.Event(), threading.Event()

    @node(output="b")
    def wait(a: int) -> int:
        entered.set()
        go.wait(60)
        return a + 1

    graph = Graph([wait], name="away")
    engine = Engine(graph, store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    worker = Worker(graph, store=store, lease=1.0, grace=0.5)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert entered.wait(60)
    own.stop("immediate")
    go.set()  # the node ends, and its commit waits for the server
    worker.stop()
    thread.join(60)
    is_stuck = thread.is_alive()
    own.start()
    thread.join(60)
    assert not is_stuck
    with Worker(graph, store=store, poll=0.05) as other:
        going = threading.Thread(target=other.run)
        going.start()
        assert handle.result(60)["b"] == 2
        other.stop()
        going.join(60)
    engine.close()
    store.close()


def test_the_patience_of_a_store_is_limited_and_restored(own: PostgresServer) -> None:
    store = PostgresStore(own.dsn, patience=3600.0)
    own.stop()
    store.wait_at_most(0.0)
    with pytest.raises(StoreUnavailableError):
        store.workers()
    store.wait_at_most(None)
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(store.workers()))
    reader.start()
    own.start()
    reader.join(60)
    assert found == [[]]
    store.close()
