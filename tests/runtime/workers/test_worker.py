"""A worker in this process: what it takes, what it leaves, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from clew import Context, Engine, Graph, Worker, node
from clew.errors import DefinitionError, GraphChangedError, GraphWarning, TriesExhaustedError
from clew.stores import MemoryStore, Store
from tests.store_fixtures import every_store, local_store

store, local = every_store, local_store


@node(output="b")
def first(a: int) -> int:
    return a + 1


@node(output="c")
def second(b: int) -> int:
    return b * 2


@node(output="d")
async def third(c: int) -> int:
    return c + 100


SYNC = Graph([first, second], name="sync")
ASYNC = Graph([first, second, third], name="async")


@contextmanager
def working(worker: Worker) -> Iterator[Worker]:
    """A worker on a thread, until the end of the block."""
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(300)
        assert not thread.is_alive()


def until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def test_submitted_runs_are_executed(store: Store) -> None:
    engines = [Engine(graph, store=store) for graph in (SYNC, ASYNC)]
    handles = [engine.submit({"a": n}) for n in range(5) for engine in engines]
    worker = Worker([SYNC, ASYNC], store=store, slots=3)
    worker.run(until_idle=True)
    results = [handle.result(timeout=0) for handle in handles]
    assert [result["c"] for result in results] == [2 * (n + 1) for n in range(5) for _ in engines]
    assert (worker.counts, store.queues(), worker.running) == ({"completed": 10}, [], [])
    assert [each for each in store.workers() if each.is_alive and each.info] == []


def test_the_chain_is_that_of_a_run_that_was_not_queued(store: Store) -> None:
    engine = Engine(ASYNC, store=store, seed=7)
    engine.run({"a": 3}, run_id="here")
    engine.submit({"a": 3}, run_id="there")
    Worker(ASYNC, store=store).run(until_idle=True)
    digests = [[each.digest for each in engine.history(run)] for run in ("here", "there")]
    assert digests[0] == digests[1]


def test_a_worker_waits_for_runs(local: Store) -> None:
    with working(Worker(SYNC, store=local, poll=0.05)):
        for n in range(3):
            assert Engine(SYNC, store=local).submit({"a": n}).result(timeout=60)["c"] == 2 * (n + 1)


def test_a_worker_with_full_slots_looks_when_a_run_ends(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.runtime.workers.worker._FIRST_PAUSE", 600.0)  # nobody waits for it
    engine = Engine(SYNC, store=local)
    handles = [engine.submit({"a": n}) for n in range(7)]
    with working(Worker(SYNC, store=local, slots=2)):
        assert [handle.result(timeout=60)["c"] for handle in handles] == [2 * (n + 1) for n in range(7)]


def test_a_worker_that_found_fewer_runs_than_it_has_slots_does_not_look_at_once(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.runtime.workers.worker._FIRST_PAUSE", 600.0)
    take, takes = local.take, list[int]()
    monkeypatch.setattr(
        local, "take", lambda *args, **options: takes.append(options["limit"]) or take(*args, **options)
    )
    engine = Engine(SYNC, store=local)
    handles = [engine.submit({"a": n}) for n in range(3)]
    with working(Worker(SYNC, store=local, slots=4)) as worker:
        until(lambda: worker.counts["completed"] == 3)
    assert [handle.status for handle in handles] == ["completed"] * 3
    assert takes == [4]


def test_a_stop_before_the_start_counts(local: Store) -> None:
    """SIGTERM may come while a worker is starting."""
    worker = Worker(SYNC, store=local, poll=0.01)
    handle = Engine(SYNC, store=local).submit({"a": 1})
    worker.stop()
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive()
    assert handle.status == "queued"
    worker.run(until_idle=True)  # the stop was for one start
    assert handle.status == "completed"


def test_only_its_queues_and_structures_are_taken(local: Store) -> None:
    engine, other = Engine(SYNC, store=local), Engine(ASYNC, store=local)
    engine.submit({"a": 1}, run_id="default")
    engine.submit({"a": 1}, run_id="slow", queue="slow")
    other.submit({"a": 1}, run_id="other", queue="slow")
    engine.submit({"a": 1}, run_id="later", queue="slow", at=time.time() + 1e6)
    Worker(SYNC, store=local, queues=["slow", "x"]).run(until_idle=True)
    statuses = {row.run_id: row.status for row in local.rows()}
    assert statuses == {"default": "queued", "slow": "completed", "other": "queued", "later": "queued"}


def test_a_thread_continues_on_a_worker(store: Store) -> None:
    engine = Engine(SYNC, store=store)
    engine.run({"a": 1}, thread="t")
    handle = engine.submit({"a": 5}, thread="t")
    Worker(SYNC, store=store).run(until_idle=True)
    assert (handle.result(timeout=0)["c"], engine.thread("t").head) == (12, handle.run_id)


def test_a_failed_run_is_failed_and_can_be_resumed(store: Store) -> None:
    broken = [True]

    @node(output="b")
    def fails(a: int) -> int:
        if broken:
            raise ValueError("no")
        return a

    graph = Graph([fails])
    engine = Engine(graph, store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    worker = Worker(graph, store=store)
    worker.run(until_idle=True)
    with pytest.raises(ValueError, match="no"):
        handle.result(timeout=0)
    assert (worker.counts, store.queues()) == ({"failed": 1}, [])
    broken.clear()
    assert engine.resume("r")["b"] == 1


def test_a_question_leaves_the_worker(store: Store) -> None:
    @node(output="b")
    def asks(a: int, ctx: Context) -> int:
        return int(ctx.interrupt("how many?")) + a

    graph = Graph([asks])
    engine = Engine(graph, store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    Worker(graph, store=store).run(until_idle=True)
    assert handle.result(timeout=0).status == "waiting"
    assert engine.resume("r", answer=2)["b"] == 3


def test_runs_are_executed_at_the_same_time(store: Store) -> None:
    together = threading.Barrier(4, timeout=300)

    @node(output="b")
    def meets(a: int) -> int:
        together.wait()
        return a

    graph = Graph([meets])
    engine = Engine(graph, store=store)
    handles = [engine.submit({"a": n}) for n in range(8)]
    Worker(graph, store=store, slots=4).run(until_idle=True)
    assert [handle.result(timeout=0)["b"] for handle in handles] == list(range(8))


def test_a_worker_describes_itself(store: Store) -> None:
    entered, leave = threading.Event(), threading.Event()

    @node(output="b")
    def holds(a: int) -> int:
        entered.set()
        assert leave.wait(300)
        return a

    graph = Graph([holds], name="held")
    Engine(graph, store=store).submit({"a": 1}, run_id="r")
    with working(
        Worker(graph, store=store, slots=2, queues=["default", "q"], label="one", lease=600.0)
    ) as worker:
        assert entered.wait(300)
        worker._renewer._beat()  # what its thread does three times per lease
        (row,) = [each for each in store.workers() if each.label == "one"]
        assert (row.is_alive, row.info["slots"], row.info["queues"]) == (True, 2, ["default", "q"])
        assert (row.info["running"], row.info["executes"]) == ([{"run": "r", "tries": 1, "items": []}], 1)
        assert row.info["graphs"][0]["structure"] == graph.structure_hash
        leave.set()
    assert Engine(graph, store=store).result("r")["b"] == 1


def test_draining_commits_the_running_step_and_returns_the_run(store: Store) -> None:
    entered, leave = threading.Event(), threading.Event()
    calls: list[str] = []

    @node(output="b")
    def holds(a: int) -> int:
        calls.append("holds")
        entered.set()
        assert leave.wait(300)
        return a

    @node(output="c")
    def after(b: int) -> int:
        calls.append("after")
        return b + 1

    graph = Graph([holds, after])
    engine = Engine(graph, store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    engine.submit({"a": 2}, run_id="next")
    worker = Worker(graph, store=store, slots=1, grace=300.0)
    with working(worker):
        assert entered.wait(300)
        worker.stop()
        until(lambda: all(session.is_stopping for session in worker._live.values()))
        leave.set()
    assert (calls, worker.counts) == (["holds"], {"released": 1})
    assert (handle.status, store.owner("r"), engine.state("r").get("b")) == ("queued", None, 1)
    Worker(graph, store=store).run(until_idle=True)
    assert (handle.result(timeout=0)["c"], sorted(calls)) == (2, ["after", "after", "holds", "holds"])


def test_items_beside_others_end_before_a_run_is_returned(store: Store) -> None:
    entered, leave = threading.Barrier(3, timeout=300), threading.Event()
    calls: list[str] = []

    def held(name: str) -> Any:
        def body(a: int) -> int:
            calls.append(name)
            if len(calls) <= 2:
                entered.wait()
            assert leave.wait(300)
            return a

        return node(body, name=name, output=name)

    @node(output="z")
    def after(x: int, y: int) -> int:
        calls.append("after")
        return x + y

    graph = Graph([held("x"), held("y"), after])
    engine = Engine(graph, store=store)
    engine.submit({"a": 1}, run_id="r")
    worker = Worker(graph, store=store, grace=300.0)
    with working(worker):
        entered.wait()
        worker.stop()
        until(lambda: all(session.is_stopping for session in worker._live.values()))
        leave.set()
    assert (sorted(calls), engine.state("r").values.get("y")) == (["x", "y"], 1)
    Worker(graph, store=store).run(until_idle=True)
    assert (engine.result("r")["z"], sorted(calls)) == (2, ["after", "x", "y"])


def test_a_node_that_does_not_end_loses_its_run(store: Store) -> None:
    entered, leave = threading.Event(), threading.Event()
    calls: list[int] = []

    @node(output="b")
    def holds(a: int) -> int:
        calls.append(a)
        if len(calls) == 1:
            entered.set()
            leave.wait(600)
        return a

    graph = Graph([holds])
    engine = Engine(graph, store=store)
    handle = engine.submit({"a": 1}, run_id="r")
    with working(Worker(graph, store=store, grace=0.0)) as worker:
        assert entered.wait(300)
        worker.stop()
        until(lambda: handle.status == "queued")
    Worker(graph, store=store).run(until_idle=True)
    assert handle.result(timeout=0)["b"] == 1
    leave.set()
    assert calls == [1, 1]


def test_an_async_node_unwinds_when_the_grace_time_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    monkeypatch.setattr("clew.runtime.workers.worker._UNWINDING", 300.0)
    entered = threading.Event()
    ended: list[str] = []

    @node(output="b", timeout=None)
    async def sleeps(a: int) -> int:
        if entered.is_set():
            return a
        entered.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return a

    graph = Graph([sleeps])
    handle = Engine(graph, store=store).submit({"a": 1}, run_id="r")
    with working(Worker(graph, store=store, grace=0.0)):
        assert entered.wait(300)
    assert (ended, store.row("r").status in ("queued", "running")) == (["cancelled"], True)
    Worker(graph, store=store).run(until_idle=True)
    assert handle.result(timeout=0)["b"] == 1


def test_a_cancelled_run_is_not_executed(store: Store) -> None:
    engine = Engine(SYNC, store=store)
    handle = engine.submit({"a": 1})
    handle.cancel()
    worker = Worker(SYNC, store=store)
    worker.run(until_idle=True)
    assert (handle.status, worker.counts) == ("cancelled", {})


# -- runs that cannot be executed ----------------------------------------------------------------------------


def test_a_run_that_cannot_be_opened_fails_after_its_tries(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.runtime.workers.runner import GraphRunner

    opened, taken = [], GraphRunner.taken

    def refuses(self: Any, run: Any, token: str) -> Any:
        opened.append((run.row.run_id, run.tries))
        if run.row.run_id == "bad":
            self.release("bad", run.fence, token)
            raise GraphChangedError("another graph")
        return taken(self, run, token)

    monkeypatch.setattr(GraphRunner, "taken", refuses)
    engine = Engine(SYNC, store=store)
    bad, good = engine.submit({"a": 1}, run_id="bad"), engine.submit({"a": 1}, run_id="good", priority=1)
    worker = Worker(SYNC, store=store, tries=4)
    worker.run(until_idle=True)
    assert [tries for run, tries in opened if run == "bad"] == [1, 2, 3, 4]
    assert good.result(timeout=0)["c"] == 4
    with pytest.raises(TriesExhaustedError) as caught:
        bad.result(timeout=0)
    assert "4 times" in str(caught.value)
    assert "try 4 on" in str(caught.value)
    assert "GraphChangedError: another graph" in str(caught.value)
    assert worker.counts == {"released": 4, "completed": 1, "failed": 1}
    monkeypatch.undo()
    assert engine.resume("bad")["c"] == 4


def test_a_suspect_is_executed_alone(store: Store) -> None:
    busy, most = set[int](), dict[int, int]()
    lock = threading.Lock()

    @node(output="b")
    def watches(a: int) -> int:
        with lock:
            busy.add(a)
        time.sleep(0.02)  # others could begin
        with lock:
            most[a] = max(most.get(a, 0), len(busy))
            busy.discard(a)
        return a

    graph = Graph([watches])
    engine = Engine(graph, store=store)
    engine.submit({"a": 0}, run_id="suspect", priority=-1)
    for n in range(2):  # two workers that died without a commit
        store.take(
            f"dead {n}",
            structures=[graph.structure_hash],
            queues=["default"],
            limit=1,
            lease=30.0,
            token=str(n),
        )
        store.retire(f"dead {n}")
    for n in range(1, 9):
        engine.submit({"a": n})
    Worker(graph, store=store, slots=4).run(until_idle=True)
    assert (len(most), most[0]) == (9, 1)
    assert max(most.values()) > 1


# -- several workers -----------------------------------------------------------------------------------------


def other_code() -> Graph:
    @node(output="b")
    def first(a: int) -> int:
        return a + 1_000

    return Graph([first, second], name="sync")


def test_a_worker_with_other_code_is_a_warning(store: Store) -> None:
    other = other_code()
    assert other.structure_hash == SYNC.structure_hash
    with working(Worker(SYNC, store=store, label="old")):
        until(lambda: any(each.label == "old" for each in store.workers()))
        with pytest.warns(GraphWarning):
            Worker(other, store=store).run(until_idle=True)
        Worker(SYNC, store=store, same_code=True).run(until_idle=True)
        with pytest.raises(GraphChangedError):
            Worker(other, store=store, same_code=True).run(until_idle=True)
    Worker(other, store=store, same_code=True).run(until_idle=True)


def test_a_worker_that_was_declared_dead_continues_under_a_new_name(store: Store) -> None:
    engine = Engine(SYNC, store=store)
    worker = Worker(SYNC, store=store, poll=0.02)
    with working(worker):
        assert engine.submit({"a": 1}).result(timeout=60)["c"] == 4
        name = worker._owner.name
        store.renew(name, lease=0.0)
        while not store.expire():  # the worker may have renewed its lease in between
            store.renew(name, lease=0.0)
        assert engine.submit({"a": 2}).result(timeout=60)["c"] == 6
        assert worker._owner.name != name


@pytest.mark.parametrize(
    "options",
    [
        {"graphs": []},
        {"graphs": "graph"},
        {"graphs": [SYNC, SYNC]},
        {"graphs": [first]},
        {"slots": 0},
        {"slots": True},
        {"tries": 0},
        {"queues": []},
        {"queues": "default"},
        {"grace": -1},
        {"poll": "often"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Worker(**{"graphs": SYNC, "store": MemoryStore(), **options})
