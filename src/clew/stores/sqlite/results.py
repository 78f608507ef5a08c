"""Cached results in a SQLite file.

The table is created with the first result, so a file without cached nodes has no page for it. A result uses its blobs
as a run does, under the negative of its number. Times are those of the store's clock. The caller opens the transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from clew.stores.protocol import CachedResult
from clew.stores.results import EXPIRED_AT_A_TIME, checked_result, result_checksum
from clew.stores.sqlite.blobs import put_blobs, release_blobs

_TABLE = (
    "CREATE TABLE IF NOT EXISTS results (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, "
    "node TEXT NOT NULL, body BLOB NOT NULL, blobs TEXT NOT NULL, made REAL NOT NULL, expires REAL, "
    "crc INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS results_by_expiry ON results (expires) WHERE expires IS NOT NULL",
)
_NO_TABLE = "no such table: results"


def read_result(db: sqlite3.Connection, key: str, now: float) -> CachedResult | None:
    """Return a result that has not expired, or None."""
    select = "SELECT body, crc, made, expires FROM results WHERE key = ?"
    found = _rows(db, select, (key,))
    if not found:
        return None
    body, crc, made, expires = found[0]
    return checked_result(key, body, crc, made, expires, now)


def put_result(
    db: sqlite3.Connection,
    key: str,
    node: str,
    body: bytes,
    blobs: Mapping[str, bytes],
    now: float,
    ttl: float | None,
) -> None:
    """Store a result instead of an earlier one of the same key; delete some that have expired."""
    for statement in _TABLE:
        db.execute(statement)
    old = "SELECT id, blobs FROM results WHERE key = ? UNION ALL "
    expired = "SELECT * FROM (SELECT id, blobs FROM results WHERE expires <= ? LIMIT ?)"
    _drop(db, db.execute(old + expired, (key, now, EXPIRED_AT_A_TIME)).fetchall())
    values = (key, node, body, json.dumps(list(blobs)), now, None if ttl is None else now + ttl)
    insert = "INSERT INTO results (key, node, body, blobs, made, expires, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"
    number = db.execute(insert, (*values, result_checksum(key, body))).lastrowid
    assert number is not None
    put_blobs(db, -number, blobs)


def drop_results(db: sqlite3.Connection, node: str | None) -> int:
    """Delete the results of a node, or all; return how many."""
    where, values = ("", ()) if node is None else (" WHERE node = ?", (node,))
    found = _rows(db, f"SELECT id, blobs FROM results{where}", values)
    _drop(db, found)
    return len({number for number, _ in found})


def result_keys(db: sqlite3.Connection) -> list[str]:
    """Return the keys of all results."""
    return [str(key) for (key,) in _rows(db, "SELECT key FROM results ORDER BY id", ())]


def _rows(db: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    try:
        return db.execute(statement, values).fetchall()
    except sqlite3.OperationalError as error:
        if _NO_TABLE not in str(error):
            raise
        return []


def _drop(db: sqlite3.Connection, found: list[tuple[int, str]]) -> None:
    for number, blobs in found:
        db.execute("DELETE FROM results WHERE id = ?", (number,))
        release_blobs(db, -number, _digests(blobs))


def _digests(blobs: Any) -> list[str]:
    try:
        return [str(digest) for digest in json.loads(blobs)]
    except (TypeError, ValueError):  # damaged: the blobs stay
        return []
