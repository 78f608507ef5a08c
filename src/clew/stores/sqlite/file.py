"""The file of a `SQLiteStore`: its format, its migrations, and how to open it.

- `steps` holds the steps of the runs themselves, which are most of the data. Its key is one integer, made of the number
  of the run and of the step. So a step is one insert at the end of one tree, and repeats neither run nor path.
- `log` holds all other entries.
- `origins` holds the initial state of a run, apart from the row, which every change of status rewrites.
- `workers` holds the owners of runs, with one lease for each; `queue` the entries of queued runs;
  `inbox` the messages to runs; `attributes` the attributes by which they are found.
- `clew.stores.sqlite.blobs` stores large values.
- Each table and each index takes at least a page, so a small file has few of them.

A file of another program, of a newer version of this library, or of a format before `OLDEST` is rejected unchanged.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.errors import (
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
    UnknownRunError,
)
from clew.state.number_checks import is_number
from clew.stores.messages import check_version, refused, replaced
from clew.stores.protocol import Statement
from clew.stores.sqlite.transactions import WriteTransaction

APPLICATION_ID = 0x436C6577  # "Clew"

OLDEST = 10
"""The oldest supported format."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE,
        fence INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',
        status TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, graph TEXT NOT NULL, seed TEXT NOT NULL,
        parent TEXT, parent_step INTEGER, structure TEXT NOT NULL, target TEXT NOT NULL, error BLOB, census TEXT,
        child_of TEXT, place TEXT NOT NULL DEFAULT '', token TEXT NOT NULL DEFAULT '',
        attributes TEXT NOT NULL DEFAULT '{}', last_queue TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX runs_by_status ON runs (status, created, id);
    CREATE INDEX runs_by_created ON runs (created, id);
    CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
    CREATE INDEX runs_by_child_of ON runs (child_of) WHERE child_of IS NOT NULL;
    CREATE TABLE origins (
        run INTEGER PRIMARY KEY, start BLOB, codes TEXT NOT NULL, start_digest TEXT NOT NULL,
        description TEXT NOT NULL, crc INTEGER NOT NULL
    );
    CREATE TABLE steps (id INTEGER PRIMARY KEY, body BLOB NOT NULL, digest BLOB NOT NULL, crc INTEGER NOT NULL);
    CREATE TABLE log (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL, n INTEGER NOT NULL,
        body BLOB NOT NULL, digest BLOB NOT NULL, crc INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX log_by_name ON log (run, kind, path, n);
    CREATE TABLE blobs (
        digest TEXT NOT NULL, run INTEGER NOT NULL, body BLOB, PRIMARY KEY (digest, run)
    ) WITHOUT ROWID;
    CREATE INDEX blobs_by_run ON blobs (run) WHERE run > 0;
    CREATE TABLE threads (name TEXT PRIMARY KEY, head TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX threads_by_head ON threads (head);
    CREATE TABLE workers (
        owner TEXT PRIMARY KEY, label TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, started REAL NOT NULL,
        slot INTEGER NOT NULL, until REAL NOT NULL, boot TEXT NOT NULL, dead INTEGER NOT NULL, info TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE queue (
        run INTEGER PRIMARY KEY, queue TEXT NOT NULL, structure TEXT NOT NULL, priority INTEGER NOT NULL,
        due REAL NOT NULL, taken INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
        mark TEXT NOT NULL DEFAULT ''
    );
    CREATE TABLE inbox (
        run INTEGER NOT NULL, n INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, body BLOB,
        crc INTEGER NOT NULL, PRIMARY KEY (run, n)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX inbox_by_id ON inbox (run, id);
    CREATE TABLE attributes (
        name TEXT NOT NULL, value TEXT NOT NULL, created REAL NOT NULL, run INTEGER NOT NULL,
        PRIMARY KEY (name, value, created, run)
    ) WITHOUT ROWID;
    CREATE INDEX attributes_by_run ON attributes (run);
    CREATE INDEX queue_taken ON queue (queue, structure) WHERE taken;
    CREATE INDEX queue_by_due ON queue (queue, structure, priority, due) WHERE NOT taken;
    """,
)
"""One script for each version of the format, from `OLDEST`. Opening a file migrates it."""

TABLES = frozenset(re.findall(r"CREATE TABLE (\w+)", " ".join(MIGRATIONS))) | {
    "kv_tables",
    "kv_rows",
    "results",
}


def _newest() -> int:
    return OLDEST + len(MIGRATIONS) - 1


def check_options(path: Any, synchronous: str, timeout: Any) -> None:
    """Raise StoreError for invalid options of a store."""
    if synchronous not in ("normal", "full", "off"):
        raise StoreError(f"synchronous: expected 'normal', 'full' or 'off', got {synchronous!r}")
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise StoreError(f"path of a SQLiteStore: expected the name of a file, got {path!r}")
    if not is_number(timeout, 0):
        raise StoreError(f"timeout: expected a number of seconds >= 0, got {timeout!r}")
    if os.fspath(path) in ("", ":memory:"):
        raise StoreError(f"{os.fspath(path)!r} is not a file; use MemoryStore() for runs in memory")


def check_place(path: Path, file: os.stat_result, what: str) -> None:
    """Raise UnknownRunError if the file was removed or replaced: other processes could not see the write."""
    try:
        if os.path.samestat(file, os.stat(path)):
            return
    except FileNotFoundError:
        pass
    raise UnknownRunError(replaced(what, path))


def open_existing(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a file that a store has opened before; do not create or migrate it."""
    if not _is_writable(path):
        return _open_to_read(path, timeout)
    address = f"{path.resolve().as_uri()}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def open_file(path: Path, synchronous: str, timeout: float) -> sqlite3.Connection:
    """Open a file, create it if it does not exist, and migrate it to the current format."""
    if path.is_dir():
        raise StoreUnavailableError(
            f"cannot open {path}: it is a folder; name a file in it, such as {path / 'runs.db'}"
        )
    if path.exists() and not _is_writable(path):
        return _open_to_read(path, timeout)
    try:
        db = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        if path.parent.is_dir() and not os.access(path.parent, os.W_OK):
            raise StoreUnavailableError(f"cannot create {path}: {_locked_folder(path)}") from error
        raise StoreUnavailableError(f"cannot open {path}: {error}; check that its folder exists") from error
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                _prepare(db, path, synchronous)
                return db
            except sqlite3.OperationalError as error:
                # SQLite waits for other writers, except when it switches a new file to WAL.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)
    except BaseException:
        db.close()
        raise


def _open_to_read(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a file that this process cannot write. Without a WAL file, no other process writes it either."""
    log = path.with_name(f"{path.name}-wal")
    is_immutable = not log.exists() or not log.stat().st_size
    address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if is_immutable else ''}"
    try:
        db = sqlite3.connect(
            address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )
    except sqlite3.OperationalError as error:
        raise StoreUnavailableError(
            f"cannot open {path}: {error}; check the permission to read it"
        ) from error
    try:
        version = _version(db, path)
        if version < _newest():
            raise StoreVersionError(
                f"{path} was written by an older Clew (format {version}, this version writes {_newest()}) and is "
                f"read-only here; open it once where it is writable, to migrate it"
            )
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path, synchronous: str) -> None:
    version = _version(db, path)
    if not version:
        # A step has a few hundred bytes, and a commit writes whole pages: small pages halve the WAL traffic.
        db.execute("PRAGMA page_size = 2048")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 4000")  # a checkpoint waits for the disk: at most one every 8 MB
    db.execute(f"PRAGMA synchronous = {synchronous}")
    if version < _newest():
        _migrate(db, path)


def _version(db: sqlite3.Connection, path: Path) -> int:
    # Tables first: another process may create them, and mark the file, between these lines.
    tables = db.execute("SELECT type, lower(name) FROM sqlite_master").fetchall()
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if application != APPLICATION_ID and (tables or application):
        raise StoreError(f"{path} is a SQLite file of another program; give Clew a separate file")
    check_version(version, OLDEST, _newest(), str(path))
    views = TABLES.intersection(name for kind, name in tables if kind == "view")
    if views:  # its query is code of the file, and could keep every reader busy
        raise StoreCorruptError(
            f"{path} has a view instead of the table {min(views)!r}; do not trust this file"
        )
    return version


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    with WriteTransaction(db):
        version = _version(db, path)  # again: another process may have been faster
        for script in MIGRATIONS[max(version - OLDEST + 1, 0) :]:
            for statement in script.split(";"):
                if statement.strip():
                    db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {_newest()}")


class ForkedConnection:
    """A placeholder in a forked process, which must not use its parent's connection. Opens its own on use."""

    in_transaction = False

    def __init__(
        self, parents: sqlite3.Connection | ForkedConnection, reopen: Callable[[], sqlite3.Connection]
    ) -> None:
        self._parents = parents  # stays open: closing it here would disturb the parent
        self._reopen = reopen

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Open a connection and execute a statement. Every use of a connection starts with this."""
        return self._reopen().execute(statement, values)

    def close(self) -> None:
        """Do nothing: this process has no connection."""


def execute(db: sqlite3.Connection, statements: Sequence[Statement], run_id: str | None = None) -> None:
    """Execute statements in a transaction. With a run, an error of SQLite is raised as StoreError."""
    for statement in statements:
        try:
            if statement.many:
                db.executemany(statement.sql, statement.values)
            else:
                db.execute(statement.sql, statement.values).fetchall()
        except sqlite3.Error as error:
            if run_id is None:
                raise
            raise StoreError(refused(run_id, statement.sql, error)) from error


_ROWS = 64  # rows per statement


def insert(db: sqlite3.Connection, into: str, width: int, tail: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert many rows with few statements.

    Each statement releases the GIL, and a busy thread returns it late. With one statement per row, the background
    writer would spend its time waiting.
    """
    if not rows:
        return
    one = f"({', '.join('?' * width)})"
    whole = len(rows) - len(rows) % _ROWS
    if whole:
        statement = f"{into} VALUES {', '.join([one] * _ROWS)} {tail}"
        for first in range(0, whole, _ROWS):
            db.execute(statement, [value for row in rows[first : first + _ROWS] for value in row])
    db.executemany(f"{into} VALUES {one} {tail}", rows[whole:])


def rehearse(db: sqlite3.Connection, statements: Sequence[Statement]) -> None:
    """Execute statements and roll back the open transaction."""
    try:
        execute(db, statements)
    finally:
        db.execute("ROLLBACK")


def closed(path: Path) -> str:
    """Return the message for a closed store."""
    return f"the store {path} is closed; open it again"


def _locked_folder(path: Path) -> str:
    return (
        f"the folder {path.parent} is not writable, and SQLite creates files next to the database; make it writable, "
        f"or use another folder"
    )


def explained(error: Exception, what: str, path: Path) -> StoreError:
    """Return the StoreError for an error of SQLite."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_NOTADB"):
        return StoreCorruptError(
            f"{path} is not a SQLite file ({error}); use another file, or restore this one from a backup"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_FORMAT")):
        return StoreCorruptError(f"{what}: {path} is damaged ({error}); check it with `clew doctor`")
    if name.startswith("SQLITE_BUSY"):
        return StoreUnavailableError(f"{what}: another process has locked {path}; try again")
    if name.startswith("SQLITE_READONLY") and not os.access(path, os.W_OK):
        return StoreUnavailableError(f"{what}: {path} is read-only; make it writable, or use another file")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) and not os.access(path.parent, os.W_OK):
        return StoreUnavailableError(f"{what}: {_locked_folder(path)}")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreUnavailableError(
            f"{what}: {path} cannot be opened ({error}); check that it exists and is readable"
        )
    if isinstance(error, sqlite3.OperationalError):
        return StoreUnavailableError(
            f"{what}: {path} rejected the write ({error}); nothing is lost, free disk space or make the file "
            f"writable, then resume"
        )
    if "closed" in str(error):
        return StoreError(f"{what}: {closed(path)}")
    return StoreError(f"{what}: {path} cannot store this ({error})")
