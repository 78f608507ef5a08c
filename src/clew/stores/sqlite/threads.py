"""Threads in a SQLite file: a row for each, with the run at its head. Callers of functions have a transaction open."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from clew.errors import ThreadMovedError
from clew.stores.messages import moved
from clew.stores.protocol import ThreadMove
from clew.stores.sqlite.transactions import SQLiteTransaction

if TYPE_CHECKING:
    from _thread import RLock


class SQLiteThreads:
    """The threads of a store, which sets the lock and opens transactions."""

    _lock: RLock

    def _reading(self, what: str) -> SQLiteTransaction:
        raise NotImplementedError

    def head(self, thread: str) -> str | None:
        """Return the run at the head of a thread, or None."""
        with self._lock, self._reading(f"thread {thread!r}") as db:
            return head_of(db, thread)

    def threads(self) -> list[tuple[str, str]]:
        """Return all threads by name, each with its head."""
        with self._lock, self._reading("the list of threads") as db:
            return db.execute("SELECT name, head FROM threads ORDER BY name").fetchall()


def head_of(db: sqlite3.Connection, thread: str) -> str | None:
    """Return the head of a thread, or None."""
    found = db.execute("SELECT head FROM threads WHERE name = ?", (thread,)).fetchone()
    return None if found is None else str(found[0])


def move(db: sqlite3.Connection, thread: ThreadMove, run_id: str) -> None:
    """Make a run the head of a thread. Raise ThreadMovedError if the thread has another head than expected."""
    if (head := head_of(db, thread.name)) != thread.expected:
        raise ThreadMovedError(moved(thread.name, head))
    statement = "INSERT INTO threads VALUES (?, ?) ON CONFLICT DO UPDATE SET head = excluded.head"
    db.execute(statement, (thread.name, run_id))


def move_back(db: sqlite3.Connection, run_id: str) -> None:
    """Make the parent of a run the head of its threads. Without a parent, delete them."""
    db.execute(
        "DELETE FROM threads WHERE head = ?1 AND (SELECT parent FROM runs WHERE run_id = ?1) IS NULL",
        (run_id,),
    )
    db.execute(
        "UPDATE threads SET head = (SELECT parent FROM runs WHERE run_id = ?1) WHERE head = ?1", (run_id,)
    )
