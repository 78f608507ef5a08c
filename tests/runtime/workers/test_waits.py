"""Durable waits of runs that workers execute: a run that waits holds no slot, and continues when its wait ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from datetime import date
from typing import Any, Literal

import msgspec
import pytest

from clew import Context, Engine, Graph, NodePolicy, RetryPolicy, Worker, interrupt, node
from clew.errors import InputError, RunStateError, UnknownRunError, WaitTimeoutError
from clew.runtime.calls import waiting
from clew.runtime.process.clock import SystemClock
from clew.stores import Store
from tests.runtime.workers.test_worker import until, working
from tests.store_fixtures import every_store, local_store

store, local = every_store, local_store
HOUR = 3600.0
CLOCK = 60.0  # a worker measures the clock of the store, and is wrong if the machine is busy meanwhile


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sleep is a durable wait, however short it is."""
    monkeypatch.setattr(waiting, "LONGEST_SLEEP", 0.0)


@node(output="paid")
def pay(order: str, ctx: Context) -> Any:
    return [order, ctx.wait_for("paid")]


@node(output="approved")
def ask(order: str, ctx: Context) -> Any:
    return [order, ctx.interrupt("ship it?")]


class Order(msgspec.Struct):
    order: str
    approved: bool | None = None


PAY = Graph([pay], name="pay")
ASK = Graph([ask], name="ask")


def work(graph: Graph, store: Store, **options: Any) -> Counter[str]:
    """Execute everything that is ready."""
    worker = Worker(graph, store=store, poll=0.02, **options)
    worker.run(until_idle=True)
    return worker.counts


def statuses(store: Store) -> Counter[str]:
    return Counter(row.status for row in store.rows())


def test_runs_that_wait_for_a_signal_hold_no_slot(store: Store) -> None:
    engine = Engine(PAY, store=store)
    handles = [engine.submit({"order": f"o{n}"}) for n in range(5)]
    assert work(PAY, store, slots=1) == {"sleeping": 5}
    assert statuses(store) == {"sleeping": 5}
    for n, handle in enumerate(handles):
        handle.signal("paid", n)
    assert work(PAY, store, slots=1) == {"completed": 5}
    assert [handle.result(timeout=60)["paid"] for handle in handles] == [[f"o{n}", n] for n in range(5)]
    assert store.queues() == []


def test_a_signal_that_comes_early_is_taken(store: Store) -> None:
    handle = Engine(PAY, store=store).submit({"order": "o"})
    handle.signal("other")
    handle.signal("paid", 1)
    handle.signal("paid", 2)
    assert work(PAY, store) == {"completed": 1}
    result = handle.result(timeout=60)
    assert result["paid"] == ["o", 1]
    assert [(each.name, each.value) for each in result.signals] == [("other", None), ("paid", 2)]


def test_a_signal_that_nobody_waits_for_wakes_a_run_that_sleeps_on(store: Store) -> None:
    handle = Engine(PAY, store=store).submit({"order": "o"})
    work(PAY, store)
    for n in range(7):  # more than the tries of a poison run
        handle.signal("other", n)
        assert work(PAY, store, tries=2) == {"sleeping": 1}
    handle.signal("paid")
    assert work(PAY, store) == {"completed": 1}


def test_a_signal_to_a_run_that_executes_arrives(local: Store) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    @node(output="a")
    def busy(order: str) -> str:
        begun.set()
        goes_on.wait(60)
        return order

    graph = Graph([busy, pay])
    handle = Engine(graph, store=local).submit({"order": "o"})
    with working(Worker(graph, store=local, poll=0.02)):
        begun.wait(60)
        until(lambda: handle.status == "running")
        handle.signal("paid", 3)
        goes_on.set()
        assert handle.result(timeout=60)["paid"] == ["o", 3]


def test_a_question_holds_no_slot_and_its_answer_goes_to_the_worker(store: Store) -> None:
    handles = [Engine(ASK, store=store).submit({"order": f"o{n}"}) for n in range(3)]
    assert work(ASK, store, slots=1) == {"waiting": 3}
    first, second, third = handles
    first.answer(True)
    assert statuses(store) == {"waiting": 3}  # this process does not continue it
    Engine(store=store).handle(second.run_id).answer(False, "ask#0")
    assert work(ASK, store, slots=1) == {"completed": 2}
    assert first.result(timeout=60)["approved"] == ["o0", True]
    assert second.result(timeout=60)["approved"] == ["o1", False]
    assert third.status == "waiting"
    with working(Worker(ASK, store=store, poll=0.02)):
        assert third.answer("yes").result(timeout=60)["approved"] == ["o2", "yes"]


