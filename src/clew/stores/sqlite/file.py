"""The file of a `SQLiteStore`: its format, its migrations, and how it is opened.

A run's own steps, most of what is ever written, lie in a table whose key is one integer (the run's number, then the
step's), so a step costs one insert at the end of one tree, and neither run nor path is repeated in it. All other
entries lie in `log`. What a run began with is apart from its row, which is rewritten when an owner renews its lease.
Large contents are in ``clew.stores.sqlite.blobs``. Each table and each index takes a page, which a small file should
not have to pay for, so there are few.

A file of another program, of a newer version of this library, or of a format before `OLDEST`, is refused before
anything is changed in it.
"""

from __future__ import annotations

import os
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
from clew.stores.messages import check_version, refused, replaced
from clew.stores.protocol import Statement

APPLICATION_ID = 0x436C6577  # "Clew"

OLDEST = 6
"""The oldest format that is read. Logs of older ones need the graph that made them."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE,
        fence INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '', slot INTEGER NOT NULL DEFAULT 0,
        until REAL NOT NULL DEFAULT 0, boot TEXT NOT NULL DEFAULT '',
        status TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, graph TEXT NOT NULL, seed TEXT NOT NULL,
        parent TEXT, parent_step INTEGER, structure TEXT NOT NULL, target TEXT NOT NULL, error BLOB, census TEXT
    );
    CREATE INDEX runs_by_status ON runs (status, id);
    CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
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
        digest TEXT NOT NULL, run INTEGER NOT NULL, body BLOB, first INTEGER, last INTEGER,
        PRIMARY KEY (digest, run)
    ) WITHOUT ROWID;
    CREATE TABLE parts (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE INDEX blobs_by_run ON blobs (run) WHERE run > 0;
    """,
)
"""One script for each version of the format, from `OLDEST` on; a file is brought up to date when it is opened."""


def _newest() -> int:
    return OLDEST + len(MIGRATIONS) - 1


def check_options(path: Any, synchronous: str, timeout: Any) -> None:
    """Refuse options of a store that are wrong."""
    if synchronous not in ("normal", "full", "off"):
        raise StoreError(f"synchronous is 'normal', 'full' or 'off', not {synchronous!r}")
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise StoreError(f"the path of a SQLiteStore is the name of a file, not {path!r}")
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not timeout >= 0:
        raise StoreError(f"timeout is a number of seconds, 0 or more, not {timeout!r}")
    if os.fspath(path) in ("", ":memory:"):
        raise StoreError(f"{os.fspath(path)!r} is no file; use MemoryStore() to keep runs in memory")


def check_place(path: Path, file: os.stat_result, run_id: str) -> None:
    """Refuse to write to a file that nobody else can open: another one is under its path now, or none."""
    try:
        if os.path.samestat(file, os.stat(path)):
            return
    except FileNotFoundError:
        pass
    raise UnknownRunError(replaced(run_id, path))


def open_file(path: Path, synchronous: str, timeout: float) -> sqlite3.Connection:
    """A connection to a file of this library, made if it is not there, in today's format."""
    if path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return _open_to_read(path, timeout)
    try:
        db = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        if path.parent.is_dir() and not os.access(path.parent, os.W_OK):
            raise StoreUnavailableError(f"cannot make {path}: {_locked_folder(path)}") from error
        raise StoreUnavailableError(f"cannot open {path}: {error}; is its folder there?") from error
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                _prepare(db, path, synchronous)
                return db
            except sqlite3.OperationalError as error:
                # SQLite waits for others by itself, but not when the journal of a new file is switched to WAL.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)
    except BaseException:
        db.close()
        raise


