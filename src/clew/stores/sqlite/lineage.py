"""Threads in a SQLite file, and the deletion of runs, which moves threads back.

A thread is a row with the run at its head. `head` and `threads` are methods of `SQLiteStore`. Callers of the other
functions have a transaction open. A run is deleted with its log, its children, and the blobs that nothing else uses. A
fork that was detached does not prevent the deletion of its parent.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from clew.errors import StoreError, ThreadMovedError
from clew.stores.messages import has_fork, moved
from clew.stores.protocol import RunRow, ThreadMove
from clew.stores.sql_rows import ORIGIN, row_values
from clew.stores.sqlite.blobs import drop_blobs
from clew.stores.sqlite.entries import SPAN

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


def delete_run(db: sqlite3.Connection, number: int, run_id: str) -> bool:
    """Delete a run without forks, and its children; return whether files may be left. A transaction is open."""
    family = {run_id: number}
    for each in (left := [run_id]):
        found = db.execute("SELECT run_id, id FROM runs WHERE child_of = ?", (each,)).fetchall()
        family.update(found)
        left += [child for child, _ in found]
    for each in family:
        for (fork,) in db.execute("SELECT run_id FROM runs WHERE parent = ? ORDER BY id", (each,)):
            if fork not in family:
                raise StoreError(has_fork(each, fork))
    move_back(db, run_id)
    left_files = [_delete(db, each) for each in family.values()]
    return any(left_files)


def detach_run(db: sqlite3.Connection, number: int, row: RunRow) -> None:
    """Replace the initial state of a fork, which no longer has a parent. A transaction is open."""
    db.execute("UPDATE runs SET parent = NULL, parent_step = NULL WHERE id = ?", (number,))
    names = ", ".join(f"{name} = ?" for name in ORIGIN.split(", "))
    db.execute(f"UPDATE origins SET {names} WHERE run = ?", (*row_values(row)[1], number))


def _delete(db: sqlite3.Connection, number: int) -> bool:
    base = number * SPAN
    db.execute("DELETE FROM steps WHERE id >= ? AND id < ?", (base, base + SPAN))
    db.execute("DELETE FROM log WHERE run = ?", (number,))
    has_files = drop_blobs(db, number)
    db.execute("DELETE FROM origins WHERE run = ?", (number,))
    db.execute("DELETE FROM queue WHERE run = ?", (number,))
    db.execute("DELETE FROM inbox WHERE run = ?", (number,))
    db.execute("DELETE FROM attributes WHERE run = ?", (number,))
    db.execute("DELETE FROM runs WHERE id = ?", (number,))
    return has_files