def test_a_sleeping_run_is_due_when_its_sleep_ends(store: Store) -> None:
    @node(output="x")
    def nap(order: str, ctx: Context) -> str:
        ctx.sleep(HOUR)
        return order

    graph = Graph([nap])
    handle = Engine(graph, store=store).submit({"order": "o"})
    before = store.time()
    assert work(graph, store) == {"sleeping": 1}
    entry = store.entry(handle.run_id)
    assert entry is not None
    assert entry.due is not None
    assert before - CLOCK <= entry.due - HOUR <= store.time() + CLOCK


def test_a_sleeping_run_continues_when_its_sleep_ends(store: Store, short: None) -> None:
    calls: list[str] = []

    @node(output="x")
    def nap(order: str, ctx: Context) -> float:
        calls.append("begun")
        began = ctx.record("began", time.monotonic)
        ctx.sleep(0.5)
        calls.append("woken")
        return time.monotonic() - began

    graph = Graph([nap])
    handle = Engine(graph, store=store).submit({"order": "o"})
    with working(Worker(graph, store=store, poll=0.02)):
        assert handle.result(timeout=60)["x"] >= 0.3  # the clock of the store is known roughly
    assert calls == ["begun", "begun", "woken"]


def test_a_wait_for_a_signal_that_does_not_come_ends(store: Store, short: None) -> None:
    @node(output="x")
    def wait(order: str, ctx: Context) -> str:
        try:
            return str(ctx.wait_for("paid", timeout=0.2))
        except WaitTimeoutError:
            return "too late"

    graph = Graph([wait])
    handle = Engine(graph, store=store).submit({"order": "o"})
    with working(Worker(graph, store=store, poll=0.02)):
        assert handle.result(timeout=60)["x"] == "too late"


@pytest.mark.parametrize("default", [{}, {"default": "no"}])
def test_a_question_that_nobody_answers_ends(store: Store, short: None, default: Any) -> None:
    @node(output="x")
    def wait(order: str, ctx: Context) -> str:
        try:
            return str(ctx.interrupt("ship it?", timeout=0.2, **default))
        except WaitTimeoutError:
            return "too late"

    graph = Graph([wait])
    engine = Engine(graph, store=store)
    handle = engine.submit({"order": "o"})
    with working(Worker(graph, store=store, poll=0.02)):
        until(lambda: handle.status == "completed")
    assert handle.result(timeout=60)["x"] == ("no" if default else "too late")
    assert engine.replay(handle.run_id).ok
    with pytest.raises(RunStateError):
        handle.answer("yes").result(timeout=60)


def test_a_question_that_is_answered_in_time_does_not_end(store: Store) -> None:
    @node(output="x")
    def wait(order: str, ctx: Context) -> list[Any]:
        return [ctx.interrupt("first?", timeout=HOUR, default="no"), ctx.interrupt("second?", timeout=HOUR)]

    graph = Graph([wait])
    engine = Engine(graph, store=store)
    handle = engine.submit({"order": "o"})
    for answer in ("a", "b"):
        assert work(graph, store) == {"waiting": 1}
        entry = store.entry(handle.run_id)
        assert entry is not None
        assert entry.due is not None
        assert HOUR - 600 < entry.due - store.time() <= HOUR + CLOCK
        engine.answer(handle.run_id, answer)  # it is sent when this returns
    work(graph, store)
    assert handle.result(timeout=60)["x"] == ["a", "b"]
    assert engine.replay(handle.run_id).ok


