"""The connection pool of a PostgreSQL store: at most `size` connections, opened on demand and reused.

- A caller takes a connection and returns it. If all connections are in use, it waits.
- The calling thread opens the connection, so it gets the error, and the pool needs no background thread.
- The connection returned last is taken first, so sequential work uses one connection.
- A connection that the server has closed is detected before use and dropped. One that is returned during a transaction
  (after an interrupt) is closed.
- An interrupt can happen between taking a connection and storing it in a variable. So a caller creates a `Loan` first,
  and uses it to return the connection, regardless of where it was interrupted.
- Each waiting caller waits for its own lock. `threading.Condition` is not used, because an interrupt in its Python code
  can lose its lock.

A forked child must not use the connections of its parent, nor keep them open: the server would believe that a killed
parent is alive. So the child replaces each socket with /dev/null and opens its own connections.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _thread import LockType

    import psycopg

_IDLE = 0  # libpq's PQTRANS_IDLE: no transaction is open


class PooledConnection:
    """A connection and its cursor."""

    loan: Loan | None = None  # the latest

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.db = db
        self.cursor = db.cursor(binary=True)
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(db.fileno(), select.POLLIN)

    @property
    def is_idle(self) -> bool:
        """Return whether the connection is open and has no transaction."""
        return not self.db.closed and self.db.pgconn.transaction_status == _IDLE

    @property
    def is_cut(self) -> bool:
        """Return whether the server has closed the idle connection."""
        if self.db.closed:
            return True
        if self._poll is not None and not self._poll.poll(0):
            return False  # no input from the server
        try:
            self.db.pgconn.consume_input()
        except Exception:
            return True
        return self.db.closed


class Loan:
    """A request for a connection, and the connection once it is taken."""

    __slots__ = ("session", "turn")

    def __init__(self) -> None:
        self.session: PooledConnection | None = None
        self.turn: LockType | None = None  # released when a connection may be available


class Pool:
    """A pool of connections. `connect` opens one."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._turns: list[LockType] = []  # of waiting callers
        self._idle: list[PooledConnection] = []
        self.sessions: set[PooledConnection] = set()
        self._opening: set[Loan] = set()
        self.is_closed = False

    def take(self, loan: Loan) -> PooledConnection | None:
        """Take a connection, or return None if the pool is closed. Raise the error of `connect`."""
        while True:
            with self._lock:
                if self.is_closed:
                    return None
                while self._idle:
                    loan.session = session = self._idle[-1]
                    session.loan = loan
                    del self._idle[-1]
                    if not session.is_cut:
                        return session
                    self._drop(session)
                    loan.session = None
                if len(self.sessions) + len(self._opening) < self._size:
                    self._opening.add(loan)
                    break
                turn = loan.turn = threading.Lock()
                turn.acquire()
                self._turns.append(turn)
            turn.acquire()
        loan.session = session = PooledConnection(self._connect())
        session.loan = loan
        with self._lock:
            self.sessions.add(session)
            self._opening.discard(loan)
        return session

    def give(self, loan: Loan) -> None:
        """Return the connection of a loan, if it has one. A second call does nothing."""
        with self._lock:
            session = loan.session
            if loan in self._opening:  # opening was interrupted
                if session is not None:
                    session.db.close()
                self._opening.discard(loan)
            elif session is not None and session in self.sessions and session.loan is loan:
                if self.is_closed or not session.is_idle:
                    self._drop(session)
                elif session not in self._idle:
                    self._idle.append(session)
            loan.session = None
            if loan.turn in self._turns:  # it no longer waits
                self._turns.remove(loan.turn)
            if self._turns:
                _wake(self._turns[0])
                del self._turns[0]

    def _drop(self, session: PooledConnection) -> None:
        self.sessions.discard(session)
        session.db.close()

    def close(self) -> None:
        """Close idle connections now, and those in use when they are returned."""
        with self._lock:
            self.is_closed = True
            while self._idle:
                self._drop(self._idle.pop())
            while self._turns:
                _wake(self._turns[-1])
                del self._turns[-1]

    def leave_to_parent(self) -> None:
        """Reset the pool in a forked child, without the connections of the parent."""
        was_closed = self.is_closed
        if self.sessions:
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            for session in self.sessions:
                if not session.db.closed:
                    os.dup2(null, session.db.fileno(), inheritable=False)
                    _inherited.append(session)
            os.close(null)
        self._begin()
        self.is_closed = was_closed


def _wake(turn: LockType) -> None:
    """Wake a waiting caller. A second call does nothing."""
    if turn.locked():
        turn.release()


_inherited: list[PooledConnection] = []  # never closed: closing one would end the session of the parent
