"""Threads in a SQLite file: a row for each, with the run at its head.

`head` and `threads` are methods of `SQLiteStore`. Callers of the other functions have a transaction open.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from clew.errors import ThreadMovedError
from clew.stores.messages import moved
from clew.stores.protocol import ThreadMove

if TYPE_CHECKING:
    from clew.stores.sqlite.store import SQLiteStore


def head(store: SQLiteStore, thread: str) -> str | None:
    with store._lock, store._reading(f"thread {thread!r}") as db:
        return head_of(db, thread)


def threads(store: SQLiteStore) -> list[tuple[str, str]]:
    with store._lock, store._reading("the list of threads") as db:
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
