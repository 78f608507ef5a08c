"""Checkpoints as savepoints, for tests that share one connection with the tested code and never commit.

- Everything happens in one transaction of the caller's connection, or of one that the system opens (`connection`).
- Restoring a checkpoint ends all later ones: `ordering` is "lifo". Sequences are not transactional, and are set
  explicitly.
- A failed statement makes the transaction unusable until a rollback. So the next read after a failure rolls back to the
  last checkpoint: the failed action has changed nothing.
- A commit or rollback by the application ends all checkpoints: `RollbackError`.

An observation reads all watched tables each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import CheckpointError, ClewError, ExplorationError, RollbackError, UnknownCheckpointError
from clew.explore.model.system import Observation
from clew.explore.systems.interrupts import uninterrupted
from clew.explore.systems.postgres.catalog import load_watched
from clew.explore.systems.postgres.connection import TEXT_STYLE, address, psycopg, said
from clew.explore.systems.postgres.observation import ObservedTables, identity
from clew.explore.systems.postgres.restore import Sequences, sequences_sql, set_sequences
from clew.explore.systems.postgres.system import PostgresSystem
from clew.explore.systems.tables import TableChoice

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection, Cursor


@dataclass(frozen=True)
class Savepoint:
    """A savepoint of the transaction, and the positions of the sequences."""

    number: int
    sequences: Sequences

    @property
    def name(self) -> str:
        return f"clew_{self.number}"


class Savepoints(PostgresSystem):
    """Checkpoint and restore within one transaction.

    The server rolls everything back when the process is killed, so there is no baseline.
    """

    ordering: Literal["lifo"] = "lifo"

    def _open(self, dsn: str | Connection) -> None:
        self._is_own = isinstance(dsn, str)
        self._connection: Connection = _connected(dsn) if isinstance(dsn, str) else dsn
        self._made = 0
        self._stack: list[Savepoint] = []
        self._released: set[int] = set()
        try:
            with self._errors(ExplorationError, "cannot read the tables"), self._reading() as cursor:
                load_watched(cursor, self._schema, self._choice)
        except BaseException:
            self.close()
            raise

    @property
    def connection(self) -> Connection:
        return self._connection

    @uninterrupted
    def observe(self) -> Observation:
        with self._lock, self._errors(ExplorationError, "cannot observe the database"):
            with self._reading() as cursor:
                watched = load_watched(cursor, self._schema, self._choice, strict=False)
                observed = ObservedTables(watched, self._rows_shown)
                observed.load(cursor)
                labels = {oid: each.label for oid, each in watched.sequences.items()}
                at = {labels[oid]: list(value) for oid, value in self._sequences(cursor).items()}
            return Observation("postgres", observed.data(), {"sequences": at}, identity(observed.digests()))

    def _query(self, sql: str) -> Iterable[Any]:
        with self._lock:
            return self._cursor().execute(sql.encode()).fetchall()

    @uninterrupted
    def checkpoint(self, name: str) -> int:
        with self._lock, self._errors(CheckpointError, f"cannot make the checkpoint {name!r}"):
            with self._reading() as cursor:
                sequences = self._sequences(cursor)
            self._made += 1
            made = Savepoint(self._made, sequences)
            self._cursor().execute(f"SAVEPOINT {made.name}".encode())
            self._stack.append(made)
            return made.number

    @uninterrupted
    def rollback(self, token: Any) -> None:
        with self._lock:
            index = self._index(token)
            if index is None:
                raise UnknownCheckpointError(f"Checkpoint not found: {token}")
            target = self._stack[index]
            with self._errors(RollbackError, f"cannot roll back to {token}"):
                self._cursor().execute(f"ROLLBACK TO SAVEPOINT {target.name}".encode())
                del self._stack[index + 1 :]
                with self._reading() as cursor:
                    now = self._sequences(cursor)
                for sql, values in set_sequences(target.sequences, now):
                    self._cursor().execute(sql.encode(), values)

    def is_valid(self, token: Any) -> bool:
        with self._lock:
            return self._index(token) is not None and not self._connection.closed

    @uninterrupted
    def release(self, token: Any) -> None:
        """Discard a checkpoint. Releasing a savepoint ends the later ones, so only the last ones are released."""
        with self._lock:
            if self._index(token) is None:
                return
            self._released.add(token)
            while self._stack and self._stack[-1].number in self._released:
                last = self._stack.pop()
                self._released.discard(last.number)
                if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                    self._cursor().execute(f"RELEASE SAVEPOINT {last.name}".encode())

    def close(self) -> None:
        """Roll back and disconnect if the system opened the connection; otherwise leave it unchanged."""
        with self._lock:
            self._stack = []
            if self._is_own:
                self._connection.close()

    def _index(self, token: Any) -> int | None:
        for index, each in enumerate(self._stack):
            if each.number == token and token not in self._released:
                return index
        return None

    def _cursor(self) -> Cursor:
        return psycopg.RawCursor(self._connection, row_factory=psycopg.rows.tuple_row)

    @contextmanager
    def _reading(self) -> Iterator[Cursor]:
        """Return a cursor with the fixed text format; the settings end with it."""
        status = psycopg.pq.TransactionStatus
        cursor = self._cursor()
        if self._connection.info.transaction_status == status.INERROR:
            last = f" TO SAVEPOINT {self._stack[-1].name}" if self._stack else ""
            cursor.execute(f"ROLLBACK{last}".encode())
        if self._connection.info.transaction_status == status.IDLE and self._connection.autocommit:
            cursor.execute("BEGIN")
        cursor.execute("SAVEPOINT clew_read")
        try:
            for name, value in TEXT_STYLE.items():
                cursor.execute("SELECT set_config($1, $2, true)", (name, value))
            yield cursor
        finally:
            if not self._connection.closed:
                cursor.execute("ROLLBACK TO SAVEPOINT clew_read")
                cursor.execute("RELEASE SAVEPOINT clew_read")

    def _sequences(self, cursor: Cursor) -> Sequences:
        watched = load_watched(cursor, self._schema, TableChoice(self._choice.tables), strict=False)
        sql = sequences_sql(watched)
        rows = cursor.execute(sql.encode()).fetchall() if sql else []
        return {oid: (last, called) for oid, last, called in rows}

    @contextmanager
    def _errors(self, kind: type[ClewError], what: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            hint = ""
            if error.sqlstate in ("25P01", "3B001"):  # no transaction; no such savepoint
                self._stack = []
                hint = "; the application ended the transaction, and all checkpoints with it"
            raise kind(f"{what}: {said(error)}{hint}") from error


def _connected(dsn: str) -> Connection:
    parts = address(dsn)
    try:
        return psycopg.connect(**parts)
    except psycopg.Error as error:
        raise ExplorationError(f"cannot connect to PostgreSQL ({said(error)})") from error