def test_a_long_delay_before_a_retry_releases_the_run(store: Store) -> None:
    attempts: list[int] = []

    @node(output="x", policy=NodePolicy(retry_policy=RetryPolicy(2, HOUR, 2 * HOUR)))
    def fails(order: str, ctx: Context) -> str:
        attempts.append(ctx.attempt)
        raise ValueError("no")

    graph = Graph([fails])
    handle = Engine(graph, store=store).submit({"order": "o"})
    assert work(graph, store) == {"sleeping": 1}
    assert attempts == [0]
    assert handle.status == "sleeping"
    entry = store.entry(handle.run_id)
    assert entry is not None
    assert entry.due is not None
    assert HOUR - 600 < entry.due - store.time() <= 2 * HOUR + CLOCK
    handle.signal("wakes it up")
    assert work(graph, store) == {"sleeping": 1}
    assert attempts == [0]  # it waits for its original time
    again = store.entry(handle.run_id)
    assert again is not None
    assert again.due is not None
    assert abs(again.due - entry.due) < CLOCK


def test_a_retry_after_a_release_has_its_attempt(store: Store, short: None) -> None:
    attempts: list[int] = []

    @node(output="x", policy=NodePolicy(retry_policy=RetryPolicy(3, 0.5, 1.0)))
    def fails(order: str, ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise ValueError("no")
        return order

    graph = Graph([fails])
    handle = Engine(graph, store=store).submit({"order": "o"})
    with working(Worker(graph, store=store, poll=0.02)) as worker:
        assert handle.result(timeout=60)["x"] == "o"
        until(lambda: worker.counts["completed"] == 1)
    assert attempts == [0, 1, 2]
    assert worker.counts["sleeping"]


def test_a_run_is_cancelled_wherever_it_is(store: Store) -> None:
    engine = Engine(PAY, store=store)
    sleeping, queued = engine.submit({"order": "o"}), engine.submit({"order": "o"}, queue="other")
    work(PAY, store)
    anywhere = Engine(store=store)
    for handle in (sleeping, queued):
        assert anywhere.handle(handle.run_id).cancel() is True
        assert anywhere.cancel(handle.run_id) is False
        with pytest.raises(RunStateError):
            handle.signal("paid")
    assert statuses(store) == {"cancelled": 2}
    assert store.queues() == []


def test_a_run_that_a_worker_executes_is_cancelled(local: Store) -> None:
    begun = threading.Event()

    @node(output="x")
    async def busy(order: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    graph = Graph([busy])
    handle = Engine(graph, store=local).submit({"order": "o"})
    with working(Worker(graph, store=local, poll=0.02)):
        begun.wait(60)
        assert Engine(store=local).cancel(handle.run_id) is True
        until(lambda: handle.status == "cancelled")


def test_a_worker_that_drains_releases_a_run_until_its_wait_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LONGEST_SLEEP", HOUR)
    begun = threading.Event()

    @node(output="x")
    def wait(order: str, ctx: Context) -> None:
        begun.set()
        ctx.wait_for("paid", timeout=HOUR / 2)  # so soon that the worker waits for it

    graph = Graph([wait])
    handle = Engine(graph, store=store).submit({"order": "o"})
    with working(Worker(graph, store=store, poll=0.02, grace=300.0)) as worker:
        assert begun.wait(60)
    assert (worker.counts, handle.status) == ({"sleeping": 1}, "sleeping")
    entry = store.entry(handle.run_id)
    assert entry is not None
    assert entry.due is not None
    assert entry.due - store.time() <= HOUR / 2 + CLOCK


def test_a_worker_that_drains_leaves_the_rest_of_a_run_that_asks_to_others(store: Store) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    @node(output="a")
    def busy(order: str) -> str:
        begun.set()
        goes_on.wait(60)
        return order

    @node(output="b")
    def later(a: str) -> str:
        return a

    graph = Graph([ask, busy, later])
    handle = Engine(graph, store=store).submit({"order": "o"})
    with working(Worker(graph, store=store, poll=0.02, grace=300.0)) as worker:
        assert begun.wait(60)
        worker.stop()
        until(lambda: all(each.is_stopping for each in worker._roots()))
        goes_on.set()
    assert (worker.counts, handle.status) == ({"released": 1}, "queued")
    assert work(graph, store) == {"waiting": 1}
    assert handle.result(timeout=60).questions[0].path == "ask#0"
    handle.answer(True)
    assert work(graph, store) == {"completed": 1}
    assert handle.result(timeout=60)["b"] == "o"


def test_wrong_answers_are_refused_and_end_nothing(store: Store) -> None:
    @interrupt(output="approved")
    def approve(order: str) -> str:
        return f"ship {order}?"

    graph = Graph([approve], state=Order)
    engine = Engine(graph, store=store)
    handle = engine.submit({"order": "o"})
    work(graph, store)
    with pytest.raises(InputError):
        handle.answer("perhaps").result(timeout=60)
    anyone = Engine(store=store)
    for _ in range(4 if store.encodes else 0):  # an engine without the graph cannot check it: the worker does
        anyone.answer(handle.run_id, "perhaps")
        assert work(graph, store, tries=2) == {"waiting": 1}
        (question,) = engine.result(handle.run_id).questions
        assert "approved" in question.error
    anyone.answer(handle.run_id, True)
    assert work(graph, store) == {"completed": 1}
    assert handle.result(timeout=60)["approved"] is True


def test_bad_input(store: Store) -> None:
    engine = Engine(PAY, store=store)
    with pytest.raises(UnknownRunError):
        engine.signal("nowhere", "paid")
    with pytest.raises(UnknownRunError):
        engine.handle("nowhere").answer(True).result(timeout=60)
    handle = engine.submit({"order": "o"})
    for name in ("", "x" * 201, "a\0b", 3):
        with pytest.raises(InputError):
            engine.signal(handle.run_id, name)
    with pytest.raises(RunStateError):
        handle.answer(True).result(timeout=60)  # it asks nothing
    handle.signal("paid")
    work(PAY, store)
    with pytest.raises(RunStateError):
        handle.signal("paid")


class OtherClock(SystemClock):
    """The clock of a machine that is wrong."""

    def __init__(self, ahead: float) -> None:
        self.time = lambda: time.time() + ahead


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_the_clock_of_a_worker_does_not_matter(store: Store, short: None, ahead: float) -> None:
    @node(output="x")
    def nap(order: str, ctx: Context) -> float:
        began = ctx.record("began", time.monotonic)
        ctx.sleep(0.5)
        return time.monotonic() - began

    graph = Graph([nap])
    engine = Engine(graph, store=store)
    handles = [engine.submit({"order": "o"}) for _ in range(3)]
    options: Any = {"clock": OtherClock(ahead)}
    first, second = (
        Worker(graph, store=store, slots=1, poll=0.02),
        Worker(graph, store=store, slots=1, poll=0.02, **options),
    )
    with working(first), working(second):
        slept = [handle.result(timeout=60)["x"] for handle in handles]
        until(lambda: first.counts["completed"] + second.counts["completed"] == 3)
    assert all(0.3 <= each < HOUR / 2 for each in slept)
    assert (first.counts + second.counts)["sleeping"] <= 60  # nobody takes a run again and again


@pytest.mark.parametrize(
    "kind, wrong, right",
    [
        (bool, ["perhaps", 1, None], True),
        (int, ["3", 3.5, True], 3),
        (float, ["much", False, [1]], 3),
        (str, [3, None, {}], "red"),
        (Literal["red", "blue"], ["green", 3], "blue"),
    ],
    ids=str,
)
def test_an_answer_of_another_plain_type_is_refused_at_once(
    local: Store, kind: Any, wrong: list[Any], right: Any
) -> None:
    @node(output="answer")
    def choose(order: str, ctx: Context) -> Any:
        return ctx.interrupt("which?", type=kind)

    graph = Graph([choose], name="choose")
    for engine in (Engine(graph, store=local), Engine(store=local)):
        handle = Engine(graph, store=local).submit({"order": "o"})
        work(graph, local)
        for value in wrong:
            with pytest.raises(InputError):
                engine.answer(handle.run_id, value)
            assert handle.status == "waiting"
        engine.answer(handle.run_id, right)
        work(graph, local)
        assert handle.result(60)["answer"] == right


def test_an_answer_of_another_type_is_asked_for_again(local: Store) -> None:
    @node(output="day")
    def choose(order: str, ctx: Context) -> Any:
        return ctx.interrupt("when?", type=date).isoformat()

    graph = Graph([choose], name="choose")
    engine = Engine(graph, store=local)
    handle = engine.submit({"order": "o"})
    for answer, error in (("tomorrow", True), (date(2030, 1, 31), False)):
        work(graph, local)
        engine.answer(handle.run_id, answer)
        work(graph, local)
        assert bool(handle.questions and handle.questions[0].error) == error
    assert handle.result(60)["day"] == "2030-01-31"
