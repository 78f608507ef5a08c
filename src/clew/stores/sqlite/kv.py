"""Key-value tables in a SQLite file, which may be the file of a `SQLiteStore`.

- Each table has its own connection, so a long scan and a step of a run do not wait for each other.
- A write is one transaction.
- Opening the first table creates the SQL tables; other files are not changed.
- Each row has a checksum, so reading a damaged row raises an error that names it.
- A value of more than 1 MiB is a file in the folder of the blobs (`blobs.py`), and its row has the name of the file, as
  text. A file is written in the transaction of its row, and never changed. It is removed after a transaction has
  replaced or deleted the row. A kill may leave a file without a row; the next process that writes a file removes it.
- `version` uses SQLite's ``data_version``, which detects writes of other connections without reading a table.
- An interrupt can happen at any time. So a ``with`` statement takes the lock itself (a generator would hold it as long
  as the traceback lives), and the next transaction rolls back one that an interrupt left open.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from zlib import crc32

from clew.errors import StoreConflictError, StoreCorruptError, StoreError
from clew.stores.kv import (
    FORMAT,
    Change,
    KeyValueTable,
    behind,
    check_format,
    check_key,
    conflict,
    damaged,
    in_pages,
    joined,
    lost,
)
from clew.stores.sqlite.blobs import KEY_VALUE, LARGEST, BlobFolder
from clew.stores.sqlite.file import explained, open_file
from clew.stores.sqlite.fork_safety import guard
from clew.stores.sqlite.transactions import Translated, WriteTransaction

if TYPE_CHECKING:
    from _thread import RLock

_TABLES = (
    "CREATE TABLE IF NOT EXISTS kv_tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, format INTEGER NOT NULL, "
    "version INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS kv_rows (table_id INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, "
    "crc INTEGER NOT NULL, PRIMARY KEY (table_id, key)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS kv_files ON kv_rows (table_id, key, value) WHERE typeof(value) = 'text'",
)
_READ = "SELECT value, crc FROM kv_rows WHERE table_id = ? AND key = ?"
_PUT = (
    "INSERT INTO kv_rows VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET value = excluded.value, crc = excluded.crc"
)
_FILES = "SELECT key, value FROM kv_rows WHERE table_id = ? AND typeof(value) = 'text'"
_MANY = 500  # keys in one statement


class SQLiteKeyValueTable(KeyValueTable):
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
        self._folder = BlobFolder(self.path, syncs=self._options[0] != "off")
        self._is_swept = False
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
            return None
        if row is None:
            return None
        check_format(self.name, self.path, row[1])
        return int(row[0])

    def _make(self) -> int:
        with WriteTransaction(self._db) as db:
            for statement in _TABLES:
                db.execute(statement)
            db.execute(
                "INSERT INTO kv_tables (name, format) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (self.name, FORMAT),
            )
            return int(db.execute("SELECT id FROM kv_tables WHERE name = ?", (self.name,)).fetchone()[0])

    # -- reading -----------------------------------------------------------------------------------------

    def read(self, key: str) -> bytes | None:
        check_key(key)
        missing = None  # the file that the row named when it was read before
        while True:
            with self._own(), self._translated():
                db = self._db
                row = db.execute(_READ, (self._id, key)).fetchone()
            if row is None or type(row[0]) is bytes:
                return None if row is None else self._checked(key, *row)
            content = self._folder.read(str(row[0]))
            if content is not None:
                return self._checked(key, content, row[1])
            if row[0] == missing:
                raise StoreCorruptError(lost(self.name, self._folder.place, key, row[0]))
            missing = row[0]  # another process may have replaced the value in between

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
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
                found.update(self._contents(rows.fetchall()))
        return found

    def _contents(self, rows: Iterable[tuple[str, bytes | str, int]]) -> Iterator[tuple[str, bytes]]:
        for key, value, crc in rows:
            if type(value) is bytes:
                yield key, self._checked(key, value, crc)
            elif (content := self.read(key)) is not None:
                yield key, content

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        rows = in_pages(self._fetched, prefix, after, limit)
        if check:
            return self._contents(rows)
        return ((key, value if type(value) is bytes else b"") for key, value, _ in rows)

    def _fetched(
        self, start: str, inclusive: bool, end: str | None, size: int
    ) -> list[tuple[str, bytes | str, int]]:
        until, bound = ("", ()) if end is None else ("AND key < ?", (end,))
        statement = (
            f"SELECT key, value, crc FROM kv_rows WHERE table_id = ? AND key {'>=' if inclusive else '>'} ? {until} "
            "ORDER BY key LIMIT ?"
        )
        with self._own(), self._translated():
            db = self._db
            return db.execute(statement, (self._id, start, *bound, size)).fetchall()

    def count(self, prefix: str = "") -> int:
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
        put: dict[str, tuple[Any, ...]] = {}
        gone: list[tuple[int, str]] = []
        files: list[tuple[str, list[bytes]]] = []
        for key, value in dict(changes).items():
            check_key(key)
            if value is None:
                gone.append((self._id, key))
                continue
            parts: list[bytes] = value if isinstance(value, list) else [value]
            stored: bytes | str = parts[0]
            if sum(map(len, parts)) > LARGEST:
                stored = f"{KEY_VALUE}{token_hex(16)}"
                files.append((stored, parts))
            elif len(parts) > 1:
                stored = joined(value)
            put[key] = (self._id, key, stored, _crc(key, *parts))
        with self._own(), self._translated():
            self._seen = (self._seen[0], self._write(put, gone, files, expect))
            return self._seen[1]

    def _write(
        self,
        put: dict[str, tuple[Any, ...]],
        gone: list[tuple[int, str]],
        files: list[tuple[str, list[bytes]]],
        expect: int | None,
    ) -> int:
        # data_version does not change with this connection's own writes.
        with WriteTransaction(self._db) as db:
            updated = db.execute(
                "UPDATE kv_tables SET version = version + 1 WHERE id = ?1 AND (?2 IS NULL OR version = ?2) "
                "RETURNING version",
                (self._id, expect),
            ).fetchone()
            if updated is None:
                raise StoreConflictError(conflict(self.name))
            keys = put.keys() | {key for _, key in gone}
            replaced = [name for key, name in db.execute(_FILES, (self._id,)) if key in keys]
            if files:
                self._write_files(db, files)
            if put:
                db.executemany(_PUT, put.values())
            if gone:
                db.executemany("DELETE FROM kv_rows WHERE table_id = ? AND key = ?", gone)
        self._folder.remove(replaced)
        return int(updated[0])

    def _write_files(self, db: sqlite3.Connection, files: list[tuple[str, list[bytes]]]) -> None:
        """Write the files of large values; the first time, remove those that a killed process has left."""
        if not self._is_swept:
            rows = db.execute("SELECT value FROM kv_rows WHERE typeof(value) = 'text'")
            names = {name for name in self._folder.names() if name.startswith(KEY_VALUE)}
            self._folder.remove(names.difference(name for (name,) in rows))
            self._is_swept = True
        try:
            for name, parts in files:
                self._folder.write(name, *parts)
        except BaseException:
            self._folder.remove([name for name, _ in files])
            raise

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
        if self._process == os.getpid():
            with self._lock:
                self._db.close()

    def __del__(self) -> None:
        if hasattr(self, "_db"):  # opening succeeded
            self.close()


def _crc(key: str, *parts: bytes) -> int:
    found = crc32(key.encode())
    for part in parts:
        found = crc32(part, found)
    return found - (1 << 31)  # signed: four bytes instead of six
