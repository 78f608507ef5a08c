"""Connections that say when nobody closed them.

Python reports an unclosed connection from 3.13 on, and only when the garbage collector happens to find it. Here every
connection that is opened in a block is watched, on every version, and the collector runs at the end of the block.
`with sqlite3.connect(...)` commits; it does not close. Of PostgreSQL, open stores are known without the collector.
"""

from __future__ import annotations

import gc
import sqlite3
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

FRAMES = 4


class Connections:
    """What became of the connections of a block: those that are open, and where those that leaked were opened."""

    def __init__(self) -> None:
        self.open: weakref.WeakSet[sqlite3.Connection] = weakref.WeakSet()
        self.leaked: list[str] = []


@contextmanager
def watched_connections() -> Iterator[Connections]:
    """Watch all connections that are opened in a block, in this process."""
    found = Connections()
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        opened_at: str | None = None

        def close(self) -> None:
            super().close()
            self.opened_at = None
            found.open.discard(self)

        def __del__(self) -> None:
            if self.opened_at is not None:
                found.leaked.append(self.opened_at)

    def opened(*given: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*given, **{"factory": Watched, **options})
        if isinstance(connection, Watched):
            connection.opened_at = _callers()
            found.open.add(connection)
        return connection

    with mock.patch.object(sqlite3, "connect", opened):
        yield found
        gc.collect()


def _callers() -> str:
    frame, lines = sys._getframe(2), []
    for _ in range(FRAMES):
        lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        if frame.f_back is None:
            break
        frame = frame.f_back
    return " < ".join(lines)


def stores_left_open() -> list[str]:
    """Return the names of open PostgreSQL stores with connections, and close them.

    An abandoned thread may still use a connection of a closed store; it closes the connection when it returns it.
    """
    module = sys.modules.get("clew.stores.postgres.connection")
    left = (
        [link for link in list(module._links) if link.pool.sessions and not link.pool.is_closed]
        if module
        else []
    )
    for link in left:
        link.close()
    return [link.name for link in left]
