"""Transactions of a `SQLiteStore`, and the translation of its errors.

A transaction runs under the lock of the store. An interrupt can happen at any time, and must leave neither the lock nor
the transaction behind. So a ``with`` statement takes the lock itself, which the interpreter does not interrupt, and the
context managers are classes: an interrupted generator would hold its resources as long as the traceback lives. The next
transaction rolls back one that was interrupted between its statements (`clean`).

Any allocation inside a transaction may start a garbage collection, and a finalizer may use the same store on the same
thread. For example, an abandoned stream releases its run. Such a use is nested: it is a part of the open transaction.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _thread import RLock

    from clew.stores.sqlite.store import SQLiteStore


_depth: Callable[[RLock], int] = getattr(type(threading.RLock()), "_recursion_count", lambda _: 1)
"""How often this thread holds a lock. Early releases of Python 3.11 cannot tell."""


def is_nested(store: SQLiteStore) -> bool:
    """Return whether a transaction is open further up on this thread. The caller has taken the lock exactly once."""
    return store._is_open and _depth(store._lock) > 1 and store._db.in_transaction


def clean(store: SQLiteStore) -> sqlite3.Connection:
    """Return the connection of a store, after rolling back a transaction that an interrupt left open."""
    if is_nested(store):
        return store._db
    hasty = store._hasty
    if hasty is not None and hasty._is_open:  # its transaction would block this one
        with hasty._lock:
            clean(hasty)
    db = store._db
    if store._is_open:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if store.defers:
            db.execute("PRAGMA synchronous = FULL")
        store._is_open = False
    return db


class Explaining(Protocol):
    """An object that translates the errors of SQLite."""

    def _explained(self, error: Exception, what: str) -> Exception: ...


class Translated:
    """A context manager that translates the errors of SQLite."""

    __slots__ = ("_store", "_what")

    def __init__(self, store: Explaining, what: str) -> None:
        self._store = store
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, (sqlite3.Error, OverflowError, UnicodeError)):
            raise self._store._explained(error, self._what) from error


class WriteTransaction:
    """A transaction of a connection with one user: it commits at the end of its block, or rolls back if that raises."""

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


class SQLiteTransaction:
    """A transaction that commits at the end of its block and rolls back if the block raises.

    Without `waits`, the commit does not wait for the disk.
    """

    __slots__ = ("_begin", "_is_nested", "_store", "_waits", "_what")

    def __init__(self, store: SQLiteStore, what: str, begin: str, *, waits: bool = True) -> None:
        self._store = store
        self._what = what
        self._begin = begin
        self._waits = waits
        self._is_nested = False

    def __enter__(self) -> sqlite3.Connection:
        store = self._store
        with Translated(store, self._what):
            db = clean(store)
            if store._is_open:
                self._is_nested = True
                db.execute("SAVEPOINT nested")
                return db
            store._is_open = True
            if not self._waits:
                db.execute("PRAGMA synchronous = NORMAL")
            db.execute(self._begin)
        return store._db  # a forked process connects with its first statement

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        store = self._store
        with Translated(store, self._what):
            try:
                if self._is_nested:
                    if error is not None:
                        store._db.execute("ROLLBACK TO nested")
                    store._db.execute("RELEASE nested")
                elif error is None:
                    store._db.execute("COMMIT")
            finally:
                if not self._is_nested:
                    clean(store)
            if isinstance(error, (sqlite3.Error, OverflowError, UnicodeError)):
                raise error
