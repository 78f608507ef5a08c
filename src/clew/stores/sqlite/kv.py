"""Key-value tables in a SQLite file, which may be the file of a `SQLiteStore`.

- Each table has its own connection, so a long scan and a step of a run do not wait for each other.
- A write is one transaction.
- Opening the first table creates the SQL tables; other files are not changed.
- Each row has a checksum, so reading a damaged row raises an error that names it.
- `version` uses SQLite's ``data_version``, which reveals writes of other connections without reading a table.
- An interrupt can happen at any time. So a ``with`` statement takes the lock itself (a generator would hold it as long
  as the traceback lives), and the next transaction rolls back one that an interrupt left open.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from clew.errors import StoreConflictError, StoreCorruptError, StoreError, StoreVersionError
from clew.stores.kv import FORMAT, Change, behind, check_key, conflict, damaged, in_pages, newer, older
from clew.stores.sqlite.file import explained, open_file
from clew.stores.sqlite.fork_safety import guard
from clew.stores.sqlite.transactions import Translated

if TYPE_CHECKING:
    from _thread import RLock

_TABLES = (
    "CREATE TABLE IF NOT EXISTS kv_tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, format INTEGER NOT NULL, "
    "version INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS kv_rows (table_id INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, "
    "crc INTEGER NOT NULL, PRIMARY KEY (table_id, key)) WITHOUT ROWID",
)
_READ = "SELECT value, crc FROM kv_rows WHERE table_id = ? AND key = ?"
_PUT = (
    "INSERT INTO kv_rows VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET value = excluded.value, crc = excluded.crc"
)
_MANY = 500  # keys in one statement


class SQLiteKeyValueTable:
    """A key-value table in a SQLite file."""

    def __init__(
        self, path: str | os.PathLike[str], name: str, synchronous: str = "normal", timeout: float = 10.0
    ) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise StoreError(f"{os.fspath(path)!r} is not a file; give None for a table in memory")
        self.name = name
        self.path = Path(path).absolute()  # the working directory may change
        self._what = f"table {name!r}"
        self._options = (synchronous, timeout)
        self._open()
        guard(self)

    def _open(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._seen = (-1, -1)  # SQLite's data_version, and the version of the table read after it
        with self._translated():
            self._db = open_file(self.path, *self._options)
            self._id = self._find() or self._make()

    def __repr__(self) -> str:
        return f"SQLiteKeyValueTable({str(self.path)!r}, {self.name!r})"

    def _find(self) -> int | None:
        try:
            row = self._db.execute("SELECT id, format FROM kv_tables WHERE name = ?", (self.name,)).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'shelves'").fetchone():
                self._db.close()
                raise StoreVersionError(older(self.path)) from None
            return None
        if row is None:
            return None
        if row[1] > FORMAT:
            self._db.close()
            raise StoreVersionError(newer(self.name, self.path, row[1]))
        return int(row[0])

    def _make(self) -> int:
        with _Transaction(self._db) as db:
            for statement in _TABLES:
                db.execute(statement)
            db.execute(
                "INSERT INTO kv_tables (name, format) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (self.name, FORMAT),
            )
            return int(db.execute("SELECT id FROM kv_tables WHERE name = ?", (self.name,)).fetchone()[0])

    # -- reading -----------------------------------------------------------------------------------------

    def read(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        check_key(key)
        with self._own(), self._translated():
            db = self._db
            row = db.execute(_READ, (self._id, key)).fetchone()
        return None if row is None else self._checked(key, *row)

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those keys that exist."""
        wanted = list(keys)
        for key in wanted:
            check_key(key)
        found: dict[str, bytes] = {}
        with self._own(), self._translated():
            db = self._db
            for begin in range(0, len(wanted), _MANY):
                some = wanted[begin : begin + _MANY]
                rows = db.execute(
                    "SELECT key, value, crc FROM kv_rows WHERE table_id = ? AND key IN "
                    f"({', '.join('?' * len(some))})",
                    (self._id, *some),
                )
                found.update((key, self._checked(key, value, crc)) for key, value, crc in rows)
        return found

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        """Iterate over the sorted keys that start with `prefix`, with their values."""
        return in_pages(self._page if check else self._unchecked, prefix, after, limit)

    def _page(self, start: str, inclusive: bool, end: str | None, size: int) -> list[tuple[str, bytes]]:
        rows = self._fetched(start, inclusive, end, size)
        return [(key, self._checked(key, value, crc)) for key, value, crc in rows]

    def _unchecked(self, start: str, inclusive: bool, end: str | None, size: int) -> list[tuple[str, bytes]]:
        return [(key, bytes(value)) for key, value, _ in self._fetched(start, inclusive, end, size)]

    def _fetched(
        self, start: str, inclusive: bool, end: str | None, size: int
    ) -> list[tuple[str, bytes, int]]:
        until, bound = ("", ()) if end is None else ("AND key < ?", (end,))
        statement = (
            f"SELECT key, value, crc FROM kv_rows WHERE table_id = ? AND key {'>=' if inclusive else '>'} ? {until} "
            "ORDER BY key LIMIT ?"
        )
        with self._own(), self._translated():
            db = self._db
            return db.execute(statement, (self._id, start, *bound, size)).fetchall()

    def count(self, prefix: str = "") -> int:
        """Count the keys that start with `prefix`."""
        check_key(prefix)
        end = behind(prefix)
        until, bound = ("", ()) if end is None else ("AND key < ?", (end,))
        statement = f"SELECT count(*) FROM kv_rows WHERE table_id = ? AND key >= ? {until}"
        with self._own(), self._translated():
            db = self._db
            return int(db.execute(statement, (self._id, prefix, *bound)).fetchone()[0])

    def _checked(self, key: str, value: bytes, crc: int) -> bytes:
        if _crc(key, value) != crc:
            raise StoreCorruptError(damaged(self.name, self.path, key))
        return value

    # -- writing -----------------------------------------------------------------------------------------

    def version(self) -> int:
        """Return the number of the latest write."""
        # Callers with a cache ask before every request, so the usual case is kept short.
        try:
            if self._process != os.getpid():
                self._reopen()
            with self._lock:
                db = self._db
                data_version = db.execute("PRAGMA data_version").fetchone()[0]
                if data_version != self._seen[0]:
                    row = db.execute("SELECT version FROM kv_tables WHERE id = ?", (self._id,)).fetchone()
                    if row is None:
                        raise StoreCorruptError(f"{self._what} was deleted from {self.path}; open it again")
                    self._seen = (data_version, row[0])
                return self._seen[1]
        except sqlite3.Error as error:
            raise explained(error, self._what, self.path) from error

    def write(self, changes: Iterable[Change], *, expect: int | None = None) -> int:
        """Set keys, or delete them where the value is None, atomically; return the new version."""
        wanted = dict(changes)
        put, gone = [], []
        for key, value in wanted.items():
            check_key(key)
            if value is None:
                gone.append((self._id, key))
            else:
                put.append((self._id, key, value, _crc(key, value)))
        with self._own(), self._translated():
            self._seen = (self._seen[0], self._write(put, gone, expect))
            return self._seen[1]

    def _write(self, put: list[tuple[Any, ...]], gone: list[tuple[Any, ...]], expect: int | None) -> int:
        # data_version does not change with this connection's own writes.
        with _Transaction(self._db) as db:
            updated = db.execute(
                "UPDATE kv_tables SET version = version + 1 WHERE id = ?1 AND (?2 IS NULL OR version = ?2) "
                "RETURNING version",
                (self._id, expect),
            ).fetchone()
            if updated is None:
                raise StoreConflictError(conflict(self.name))
            if put:
                db.executemany(_PUT, put)
            if gone:
                db.executemany("DELETE FROM kv_rows WHERE table_id = ? AND key = ?", gone)
        return int(updated[0])

    # -- the connection ----------------------------------------------------------------------------------

    def _own(self) -> RLock:
        """Return the lock for the connection of this process."""
        if self._process != os.getpid():
            self._reopen()
        return self._lock

    def _reopen(self) -> None:
        """Open the file again in a forked process."""
        self._parents = self._db  # stays open: closing it here would disturb the parent
        self._open()

    def _translated(self) -> Translated:
        return Translated(self, self._what)

    def _explained(self, error: Exception, what: str) -> Exception:
        return explained(error, what, self.path)

    def close(self) -> None:
        """Close the file."""
        if self._process == os.getpid():
            with self._lock:
                self._db.close()

    def __del__(self) -> None:
        if hasattr(self, "_db"):  # opening succeeded
            self.close()


class _Transaction:
    """A transaction that commits at the end of its block and rolls back if the block raises."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> sqlite3.Connection:
        if self._db.in_transaction:  # an interrupt left it open
            self._db.execute("ROLLBACK")
        self._db.execute("BEGIN IMMEDIATE")
        return self._db

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def _crc(key: str, value: bytes) -> int:
    return crc32(value, crc32(key.encode())) - (1 << 31)  # signed: four bytes instead of six
