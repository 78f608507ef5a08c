"""A SQLite store for callers that must not wait, such as an event loop.

It is a connection of its own with no busy timeout: where another writer has the file, in this process or another, its
operations raise `WouldWait` at once, and the caller repeats them elsewhere with the store that waits. It shares no lock
with that store, whose lock may be held by a thread that waits.
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
    """Runs in a file, of which nothing waits for anybody."""

    def at_once(self) -> HastySQLiteStore:
        """This one."""
        return self

    def _explained(self, error: Exception, what: str) -> Exception:
        if (
            isinstance(error, sqlite3.OperationalError)
            and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
        ):
            return WouldWait(what)
        return super()._explained(error, what)


def hasty(path: Path, synchronous: Any, clock: LeaseClock) -> HastySQLiteStore:
    """Open one; WouldWait if not even that is possible now."""
    try:
        return HastySQLiteStore(path, synchronous=synchronous, timeout=0.0, clock=clock)
    except StoreError as error:
        raise WouldWait(str(error)) from error
