"""Idle workers are woken when a run becomes ready, and nobody is notified otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

import psycopg
import pytest

from clew import Engine, Graph, Worker, node
from clew.stores import PostgresStore, QueueEntry, RunRow
from clew.stores.postgres.queue_bell import IDLE
from tests.stores.servers import PostgresServer

SELDOM = 600.0  # a poll that no test waits for
IDLE_WORKERS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND granted"


@node(output="b")
def act(a: int) -> int:
    return a + 1


GRAPH = Graph([act])


@pytest.fixture
def schema() -> str:
    return f"t_{token_hex(6)}"


@pytest.fixture
def store(server: PostgresServer, schema: str) -> Iterator[PostgresStore]:
    store = PostgresStore(server.dsn, schema=schema)
    yield store
    store.close()


@pytest.fixture
def db(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as db:
        yield db


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)  # between two looks


def idle_workers(db: psycopg.Connection[Any]) -> int:
    found = db.execute(IDLE_WORKERS, (IDLE,)).fetchone()
    assert found is not None
    return int(found[0])


@contextmanager
def working(store: PostgresStore, **options: Any) -> Iterator[Worker]:
    worker = Worker(GRAPH, store=store, **options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join()


def test_an_idle_worker_is_woken(store: PostgresStore, db: psycopg.Connection[Any]) -> None:
    with Engine(GRAPH, store=store) as engine, working(store, poll=SELDOM):
        for number in range(3):
            wait_for(lambda: idle_workers(db) == 1)
            assert engine.submit({"a": number}).result(timeout=60)["b"] == number + 1
    wait_for(lambda: idle_workers(db) == 0)  # the server needs a moment to see that a connection was closed


def test_a_run_that_returns_to_its_queue_wakes(store: PostgresStore, db: psycopg.Connection[Any]) -> None:
    with Engine(GRAPH, store=store) as engine, working(store, poll=SELDOM):
        row = engine.submit({"a": 1}, queue="other", run_id="r")
        wait_for(lambda: idle_workers(db) == 1)
        (taken,) = store.take("me", structures=[GRAPH.structure_hash], queues=["other"], limit=1, lease=30.0)
        store._bell._rung = float("-inf")  # a store rings at most five times a second
        store.enqueue("r", taken.fence, status="queued", queue="default")
        assert row.result(timeout=60)["b"] == 2


def test_a_cut_connection_is_opened_again(store: PostgresStore, db: psycopg.Connection[Any]) -> None:
    found = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s"
    with Engine(GRAPH, store=store) as engine, working(store, poll=SELDOM):
        wait_for(lambda: idle_workers(db) == 1)
        before = db.execute(found, (IDLE,)).fetchall()
        db.execute("SELECT pg_terminate_backend(%s)", before[0])
        wait_for(lambda: db.execute(found, (IDLE,)).fetchall() not in ([], before))
        assert engine.submit({"a": 1}).result(timeout=60)["b"] == 2


def test_a_worker_whose_connections_were_all_cut_is_not_declared_dead(
    server: PostgresServer, store: PostgresStore, schema: str, db: psycopg.Connection[Any]
) -> None:
    other = PostgresStore(f"{server.dsn} application_name=other", schema=schema)
    with working(store, poll=SELDOM):
        wait_for(lambda: idle_workers(db) == 1)
        for _ in range(3):
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'clew'"
            )
            assert other.expire() == 0
        assert [each.is_alive for each in other.workers()] == [True]
    other.close()


def test_behind_a_pooler_workers_poll(server: PostgresServer, store: PostgresStore, schema: str) -> None:
    behind = PostgresStore(server.dsn, schema=schema, pooler=True)
    assert behind.listen(lambda: None) is None
    with Engine(GRAPH, store=store) as engine, working(behind, poll=0.1):
        assert engine.submit({"a": 1}).result(timeout=60)["b"] == 2
    behind.close()


def test_a_submission_behind_a_pooler_wakes(
    server: PostgresServer, store: PostgresStore, schema: str, db: psycopg.Connection[Any]
) -> None:
    behind = PostgresStore(server.dsn, schema=schema, pooler=True)
    with Engine(GRAPH, store=behind) as engine, working(store, poll=SELDOM):
        wait_for(lambda: idle_workers(db) == 1)
        assert engine.submit({"a": 1}).result(timeout=60)["b"] == 2
    behind.close()


def test_notifications_are_few_and_only_for_idle_workers(
    store: PostgresStore, db: psycopg.Connection[Any]
) -> None:
    bell = store._bell
    db.execute(f"LISTEN {bell.channel}")

    def submit(name: str) -> float:
        began = time.monotonic()
        for number in range(200):
            store.create(RunRow(f"{name}{number}", structure="s"), queue=QueueEntry())
        return time.monotonic() - began

    submit("nobody")
    assert list(db.notifies(timeout=0.2)) == []
    db.execute("SELECT pg_advisory_lock_shared(%s, %s)", (IDLE, bell.key))
    took = submit("somebody")
    heard = list(db.notifies(timeout=120.0, stop_after=1))
    assert heard
    heard += db.notifies(timeout=0.2)
    assert len(heard) <= 1 + took / 0.2


def test_a_run_that_is_due_later_wakes_nobody(store: PostgresStore, db: psycopg.Connection[Any]) -> None:
    bell = store._bell
    db.execute(f"LISTEN {bell.channel}")
    db.execute("SELECT pg_advisory_lock_shared(%s, %s)", (IDLE, bell.key))
    store.create(RunRow("r", structure="s"), queue=QueueEntry(due=time.time() + 60.0))
    assert list(db.notifies(timeout=0.2)) == []


def test_a_closed_listener_leaves_nothing(store: PostgresStore, db: psycopg.Connection[Any]) -> None:
    woken = threading.Event()
    listener = store.listen(woken.set)
    assert listener is not None
    listener.be_idle(True)
    assert woken.wait(120.0)
    wait_for(lambda: idle_workers(db) == 1)  # the sessions of the test before may need a moment to end
    listener.close()
    wait_for(lambda: idle_workers(db) == 0)
    assert not [each for each in threading.enumerate() if each.name == "clew-queue-listener"]
