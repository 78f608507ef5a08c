"""Install, read and remove the journal of changed rows, and restore rows, over one connection.

- A read (`drain`) is one round trip and needs no lock. The changes of a transaction and their journal entries become
  visible together, so a read sees whole transactions. An open transaction is part of a later read.
- A restore needs locks; otherwise an open writer could commit on top of it. It requests all locks at once, releases
  everything if one is not available soon, and tries again until `patience` is over. So a deadlock never kills a
  transaction of the application.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from clew.explore.systems.delta_tree import add
from clew.explore.systems.postgres import triggers as journal
from clew.explore.systems.postgres.catalog import WatchedObjects, load_watched
from clew.explore.systems.postgres.connection import claim, connect, psycopg, run_all, was_interrupted
from clew.explore.systems.postgres.restore import (
    BY_KEY,
    Delta,
    Sequences,
    Statement,
    apply,
    lock_sql,
    sequences_sql,
    set_sequences,
)
from clew.explore.systems.tables import TableChoice

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection, Cursor

T = TypeVar("T")

_ATTEMPT = 0.25  # seconds; well below the server's deadlock_timeout of one second
_VACUUM_AFTER = 5_000  # rows deleted from the journal; every read has to skip them
_HAZARDS = """
SELECT EXISTS (SELECT FROM pg_largeobject_metadata),
       EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.pid <> pg_backend_pid()
               AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
_BLOCKERS = """
SELECT a.pid, a.application_name, a.state, left(a.query, 100), bool_and(l.mode = 'AccessShareLock')
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = ANY($1) AND l.granted AND l.pid <> pg_backend_pid()
GROUP BY 1, 2, 3, 4
"""


class BlockedError(Exception):
    """Another session locked a table for longer than `patience`."""


class _RetryLock(Exception):
    """A table was dropped before it could be locked."""


class _SchemaChanged(Exception):
    """The schema changed before a restore."""


@dataclass
class CapturedChanges:
    """The changes since the last read."""

    delta: Delta = field(default_factory=dict)
    sequences: Sequences = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)  # of the schema
    large_objects: bool = False
    advisory_locks: bool = False


