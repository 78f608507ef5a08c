"""Connections to a SQLite database, and their transactions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from clew.explore.systems.sqlite.triggers import disable_for


def connect(
    path: str, timeout: float, prepare: Callable[[sqlite3.Connection], object] | None
) -> sqlite3.Connection:
    """Open the system's own connection."""
    connection = sqlite3.connect(
        path,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    try:
        # the database of a test need not survive a power failure
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        disable_for(connection)
        if prepare is not None:
            prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str | None) -> Iterator[None]:
    """Commit at the end, or roll back after an error."""
    if begin is not None:
        connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def writing(connection: sqlite3.Connection, timeout: float) -> Iterator[None]:
    """Begin a transaction that blocks other writers.

    SQLite's busy timeout starves next to writers that never pause, so this retries more often.
    """
    deadline = time.monotonic() + timeout
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.0002)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")
    with transaction(connection, None):
        yield


def in_memory(path: str) -> sqlite3.Connection:
    """Return a connection to a database that the application takes for one in memory: a file that nothing syncs."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    return connection


def save_copy(connection: sqlite3.Connection, file: Path) -> None:
    with closing(sqlite3.connect(file)) as target:
        target.execute("PRAGMA synchronous = OFF")
        connection.backup(target)
