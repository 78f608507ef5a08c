"""Deleting a run from a SQLite file: its row, its log, its children, and the blobs that nothing else uses."""

from __future__ import annotations

import sqlite3

from clew.errors import StoreError
from clew.stores.messages import has_fork
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


def _delete(db: sqlite3.Connection, number: int) -> bool:
    base = number * SPAN
    db.execute("DELETE FROM steps WHERE id >= ? AND id < ?", (base, base + SPAN))
    db.execute("DELETE FROM log WHERE run = ?", (number,))
    has_files = drop_blobs(db, number)
    db.execute("DELETE FROM origins WHERE run = ?", (number,))
    db.execute("DELETE FROM runs WHERE id = ?", (number,))
    return has_files