class ChangeCapture:
    """A connection that reads and removes journal entries."""

    def __init__(self, parts: dict[str, Any], schema: str, patience: float) -> None:
        self._parts = parts
        self.schema = schema
        self._patience = patience
        self._drained = 0
        self.left_midway = False  # by an exploration that was killed
        self.were_disabled = False  # the old triggers, when the last ones were created
        self.watched = WatchedObjects({}, (), {})
        self.fingerprint: tuple[Any, ...] | None = None  # None if event triggers report schema changes
        self.connect()

    def connect(self) -> None:
        self.link: Connection = connect(self._parts)
        try:
            claim(self.link, self.schema)
        except BaseException:
            self.link.close()
            raise

    def install(self) -> None:
        """Create the journal. From then on, schema changes are noticed."""
        self.left_midway = self.left_midway or journal.was_left_midway(self.link, self.schema)
        self._reports = self._locked(lambda: journal.create(self.link, self.schema))

    def watch(
        self, choice: TableChoice, *, strict: bool = True, alter: Callable[[Delta], None] | None = None
    ) -> Delta:
        """Read the catalog, and put triggers on the watched tables; return the last changes that the old ones noted.

        Unless `strict`, named tables may be missing. `alter` changes the schema first, in the same transaction; it
        gets those last changes.
        """

        def work() -> tuple[WatchedObjects, Delta]:
            self._lock_tables(choice)
            journal.lock(self.link, self.schema)
            noted = self.link.execute(journal.drain_sql(self.schema).encode(), prepare=False)
            last = _delta_of(noted.fetchall())
            self.were_disabled = journal.were_disabled(self.link, self.schema)
            if alter is not None:
                alter(last)
            watched = load_watched(self.link.cursor(), self.schema, choice, strict=strict)
            journal.watch(self.link, self.schema, watched)
            return watched, last

        self.watched, last = self._locked(work)
        self.link.execute("DEALLOCATE ALL", prepare=False)  # their types may no longer exist
        self.fingerprint = None if self._reports else self._read_fingerprint()
        return last

    def _lock_tables(self, choice: TableChoice) -> None:
        """Lock the tables before the journal, in the order of every writer."""
        there = load_watched(
            self.link.cursor(), self.schema, TableChoice(choice.tables), strict=False
        ).tables.values()
        try:
            self.link.execute((lock_sql(there) or "SELECT").encode(), prepare=False)
        except psycopg.errors.UndefinedTable as error:
            raise _RetryLock from error

    def remove(self) -> None:
        """Remove the journal and its triggers; disable the triggers if a reader blocks that."""
        try:
            self._locked(lambda: journal.remove(self.link, self.schema))
        except BlockedError:
            with suppress(BlockedError):
                self._locked(lambda: journal.disable(self.link, self.watched))
            raise

    def _locked(self, work: Callable[[], T]) -> T:
        """Work in a transaction that waits briefly for locks."""

        def begun(begin: list[Statement]) -> tuple[T, list[Statement]]:
            run_all(self.link, begin)
            return work(), []

        return self._with_locks(begun)

    def _with_locks(self, work: Callable[[list[Statement]], tuple[T, list[Statement]]]) -> T:
        """Work in a transaction that waits briefly for locks; start again until `patience` is over.

        To save round trips, `work` sends the statements that begin the transaction together with its own, and returns
        its last statements, which are sent with the COMMIT.
        """
        deadline = time.monotonic() + self._patience
        while True:
            held = max(1, int(1000 * min(_ATTEMPT, deadline - time.monotonic())))
            try:
                with self._transaction():
                    result, last = work([("BEGIN", None), (BY_KEY, (f"{held}ms",))])
                    run_all(self.link, [*last, ("COMMIT", None)])
                break
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, _RetryLock) as error:
                if was_interrupted(error):
                    raise
                if time.monotonic() >= deadline:
                    raise BlockedError(self._blockers()) from error
        self._vacuum_if_needed()
        return result

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            try:
                if not self.link.closed:
                    self.link.execute("ROLLBACK", prepare=False)
            except psycopg.Error:
                self.link.close()  # it was interrupted in the middle of a statement
            raise

    def _blockers(self) -> str:
        found = self.link.execute(_BLOCKERS, (list(self.watched.tables),)).fetchall()
        writers = [each for each in found if not each[4]] or found  # readers rarely block anything
        names = [
            f"process {pid} ({name or 'unnamed'}, {state}): {query}" for pid, name, state, query, _ in writers
        ]
        return (
            f"a table stayed locked for {self._patience:g} seconds by "
            + ("; ".join(names) or "a session that has ended")
            + "; end its transaction, or increase lock_timeout"
        )

    def drain(self) -> CapturedChanges:
        """Remove and return the journal entries that were committed since the last call."""
        try:
            captured = self._read(run_all(self.link, self._read_statements()))
        except psycopg.ProgrammingError:
            # A watched table may have been dropped. Then the journal has an entry for it, and is unchanged.
            changes = self.schema_changes()
            if not changes:
                raise
            return CapturedChanges(changes=changes)
        self._vacuum_if_needed()
        return captured

    def restore(self, plan: Callable[[CapturedChanges], tuple[Delta, Sequences]]) -> CapturedChanges:
        """Lock out all writers, read the journal, and apply what `plan` returns, unless the schema has changed."""

        def work(begin: list[Statement]) -> tuple[CapturedChanges, list[Statement]]:
            locked = lock_sql(self.watched.tables.values())
            before: list[Statement] = [*begin, (locked, None)] if locked else begin
            cursors = run_all(self.link, [*before, *self._read_statements(), (_HAZARDS, ())])
            captured = self._read(cursors[len(before) : -1])
            captured.large_objects, captured.advisory_locks = cursors[-1].fetchone() or (False, False)
            if captured.changes:
                raise _SchemaChanged  # leaves the journal unchanged, in case the caller fails
            change, sequences = plan(captured)
            apply(self.link, self.schema, self.watched, change)
            if self.fingerprint is not None and any(self.watched.tables[oid].aside for oid, _ in change):
                self.fingerprint = self._read_fingerprint()  # a constraint that is created again changes it
            return captured, set_sequences(sequences, captured.sequences)

        try:
            return self._with_locks(work)
        except (psycopg.ProgrammingError, _SchemaChanged):
            changes = self.schema_changes()
            if not changes:
                raise
            return CapturedChanges(changes=changes)

    @contextmanager
    def snapshot(self) -> Iterator[tuple[CapturedChanges, Cursor]]:
        """Return the changes, and a cursor that reads the tables in the same snapshot."""
        held = max(1, int(self._patience * 1000))
        with self._transaction():
            begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = {held}"
            self.link.execute(begin.encode(), prepare=False)
            names = ", ".join(f"ONLY {table.name}" for table in self.watched.tables.values())
            if names:  # before the snapshot is taken: a TRUNCATE is visible in older snapshots, too
                self.link.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode(), prepare=False)
            yield self._read(run_all(self.link, self._read_statements())), self.link.cursor()
            self.link.execute("COMMIT", prepare=False)

    def _read_statements(self) -> list[Statement]:
        statements: list[Statement] = [(journal.drain_sql(self.schema), ())]
        sequences = sequences_sql(self.watched)
        if sequences:
            statements.append((sequences, ()))
        if self.fingerprint is not None:
            statements.append((journal.fingerprint_sql(self.schema), ()))
        return statements

    def _read(self, cursors: Sequence[Cursor]) -> CapturedChanges:
        entries = cursors[0].fetchall()
        captured = CapturedChanges(_delta_of(entries))
        captured.changes += [came for table, _, came in entries if table == journal.SCHEMA_CHANGED]
        self._drained += cursors[0].rowcount
        if self.watched.sequences:
            captured.sequences = {oid: (last, called) for oid, last, called in cursors[1]}
        if self.fingerprint is not None and cursors[-1].fetchone() != self.fingerprint:
            captured.changes.append("schema change")
        return captured

    def read_sequences(self) -> Sequences:
        """Return the positions of the watched sequences."""
        statement = sequences_sql(self.watched)
        if not statement:
            return {}
        found = self.link.execute(statement.encode(), prepare=False)
        return {oid: (last, called) for oid, last, called in found}

    def schema_changes(self) -> list[str]:
        """Return the committed schema changes that were not read yet."""
        if self.fingerprint is not None:
            return [] if self._read_fingerprint() == self.fingerprint else ["schema change"]
        noted = f"SELECT came FROM {journal.journal_name(self.schema)} WHERE rel = {journal.SCHEMA_CHANGED}"
        return [tag for (tag,) in self.link.execute(noted.encode()).fetchall()]

    def _read_fingerprint(self) -> tuple[Any, ...] | None:
        return self.link.execute(journal.fingerprint_sql(self.schema).encode()).fetchone()

    def _vacuum_if_needed(self) -> None:
        if self._drained <= _VACUUM_AFTER:
            return
        self._drained = 0
        self.link.execute(
            f"VACUUM (TRUNCATE false) {journal.journal_name(self.schema)}".encode(), prepare=False
        )


def _delta_of(entries: Sequence[tuple[Any, ...]]) -> Delta:
    """Return the changes of rows that journal entries note."""
    delta: Delta = {}
    for table, gone, came in entries:
        if table != journal.SCHEMA_CHANGED:
            for image, sign in ((gone, -1), (came, 1)):
                if image is not None:
                    add(delta, {(table, image): sign})
    return delta
