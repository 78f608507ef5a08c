"""Checkpoint and restore a PostgreSQL database by row deltas, with clones for schema changes.

The states between two schema changes are one tree, a schema epoch. Within an epoch, a restore costs the rows that
changed along the path. Between epochs it costs a copy of the database: the clone of the epoch, then deltas.

- A clone is made at the first checkpoint of an epoch. Making and using one ends the application's connections, with a
  warning. With `clones="auto"`, the first checkpoint of all makes one only if no other client is connected. Otherwise
  an application keeps its connections, and a schema change cannot be undone. (`clones="always"` makes one in any case,
  `"never"` makes none.)
- A broken connection ends all checkpoints, because the content of the journal is unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import (
    CheckpointError,
    ClewError,
    ExplorationError,
    ExplorationWarning,
    RollbackError,
    SystemSetupError,
    UnknownCheckpointError,
)
from clew.explore.model.observation import Observation
from clew.explore.spill import SpillFile
from clew.explore.systems.delta_tree import DeltaNode, DeltaTree, add
from clew.explore.systems.postgres import recovery
from clew.explore.systems.postgres.catalog import WatchedObjects
from clew.explore.systems.postgres.change_capture import BlockedError, CapturedChanges
from clew.explore.systems.postgres.clones import open_session
from clew.explore.systems.postgres.connection import address, psycopg, said
from clew.explore.systems.postgres.diagnostics import Diagnostics
from clew.explore.systems.postgres.observation import ObservedTables, identity
from clew.explore.systems.postgres.restore import Delta, Sequences
from clew.explore.systems.postgres.system import PostgresSystem

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Cursor

_TRIES = 20


@dataclass(eq=False)
class PostgresEpoch:
    """The time between two schema changes: the watched objects, and the clone of its first state."""

    watched: WatchedObjects
    fingerprint: tuple[Any, ...] | None
    clone: str | None
    tokens: int = 0
    first: State | None = None


@dataclass(frozen=True)
class PostgresStateInfo:
    """Information about a state in addition to its rows."""

    epoch: PostgresEpoch | None  # None before the epoch's first checkpoint
    sequences: Sequences


State = DeltaNode[tuple[int, str], PostgresStateInfo]


class Deltas(PostgresSystem):
    """Checkpoint and restore by row deltas."""

    def _open(self, dsn: str) -> None:
        self._is_uninstalled = False
        self._install_id = token_hex(3)
        self._made = 0
        self._tokens: dict[str, int] = {}  # public tokens, and those of the tree
        self._tree: DeltaTree[tuple[int, str], PostgresStateInfo] = DeltaTree(PostgresStateInfo(None, {}))
        self._pending: Delta = {}  # changes since the tree's current node
        self._epoch: PostgresEpoch | None = None  # None before its first checkpoint
        self._observed: ObservedTables | None = None
        self._held: str | None = None  # a clone that outlives this process
        self._unprocessed: Sequence[str] = ()  # schema changes after which triggers were not installed yet
        self._session, self._clones = open_session(address(dsn), self._schema, self._lock_timeout)
        self._diagnostics = Diagnostics(lambda: self._session.link.closed)
        try:
            with self._diagnostics.errors(SystemSetupError, "cannot install the journal"):
                self._session.install()
                # A killed exploration may have dropped a named table; its clone restores it.
                self._session.watch(self._tables, self._ignore, strict=not self._clones.left)
            self._check_sequence_caches()
            self._diagnostics.warn()
        except BaseException:
            with suppress(psycopg.Error, ClewError, BlockedError):  # report the first error
                self._session.remove()
            self._session.link.close()
            self._clones.close()
            raise

    # --- the system

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

    def checkpoint(self, name: str) -> str:
        with self._lock, self._diagnostics.errors(CheckpointError, f"cannot make the checkpoint {name!r}"):
            if self._clones.left:
                self._drop_abandoned_clones()
            captured = self._read_changes()
            if self._epoch is None:
                self._begin_epoch(captured)
            elif self._pending or captured.sequences != self._tree.here.info.sequences:
                self._tree.step(self._pending, PostgresStateInfo(self._epoch, captured.sequences))
                self._pending = {}
            assert self._epoch is not None
            self._made += 1
            token = f"pg-{self._install_id}-{self._made}"
            self._tokens[token] = self._tree.mark()
            self._epoch.tokens += 1
            self._diagnostics.warn()
            return token

    def rollback(self, token: Any) -> None:
        with self._lock:
            state = self._state(token)
            with self._diagnostics.errors(RollbackError, f"cannot roll back to {token}"):
                self._note_hazards(self._restore(state))
            self._diagnostics.warn()

    def is_valid(self, token: Any) -> bool:
        with self._lock:
            if token not in self._tokens or self._diagnostics.ended is not None:
                return False
            epoch = self._state(token).info.epoch
            return epoch is not None and (epoch is self._epoch or epoch.clone is not None)

    def release(self, token: Any) -> None:
        """Discard a token and, with the last token of an epoch, the epoch's clone."""
        with self._lock:
            if token not in self._tokens:
                return
            epoch = self._state(token).info.epoch
            self._tree.release(self._tokens.pop(token))
            if epoch is not None:
                epoch.tokens -= 1
            if self._diagnostics.ended is None:
                with self._diagnostics.errors(ExplorationError, "cannot drop a clone"):
                    self._forget(epoch)

    def size(self, token: Any) -> int:
        """Return the number of bytes that a token holds in memory."""
        with self._lock:
            return sum(len(image) + 100 for _, image in self._state(token).delta)  # 100: tuple and dict entry

    # --- recovery by another process

    def save_baseline(self, token: Any) -> Iterator[bytes]:
        """Return the watched rows in pieces, from which another process can restore the last checkpoint."""
        spill, session = SpillFile(), self._session
        with self._lock, self._diagnostics.errors(CheckpointError, "cannot save the baseline"):
            state = self._state(token)
            with session.snapshot() as (captured, cursor):
                moved = captured.changes or captured.delta or self._pending or self._tree.here is not state
                if moved or captured.sequences != state.info.sequences:
                    raise CheckpointError(
                        "the database has changed since the checkpoint; make a new checkpoint"
                    )
                places = [spill.put(piece) for piece in recovery.rows(cursor, session.watched)]
            epoch = state.info.epoch
            if epoch is not None and epoch.clone is not None:
                epoch.clone = self._held = self._clones.hold(epoch.clone)
            header = recovery.header_of(session, captured.sequences, self._held)
        return chain([msgspec.json.encode(header)], map(spill.get, places))

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore the saved rows and sequences, and the schema if a clone of it exists.

        Return False, and do nothing, if the pieces belong to another database.
        """
        with self._lock, self._diagnostics.errors(RollbackError, "cannot restore the baseline"):
            remaining = iter(pieces)
            header = recovery.decode_header(next(remaining, b""))
            if header.place != recovery.place(self._session.link):
                return False
            self._read_changes()
            if header.clone in self._clones.left:
                self._held = header.clone
                self._clones.left -= {header.clone}
            if recovery.shape(self._session.link, self._session.schema) != header.shape:
                self._restore_held_clone()
            self._record(CapturedChanges(delta=recovery.restore_rows(self._session, header, remaining)))
        self._diagnostics.warn()
        return True

    def _restore_held_clone(self) -> None:
        if self._held is None:
            raise RollbackError(
                "the schema has changed, and no clone of the original one exists: other clients were connected at the "
                'first checkpoint, or clones="never"; restore the schema manually'
            )
        with self._alone("restoring a clone"):
            self._session.link.close()
            self._clones.replace_with(self._held)
        self._session.install()
        self._leave_epoch(["a clone was restored"])

    def _drop_abandoned_clones(self) -> None:
        """Drop the clones of a killed exploration, because a new one begins."""
        left, self._clones.left = self._clones.left, frozenset()
        for clone in left:
            self._clones.drop(clone)
        self._session.watch(self._tables, self._ignore)
        self._diagnostics.note(
            "dropped a clone of this database that a killed exploration had kept to undo schema changes"
        )

    def release_baseline(self) -> None:
        """Drop the recovery data: no other process needs to restore the database."""
        held, self._held = self._held, None
        if held is None:
            return
        with self._lock, self._diagnostics.errors(ExplorationError, "cannot release a clone"):
            if self._epoch is not None and self._epoch.clone == held:
                self._epoch.clone = self._clones.let_go(held)
            else:
                self._clones.drop(held)

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
                self._clones.close()

    def _uninstall(self) -> None:
        """Remove the triggers, the journal and the clones; use a new connection if the current one is lost."""
        epochs = {self._state(token).info.epoch for token in self._tokens} | {self._epoch}
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
        self._tokens, self._epoch = {}, None
        for epoch in epochs:
            if epoch is not None and epoch.clone not in (None, self._held):
                self._clones.drop(epoch.clone)

    # --- reading changes

    def _read_changes(self) -> CapturedChanges:
        """Record the changes since the last call; after a schema change, start a new epoch."""
        for _ in range(_TRIES):
            captured = self._session.drain()
            changes = captured.changes or self._unprocessed
            if not changes:
                self._record(captured)
                return captured
            self._leave_epoch(changes)
        raise ExplorationError(
            f"the schema changed {_TRIES} times during a read; try again when no migration runs"
        )

    def _record(self, captured: CapturedChanges) -> None:
        if self._epoch is not None:
            add(self._pending, captured.delta)
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
            self._leave_epoch(captured.changes)
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
        self._return_to_epoch_of(state)
        return self._move(state)

    def _move(self, state: State) -> CapturedChanges:
        """Restore a state of the current epoch."""
        change: Delta = {}

        def plan(captured: CapturedChanges) -> tuple[Delta, Sequences]:
            change.clear()  # a restore may be planned more than once, until all locks are available
            path = self._tree.between(self._tree.here, state)
            assert path is not None  # an epoch has one root
            for delta, sign in ((path, 1), (self._pending, -1), (captured.delta, -1)):
                add(change, delta, sign)
            return change, state.info.sequences

        captured = self._session.restore(plan)
        if not captured.changes:
            if self._observed is not None:
                self._observed.change(captured.delta)
                self._observed.change(change)
            self._pending = {}
            self._tree.move(state)
        return captured

    # --- epochs and clones

    def _begin_epoch(self, captured: CapturedChanges) -> None:
        session, clone = self._session, None
        if self._may_clone():
            try:
                clone, captured = self._clone()
            except psycopg.Error as error:
                if self._clones_when == "always" or session.link.closed:
                    raise
                self._diagnostics.note(
                    f"cannot clone the database ({said(error)}); schema changes are permanent"
                )
                captured = self._read_changes()
        self._epoch = PostgresEpoch(session.watched, session.fingerprint, clone)
        self._tree.new_root(PostgresStateInfo(self._epoch, captured.sequences))
        self._epoch.first = self._tree.here
        self._pending = {}

    def _may_clone(self) -> bool:
        if self._clones_when == "never" or not self._clones.are_permitted():
            return False
        is_first = self._clones_when == "auto" and not self._made
        return not (is_first and self._clones.others(self._session.process))

    def _clone(self) -> tuple[str, CapturedChanges]:
        with self._alone("cloning the database"):
            captured = self._session.drain()
            if captured.changes:
                raise CheckpointError("the schema changed while the database was cloned; try again")
            self._record(captured)
            self._session.link.close()
            return self._clones.make(), captured

    def _return_to_epoch_of(self, state: State) -> None:
        epoch = state.info.epoch
        if epoch is None or epoch.clone is None or epoch.first is None:
            raise RollbackError(
                "the schema has changed since that checkpoint, and no clone was made: other clients were connected at "
                "the first checkpoint, or the role cannot create databases; make the first checkpoint before "
                'the application connects, or use clones="always"'
            )
        with self._alone("restoring a clone"):
            self._session.link.close()
            self._clones.replace_with(epoch.clone)
        self._session.watched, self._session.fingerprint = epoch.watched, epoch.fingerprint
        before, self._epoch = self._epoch, epoch
        self._pending, self._observed, self._unprocessed = {}, None, ()
        self._tree.move(epoch.first)
        self._forget(before)

    def _leave_epoch(self, changes: Sequence[str]) -> None:
        """End the epoch after a schema change; all information about rows is invalid."""
        before, self._epoch = self._epoch, None
        self._pending, self._observed = {}, None
        self._unprocessed = changes
        self._session.watch(self._tables, self._ignore, strict=False)
        self._unprocessed = ()
        self._check_sequence_caches()
        self._tree.new_root(PostgresStateInfo(None, {}))
        if before is not None:
            cost = "takes a copy of the whole database" if before.clone else "is impossible without a clone"
            self._diagnostics.note(
                f"the schema has changed ({', '.join(sorted(set(changes)))}); restoring an earlier checkpoint {cost}"
            )
            self._forget(before)

    def _forget(self, epoch: PostgresEpoch | None) -> None:
        """Drop the clone of an epoch that has no tokens."""
        if epoch is not None and epoch.clone is not None and not epoch.tokens and epoch is not self._epoch:
            if epoch.clone != self._held:
                self._clones.drop(epoch.clone)
            epoch.clone = None

    @contextmanager
    def _alone(self, doing: str) -> Iterator[None]:
        """Disconnect all other clients for a while; afterwards the session has a new connection."""
        ended = self._clones.others(self._session.process)
        try:
            self._clones.fence(self._session.process)
            yield
        finally:
            self._clones.open()
            if self._session.link.closed:
                self._session.connect()
        if ended:
            self._diagnostics.note(
                f"{doing} ended {ended} connection(s) of the application, which must connect again"
            )

    # --- tokens and warnings

    def _state(self, token: Any) -> State:
        if token not in self._tokens:
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        return self._tree[self._tokens[token]]

    def _check_sequence_caches(self) -> None:
        cached = [each.label for each in self._session.watched.sequences.values() if each.cached]
        if cached:
            self._diagnostics.note(
                f"the sequence(s) {', '.join(cached)} have a CACHE; numbers that a connection has cached are not "
                "rolled back",
                once="cache",
            )

    def _note_hazards(self, captured: CapturedChanges) -> None:
        if captured.large_objects:
            self._diagnostics.note(
                "the database has large objects, which are not rolled back", once="large objects"
            )
        if captured.advisory_locks:
            self._diagnostics.note(
                "a session holds advisory locks, which are not rolled back", once="advisory locks"
            )
