"""Cached results in a SQLite file.

The table is created with the first result, so a file without cached nodes has no page for it. A result uses blobs in
the same way as a run, under its negated number. Times follow the clock of the store. `cached`, `cache` and
`clear_cache` are methods of `SQLiteStore`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.stores.protocol import CachedResult
from clew.stores.results import EXPIRED_AT_A_TIME, checked_result, result_checksum
from clew.stores.sqlite.blobs import put_blobs, release_blobs

if TYPE_CHECKING:
    from clew.stores.sqlite.store import SQLiteStore

_TABLE = (
    "CREATE TABLE IF NOT EXISTS results (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, "
    "node TEXT NOT NULL, body BLOB NOT NULL, blobs TEXT NOT NULL, made REAL NOT NULL, expires REAL, "
    "crc INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS results_by_expiry ON results (expires) WHERE expires IS NOT NULL",
)
_REPLACED = (
    "SELECT id, blobs FROM results WHERE key = ? UNION "
    "SELECT * FROM (SELECT id, blobs FROM results WHERE expires <= ? LIMIT ?)"
)
_PUT = "INSERT INTO results (key, node, body, blobs, made, expires, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"
_NO_TABLE = "no such table: results"


def cached(store: SQLiteStore, key: str) -> CachedResult | None:
    with store._lock, store._reading("a cached result") as db:
        found = _rows(db, "SELECT body, crc, made, expires FROM results WHERE key = ?", (key,))
    if not found:
        return None
    body, crc, made, expires = found[0]
    return checked_result(key, body, crc, made, expires, store._clock.time())


def cache(
    store: SQLiteStore,
    key: str,
    node: str,
    body: bytes,
    blobs: Mapping[str, bytes] = {},
    *,
    ttl: float | None = None,
) -> None:
    """Store a result instead of an earlier one of the same key; delete some that have expired."""
    now = store._clock.time()
    values = (key, node, body, json.dumps(list(blobs)), now, None if ttl is None else now + ttl)
    with store._lock, store._writing("a cached result") as db:
        for statement in _TABLE:
            db.execute(statement)
        has_files = _drop(db, db.execute(_REPLACED, (key, now, EXPIRED_AT_A_TIME)).fetchall())
        number = db.execute(_PUT, (*values, result_checksum(key, body))).lastrowid
        assert number is not None
        put_blobs(db, store._folder, -number, blobs)
    _sweep(store, has_files)


def clear_cache(store: SQLiteStore, node: str | None = None) -> int:
    where, values = ("", ()) if node is None else (" WHERE node = ?", (node,))
    with store._lock, store._writing("the cached results") as db:
        found = _rows(db, f"SELECT id, blobs FROM results{where}", values)
        has_files = _drop(db, found)
    _sweep(store, has_files)
    return len(found)


def result_keys(db: sqlite3.Connection) -> list[str]:
    return [str(key) for (key,) in _rows(db, "SELECT key FROM results ORDER BY id", ())]


def _rows(db: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    try:
        return db.execute(statement, values).fetchall()
    except sqlite3.OperationalError as error:
        if _NO_TABLE not in str(error):
            raise
        return []


def _drop(db: sqlite3.Connection, found: Sequence[tuple[Any, ...]]) -> bool:
    """Delete results; return whether they may have left files."""
    has_files = False
    for number, blobs in found:
        db.execute("DELETE FROM results WHERE id = ?", (number,))
        has_files = release_blobs(db, -number, _digests(blobs)) or has_files
    return has_files


def _sweep(store: SQLiteStore, has_files: bool) -> None:
    if has_files and not store._db.in_transaction:  # committed: this was not a nested use
        with store._lock, store._writing("the large values") as db:
            store._folder.sweep(db)


def _digests(blobs: Any) -> list[str]:
    try:
        return [str(digest) for digest in json.loads(blobs)]
    except (TypeError, ValueError):  # damaged: the blobs stay
        return []
