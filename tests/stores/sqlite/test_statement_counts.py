"""How many statements a run costs: an owner is registered once, and only queued runs use the queue."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from clew import Engine, Graph, node
from clew.errors import OwnerDeadError, RunExistsError
from clew.stores import LogEntry, QueueEntry, RunRow, SQLiteStore

LEASE = 1_000.0


class SettableClock:
    """A clock whose time is set by hand."""

    boot = "this boot"

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def store(tmp_path: Path, clock: SettableClock) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(tmp_path / "runs.db", clock=clock)) as store:
        store.register("me", lease=LEASE)
        yield store


@contextmanager
def traced(store: SQLiteStore) -> Iterator[list[str]]:
    statements: list[str] = []
    store._db.set_trace_callback(statements.append)
    try:
        yield statements
    finally:
        store._db.set_trace_callback(None)


def counted(store: SQLiteStore, do: Callable[[], object]) -> int:
    with traced(store) as statements:
        do()
    return len(statements)


def new(store: SQLiteStore, run_id: str, queue: QueueEntry | None = None) -> int:
    return store.create(RunRow(run_id), {"d": b"1"}, owner="me", lease=LEASE, token=run_id, queue=queue)


def finish(store: SQLiteStore, run_id: str, fence: int) -> None:
    store.update(run_id, status="completed", updated=1.0, error=None, fence=fence, release=True)


def test_create_one_step_and_end(store: SQLiteStore) -> None:
    fences = []
    assert counted(store, lambda: new(store, "r")) == 7  # it adds the content of the blob
    assert counted(store, lambda: fences.append(new(store, "s"))) == 6
    (fence,) = fences
    assert counted(store, lambda: store.append("s", [LogEntry("step", "", 1, b"{}", b"d")], fence)) == 1
    assert counted(store, lambda: finish(store, "s", fence)) == 5


def test_a_whole_run_of_an_engine(tmp_path: Path) -> None:
    @node(output="b")
    def add(a: int) -> int:
        return a + 1

    with closing(SQLiteStore(tmp_path / "engine.db")) as store:
        engine = Engine(Graph([add]), store=store)
        engine.run({"a": 1})
        with traced(store) as statements:
            engine.run({"a": 1})
        assert len(statements) == 12  # 13 with a lease for each run
        writes = [
            each.split("(")[0].split() for each in statements if not each.startswith(("SELECT", "BEGIN"))
        ]
        assert not any("workers" in words[:3] or "queue" in words[:3] for words in writes)


def test_to_claim_and_to_begin(store: SQLiteStore) -> None:
    store.create(RunRow("r"))
    fences = []
    assert counted(store, lambda: fences.append(store.claim("r", "me", lease=LEASE, token="t"))) == 4
    begin = counted(
        store, lambda: store.update("r", status="running", updated=1.0, error=None, fence=fences[0])
    )
    assert begin == 1


def test_an_index_of_the_queue_has_only_queued_runs(store: SQLiteStore) -> None:
    finish(store, "r", new(store, "r"))
    assert store._db.execute("SELECT count(*) FROM queue").fetchone() == (0,)
    fence = new(store, "s", QueueEntry())
    finish(store, "s", fence)
    assert store._db.execute("SELECT count(*) FROM queue").fetchone() == (0,)


def test_a_lease_that_is_half_over_is_renewed_by_a_new_run(store: SQLiteStore, clock: SettableClock) -> None:
    clock.now = LEASE * 0.4
    new(store, "r")
    assert store.workers()[0].expires_in == LEASE * 0.6
    clock.now = LEASE * 0.6
    fence = new(store, "s")
    assert store.workers()[0].expires_in == LEASE
    finish(store, "s", fence)


def test_a_dead_owner_creates_and_claims_nothing(store: SQLiteStore) -> None:
    store.create(RunRow("r"))
    store._db.execute("UPDATE workers SET dead = 1")
    with pytest.raises(OwnerDeadError):
        new(store, "s")
    with pytest.raises(OwnerDeadError):
        store.claim("r", "me", lease=LEASE)
    assert [row.run_id for row in store.rows()] == ["r"]


def test_a_run_that_exists(store: SQLiteStore) -> None:
    new(store, "r")
    with pytest.raises(RunExistsError):
        new(store, "r")
    fence = new(store, "s")
    finish(store, "s", fence)


def test_numbers_that_the_sequence_does_not_know(store: SQLiteStore) -> None:
    new(store, "r")
    new(store, "s")
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'runs'")
    fence = new(store, "t")
    assert fence >> 32 == 3
    store.append("t", [LogEntry("step", "", 1, b"{}", b"d")], fence)
    finish(store, "t", fence)
    assert new(store, "u") >> 32 == 4


def test_a_number_is_not_used_again(store: SQLiteStore) -> None:
    fence = new(store, "r")
    store.delete("r")
    assert new(store, "r") >> 32 == (fence >> 32) + 1
