"""The journal's life: installed, looked at, restored by, removed. One session, no memory of states.

- A look is one round trip and needs no lock: what a transaction changed and what it wrote into the journal become
  visible together, so a look sees whole transactions. One that is still open is part of a later look.
- A restore does lock: an open writer would otherwise commit on top of it. It asks for all locks at once, gives
  everything back when one is not to be had at once, and asks again until `patience` is over. So the application's
  transactions are never the ones that a deadlock kills.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

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

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection, Cursor

T = TypeVar("T")

_ATTEMPT = 0.25  # seconds; well below the second after which the server looks for deadlocks
_VACUUM_AFTER = 5_000  # rows taken out of the journal; they would be walked over at every look
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
    """Somebody held a table for longer than one is willing to wait."""


class _RetryLock(Exception):
    """What was to be locked is gone meanwhile."""


class _SchemaChanged(Exception):
    """A restore found that it cannot be one."""


@dataclass
class CapturedChanges:
    """What happened since the last look."""

    delta: Delta = field(default_factory=dict)
    sequences: Sequences = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)  # of the schema
    large_objects: bool = False
    advisory_locks: bool = False


class ChangeCapture:
    """A connection with the journal behind it."""

    def __init__(self, parts: dict[str, Any], schema: str, patience: float) -> None:
        self._parts = parts
        self.schema = schema
        self._patience = patience
        self._taken = 0
        self.watched = WatchedObjects({}, (), {})
        self.fingerprint: tuple[Any, ...] | None = None  # None where event triggers report changes
        self.connect()

    def connect(self) -> None:
        self.link: Connection = connect(self._parts)
        try:
            claim(self.link, self.schema)
        except BaseException:
            self.link.close()
            raise

    @property
    def process(self) -> int:
        """The server's process of this session."""
        return int(self.link.info.backend_pid)

    def install(self) -> None:
        """Make the journal. From then on changes of the schema are noticed."""

        def work(begin: list[Statement]) -> tuple[bool, list[Statement]]:
            run_all(self.link, begin)
            return journal.create(self.link, self.schema), []

        self._reports = self._patiently(work)

    def watch(
        self, tables: Sequence[str] | None, ignore: Mapping[str, Iterable[str]], *, strict: bool = True
    ) -> None:
        """Read what there is to watch, and watch it. Unless `strict`, what is named may be gone."""

        def work(begin: list[Statement]) -> tuple[WatchedObjects, list[Statement]]:
            run_all(self.link, begin)
            self._lock_tables(tables)
            journal.hold(self.link, self.schema)
            watched = load_watched(self.link.cursor(), self.schema, tables, ignore, strict=strict)
            journal.watch(self.link, self.schema, watched)
            return watched, []

        self.watched = self._patiently(work)
        self.link.execute("DEALLOCATE ALL", prepare=False)  # plans for types that are no more
        self.fingerprint = None if self._reports else self._read_fingerprint()

    def _lock_tables(self, tables: Sequence[str] | None) -> None:
        """Before the journal, as everybody does who writes; and whatever is called so by now."""
        there = load_watched(self.link.cursor(), self.schema, tables, {}, strict=False).tables.values()
        try:
            self.link.execute((lock_sql(there) or "SELECT").encode(), prepare=False)
        except psycopg.errors.UndefinedTable as error:
            raise _RetryLock from error

    def remove(self) -> None:
        """Take the journal and its triggers out. If somebody who reads is in the way, put the triggers to sleep."""

        def remove(begin: list[Statement]) -> tuple[None, list[Statement]]:
            run_all(self.link, begin)
            journal.remove(self.link, self.schema)
            return None, []

        def sleep(begin: list[Statement]) -> tuple[None, list[Statement]]:
            run_all(self.link, begin)
            journal.sleep(self.link, self.watched)
            return None, []

        try:
            self._patiently(remove)
        except BlockedError:
            with suppress(BlockedError):
                self._patiently(sleep)
            raise

    def _patiently(self, work: Callable[[list[Statement]], tuple[T, list[Statement]]]) -> T:
        """Work in a transaction that holds out for locks for a moment only, and starts again until patience is over.

        To save round trips, the work sends the statements that begin the transaction with its first ones, and returns
        its last ones, which are sent with the end.
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
        self._vacuum_sometimes()
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
                self.link.close()  # it is in the middle of something that was interrupted
            raise

    def _blockers(self) -> str:
        found = self.link.execute(_BLOCKERS, (list(self.watched.tables),)).fetchall()
        writers = [
            each for each in found if not each[4]
        ] or found  # who reads is in the way of few things only
        names = [
            f"process {pid} ({name or 'unnamed'}, {state}): {query}" for pid, name, state, query, _ in writers
        ]
        return (
            f"a table stayed locked for {self._patience:g} seconds by "
            + ("; ".join(names) or "a session that is gone")
            + "; end its transaction (or give more time with lock_timeout=...)"
        )

    def look(self) -> CapturedChanges:
        """Take out of the journal what has been committed since the last look."""
        try:
            look = self._read(run_all(self.link, self._look_statements()))
        except psycopg.ProgrammingError:
            # What is watched may be gone. Then the journal says so, and nothing was taken out of it.
            changes = self.schema_changes()
            if not changes:
                raise
            return CapturedChanges(changes=changes)
        self._vacuum_sometimes()
        return look

    def restore(self, plan: Callable[[CapturedChanges], tuple[Delta, Sequences]]) -> CapturedChanges:
        """Look with all writers kept out, then change what `plan` says. After a change of the schema: only look."""

        def work(begin: list[Statement]) -> tuple[CapturedChanges, list[Statement]]:
            locked = lock_sql(self.watched.tables.values())
            before: list[Statement] = [*begin, (locked, None)] if locked else begin
            cursors = run_all(self.link, [*before, *self._look_statements(), (_HAZARDS, ())])
            look = self._read(cursors[len(before) : -1])
            look.large_objects, look.advisory_locks = cursors[-1].fetchone() or (False, False)
            if look.changes:
                raise _SchemaChanged  # and leave everything in the journal, in case the caller gets no further
            change, sequences = plan(look)
            apply(self.link, self.schema, self.watched, change)
            if self.fingerprint is not None and any(self.watched.tables[oid].aside for oid, _ in change):
                self.fingerprint = self._read_fingerprint()  # a constraint that was put back is a new one
            return look, set_sequences(sequences, look.sequences)

        try:
            return self._patiently(work)
        except (psycopg.ProgrammingError, _SchemaChanged):
            changes = self.schema_changes()
            if not changes:
                raise
            return CapturedChanges(changes=changes)

    @contextmanager
    def moment(self) -> Iterator[tuple[CapturedChanges, Cursor]]:
        """A look, and a cursor for reading the tables as they were at that very moment."""
        held = max(1, int(self._patience * 1000))
        with self._transaction():
            begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = {held}"
            self.link.execute(begin.encode(), prepare=False)
            names = ", ".join(f"ONLY {table.name}" for table in self.watched.tables.values())
            if names:  # before the moment is fixed: a TRUNCATE empties a table for those who look from before it, too
                self.link.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode(), prepare=False)
            yield self._read(run_all(self.link, self._look_statements())), self.link.cursor()
            self.link.execute("COMMIT", prepare=False)

    def _look_statements(self) -> list[Statement]:
        statements: list[Statement] = [(journal.drain_sql(self.schema), ())]
        sequences = sequences_sql(self.watched)
        if sequences:
            statements.append((sequences, ()))
        if self.fingerprint is not None:
            statements.append((journal.fingerprint_sql(self.schema), ()))
        return statements

    def _read(self, cursors: Sequence[Cursor]) -> CapturedChanges:
        look = CapturedChanges()
        for table, gone, came in cursors[0]:
            if table == journal.SCHEMA_CHANGED:
                look.changes.append(came)
                continue
            for image, more in ((gone, -1), (came, 1)):
                if image is not None:
                    _count(look.delta, (table, image), more)
        self._taken += cursors[0].rowcount
        if self.watched.sequences:
            look.sequences = {oid: (last, called) for oid, last, called in cursors[1]}
        if self.fingerprint is not None and cursors[-1].fetchone() != self.fingerprint:
            look.changes.append("a change of the schema")
        return look

    def schema_changes(self) -> list[str]:
        """Changes of the schema that have been committed and not looked at."""
        if self.fingerprint is not None:
            return [] if self._read_fingerprint() == self.fingerprint else ["a change of the schema"]
        noted = f"SELECT came FROM {journal.journal_name(self.schema)} WHERE rel = {journal.SCHEMA_CHANGED}"
        return [tag for (tag,) in self.link.execute(noted.encode()).fetchall()]

    def _read_fingerprint(self) -> tuple[Any, ...] | None:
        return self.link.execute(journal.fingerprint_sql(self.schema).encode()).fetchone()

    def _vacuum_sometimes(self) -> None:
        if self._taken <= _VACUUM_AFTER:
            return
        self._taken = 0
        self.link.execute(
            f"VACUUM (TRUNCATE false) {journal.journal_name(self.schema)}".encode(), prepare=False
        )


def _count(delta: Delta, row: tuple[int, str], more: int) -> None:
    total = delta.get(row, 0) + more
    if total:
        delta[row] = total
    else:
        del delta[row]
