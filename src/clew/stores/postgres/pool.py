"""The connections of one PostgreSQL store: opened when they are needed, at most `size`, and used again.

Whoever works takes a connection and gives it back; when all are in use, it waits. A connection is opened by the thread
that needs it, so an error reaches whoever asked, with its cause, and there is no thread in the background. The last one
given back is taken first: a store that does one thing at a time has one connection.

A connection that the server has closed while nobody used it is noticed before it is used, and dropped. One that comes
back in the middle of something (an interrupt) is closed. An interrupt may also come between taking a connection and
knowing that it was taken. So whoever works makes a `Loan` first, and gives back by it, whatever it has come to. Whoever
waits does so at a lock of its own, its turn. There is no `threading.Condition`: its Python code can lose its lock when
an interrupt comes.

A forked child must not speak on its parent's connections, nor keep them open: the server would take the parent for
alive after it was killed. So the child puts /dev/null in the place of each socket, and opens connections of its own.
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

_IDLE = 0  # the status of a connection on which nothing is under way, as libpq has it


class Session:
    """A connection and a cursor of it."""

    loan: Loan | None = None  # the last one

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.db = db
        self.cursor = db.cursor(binary=True)
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(db.fileno(), select.POLLIN)

    @property
    def is_idle(self) -> bool:
        """Whether it can be used for something else."""
        return not self.db.closed and self.db.pgconn.transaction_status == _IDLE

    @property
    def is_cut(self) -> bool:
        """Whether the server has closed an idle connection."""
        if self.db.closed:
            return True
        if self._poll is not None and not self._poll.poll(0):
            return False  # the server has said nothing
        try:
            self.db.pgconn.consume_input()
        except Exception:
            return True
        return self.db.closed


class Loan:
    """What somebody has taken from a pool, if it has come to that."""

    __slots__ = ("session", "turn")

    def __init__(self) -> None:
        self.session: Session | None = None
        self.turn: LockType | None = None  # released when it may be worth another look


class Pool:
    """Connections, in use and idle. `connect` opens one."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._turns: list[LockType] = []  # of those who wait
        self._idle: list[Session] = []
        self.sessions: set[Session] = set()
        self._opening: set[Loan] = set()
        self._is_closed = False

    def take(self, loan: Loan) -> Session | None:
        """Take a connection, or None if the pool is closed; what `connect` raises if it cannot be opened."""
        while True:
            with self._lock:
                if self._is_closed:
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
        loan.session = session = Session(self._connect())
        session.loan = loan
        with self._lock:
            self.sessions.add(session)
            self._opening.discard(loan)
        return session

    def give(self, loan: Loan) -> None:
        """Give back what was taken, if anything was; once more does nothing."""
        with self._lock:
            session = loan.session
            if loan in self._opening:  # it did not get there
                if session is not None:
                    session.db.close()
                self._opening.discard(loan)
            elif session is not None and session in self.sessions and session.loan is loan:
                if self._is_closed or not session.is_idle:
                    self._drop(session)
                elif session not in self._idle:
                    self._idle.append(session)
            loan.session = None
            if loan.turn in self._turns:  # it waits no more
                self._turns.remove(loan.turn)
            if self._turns:
                _call(self._turns[0])
                del self._turns[0]

    def _drop(self, session: Session) -> None:
        self.sessions.discard(session)
        session.db.close()

    def close(self) -> None:
        """Close all connections: idle ones now, those in use when they are given back."""
        with self._lock:
            self._is_closed = True
            while self._idle:
                self._drop(self._idle.pop())
            while self._turns:
                _call(self._turns[-1])
                del self._turns[-1]

    def leave_to_parent(self) -> None:
        """Start over in a forked child, without the parent's connections."""
        was_closed = self._is_closed
        if self.sessions:
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            for session in self.sessions:
                if not session.db.closed:
                    os.dup2(nowhere, session.db.fileno(), inheritable=False)
                    _inherited.append(session)
            os.close(nowhere)
        self._begin()
        self._is_closed = was_closed


def _call(turn: LockType) -> None:
    """Wake the one whose turn it is; once more does nothing."""
    if turn.locked():
        turn.release()


_inherited: list[
    Session
] = []  # never closed: to close one says goodbye to a server that somebody else speaks to
