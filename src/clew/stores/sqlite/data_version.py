"""Detect commits to a SQLite file by any connection, without reading the tables.

``PRAGMA data_version`` changes when another connection has committed. It reads a few bytes of shared memory and does
not wait for writers. It does not change with the commits of its own connection, so this connection is separate from
that of the store. It is opened by the first read. A forked process opens a new one.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from threading import Lock

from clew.stores.sqlite.file import open_existing


class DataVersion:
    """The data version of one file."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._lock = Lock()
        self._db: sqlite3.Connection | None = None
        self._process = 0
        self._parents: list[sqlite3.Connection | None] = []  # never closed: see `ForkedConnection`

    def read(self) -> int:
        """Return the version; it differs from an earlier one if another connection has committed since."""
        if self._process not in (0, os.getpid()):  # a fork; its parent may have held the lock
            self._lock = Lock()
            self._parents.append(self._db)
            self._db = None
        with self._lock:
            if self._db is None:
                self._process = os.getpid()
                self._db = open_existing(self._path, self._timeout)
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connection. The next read opens a new one."""
        if self._db is not None and self._process == os.getpid():
            with self._lock:
                if self._db is not None:
                    self._db.close()
                self._db = None
