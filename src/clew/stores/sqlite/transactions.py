"""Transactions of a `SQLiteStore`, and its errors in the words of this library.

A transaction runs under the store's lock. An interrupt may come at any instant, and must leave neither behind. So the
lock is taken by a `with` statement of its own, which the interpreter does not interrupt halfway, and these are classes,
not generators: a generator that is interrupted would live, with what it holds, until the traceback is gone. A
transaction that was interrupted between its statements is rolled back by the next one (`clean`).
"""

from __future__ import annotations

import sqlite3
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _thread import RLock


class Connected(Protocol):
    """What a transaction needs of a store, whose lock the caller holds."""

    defers: bool
    _db: sqlite3.Connection
    _lock: RLock
    _is_open: bool  # a transaction is, or an interrupt has left it so

    @property
    def _hasty(self) -> Connected | None: ...

    def _explained(self, error: Exception, what: str) -> Exception: ...


def clean(store: Connected) -> sqlite3.Connection:
    """The connection of a store, without the transaction that an interrupt may have left open."""
    hasty = store._hasty
    if hasty is not None and hasty._is_open:  # that one would keep this one out
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
    """Whoever has words for the errors of SQLite."""

    def _explained(self, error: Exception, what: str) -> Exception: ...


class Translated:
    """Raises the errors of SQLite in the words of this library."""

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


class Transaction:
    """A transaction: committed at the end of its block, rolled back if the block raises.

    Without `waits` the commit is handed to the operating system only.
    """

    __slots__ = ("_begin", "_store", "_waits", "_what")

    def __init__(self, store: Connected, what: str, begin: str, *, waits: bool = True) -> None:
        self._store = store
        self._what = what
        self._begin = begin
        self._waits = waits

    def __enter__(self) -> sqlite3.Connection:
        store = self._store
        with Translated(store, self._what):
            db = clean(store)
            store._is_open = True
            if not self._waits:
                db.execute("PRAGMA synchronous = NORMAL")
            db.execute(self._begin)
        return store._db  # a forked process has connected with its first statement

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        store = self._store
        with Translated(store, self._what):
            try:
                if error is None:
                    store._db.execute("COMMIT")
            finally:
                clean(store)
            if isinstance(error, (sqlite3.Error, OverflowError, UnicodeError)):
                raise error
