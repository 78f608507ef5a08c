"""A SQLite store for callers that must not wait, such as an event loop.

It is a connection of its own with no busy timeout: where another writer has the file, in this process or another, its
operations raise `WouldWait` at once, and the caller repeats them elsewhere with the store that waits. It shares no lock
with that store, whose lock may be held by a thread that waits.
"""

from __future__ import annotations

import sqlite3

from clew.stores.protocol import WouldWait
from clew.stores.sqlite import SQLiteStore


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
