"""A SQLite store for callers that must not wait, such as an event loop.

It has its own connection without a busy timeout. If another writer has locked the file, an operation raises `WouldWait`
at once, and the caller repeats it on a thread with the store that waits. The two stores share no lock, because a
waiting thread may hold it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from clew.errors import StoreError
from clew.stores.lease_clock import LeaseClock
from clew.stores.protocol import WouldWait
from clew.stores.sqlite.store import SQLiteStore


class HastySQLiteStore(SQLiteStore):
    """A SQLite store that never waits for another writer."""

    def at_once(self) -> HastySQLiteStore:
        """Return this store."""
        return self

    def _explained(self, error: Exception, what: str) -> Exception:
        if (
            isinstance(error, sqlite3.OperationalError)
            and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
        ):
            return WouldWait(what)
        return super()._explained(error, what)


def hasty(path: Path, synchronous: Any, clock: LeaseClock) -> HastySQLiteStore:
    """Open a store that never waits. Raise WouldWait if that is not possible now."""
    try:
        return HastySQLiteStore(path, synchronous=synchronous, timeout=0.0, clock=clock)
    except StoreError as error:
        raise WouldWait(str(error)) from error
