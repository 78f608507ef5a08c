"""Connections to PostgreSQL that survive a restart of the server.

If a connection breaks, its work is repeated from the start, because the server may or may not have finished it. So the
work passed to `run` must be safe to repeat; an argument tells it that it is a repetition. If the server is unavailable
for more than `patience` seconds, or until the time of `wait_at_most`, `run` raises `StoreUnavailableError`. This also
applies to the first connection, unless waiting cannot help, as with an invalid password. After a call has waited for
so long, the calls that follow it within seconds try once, so releasing a run does not wait again. Each attempt to
connect takes at most the rest of the patience, or 2 seconds, the minimum of the driver.

With `pooler`, connections have no state between transactions: no prepared statements, no settings and no locks. So
PgBouncer may use a different connection to the server for each transaction. Only leases show that an owner is dead.

Without `pooler`, an owner is alive while a connection of its store holds its advisory lock. Every connection first
takes this lock in shared mode. So a store that writes counts as alive, even if one of its connections breaks.
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
from clew.state.number_checks import is_int
from clew.stores.messages import refused
from clew.stores.postgres.migrations import migrate
from clew.stores.postgres.pool import Loan, Pool
from clew.stores.postgres.qualified import connect
from clew.stores.postgres.workers import LIVES
from clew.stores.protocol import Statement

try:
    import psycopg
except ImportError:  # pragma: no cover - the extra is not installed
    psycopg = None  # type: ignore[assignment]

if TYPE_CHECKING:
    Cursor = psycopg.Cursor[Any]

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]

_MOMENT = "200ms"  # that an owner which may be alive gets to prove it
_GRACE = "5s"  # in which a busy server ends the session of an owner that is gone
_SAME_OUTAGE = 5.0  # seconds after a call gave up in which another one does not wait again
_REPEATABLE = ("40001", "40P01")  # serialization failure, deadlock
# A rejected connection has a text and no code. With a text in another language, the store waits before it raises.
_ADVICE = {
    "authentication failed|no password supplied": "check the user and the password of the URL",
    "database .* does not exist": "create the database with `createdb`, or check its name in the URL",
    "does not exist|not permitted": "check the user and the database of the URL",
    "no pg_hba.conf entry": "allow this host in pg_hba.conf of the server, or check the URL",
}
_HOPELESS = re.compile("|".join(_ADVICE))


class ConstraintViolation(Exception):
    """A row violates a constraint; the store knows the reason."""


class StoreConnection:
    """The connections of a store, and its owner's slot."""

    def __init__(
        self,
        dsn: str,
        schema: str,
        *,
        connect_timeout: float,
        patience: float,
        pool_size: int = 1,
        pooler: bool = False,
    ) -> None:
        if psycopg is None:  # pragma: no cover - the extra is not installed
            raise StoreError("PostgresStore needs psycopg; install it with: pip install 'clew[postgres]'")
        most: Any = pool_size
        if not is_int(most, 1):
            raise StoreError(f"pool_size: expected an int >= 1, got {pool_size!r}")
        self._schema = schema
        self._patience = patience
        self._pooler = pooler
        self.prepares = None if pooler else True  # whether a frequent statement is prepared at its first use
        self.slot = self._fresh_slot()
        defaults = {"connect_timeout": max(1, round(connect_timeout)), "tcp_user_timeout": 30_000}
        try:
            given = psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.Error as error:
            raise StoreError(
                f"invalid URL ({str(error).strip()}); give postgresql://host/database"
            ) from error
        self._options: dict[str, Any] = {"application_name": "clew", **defaults, **given}
        if pooler:
            self._options["prepare_threshold"] = None
        port = f":{given['port']}" if "port" in given else ""
        self.name = (
            f"PostgreSQL at {given.get('host', 'localhost')}{port}/{given.get('dbname', '')}, schema {schema}"
        )
        self._was_open = False
        self._opening_until = time.monotonic() + patience
        self._latest = math.inf  # no call waits longer
        self._gave_up_at = -math.inf  # when a call had waited for `patience`, and none has succeeded since
        self.pool = Pool(self._connect, pool_size)
        _links.add(self)
        self.run("opening the store", lambda cursor, _: None)
        self._was_open = True

    def _connect(self) -> psycopg.Connection[Any]:
        options, until = self._options, self._latest if self._was_open else self._opening_until
        if until < math.inf:
            left = max(1, math.ceil(until - time.monotonic()))
            options = {**options, "connect_timeout": min(left, _seconds(options["connect_timeout"]) or left)}
        db = connect(self._schema, options)
        try:
            # Fences require that a statement sees what was committed while it waited for a row.
            if not self._pooler:
                db.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
                db.execute("SELECT pg_advisory_lock_shared(%s, %s)", (LIVES, self.slot))
            elif db.execute("SHOW default_transaction_isolation").fetchone() != ("read committed",):
                raise StoreError(
                    f"{self.name}: with pooler=True, the server's default_transaction_isolation must be "
                    f"'read committed'; set it for this user or database"
                )
            migrate(db, self._schema, self.name)
        except BaseException:
            db.close()
            raise
        return db

    def connect_apart(self) -> psycopg.Connection[Any]:
        """Open a connection outside the pool, which holds the lock of the owner."""
        db = connect(self._schema, self._options)
        try:
            db.execute("SELECT pg_advisory_lock_shared(%s, %s)", (LIVES, self.slot))
        except BaseException:
            db.close()
            raise
        return db

    def outlives(self, slot: int, *, is_gone: bool) -> bool:
        """Return whether the owner with this slot is dead, or ends within a moment.

        The server needs that moment to see that a client is gone. If the process of the owner is known to be gone
        (`is_gone`), it gets as long as a busy machine may take.
        """

        def wait(cursor: Cursor, _: bool) -> bool:
            cursor.execute(f"SET lock_timeout = '{_GRACE if is_gone else _MOMENT}'")
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

        return not self._pooler and slot not in (0, self.slot) and self.run("an owner", wait)

    def fetch(self, what: str, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which may be repeated."""
        return self.run(what, lambda cursor, _: cursor.execute(statement, values).fetchall())

    def change(
        self, what: str, statement: str, values: Values, *, after: tuple[str, Values] | None = None
    ) -> int:
        """Execute a statement, which may be repeated, and return the number of changed rows.

        With `after`, execute it after that statement, in one transaction. A statement sees the rows of other tables as
        they were when it began, even if it has waited for a row; one that begins after a lock sees what was committed
        with that row.
        """
        prepare = self.prepares

        def work(cursor: Cursor, _: bool) -> int:
            if after is None:
                return cursor.execute(statement, values, prepare=prepare).rowcount
            with cursor.connection.transaction():
                cursor.execute(*after, prepare=prepare)
                return cursor.execute(statement, values, prepare=prepare).rowcount

        return self.run(what, work)

    def run(self, what: str, work: Callable[[Cursor, bool], T]) -> T:
        """Return ``work(cursor, again)``, repeated with ``again=True`` if the connection breaks."""
        deadline, again, pause = None if self._was_open else self._opening_until, False, 0.02
        began = time.monotonic()
        while True:
            loan = Loan()
            try:
                try:
                    session = self.pool.take(loan)
                    if session is None:
                        raise StoreError(f"{what}: the store ({self.name}) is closed; open it again")
                    found = work(session.cursor, again)
                    self._gave_up_at = -math.inf
                    return found
                except UnicodeError as error:
                    raise StoreError(f"{what}: {self.name} cannot store this ({error})") from error
                except psycopg.Error as error:
                    is_connected = loan.session is not None and not loan.session.db.closed
                    if not self._may_pass(error, is_connected=is_connected):
                        raise self._explained(error, what) from error
                    now = time.monotonic()
                    if deadline is None:
                        is_same = not is_connected and began < self._gave_up_at + _SAME_OUTAGE
                        deadline = now if is_same else now + self._patience
                    left = min(deadline, self._latest) - now
                    if left <= 0:
                        if now >= deadline and not is_connected:
                            self._gave_up_at = now
                        raise self._explained(error, what) from error
                finally:
                    self.pool.give(loan)
            except BaseException:
                self.pool.give(loan)  # again: an interrupt may have stopped the first call
                raise
            again = True
            time.sleep(min(pause, left))
            pause = min(2 * pause, 1.0)

    def _may_pass(self, error: psycopg.Error, *, is_connected: bool) -> bool:
        """Return whether a repetition may succeed."""
        if is_connected:
            return error.sqlstate in _REPEATABLE
        return self._was_open or (
            isinstance(error, psycopg.OperationalError) and not _HOPELESS.search(str(error))
        )

    def wait_at_most(self, seconds: float | None) -> None:
        """Let all calls, also those that wait now, wait no longer than this for the server; None: for `patience`."""
        self._latest = math.inf if seconds is None else time.monotonic() + seconds

    def leave_to_parent(self) -> None:
        """Reset the connections in a forked child; the runs belong to the parent."""
        self.slot = self._fresh_slot()
        self.pool.leave_to_parent()

    def _fresh_slot(self) -> int:
        """Return a new slot; 0 behind a pooler, where only the lease shows whether the owner is alive."""
        return 0 if self._pooler else secrets.randbelow((1 << 31) - 1) + 1

    def _explained(self, error: psycopg.Error, what: str) -> Exception:
        said = " ".join(str(error).split()) or type(error).__name__
        state = error.sqlstate or ""
        if state.startswith("23"):
            return ConstraintViolation(said)
        if state in ("XX001", "XX002"):
            return StoreCorruptError(f"{what}: {self.name} is damaged ({said})")
        if isinstance(error, psycopg.OperationalError) or state == "25006":  # a read-only server
            return StoreUnavailableError(f"{what}: {self.name} is unavailable ({said}); {self._advice(said)}")
        if state == "42501":
            return StoreError(
                f"{what}: {self.name} refuses this ({said}); use the user that owns the schema, or as administrator "
                f"give this one its own: CREATE SCHEMA {self._schema} AUTHORIZATION ..."
            )
        return StoreError(f"{what}: {self.name} cannot store this ({said})")

    def _advice(self, said: str) -> str:
        """Return what to do about a server that cannot be used."""
        found = (advice for text, advice in _ADVICE.items() if re.search(text, said))
        if self._was_open:
            return next(found, "nothing is lost, resume when it is available")
        return next(found, "check the URL, and that the server runs and accepts connections")

    def close(self) -> None:
        """Close the connections, which releases the lock of the owner."""
        self.pool.close()


_links: WeakSet[StoreConnection] = WeakSet()


def is_open_here(slot: int) -> bool:
    """Return whether a store of this process has this slot, and was not closed."""
    return any(link.slot == slot and not link.pool.is_closed for link in list(_links))


def _seconds(timeout: Any) -> int:
    """Return a timeout in whole seconds; 0 if it is missing or invalid."""
    try:
        return max(0, int(float(timeout)))
    except (ValueError, OverflowError):
        return 0


def _after_fork() -> None:
    for link in list(_links):
        link.leave_to_parent()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def execute(cursor: Cursor, statements: Sequence[Statement], run_id: str | None = None) -> None:
    """Execute statements of a user in a transaction. With a run, an error of the server is raised as StoreError."""
    for statement in statements:
        try:
            if statement.many:
                cursor.executemany(statement.sql, statement.values)
            else:
                # unchanged (`clew.stores.postgres.qualified`); with parameters, only one statement is possible
                psycopg.Cursor.execute(cursor, statement.sql, statement.values)
        except psycopg.Error as error:
            if run_id is None or cursor.connection.closed or error.sqlstate in _REPEATABLE:
                raise
            raise StoreError(refused(run_id, statement.sql, error)) from error


def rehearsed(cursor: Cursor, statements: Sequence[Statement]) -> psycopg.Error | None:
    """Execute statements, roll them back, and return the error of the server or None."""
    try:
        with cursor.connection.transaction(force_rollback=True):
            execute(cursor, statements)
    except psycopg.Error as error:
        if cursor.connection.closed or error.sqlstate in _REPEATABLE:
            raise
        return error
    return None
