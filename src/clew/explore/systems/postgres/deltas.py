"""Checkpoint and restore a PostgreSQL database by row deltas.

The states between two schema changes are one tree, a schema epoch. Within an epoch, a restore costs the rows that
changed along the path.

- A schema change is undone if it only added definitions: the rows of its epoch are moved back to its beginning, what
  was added is dropped, and the epoch before it continues where it was left (`epochs`). The states of the undone
  epoch are then lost. Checkpoints before any other schema change are no longer valid.
- A broken connection ends all checkpoints, because the content of the journal is unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import (
    CheckpointError,
    ClewError,
    ExplorationError,
    ExplorationWarning,
    RollbackError,
    SystemSetupError,
)
from clew.explore.model.system import Observation
from clew.explore.spill import SpillFile
from clew.explore.systems.delta_tree import DeltaTree, add
from clew.explore.systems.interrupts import uninterrupted
from clew.explore.systems.postgres import epochs, recovery
from clew.explore.systems.postgres import triggers as journal
from clew.explore.systems.postgres.change_capture import BlockedError, CapturedChanges, ChangeCapture
from clew.explore.systems.postgres.connection import address, psycopg
from clew.explore.systems.postgres.diagnostics import Diagnostics
from clew.explore.systems.postgres.epochs import PostgresEpoch, PostgresStateInfo, State, read_definitions
from clew.explore.systems.postgres.observation import ObservedTables, identity
from clew.explore.systems.postgres.restore import Delta, Sequences
from clew.explore.systems.postgres.system import PostgresSystem

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Cursor

_TRIES = 20


class Deltas(PostgresSystem):
    """Checkpoint and restore by row deltas."""

    def _open(self, dsn: str) -> None:
        self._is_uninstalled = self._is_midway = False
        self._tree: DeltaTree[tuple[int, str], PostgresStateInfo] = DeltaTree()
        self._epoch: PostgresEpoch | None = None  # None before its first checkpoint
        self._observed: ObservedTables | None = None
        self._unprocessed: Sequence[str] = ()  # schema changes after which triggers were not installed yet
        self._session = ChangeCapture(address(dsn), self._schema, self._lock_timeout)
        self._diagnostics = Diagnostics(lambda: self._session.link.closed)
        try:
            with self._diagnostics.errors(SystemSetupError, "cannot install the journal"):
                self._session.install()
                self._session.watch(self._choice)
            self._diagnostics.note_sequence_caches(self._session.watched)
            self._diagnostics.warn()
        except BaseException:
            with suppress(psycopg.Error, ClewError, BlockedError):  # report the first error
                self._session.remove()
            self._session.link.close()
            raise

    # --- the system

    @uninterrupted
    def observe(self) -> Observation:
        with self._lock, self._diagnostics.errors(ExplorationError, "cannot observe the database"):
            captured = self._read_changes()
            if self._observed is None or self._observed.behind():
                captured = self._read_tables()
            assert self._observed is not None
            data, digests = self._observed.data(), self._observed.digests()
            names = self._session.watched.sequences
            at = {names[oid].label: list(value) for oid, value in captured.sequences.items()}
            self._diagnostics.warn()
            return Observation("postgres", data, {"sequences": at}, identity(digests))

    def _query(self, sql: str) -> Iterable[Any]:
        with self._lock:
            return self._session.link.execute(sql.encode()).fetchall()

    @uninterrupted
    def checkpoint(self, name: str) -> int:
        with self._lock, self._diagnostics.errors(CheckpointError, f"cannot make the checkpoint {name!r}"):
            captured = self._read_changes()
            if self._epoch is None:
                self._start_epoch(None, captured.sequences)
            elif self._tree.pending or captured.sequences != self._tree.here.info.sequences:
                self._tree.step(PostgresStateInfo(self._epoch, captured.sequences))
            self._diagnostics.warn()
            return self._tree.mark()

    @uninterrupted
    def rollback(self, token: Any) -> None:
        with self._lock:
            state = self._tree[token]
            with self._diagnostics.errors(RollbackError, f"cannot roll back to {token}"):
                self._diagnostics.note_hazards(self._restore(state))
            self._diagnostics.warn()

    def is_valid(self, token: Any) -> bool:
        with self._lock:
            if token not in self._tree or self._diagnostics.ended is not None:
                return False
            epoch = self._tree[token].info.epoch
            if epoch is self._epoch:
                return True
            with self._diagnostics.errors(ExplorationError, "cannot read the schema"):
                return epochs.can_undo(self._session, self._epoch, epoch)

    @property
    def left_midway(self) -> bool:
        """Return whether an exploration that was killed left the database in the middle of a path."""
        return self._session.left_midway

    def mark_midway(self, is_midway: bool) -> None:
        """Store whether an exploration has left its initial state."""
        with self._lock, self._diagnostics.errors(CheckpointError, "cannot mark the database"):
            journal.mark_midway(self._session.link, self._schema, is_midway)
            self._is_midway = is_midway

    @uninterrupted
    def release(self, token: Any) -> None:
        with self._lock:
            self._tree.release(token)

    def size(self, token: Any) -> int:
        """Return the number of bytes that a token holds in memory."""
        with self._lock:
            return sum(len(image) + 100 for _, image in self._tree[token].delta)  # 100: tuple and dict entry

    # --- recovery by another process

    def save_baseline(self, token: Any) -> Iterator[bytes]:
        """Return the watched rows in pieces, from which another process can restore the last checkpoint."""
        spill, session = SpillFile(), self._session
        with self._lock, self._diagnostics.errors(CheckpointError, "cannot save the baseline"):
            state = self._tree[token]
            with session.snapshot() as (captured, cursor):
                moved = (
                    captured.changes or captured.delta or self._tree.pending or self._tree.here is not state
                )
                if moved or captured.sequences != state.info.sequences:
                    raise CheckpointError(
                        "the database has changed since the checkpoint; make a new checkpoint"
                    )
                places = [spill.put(piece) for piece in recovery.rows(cursor, session.watched)]
            header = recovery.header_of(session, captured.sequences)
        return chain([msgspec.json.encode(header)], map(spill.get, places))

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore the saved rows and sequences, and drop definitions that were added since.

        Return False, and do nothing, if the pieces belong to another database.
        """
        with self._lock, self._diagnostics.errors(RollbackError, "cannot restore the baseline"):
            remaining = iter(pieces)
            header = recovery.decode_header(next(remaining, b""))
            if header.place != recovery.place(self._session.link):
                return False
            self._read_changes()
            if read_definitions(self._session.link, self._schema).keys() != header.definitions.keys():
                epochs.drop_changes(self._session, self._choice, header.definitions)
                self._leave_epoch(CapturedChanges(changes=["additions were dropped"]))
            self._record(CapturedChanges(delta=recovery.restore_rows(self._session, header, remaining)))
        self._diagnostics.warn()
        return True

    def close(self) -> None:
        """Uninstall and disconnect. If the journal cannot be removed now, the next system replaces it."""
        with self._lock:
            was_ended, self._diagnostics.ended = self._diagnostics.ended, None
            try:
                if not self._is_uninstalled:
                    with self._diagnostics.errors(ExplorationError, "cannot remove the journal"):
                        self._uninstall()
            except ExplorationError as error:
                if was_ended is None:
                    warnings.warn(str(error), ExplorationWarning, stacklevel=3)
            finally:
                self._diagnostics.ended, self._is_uninstalled = was_ended or "the system is closed", True
                self._session.link.close()

    def _uninstall(self) -> None:
        """Remove the triggers and the journal; use a new connection if the current one is lost."""
        try:
            if self._session.link.closed:
                self._session.connect()
            self._session.remove()
        except psycopg.Error:
            if not self._session.link.closed:
                raise
            self._session.connect()
            self._session.remove()
        self._is_uninstalled = True
        self._tree, self._epoch = DeltaTree(), None

    # --- reading changes

    def _read_changes(self) -> CapturedChanges:
        """Record the changes since the last call; after a schema change, start a new epoch."""
        for _ in range(_TRIES):
            captured = self._session.drain()
            if not captured.changes and not self._unprocessed:
                self._record(captured)
                return captured
            self._leave_epoch(captured)
        raise ExplorationError(
            f"the schema changed {_TRIES} times during a read; try again when no migration runs"
        )

    def _record(self, captured: CapturedChanges) -> None:
        if self._epoch is not None:
            add(self._tree.pending, captured.delta)
        if self._observed is not None:
            self._observed.change(captured.delta)

    def _read_tables(self) -> CapturedChanges:
        """Read all tables, or those whose rows must be read again."""
        for _ in range(_TRIES):
            observed, self._observed = self._observed, None  # not valid if this fails
            try:
                with self._session.snapshot() as (captured, cursor):
                    if not captured.changes:
                        observed = self._read_by(cursor, observed, captured)
            except psycopg.ProgrammingError:  # a watched table may have been dropped
                captured = CapturedChanges(changes=self._session.schema_changes())
                if not captured.changes:
                    raise
            if not captured.changes:
                self._record(captured)
                self._observed = observed
                return captured
            self._leave_epoch(captured)
        raise ExplorationError(
            f"the schema changed {_TRIES} times during a read; try again when no migration runs"
        )

    def _read_by(
        self, cursor: Cursor, observed: ObservedTables | None, captured: CapturedChanges
    ) -> ObservedTables:
        if observed is None:
            observed = ObservedTables(self._session.watched, self._rows_shown)
            observed.load(cursor)
        else:
            observed.change(captured.delta)
            observed.load_tables(cursor, observed.behind())
        return observed

    # --- restoring

    def _restore(self, state: State) -> CapturedChanges:
        if self._epoch is not None and self._epoch is state.info.epoch:
            captured = self._move(state)
            if not captured.changes:
                return captured
        self._undo_until(state.info.epoch)
        return self._move(state)

    def _move(self, state: State) -> CapturedChanges:
        """Restore a state of the current epoch."""
        change: Delta = {}

        def plan(captured: CapturedChanges) -> tuple[Delta, Sequences]:
            change.clear()  # a restore may be planned more than once, until all locks are available
            change.update(self._tree.path_to(state))
            add(change, captured.delta, -1)
            return change, state.info.sequences

        captured = self._session.restore(plan)
        if not captured.changes:
            if self._observed is not None:
                self._observed.change(captured.delta)
                self._observed.change(change)
            self._tree.move(state)
        return captured

    # --- epochs

    def _start_epoch(self, before: tuple[PostgresEpoch, int] | None, sequences: Sequences) -> None:
        """Begin an epoch, given the one before it with the token of the state in which that was left."""
        session = self._session
        definitions = read_definitions(session.link, self._schema)
        self._epoch = PostgresEpoch(session.watched, session.fingerprint, definitions, before)
        self._tree.new_root(PostgresStateInfo(self._epoch, sequences))
        self._epoch.first = self._tree.here

    def _undo_until(self, epoch: PostgresEpoch) -> None:
        """Undo schema changes until an epoch is the current one."""
        for _ in range(_TRIES):
            self._read_changes()
            now = self._epoch
            if now is epoch:
                return
            if now is None or now.before is None or now.first is None:
                raise RollbackError(epochs.NOT_KNOWN)
            if not self._move(now.first).changes:
                before, left = now.before
                epochs.undo(self._session, self._choice, before)
                self._epoch, self._observed = before, None
                self._tree.move(self._tree[left])
        raise RollbackError(f"the schema changed {_TRIES} times during a restore; try again")

    def _leave_epoch(self, captured: CapturedChanges) -> None:
        """End the epoch after a schema change, and remember where it was left."""
        before, self._epoch = self._epoch, None
        self._unprocessed = changes = captured.changes or self._unprocessed
        self._observed = None
        add(self._tree.pending, captured.delta)
        add(self._tree.pending, self._session.watch(self._choice, strict=False))
        self._unprocessed = ()
        self._diagnostics.note_sequence_caches(self._session.watched)
        if before is not None:
            self._tree.step(PostgresStateInfo(before, self._tree.here.info.sequences))
            is_known = journal.UNSEEN not in changes and not self._session.were_disabled
            link = (before, self._tree.mark()) if is_known else None
            self._start_epoch(link, self._session.read_sequences())
            self._diagnostics.note(
                f"the schema has changed ({', '.join(sorted(set(changes)))}); restoring an earlier checkpoint is "
                "possible only if something was added"
            )
