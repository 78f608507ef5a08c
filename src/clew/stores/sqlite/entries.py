"""Read and write the log entries of runs in a SQLite file.

A run has a number in the file. Its own steps are in the table `steps`, whose key is the number of the run times `SPAN`
plus the n of the step. Steps with a larger n, and all other entries, are in `log`. The caller opens the transaction.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from clew.errors import StoreCorruptError
from clew.stores.messages import damaged_entry
from clew.stores.protocol import OWN_STEP, LogEntry
from clew.stores.sql_rows import checksum
from clew.stores.sqlite.file import insert

SPAN = 1 << 32
MOST = (1 << 63) - 1
_ENTRY = "kind, path, n, body, digest, crc"

# An existing name with the same digest is ignored; with another digest, NOT NULL fails the whole append.
_UNLESS_SAME = "DO UPDATE SET body = NULL WHERE digest <> excluded.digest"
_PUT_STEPS = ("INSERT INTO steps (id, body, digest, crc)", 4, f"ON CONFLICT (id) {_UNLESS_SAME}")
_PUT_ENTRIES = (
    "INSERT INTO log (run, kind, path, n, body, digest, crc)",
    7,
    f"ON CONFLICT (run, kind, path, n) {_UNLESS_SAME}",
)

_IS_OWN = f"kind = '{OWN_STEP}' AND path = ''"
_LAST_STEP = (
    f"SELECT max(n) AS last FROM (SELECT max(n) AS n FROM log WHERE run = ?1 AND {_IS_OWN} "
    f"UNION ALL SELECT max(id) - ?1 * {SPAN} FROM steps WHERE id >= ?1 * {SPAN} AND id < (?1 + 1) * {SPAN})"
)
_CENSUS = (
    f"SELECT kind, count(*) FROM log WHERE run = ?1 AND NOT ({_IS_OWN}) GROUP BY kind "
    f"UNION ALL SELECT '', last FROM ({_LAST_STEP}) WHERE last IS NOT NULL"
)

Found = list[tuple[Any, ...]]
"""Rows of kind, path, n, body, digest and checksum."""


def is_own_step(entry: LogEntry) -> bool:
    """Return whether an entry belongs in the table `steps`."""
    return entry.kind == OWN_STEP and not entry.path and 0 <= entry.n < SPAN


def put(db: sqlite3.Connection, number: int, run_id: str, entries: Sequence[LogEntry]) -> None:
    """Add entries of a run. Raise IntegrityError if a name exists with another content."""
    steps = [entry for entry in entries if is_own_step(entry)]
    others = [entry for entry in entries if not is_own_step(entry)] if len(steps) < len(entries) else ()
    insert(db, *_PUT_STEPS, [(number * SPAN + e.n, *_content(run_id, e)) for e in steps])
    insert(db, *_PUT_ENTRIES, [(number, *e.name, *_content(run_id, e)) for e in others])


def remove(db: sqlite3.Connection, number: int, kind: str, path: str, n: int) -> None:
    """Delete an entry of a run."""
    db.execute("DELETE FROM log WHERE run = ? AND kind = ? AND path = ? AND n = ?", (number, kind, path, n))
    if kind == OWN_STEP and not path and 0 <= n < SPAN:
        db.execute("DELETE FROM steps WHERE id = ?", (number * SPAN + n,))


def _content(run_id: str, entry: LogEntry) -> tuple[bytes, bytes, int]:
    return entry.body, entry.digest, checksum(run_id, *entry.name, entry.body, entry.digest)


def own_steps(db: sqlite3.Connection, number: int, after: int, last: int) -> Found:
    """Return the steps of the run itself with after < n <= last."""
    base = number * SPAN
    return db.execute(
        f"SELECT '{OWN_STEP}', '', id - ?1, body, digest, crc FROM steps WHERE id > ?2 AND id <= ?1 + ?3 ORDER BY id",
        (base, base + min(max(after, -1), SPAN), max(min(last, SPAN - 1), -1)),
    ).fetchall()


def last_steps(db: sqlite3.Connection, number: int, after: int, most: int) -> Found:
    """Return the last steps of the run itself with after < n, at most `most`."""
    base = number * SPAN
    found = db.execute(
        f"SELECT '{OWN_STEP}', '', id - ?1, body, digest, crc FROM steps WHERE id > ?2 AND id < ?1 + {SPAN} "
        f"ORDER BY id DESC LIMIT ?3",
        (base, base + min(max(after, -1), SPAN), most),
    ).fetchall()
    found += db.execute(  # steps with a larger n are in the other table
        f"SELECT {_ENTRY} FROM log WHERE run = ? AND kind = '{OWN_STEP}' AND path = '' AND n > ? "
        f"ORDER BY n DESC LIMIT ?",
        (number, after, most),
    ).fetchall()
    return sorted(found, key=itemgetter(2))[-most:]


def others(db: sqlite3.Connection, number: int, after: int, last: int, skip: Collection[str]) -> Found:
    """Return all other entries, without some kinds."""
    without = f"AND kind NOT IN ({', '.join('?' * len(skip))})" if skip else ""
    return db.execute(
        f"SELECT {_ENTRY} FROM log WHERE run = ? "
        f"AND NOT (kind = '{OWN_STEP}' AND path = '' AND (n <= ? OR n > ?)) {without} ORDER BY kind, path, n",
        (number, after, last, *skip),
    ).fetchall()


def within(
    db: sqlite3.Connection,
    number: int,
    kinds: Collection[str],
    paths: Sequence[tuple[str, str]] | None,
    after: int,
    last: int,
) -> Found:
    """Return the entries of some kinds, with paths in some ranges.

    Each pair is a separate query: for several ranges, SQLite would read all paths of a kind.
    """
    spans: Sequence[tuple[str, str | None]] = [("", None)] if paths is None else paths
    found: Found = []
    if OWN_STEP in kinds and any(not first and beyond != "" for first, beyond in spans):
        found += own_steps(db, number, after, last)
    for kind in dict.fromkeys(kinds):
        for first, beyond in spans:
            end, values = ("", ()) if beyond is None else ("AND path < ?", (beyond,))
            found += db.execute(
                f"SELECT {_ENTRY} FROM log WHERE run = ? AND kind = ? AND path >= ? {end} "
                f"AND NOT (kind = '{OWN_STEP}' AND path = '' AND (n <= ? OR n > ?))",
                (number, kind, first, *values, after, last),
            )
    return found


def named(db: sqlite3.Connection, number: int, kind: str, path: str) -> Found:
    found = db.execute(
        f"SELECT {_ENTRY} FROM log WHERE run = ? AND kind = ? AND path = ?", (number, kind, path)
    ).fetchall()
    return found + own_steps(db, number, -1, MOST) if kind == OWN_STEP and not path else found


def newest(
    db: sqlite3.Connection, number: int, kind: str, path: str, n: int
) -> tuple[int, bytes, bytes, int] | None:
    """Return n, body, digest and checksum of the entry of one kind and path with the largest n up to `n`."""
    found = db.execute(
        "SELECT n, body, digest, crc FROM log WHERE run = ? AND kind = ? AND path = ? AND n <= ? "
        "ORDER BY n DESC LIMIT 1",
        (number, kind, path, n),
    ).fetchall()
    if kind == OWN_STEP and not path and n >= 0:
        base = number * SPAN
        found += db.execute(
            "SELECT id - ?1, body, digest, crc FROM steps WHERE id >= ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1",
            (base, base + min(n, SPAN - 1)),
        ).fetchall()
    return max(found, default=None, key=itemgetter(0))


def counted(db: sqlite3.Connection, number: int, run_id: str) -> dict[tuple[str, str], int]:
    """Return the number of entries of each kind and path, without the run's own steps. This reads only the index.

    Raise StoreCorruptError for a name of another type.
    """
    # Counting here is faster than GROUP BY.
    found = Counter(db.execute("SELECT kind, path FROM log WHERE run = ?", (number,)).fetchall())
    found.pop((OWN_STEP, ""), None)
    for kind, path in found:
        if type(kind) is not str or type(path) is not str:
            raise StoreCorruptError(damaged_entry(run_id, kind, path, 0))
    return found


def census(db: sqlite3.Connection, number: int) -> str:
    """Return the number of entries of each kind, and the last step of the run itself, as JSON."""
    return msgspec.json.encode(dict(db.execute(_CENSUS, (number,)).fetchall())).decode()


def has(db: sqlite3.Connection, number: int, entry: LogEntry) -> bool:
    """Return whether a run has an entry of this name."""
    known = newest(db, number, entry.kind, entry.path, entry.n)
    return known is not None and bool(known[0] == entry.n)


def differing(db: sqlite3.Connection, number: int, entries: Sequence[LogEntry]) -> LogEntry:
    """Return the first entry whose name exists with another digest, in the store or earlier in `entries`."""
    digests: dict[tuple[str, str, int], bytes] = {}
    for entry in entries:
        known = newest(db, number, entry.kind, entry.path, entry.n)
        if known is not None and known[0] == entry.n:
            digests.setdefault(entry.name, known[2])
        if digests.setdefault(entry.name, entry.digest) != entry.digest:
            return entry
    raise AssertionError("no entry conflicts after a conflict")
