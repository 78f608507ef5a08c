"""The queue in a SQLite file: methods of `SQLiteStore`, and parts of its transactions.

The rules are in `clew.stores.queue`. An index holds the entries of runs without an owner, by queue, structure, priority
and due time. A take reads the first entries of each priority; within a priority, entries are ordered by due time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from clew.errors import StoreCorruptError
from clew.stores.protocol import QueueCount, QueueEntry, TakenRun
from clew.stores.queue import FINAL, PARKED, WAKES, apart, queue_count, rank
from clew.stores.sql_rows import ROW, read_row
from clew.stores.sqlite.entries import SPAN
from clew.stores.sqlite.ownership import RELEASED
from clew.stores.sqlite.ownership import take as take_run

if TYPE_CHECKING:
    from clew.stores.sqlite.store import SQLiteStore

_WHAT = "the queue"
_NEXT = "SELECT min(priority) FROM queue WHERE NOT taken AND queue = ? AND structure = ? AND priority > ?"
_READY = (
    "SELECT priority, due, run, tries FROM queue WHERE NOT taken AND queue = ? AND structure = ? AND priority = ? "
    "AND due <= ? ORDER BY due, run LIMIT ?"
)
_LOST = (
    "SELECT queue.priority, queue.due, queue.run, queue.tries FROM queue JOIN runs ON runs.id = queue.run "
    "LEFT JOIN workers ON workers.owner = runs.owner "
    "WHERE queue.taken AND queue.queue = ? AND queue.structure = ? AND (workers.owner IS NULL OR workers.dead) "
    "AND typeof(queue.due) = 'real' AND typeof(queue.priority) = 'integer'"  # not a damaged row
)
_MARK = (
    "SELECT (SELECT max(id) FROM steps WHERE id >= ?1 * ?2 AND id < (?1 + 1) * ?2) || ':', count(*), max(id) "
    "FROM log WHERE run = ?1"
)
_PUT = (
    "INSERT INTO queue (run, queue, structure, priority, due) SELECT id, ?, structure, ?, ? FROM runs WHERE id = ? "
    "ON CONFLICT DO UPDATE SET queue = excluded.queue, structure = excluded.structure, priority = excluded.priority, "
    "due = excluded.due, taken = 0"
)
_WAKE = (
    "UPDATE queue SET due = ?1 WHERE run = ?2 AND due > ?1 "
    f"AND (SELECT status FROM runs WHERE id = ?2) IN ({', '.join(map(repr, WAKES))}) "
    "AND EXISTS (SELECT 1 FROM inbox WHERE run = ?2 AND body IS NOT NULL)"
)
_LOWEST = -(1 << 63)


def put(db: sqlite3.Connection, number: int, entry: QueueEntry, now: float) -> None:
    """Add the entry of a run, or replace it."""
    values = (entry.queue, entry.priority, now if entry.due is None else entry.due, number)
    db.execute(_PUT, values)


def settle(
    db: sqlite3.Connection, number: int, status: str, due: float | None, now: float, *, release: bool
) -> None:
    """Delete or park the entry of a run that has got a status."""
    if status in FINAL:
        db.execute("DELETE FROM queue WHERE run = ?", (number,))
    elif release:
        parked = "UPDATE queue SET taken = 0, tries = 0, due = ? WHERE run = ?"
        found = db.execute(parked, (PARKED if due is None else due, number)).rowcount
        if due is not None and not found:
            put(db, number, QueueEntry(due=due), now)
        wake(db, number, now)


def wake(db: sqlite3.Connection, number: int, now: float) -> None:
    """Make the entry of a run due that sleeps or waits and has a message."""
    db.execute(_WAKE, (now, number))


def entry(store: SQLiteStore, run_id: str) -> QueueEntry | None:
    with store._lock, store._reading(f"run {run_id!r}") as db:
        number = store._number(db, run_id)
        found = db.execute("SELECT queue, priority, due FROM queue WHERE run = ?", (number,)).fetchone()
    return None if found is None else _checked(*found)


def _checked(queue: Any, priority: Any, due: Any) -> QueueEntry:
    """Return an entry. Raise StoreCorruptError if a value has an unexpected type."""
    if type(queue) is not str or type(priority) is not int or type(due) not in (int, float):
        raise StoreCorruptError(
            f"an entry of the queue is damaged: it is in queue {queue!r} with priority {priority!r}, due at {due!r}"
        )
    return QueueEntry(queue, priority, due)


def take(
    store: SQLiteStore,
    owner: str,
    *,
    structures: Collection[str],
    queues: Collection[str],
    limit: int,
    lease: float,
    token: str = "",
) -> list[TakenRun]:
    """Claim ready runs. Without any, write nothing."""
    places = [(queue, structure) for queue in sorted(queues) for structure in sorted(structures)]
    with store._lock, store._reading(_WHAT) as db:
        store._workers.refuse_dead(db, owner)
        if not store._workers.has_expired(db) and next(_found(store, db, places, 1), None) is None:
            return []
    with store._lock, store._writing(_WHAT) as db:
        store._workers.enroll(db, owner, lease)
        store._workers.expire(db, probes=False)
        now = store._clock.time()
        chosen = sorted(_found(store, db, places, limit), key=lambda e: (*rank(e[0], e[1], now), e[2]))
        mine = apart(chosen[:limit], lambda each: each[3])
        return [_taken(db, number, owner, token) for _, _, number, _ in mine]


def _found(
    store: SQLiteStore, db: sqlite3.Connection, places: list[tuple[str, str]], limit: int
) -> Iterator[tuple[int, float, int, int]]:
    """Yield priority, due time, run and tries of entries that can be taken, with at most `limit` ready ones of each
    priority."""
    now = store._clock.time()
    for place in places:
        (level,) = db.execute(_NEXT, (*place, _LOWEST)).fetchone()
        while isinstance(level, int):  # text, of a damaged row, comes after all numbers
            yield from db.execute(_READY, (*place, level, now, limit)).fetchall()
            (level,) = db.execute(_NEXT, (*place, level)).fetchone()
        yield from db.execute(_LOST, place).fetchall()


def _taken(db: sqlite3.Connection, number: int, owner: str, token: str) -> TakenRun:
    mark = "/".join(map(str, db.execute(_MARK, (number, SPAN)).fetchone()))
    (tries,) = db.execute(
        "UPDATE queue SET taken = 1, tries = CASE mark WHEN ?1 THEN tries + 1 ELSE 1 END, mark = ?1 WHERE run = ?2 "
        "RETURNING tries",
        (mark, number),
    ).fetchone()
    (fence,) = db.execute("SELECT fence FROM runs WHERE id = ?", (number,)).fetchone()
    fence = take_run(db, number, fence, owner, token)
    db.execute("UPDATE runs SET status = 'running' WHERE id = ?", (number,))
    row = read_row(db.execute(f"{ROW} WHERE runs.id = ?", (number,)).fetchone())
    if row.damage:
        raise StoreCorruptError(row.damage)
    return TakenRun(row, fence, tries, mark == "None/0/None")


def enqueue(
    store: SQLiteStore,
    run_id: str,
    fence: int,
    *,
    status: str,
    due: float | None = None,
    queue: str = "",
    priority: int | None = None,
) -> None:
    with store._lock, store._writing(f"run {run_id!r}") as db:
        number = store._owned(db, run_id, fence)
        found = db.execute("SELECT queue, priority, 0 FROM queue WHERE run = ?", (number,)).fetchone()
        old = QueueEntry() if found is None else _checked(*found)
        level = old.priority if priority is None else priority
        name = queue or old.queue
        put(db, number, QueueEntry(name, level, due), store._clock.time())
        released = f"UPDATE runs SET {RELEASED}, status = ?, last_queue = ? WHERE id = ?"
        db.execute(released, (status, name, number))


def now(store: SQLiteStore) -> float:
    return store._clock.time()


def queues(store: SQLiteStore) -> list[QueueCount]:
    with store._lock, store._reading(_WHAT) as db:
        found: dict[str, tuple[list[float], list[float]]] = {}
        entries: list[tuple[Any, ...]] = db.execute(
            "SELECT queue, priority, due, taken FROM queue"
        ).fetchall()
    for name, priority, due, taken in entries:
        _checked(name, priority, due)
        found.setdefault(name, ([], []))[bool(taken)].append(due)
    now = store._clock.time()
    return [queue_count(name, dues, len(taken), now) for name, (dues, taken) in sorted(found.items())]
