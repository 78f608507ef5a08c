"""Connections to PostgreSQL that come back after the server went away.

Work that was under way when its connection broke is done again from its start, because nobody can know whether the
server finished it: whatever is given to `run` must be safe to repeat, and is told when it is repeated. A server that
stays away for longer than `patience` seconds is a `StoreUnavailableError`. That holds for the first connection too,
unless the server refuses for a reason that waiting does not change, such as a wrong password. No attempt to open a
store lasts longer than what is left of its patience (or 2 seconds, the least that the driver waits).

An owner is alive while a connection of its store holds its advisory lock. Every connection takes the lock, shared,
before it does anything else. So whatever the store writes, it writes while it counts as alive; and when one connection
breaks, the others keep the owner alive.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from clew.errors import StoreCorruptError, StoreError, StoreUnavailableError
from clew.stores.messages import refused
from clew.stores.postgres.migrations import bring_up_to_date
from clew.stores.postgres.pool import Loan, Pool
from clew.stores.protocol import Statement

try:
    import psycopg
except ImportError:  # pragma: no cover - the extra is not installed
    psycopg = None  # type: ignore[assignment]

if TYPE_CHECKING:
    Cursor = psycopg.Cursor[Any]

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]

LIVES = 0x436C6577  # the class of the advisory locks of owners; the other half of the key is the owner's slot

_GRACE = "200ms"  # a server takes a moment to notice that a client was killed
_REPEATABLE = ("40001", "40P01")  # serialization failure, deadlock
# A refused connection has a text and no code. In another language it is waited for, and then shown.
_HOPELESS = re.compile(
    "authentication failed|does not exist|no pg_hba.conf entry|no password supplied|not permitted"
)


class ConstraintViolation(Exception):
    """A row breaks a constraint; the store knows what that means."""


class StoreConnection:
    """The connections of a store, and its owner's slot."""

    def __init__(
        self, dsn: str, schema: str, *, connect_timeout: float, patience: float, pool_size: int = 1
    ) -> None:
        if psycopg is None:  # pragma: no cover - the extra is not installed
            raise StoreError("PostgresStore needs psycopg; install it with: pip install 'clew[postgres]'")
        most: Any = pool_size
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise StoreError(f"pool_size is a number of connections, 1 or more, not {pool_size!r}")
        self._schema = schema
        self._patience = patience
        self.slot = _fresh_slot()
        defaults = {"connect_timeout": max(1, round(connect_timeout)), "tcp_user_timeout": 30_000}
        try:
            given = psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.Error as error:
            raise StoreError(f"this is no address of a PostgreSQL server ({str(error).strip()})") from error
        self._options: dict[str, Any] = {"application_name": "clew", **defaults, **given}
        self.name = (
            f"PostgreSQL at {given.get('host', 'localhost')}/{given.get('dbname', '')}, schema {schema}"
        )
        self._was_open = False
        self._opening_until = time.monotonic() + patience
        self.pool = Pool(self._connect, pool_size)
        _links.add(self)
        self.run("opening the store", lambda cursor, _: None)
        self._was_open = True

    def _connect(self) -> psycopg.Connection[Any]:
        options = self._options
        if not self._was_open:
            left = max(1, math.ceil(self._opening_until - time.monotonic()))
            options = {**options, "connect_timeout": min(left, _seconds(options["connect_timeout"]) or left)}
        db = psycopg.connect(autocommit=True, **options)
        try:
            # Fences rely on a statement seeing what was committed while it waited for a row.
            db.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
            bring_up_to_date(db, self._schema, self.name)
            db.execute("SELECT pg_advisory_lock_shared(%s, %s)", (LIVES, self.slot))
        except BaseException:
            db.close()
            raise
        return db

    def outlives(self, slot: int) -> bool:
        """Whether the owner with this slot is gone, or goes within a moment."""

        def wait(cursor: Cursor, _: bool) -> bool:
            cursor.execute(f"SET lock_timeout = '{_GRACE}'")
            try:
                cursor.execute(
                    f"SELECT pg_advisory_lock({LIVES}, {slot}), pg_advisory_unlock({LIVES}, {slot})"
                )
            except psycopg.errors.LockNotAvailable:
                return False
            finally:
                if not cursor.connection.closed:
                    cursor.execute("RESET lock_timeout")
            return True

        return slot not in (0, self.slot) and self.run("an owner", wait)

    def fetch(self, what: str, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement answers with; it may be repeated."""
        return self.run(what, lambda cursor, _: cursor.execute(statement, values).fetchall())

    def change(self, what: str, statement: str, values: Values) -> int:
        """How many rows a statement changed; it may be repeated."""
        return self.run(what, lambda cursor, _: cursor.execute(statement, values, prepare=True).rowcount)

    def run(self, what: str, work: Callable[[Cursor, bool], T]) -> T:
        """Do some work with a cursor: ``work(cursor, again)``. If the connection breaks meanwhile, again."""
        deadline, again, pause = None if self._was_open else self._opening_until, False, 0.02
        while True:
            loan = Loan()
            try:
                try:
                    session = self.pool.take(loan)
                    if session is None:
                        raise StoreError(f"{what}: the store ({self.name}) is closed")
                    return work(session.cursor, again)
                except UnicodeError as error:
                    raise StoreError(f"{what}: {self.name} cannot keep this ({error})") from error
                except psycopg.Error as error:
                    is_connected = loan.session is not None and not loan.session.db.closed
                    if not self._may_pass(error, is_connected=is_connected):
                        raise self._explained(error, what) from error
                    now = time.monotonic()
                    deadline = deadline or now + self._patience
                    if now + pause > deadline:
                        raise self._explained(error, what) from error
                finally:
                    self.pool.give(loan)
            except BaseException:
                self.pool.give(loan)  # once more: an interrupt may have come while it was given back
                raise
            again = True
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _may_pass(self, error: psycopg.Error, *, is_connected: bool) -> bool:
        """Whether the same may succeed in a moment."""
        if is_connected:
            return error.sqlstate in _REPEATABLE
        return self._was_open or (
            isinstance(error, psycopg.OperationalError) and not _HOPELESS.search(str(error))
        )

    def leave_to_parent(self) -> None:
        """Start over in a forked child: its parent owns what was owned, and what both said would get mixed up."""
        self.slot = _fresh_slot()
        self.pool.leave_to_parent()

    def _explained(self, error: psycopg.Error, what: str) -> Exception:
        said = " ".join(str(error).split()) or type(error).__name__
        state = error.sqlstate or ""
        if state.startswith("23"):
            return ConstraintViolation(said)
        if state in ("XX001", "XX002"):
            return StoreCorruptError(f"{what}: {self.name} is damaged ({said})")
        if isinstance(error, psycopg.OperationalError) or state == "25006":  # a server that only reads
            return StoreUnavailableError(
                f"{what}: {self.name} did not take it ({said}); nothing is lost, resume when it does"
            )
        return StoreError(f"{what}: {self.name} cannot keep this ({said})")

    def close(self) -> None:
        """Close the connections; the owner's lock goes with them."""
        self.pool.close()


_links: WeakSet[StoreConnection] = WeakSet()


def _seconds(timeout: Any) -> int:
    """Return a timeout of a connection; 0 if there is none, or the server's driver does not know it either."""
    try:
        return max(0, int(float(timeout)))
    except (ValueError, OverflowError):
        return 0


def _fresh_slot() -> int:
    return secrets.randbelow((1 << 31) - 1) + 1


def _after_fork() -> None:
    for link in list(_links):
        link.leave_to_parent()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def execute(cursor: Cursor, statements: Sequence[Statement], run_id: str | None = None) -> None:
    """Execute statements within a transaction; for a run, what the server refuses is a StoreError.

    Names of tables mean what they mean to anybody who connects as this user.
    """
    cursor.execute("SET LOCAL search_path TO DEFAULT")
    for statement in statements:
        try:
            if statement.many:
                cursor.executemany(statement.sql, statement.values)
            else:
                cursor.execute(statement.sql, statement.values)  # with values, it can be one statement only
        except psycopg.Error as error:
            if run_id is None or cursor.connection.closed or error.sqlstate in _REPEATABLE:
                raise
            raise StoreError(refused(run_id, statement.sql, error)) from error


def rehearsed(cursor: Cursor, statements: Sequence[Statement]) -> psycopg.Error | None:
    """What the server has against statements, which are taken back."""
    try:
        with cursor.connection.transaction(force_rollback=True):
            execute(cursor, statements)
    except psycopg.Error as error:
        if cursor.connection.closed or error.sqlstate in _REPEATABLE:
            raise
        return error
    return None
