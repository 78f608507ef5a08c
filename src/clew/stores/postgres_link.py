"""One connection to PostgreSQL that comes back after the server went away.

Work that was under way when the connection broke is done again from its start, because nobody can know whether the
server finished it: whatever is given to `run` must be safe to repeat, and is told when it is repeated. A server that
stays away for longer than `patience` seconds is a `StoreUnavailableError`.

An owner is alive while a session holds its advisory lock. The lock is shared, so that a new connection takes it before
the server has noticed the end of the old one.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from clew.errors import StoreCorruptError, StoreError, StoreUnavailableError
from clew.stores.postgres_schema import bring_up_to_date
from clew.stores.protocol import Statement
from clew.stores.refusals import refused

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


class BrokenRule(Exception):
    """A row breaks a constraint; the store knows what that means."""


class Link:
    """A connection, its lock, and an owner's slot."""

    def __init__(self, dsn: str, schema: str, *, connect_timeout: float, patience: float) -> None:
        if psycopg is None:  # pragma: no cover - the extra is not installed
            raise StoreError("PostgresStore needs psycopg; install it with: pip install 'clew[postgres]'")
        self._schema = schema
        self._patience = patience
        self._lock = threading.RLock()
        self._is_closed = False
        self._process = os.getpid()
        self.slot = 0
        defaults = {"connect_timeout": max(1, round(connect_timeout)), "tcp_user_timeout": 30_000}
        try:
            given = psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.Error as error:
            raise StoreError(f"this is no address of a PostgreSQL server ({str(error).strip()})") from error
        self._options: dict[str, Any] = {"application_name": "clew", **defaults, **given}
        self.name = (
            f"PostgreSQL at {given.get('host', 'localhost')}/{given.get('dbname', '')}, schema {schema}"
        )
        try:
            self._connect()
        except psycopg.Error as error:
            raise self._explained(error, "opening the store") from error

    def _connect(self) -> None:
        self._db = psycopg.connect(autocommit=True, **self._options)
        try:
            # Fences rely on a statement seeing what was committed while it waited for a row.
            self._db.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
            bring_up_to_date(self._db, self._schema, self.name)
            if self.slot:
                self._db.execute("SELECT pg_advisory_lock_shared(%s, %s)", (LIVES, self.slot))
        except BaseException:
            self._db.close()
            raise
        self._cursor = self._db.cursor(binary=True)

    def hold(self) -> int:
        """The slot whose lock says that this owner is alive."""
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock:
            if not self.slot:
                self.slot = secrets.randbelow((1 << 31) - 1) + 1
                self.fetch("an owner", "SELECT pg_advisory_lock_shared(%s, %s)", (LIVES, self.slot))
            return self.slot

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
                if not self._db.closed:
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
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock:
            if self._is_closed:
                raise StoreError(f"{what}: the store ({self.name}) is closed")
            deadline, again, pause = None, False, 0.02
            while True:
                try:
                    if self._db.closed:
                        self._connect()
                    return work(self._cursor, again)
                except UnicodeError as error:
                    raise StoreError(f"{what}: {self.name} cannot keep this ({error})") from error
                except psycopg.Error as error:
                    if not self._db.closed and error.sqlstate not in _REPEATABLE:
                        raise self._explained(error, what) from error
                    now = time.monotonic()
                    deadline = deadline or now + self._patience
                    if now + pause > deadline:
                        raise self._explained(error, what) from error
                again = True
                time.sleep(pause)
                pause = min(2 * pause, 1.0)

    def _leave_to_parent(self) -> None:
        """This process is a child of the one that connected: what both said would get mixed up."""
        self._process = os.getpid()
        self._parents = self._db  # kept, because ending it here would end it for the parent
        self._lock = threading.RLock()
        self.slot = 0
        if not self._is_closed:
            try:
                self._connect()
            except psycopg.Error as error:
                raise self._explained(error, "opening the store in a forked process") from error

    def _explained(self, error: psycopg.Error, what: str) -> Exception:
        said = " ".join(str(error).split()) or type(error).__name__
        state = error.sqlstate or ""
        if state.startswith("23"):
            return BrokenRule(said)
        if state in ("XX001", "XX002"):
            return StoreCorruptError(f"{what}: {self.name} is damaged ({said})")
        if isinstance(error, psycopg.OperationalError) or state == "25006":  # a server that only reads
            return StoreUnavailableError(
                f"{what}: {self.name} did not take it ({said}); nothing is lost, resume when it does"
            )
        return StoreError(f"{what}: {self.name} cannot keep this ({said})")

    def close(self) -> None:
        """Close the connection; the owner's lock goes with it."""
        with self._lock:
            self._is_closed = True
            if hasattr(self, "_db") and self._process == os.getpid():  # it was connected, and not by a parent
                self._db.close()


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
