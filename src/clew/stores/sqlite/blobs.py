"""Large contents in a SQLite file: each once, for as long as a run that brought it is there.

A content lies in `blobs` under its digest and the run 0, and once more, without its body, under each run that brought
it. SQLite copies what it is given twice, so a content of more than a part is cut into rows of `parts`, and `blobs` says
which. Everything here runs within a transaction that somebody else began.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from io import BytesIO

_PART = 1 << 20
_KEEP = "INSERT INTO blobs (digest, run, body, first, last) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_IS_KEPT = "SELECT 1 FROM blobs WHERE digest = ? AND run = 0"


def put_blobs(db: sqlite3.Connection, number: int, blobs: Mapping[str, bytes]) -> None:
    """Keep contents for a run."""
    for digest, content in blobs.items():
        if len(content) <= _PART:
            db.execute(_KEEP, (digest, 0, content, None, None))
        elif db.execute(_IS_KEPT, (digest,)).fetchone() is None:
            db.execute(_KEEP, (digest, 0, None, *_cut(db, content)))
        db.execute(_KEEP, (digest, number, None, None, None))


def _cut(db: sqlite3.Connection, content: bytes) -> tuple[int, int]:
    """Keep a content in parts: the numbers of the first and the last."""
    (before,) = db.execute("SELECT coalesce(max(id), 0) FROM parts").fetchone()
    view = memoryview(content)
    rows = [
        (before + 1 + i, view[first : first + _PART]) for i, first in enumerate(range(0, len(content), _PART))
    ]
    db.executemany("INSERT INTO parts VALUES (?, ?)", rows)
    return rows[0][0], rows[-1][0]


def read_blob(db: sqlite3.Connection, digest: str) -> bytes | None:
    """A content as it lies there, whatever it is; None if there is none."""
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
    """Return a body; nothing for a value of another type, which fits no digest."""
    return body if type(body) is bytes else b""


def drop_blobs(db: sqlite3.Connection, number: int) -> None:
    """A run is deleted: its contents go, unless another run has brought them too."""
    brought = db.execute("SELECT digest FROM blobs WHERE run = ? AND run > 0", (number,)).fetchall()
    db.execute("DELETE FROM blobs WHERE run = ? AND run > 0", (number,))
    for (digest,) in brought:
        if db.execute("SELECT 1 FROM blobs WHERE digest = ? AND run > 0", (digest,)).fetchone() is None:
            found = db.execute(
                "SELECT first, last FROM blobs WHERE digest = ? AND run = 0", (digest,)
            ).fetchone()
            if found is not None and found[0] is not None:
                db.execute("DELETE FROM parts WHERE id BETWEEN ? AND ?", found)
            db.execute("DELETE FROM blobs WHERE digest = ? AND run = 0", (digest,))
