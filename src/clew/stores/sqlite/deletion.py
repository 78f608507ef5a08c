"""Deleting a run from a SQLite file: its row, its log, and the blobs that nothing else uses."""

from __future__ import annotations

import sqlite3

from clew.errors import StoreError
from clew.stores.messages import has_fork
from clew.stores.sqlite.blobs import drop_blobs
from clew.stores.sqlite.entries import SPAN
from clew.stores.sqlite.threads import move_back


def delete_run(db: sqlite3.Connection, number: int, run_id: str) -> bool:
    """Delete a run without forks; return whether it may have left files. The caller has a transaction open."""
    select = "SELECT run_id FROM runs WHERE parent = ? ORDER BY id LIMIT 1"
    if fork := db.execute(select, (run_id,)).fetchone():
        raise StoreError(has_fork(run_id, fork[0]))
    move_back(db, run_id)
    base = number * SPAN
    db.execute("DELETE FROM steps WHERE id >= ? AND id < ?", (base, base + SPAN))
    db.execute("DELETE FROM log WHERE run = ?", (number,))
    has_files = drop_blobs(db, number)
    db.execute("DELETE FROM origins WHERE run = ?", (number,))
    db.execute("DELETE FROM runs WHERE id = ?", (number,))
    return has_files
