"""Deleting a run from a SQLite file: its row, its log, its children, and the blobs that nothing else uses.

A fork that was detached does not prevent the deletion of its parent.
"""

from __future__ import annotations

import sqlite3

from clew.errors import StoreError
from clew.stores.messages import has_fork
from clew.stores.protocol import RunRow
from clew.stores.sql_rows import ORIGIN, row_values
from clew.stores.sqlite.blobs import drop_blobs
from clew.stores.sqlite.entries import SPAN
from clew.stores.sqlite.threads import move_back


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
