"""Ownership of runs in a SQLite file: methods of `SQLiteStore`.

The row of a run holds its fence, its owner and the token of the claim. `clew.stores.sqlite.workers` knows the owners.
The statement that writes the owner of a run also checks that the owner is registered. Other statements follow only if
it is not, or if its lease must be renewed. So an engine registers once, and not for each run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.errors import RunOwnedError, StoreCorruptError
from clew.stores.messages import RECENT, damaged_row, owned, unknown
from clew.stores.protocol import Owner, WorkerRow
from clew.stores.queue import PARKED
from clew.stores.sql_rows import COLUMNS
from clew.stores.sqlite.entries import SPAN
from clew.stores.sqlite.file import check_place
from clew.stores.sqlite.workers import ENROLLED, Workers

if TYPE_CHECKING:
    from clew.stores.sqlite.store import SQLiteStore

RELEASED = "owner = '', token = ''"

_OWNER = (
    "SELECT id, EXISTS (SELECT 1 FROM queue WHERE run = runs.id), fence, owner, token, child_of FROM runs "
    "WHERE run_id = ?"
)
_TYPES: tuple[tuple[type, ...], ...] = ((int,), (int,), (int,), (str,), (str,), (str, type(None)))
ADD_ROW = f"INSERT INTO runs ({COLUMNS}) VALUES ({', '.join('?' * 15)})"
_TAKE = "UPDATE runs SET fence = ?, owner = ?, token = ? WHERE id = ?"
_TAKE_IF_ENROLLED = f"{_TAKE} AND EXISTS (SELECT 1 FROM workers WHERE {ENROLLED})"
# The number of a new run is known before it is inserted: one statement writes the run, its owner and its fence.
_NEXT = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0) + 1"
_ADD_OWNED = (
    f"INSERT INTO runs (id, fence, owner, token, {COLUMNS}) SELECT {_NEXT}, ({_NEXT}) * {SPAN} + 1, owner, ?, "
    f"{', '.join('?' * 15)} FROM workers WHERE {ENROLLED}"
)
_TAKEN_NUMBER = (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID)
_ABOUT = "the owners"


def claim(store: SQLiteStore, run_id: str, owner: str, *, lease: float, token: str = "") -> int:
    check_place(store.path, store._file, f"run {run_id!r}")
    with store._lock, store._writing(f"run {run_id!r}") as db:
        number, is_queued, fence, holder, held, child_of = _find(db, run_id)
        if child_of is None and holder and not (holder == owner and token and token == held):
            store._workers.enroll(db, owner, lease)
            other = store._workers.find(db, holder, held)
            if holder == owner or other.holds:
                raise RunOwnedError(owned(run_id, holder, other.expires_in))
            store._workers.bury(db, holder)
        if is_queued:
            db.execute("UPDATE queue SET taken = 1 WHERE run = ?", (number,))
        values = ((fence or number * SPAN) + 1, owner, token, number)
        if not db.execute(_TAKE_IF_ENROLLED, (*values, *store._workers.enrolled(owner, lease))).rowcount:
            store._workers.enroll(db, owner, lease)
            db.execute(_TAKE, values)
        return int(values[0])


def add_owned(
    db: sqlite3.Connection, workers: Workers, row: Sequence[Any], owner: str, token: str, lease: float
) -> tuple[int, int]:
    """Add the row of a new run with its owner; return its number and its fence."""
    try:
        added = db.execute(_ADD_OWNED, (token, *row, *workers.enrolled(owner, lease)))
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode not in _TAKEN_NUMBER:
            raise
        added = None  # something other than this library changed the sequence
    if added is not None and added.rowcount:
        number = added.lastrowid or 0
        return number, number * SPAN + 1
    workers.enroll(db, owner, lease)
    number = db.execute(ADD_ROW, row).lastrowid or 0
    return number, take(db, number, 0, owner, token)


def take(db: sqlite3.Connection, number: int, fence: int, owner: str, token: str) -> int:
    """Store the owner of a run, and return the new fence. The caller takes its entry in the queue."""
    fence = (fence or number * SPAN) + 1
    db.execute(_TAKE, (fence, owner, token, number))
    return int(fence)


def release(store: SQLiteStore, run_id: str, fence: int) -> None:
    with store._lock, store._writing(f"run {run_id!r}") as db:
        free = f"UPDATE runs SET {RELEASED} WHERE run_id = ? AND fence = ?"
        if db.execute(free, (run_id, fence)).rowcount:
            entry = (
                "UPDATE queue SET taken = 0 WHERE run = (SELECT id FROM runs WHERE run_id = ?) RETURNING due"
            )
            if [due for (due,) in db.execute(entry, (run_id,)) if due < PARKED]:
                returned = "UPDATE runs SET status = 'queued' WHERE run_id = ? AND status = 'running'"
                db.execute(returned, (run_id,))


def owner(store: SQLiteStore, run_id: str) -> Owner | None:
    with store._lock, store._reading(f"run {run_id!r}") as db:
        *_, name, token, child_of = _find(db, run_id)
        if child_of is None:
            return store._workers.find(db, name, token) if name else None
        while child_of is not None:
            *_, outermost, _, child_of = _find(db, child_of)
        if outermost:
            return store._workers.find(db, outermost, token)
        return Owner(name, 0.0, False, token) if name else None


def register(
    store: SQLiteStore, owner: str, *, lease: float, label: str = "", info: Mapping[str, Any] | None = None
) -> None:
    check_place(store.path, store._file, owner)
    with store._lock, store._writing(_ABOUT) as db:
        store._workers.enroll(db, owner, lease)
        store._workers.describe(db, owner, label)
        store._workers.renew(db, owner, lease, info)


def renew(store: SQLiteStore, owner: str, *, lease: float, info: Mapping[str, Any] | None = None) -> None:
    check_place(store.path, store._file, owner)
    with store._lock, store._writing(_ABOUT) as db:
        store._workers.renew(db, owner, lease, info)


def retire(store: SQLiteStore, owner: str) -> None:
    with store._lock, store._writing(_ABOUT) as db:
        store._workers.retire(db, owner)


def expire(store: SQLiteStore) -> int:
    with store._lock, store._writing(_ABOUT) as db:
        return store._workers.expire(db)


def workers(store: SQLiteStore) -> list[WorkerRow]:
    with store._lock, store._reading(_ABOUT) as db:
        return store._workers.all(db)


def _find(db: sqlite3.Connection, run_id: str) -> Sequence[Any]:
    """Return a row of `_OWNER`. Raise StoreCorruptError if a value has an unexpected type."""
    found: Sequence[Any] | None = db.execute(_OWNER, (run_id,)).fetchone()
    if found is None:
        raise unknown(run_id, db.execute(RECENT))
    if any(type(value) not in types for value, types in zip(found, _TYPES)):
        raise StoreCorruptError(damaged_row(run_id, "its owner is unreadable"))
    return found
