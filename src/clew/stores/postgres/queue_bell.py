"""Wake idle workers when a run becomes ready, with LISTEN and NOTIFY.

An idle worker opens a separate connection, outside the pool. The connection listens, and holds an advisory lock that it
shares with other idle workers. A process that makes a run ready tries to get this lock exclusively. If it fails, some
worker is idle, and the process sends a notification. The server handles all notifications under one lock, so a store
tries at most five times a second. A worker that was woken looks for runs a few times in quick succession, so it also
finds runs that became ready in between.

The connection also holds the lock of the owner (`clew.stores.postgres.connection`). If all connections of a worker are
cut, this one is opened again at once, because a thread waits for it. So other workers do not consider the worker dead.

A notification only shortens the time until a run is taken. It may be lost, with the connection or behind a pooler, so
workers poll as well. Errors are ignored here, and the connection is opened again.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import sha256
from threading import Thread
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError
from clew.stores.postgres.connection import StoreConnection

if TYPE_CHECKING:
    import psycopg

IDLE = 0x436C6579  # class of the advisory locks of idle workers; the second half of the key names the schema

_INTERVAL = 0.2  # seconds between two tries of a store to wake workers
_PAUSES = (0.0, 0.2, 1.0, 5.0)  # seconds before the connection is opened again
_JOIN = 2.0  # seconds that closing waits for the thread

_WAKE = "SELECT CASE WHEN NOT pg_try_advisory_xact_lock(%s, %s) THEN pg_notify(%s, '') END"


class QueueBell:
    """Wakes the idle workers of a schema, and lets workers listen."""

    def __init__(self, link: StoreConnection, schema: str, *, pooler: bool) -> None:
        self._link = link
        self._pooler = pooler
        digest = sha256(schema.encode()).digest()
        self.channel = f"clew_{digest[:8].hex()}"
        self.key = int.from_bytes(digest[:4], "big", signed=True)  # the second half of the key of the lock
        self._rung = float("-inf")

    def ring(self) -> None:
        """Wake the idle workers, unless this store has tried a moment ago."""
        now = time.monotonic()
        if now - self._rung < _INTERVAL:
            return
        self._rung = now
        with suppress(ClewError):  # the run is stored in any case
            self._link.fetch("idle workers", _WAKE, (IDLE, self.key, self.channel))

    def listen(self, wake: Callable[[], None]) -> BellListener | None:
        """Call a function when a run may have become ready, from another thread. None behind a pooler."""
        return None if self._pooler else BellListener(self._link, self, wake)


class BellListener:
    """Listens for one worker, on a separate connection and thread."""

    def __init__(self, link: StoreConnection, bell: QueueBell, wake: Callable[[], None]) -> None:
        self._link = link
        self._bell = bell
        self._wake = wake
        self._is_idle = self._is_closed = False
        self._inner, self._outer = socket.socketpair()
        self._outer.setblocking(False)
        self._thread = Thread(target=self._run, name="clew-queue-listener", daemon=True)
        self._thread.start()

    def be_idle(self, is_idle: bool) -> None:
        """Set whether the worker is idle. It is woken once when other processes can see that."""
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            self._poke()

    def close(self) -> None:
        """End the thread and its connection."""
        self._is_closed = True
        self._poke()
        self._thread.join(timeout=_JOIN)

    def _poke(self) -> None:
        with suppress(OSError):  # it is full, or closed
            self._outer.send(b"x")

    def _run(self) -> None:
        failures = 0
        with self._inner, self._outer:
            while not self._is_closed:
                began = time.monotonic()
                try:
                    with closing(self._link.connect_apart()) as db:
                        self._listen(db)
                except Exception:  # workers poll until it works again
                    failures = 1 if time.monotonic() - began > _PAUSES[-1] else failures + 1
                    self._wait(_PAUSES[min(failures, len(_PAUSES)) - 1])

    def _listen(self, db: psycopg.Connection[Any]) -> None:
        db.add_notify_handler(lambda _: self._wake())
        db.execute(f"LISTEN {self._bell.channel}")
        is_idle = False
        while not self._is_closed:
            if self._is_idle != is_idle:
                is_idle = not is_idle
                function = "pg_advisory_lock_shared" if is_idle else "pg_advisory_unlock_shared"
                db.execute(f"SELECT {function}(%s, %s)", (IDLE, self._bell.key))
                if is_idle:
                    self._wake()  # what became ready before is found now
            if self._wait(None, db):
                db.pgconn.consume_input()
                while db.pgconn.notifies() is not None:
                    self._wake()

    def _wait(self, seconds: float | None, db: psycopg.Connection[Any] | None = None) -> bool:
        """Wait until another thread pokes; return whether the server has sent something."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._inner, selectors.EVENT_READ)
            if db is not None:
                selector.register(db.fileno(), selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select(seconds)}
        if self._inner in ready:
            self._inner.recv(1024)
        return db is not None and db.fileno() in ready