def _open_to_read(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection to a file that this process may not write. Without a log beside it, nobody is writing it either."""
    log = path.with_name(f"{path.name}-wal")
    is_still = not log.exists() or not log.stat().st_size
    address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if is_still else ''}"
    try:
        db = sqlite3.connect(
            address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )
    except sqlite3.OperationalError as error:
        raise StoreUnavailableError(f"cannot open {path}: {error}; is there a right to read it?") from error
    try:
        version = _version(db, path)
        if version < _newest():
            raise StoreVersionError(
                f"{path} was written by an older Clew (format {version}, today's is {_newest()}), and may only be "
                f"read here; open it once where it may be written, to bring it up to date"
            )
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path, synchronous: str) -> None:
    version = _version(db, path)
    if not version:
        # A step is a few hundred bytes, and a commit writes whole pages: small ones halve what goes to the log.
        db.execute("PRAGMA page_size = 2048")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 4000")  # each waits for the disk: not more often than every 8 MB
    db.execute(f"PRAGMA synchronous = {synchronous}")
    if version < _newest():
        _migrate(db, path)


def _version(db: sqlite3.Connection, path: Path) -> int:
    # Tables first: another process may make them, and mark the file, between these lines.
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if application != APPLICATION_ID and (tables or application):
        raise StoreError(f"{path} is a SQLite file of another program; give Clew a file of its own")
    check_version(version, OLDEST, _newest(), str(path))
    return version


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        version = _version(db, path)  # again: another process may have been quicker
        for script in MIGRATIONS[max(version - OLDEST + 1, 0) :]:
            for statement in script.split(";"):
                if statement.strip():
                    db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {_newest()}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class ForkedConnection:
    """Stands for a connection in a forked process, which must not use its parent's: opens another one when asked."""

    in_transaction = False

    def __init__(
        self, parents: sqlite3.Connection | ForkedConnection, reopen: Callable[[], sqlite3.Connection]
    ) -> None:
        self._parents = parents  # kept, because closing it here would disturb the parent
        self._reopen = reopen

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Every use of a connection begins with this."""
        return self._reopen().execute(statement, values)

    def close(self) -> None:
        """Nothing of this process is open."""


def execute(db: sqlite3.Connection, statements: Sequence[Statement], run_id: str | None = None) -> None:
    """Execute statements within a transaction; for a run, what SQLite refuses is a StoreError."""
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


_ROWS = 64  # as many as go into one statement


def insert(db: sqlite3.Connection, into: str, width: int, tail: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert many rows, a good number with each statement.

    Each statement lets go of the interpreter's lock, and a busy thread beside this one gives it back late: with one
    statement a row, a thread that follows a run would spend its time waiting.
    """
    one = f"({', '.join('?' * width)})"
    whole = len(rows) - len(rows) % _ROWS
    if whole:
        statement = f"{into} VALUES {', '.join([one] * _ROWS)} {tail}"
        for first in range(0, whole, _ROWS):
            db.execute(statement, [value for row in rows[first : first + _ROWS] for value in row])
    db.executemany(f"{into} VALUES {one} {tail}", rows[whole:])


def rehearse(db: sqlite3.Connection, statements: Sequence[Statement]) -> None:
    """Execute statements and take them back, with the transaction that was begun for them."""
    try:
        execute(db, statements)
    finally:
        db.execute("ROLLBACK")


def closed(path: Path) -> str:
    """Say that a store was closed."""
    return f"the store {path} is closed; open another one"


def _locked_folder(path: Path) -> str:
    return (
        f"the folder {path.parent} is not writable, and SQLite creates files next to the database; make it writable, "
        f"or use another folder"
    )


def explained(error: Exception, what: str, path: Path) -> StoreError:
    """An error of SQLite in the words of this library."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
        return StoreCorruptError(f"{what}: {path} is damaged ({error}); `clew doctor` looks at all of it")
    if name.startswith("SQLITE_BUSY"):
        return StoreUnavailableError(f"{what}: another process keeps {path} locked; try again")
    if name.startswith("SQLITE_READONLY") and not os.access(path, os.W_OK):
        return StoreUnavailableError(f"{what}: {path} may only be read here; write where there is a right to")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) and not os.access(path.parent, os.W_OK):
        return StoreUnavailableError(f"{what}: {_locked_folder(path)}")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreUnavailableError(
            f"{what}: {path} cannot be opened ({error}); is it there, and may it be read?"
        )
    if isinstance(error, sqlite3.OperationalError):
        return StoreUnavailableError(
            f"{what}: {path} did not take it ({error}); nothing is lost, resume when there is room and a "
            f"right to write"
        )
    if "closed" in str(error):
        return StoreError(f"{what}: {closed(path)}")
    return StoreError(f"{what}: {path} cannot keep this ({error})")
