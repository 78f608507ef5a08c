"""Blobs (large values) in a SQLite file, each stored once while a run or a cached result uses it.

`blobs` has a row for each blob with its digest and the run 0, and a row without a body for each run that uses it, or
with the negative number of each cached result.
SQLite copies its parameters twice, so a blob larger than a part is split into rows of `parts`. The caller opens the
transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from io import BytesIO

_PART = 1 << 20
_PUT = "INSERT INTO blobs (digest, run, body, first, last) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_EXISTS = "SELECT 1 FROM blobs WHERE digest = ? AND run = 0"


def put_blobs(db: sqlite3.Connection, number: int, blobs: Mapping[str, bytes]) -> None:
    """Store blobs for a run."""
    for digest, content in blobs.items():
        if len(content) <= _PART:
            db.execute(_PUT, (digest, 0, content, None, None))
        elif db.execute(_EXISTS, (digest,)).fetchone() is None:
            db.execute(_PUT, (digest, 0, None, *_split(db, content)))
        db.execute(_PUT, (digest, number, None, None, None))


def _split(db: sqlite3.Connection, content: bytes) -> tuple[int, int]:
    """Store a blob in parts, and return the numbers of the first and the last."""
    (before,) = db.execute("SELECT coalesce(max(id), 0) FROM parts").fetchone()
    view = memoryview(content)
    rows = [
        (before + 1 + i, view[first : first + _PART]) for i, first in enumerate(range(0, len(content), _PART))
    ]
    db.executemany("INSERT INTO parts VALUES (?, ?)", rows)
    return rows[0][0], rows[-1][0]


def read_blob(db: sqlite3.Connection, digest: str) -> bytes | None:
    """Return a blob without verifying it, or None if it does not exist."""
    found = db.execute(
        "SELECT body, first, last FROM blobs WHERE digest = ? AND run = 0", (digest,)
    ).fetchone()
    if found is None or found[1] is None:
        return None if found is None else _content(found[0])
    content = BytesIO()
    for (part,) in db.execute("SELECT body FROM parts WHERE id BETWEEN ? AND ? ORDER BY id", found[1:]):
        content.write(_content(part))
    return content.getvalue()


def _content(body: object) -> bytes:
    """Return a body, or nothing for a damaged value of another type, so that its digest does not match."""
    return body if type(body) is bytes else b""


def drop_blobs(db: sqlite3.Connection, number: int) -> None:
    """Delete the blobs of a run that nothing else uses."""
    used = db.execute("SELECT digest FROM blobs WHERE run = ? AND run > 0", (number,)).fetchall()
    release_blobs(db, number, [digest for (digest,) in used])


def release_blobs(db: sqlite3.Connection, number: int, digests: Iterable[str]) -> None:
    """Stop using blobs, and delete those that nothing else uses."""
    for digest in digests:
        db.execute("DELETE FROM blobs WHERE digest = ? AND run = ?", (digest, number))
        if db.execute("SELECT 1 FROM blobs WHERE digest = ? AND run <> 0", (digest,)).fetchone() is None:
            found = db.execute(
                "SELECT first, last FROM blobs WHERE digest = ? AND run = 0", (digest,)
            ).fetchone()
            if found is not None and found[0] is not None:
                db.execute("DELETE FROM parts WHERE id BETWEEN ? AND ?", found)
            db.execute("DELETE FROM blobs WHERE digest = ? AND run = 0", (digest,))
