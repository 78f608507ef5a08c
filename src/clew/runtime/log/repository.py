"""The run repository: creates, claims and releases the runs of one graph in a store.

It writes the row and the initial state of a run, and creates its log writer. Reading is in ``clew.runtime.log.reader``,
which does not use this module.

In a chain of forks, some have a snapshot of their first state (``clew.runtime.log.snapshots``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from clew.engine.options import Options
from clew.engine.records import Failure
from clew.errors import UnknownRunError
from clew.graph import Graph
from clew.held_interrupts import HeldInterrupts
from clew.runtime.log.checks.fingerprints import description_of, kept_codes
from clew.runtime.log.engine_owner import EngineOwner, fresh_owner
from clew.runtime.log.entries.codec import EntryEncoder
from clew.runtime.log.entries.large_values import Blobs
from clew.runtime.log.entries.records import AcceptedChanges
from clew.runtime.log.entries.stop_records import with_stops
from clew.runtime.log.in_memory.reader import reader_of
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.registration import NewRun
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.run_rows import sealed_failures
from clew.runtime.log.snapshots import (
    SinceSnapshot,
    SnapshotDistance,
    snapshot_entry,
    stored_fork,
    stored_start,
    stored_turn,
    turn_snapshot,
)
from clew.runtime.log.turns import Turn
from clew.runtime.log.writer import Durability, LogWriter
from clew.runtime.process.crash_points import reach
from clew.runtime.settings import Settings
from clew.state import GraphState
from clew.stores import LogEntry, RunRow, Store
from clew.stores.protocol import LAST

_LEASE = 30.0  # seconds; of an import


class FirstState(msgspec.Struct, frozen=True):
    """The first state of a run, and what it was made from."""

    state: GraphState
    parent: str | None = None
    turn: Turn | None = None
    distance: SnapshotDistance | None = None  # how the state of the parent was read
    changes: AcceptedChanges | None = None  # of a fork: the defaults of new fields, which begin its log


class RunRepository:
    """The runs of one graph in one store."""

    keeps = True  # the store keeps runs
    child_of: tuple[str, str] | None = None  # of children: the run that contains them, and their place

    def __init__(self, graph: Graph | None, store: Store, on_conflict: str) -> None:
        self._graph = graph
        self._store = store
        self._on_conflict = on_conflict
        self.owner = EngineOwner()
        self.runs = reader_of(graph, store, on_conflict)

    # -- writing -----------------------------------------------------------------------------------------

    def create(
        self,
        run: NewRun,
        begins: FirstState,
        options: Options,
        settings: Settings,
        now: float,
        *,
        wait: bool = True,
        at_once: bool = False,
    ) -> int:
        """Create a run and own it, unless it is queued; return the fence."""
        graph, registration, parent = self._graph, run.registration, begins.parent
        assert graph is not None, "creating a run needs a graph"
        row = RunRow(
            run_id=run.run_id,
            graph=graph.name or "",
            start=begins.state,
            seed=options.seed,
            status="running",
            created=now,
            updated=now,
            parent=parent,
            parent_step=None if parent is None else begins.state.step,
            codes=registration.codes or with_stops(kept_codes(graph, options.on_conflict), options.stops),
            description=graph,
            target=settings.import_string,
            attributes=registration.attributes,
        )
        if self.child_of is not None:
            row.child_of, row.place = self.child_of
        if registration.queue is not None:
            place: Any = {"queue": registration.queue, "thread": registration.thread}
            return self._create(row, begins, begins.changes, at_once, **place)
        claim: Any = {"token": run.owner, "lease": settings.lease, "thread": registration.thread}
        return self._create(row, begins, None, at_once, wait=wait, **claim)

    def _create(
        self,
        row: RunRow,
        begins: FirstState,
        first: AcceptedChanges | None,
        at_once: bool,
        **options: Any,
    ) -> int:
        """Store a new run, given as a row that contains the graph and the state, with the options of `Store.create`.
        `first` is the first record of its log."""
        graph, parent, start, turn = row.description, row.parent, begins.state, begins.turn
        row.structure = graph.structure_hash
        row.description, described = self.describe(graph)
        blobs: Blobs = {row.description: described}
        row.start_digest = start.digest
        if parent is None:
            row.start = stored_start(start, blobs)
        elif turn is None:
            row.start = stored_fork(parent, start, blobs)
        else:
            row.start = stored_turn(parent, start, turn, blobs)
        found = None if begins.distance is None else turn_snapshot(start, begins.distance)
        if found is not None:
            blobs.update(found[1])
        entries = [] if found is None else [found[0]]
        if first is not None:
            encoder = EntryEncoder({"": start.digest}, row.created)
            entries.append(encoder.entry(first))
            blobs.update(encoder.blobs)
        reach("before-create")
        store = self._store_for(at_once)
        if "queue" in options:
            fence = store.create(row, blobs, entries=entries, **options)
        else:
            fence = self.owner.act(
                lambda owner: store.create(row, blobs, entries=entries, owner=owner, **options)
            )
        reach("after-create")
        return fence

    def describe(self, graph: Graph) -> tuple[Any, bytes]:
        """Return what a row or a record stores as the description of a graph, and the blob that it refers to."""
        return description_of(graph)

    def new_writer(
        self,
        run_id: str,
        start: GraphState,
        created: float,
        fence: int,
        durability: Durability,
        *,
        owes: bool = False,
    ) -> LogWriter:
        """Return a writer for a new run; `owes` if it was created without waiting for the disk."""
        encoder = EntryEncoder({"": start.digest}, created)
        return self._writer(run_id, fence, durability, encoder, owes=owes)

    def writer(self, log: RunLog, fence: int, durability: Durability) -> LogWriter:
        """Return a writer that appends to an existing log."""
        encoder = EntryEncoder({prefix: known[-1] for prefix, known in log.digests.items()}, log.row.created)
        known: Any = {"since": log.since, "finished": log.finished_entries, "asked": log.asked}
        return self._writer(log.row.run_id, fence, durability, encoder, **known)

    def _writer(
        self, run_id: str, fence: int, durability: Durability, encoder: EntryEncoder, **more: Any
    ) -> LogWriter:
        return LogWriter(
            self._store,
            run_id,
            fence,
            durability=durability,
            encoder=encoder,
            snapshot=lambda: self.runs.open(run_id).state(fetched=False),
            snapshots=lambda: missing_snapshots(self.runs.open(run_id)),
            **more,
        )

    def begin(self, run_id: str, fence: int, now: float) -> None:
        """Mark a resumed run as running."""
        self._update(run_id, "running", now, (), fence, release=False)

    def detach(self, run_id: str, fence: int) -> None:
        """Make a run independent of its parent: store its full initial state. No class is built."""
        row, blobs = self._store.row(run_id), Blobs()
        row.start = stored_start(RunReader(None, self._store, self._on_conflict).open(run_id).start(), blobs)
        row.parent = row.parent_step = None
        self._store.detach(row, blobs, fence)

    def cancel(self, run_id: str, fence: int, now: float) -> None:
        """Mark a run as cancelled, without releasing it."""
        self._update(run_id, "cancelled", now, (), fence, release=False)

    def close(
        self,
        run_id: str,
        fence: int,
        status: str,
        now: float,
        failures: Sequence[Failure],
        *,
        due: float | None = None,
        at_once: bool = False,
    ) -> None:
        """Store the status and failures of a run, and release it. With `due`, a worker continues it then."""
        store = self._store_for(at_once)
        self._update(run_id, status, now, failures, fence, release=True, due=due, store=store)

    def _store_for(self, at_once: bool) -> Store:
        """Return the store, or with `at_once` its variant that never waits."""
        if not at_once:
            return self._store
        prompt = self._store.at_once()
        assert prompt is not None, "the caller has asked before"
        return prompt

    def _update(
        self,
        run_id: str,
        status: str,
        now: float,
        failures: Sequence[Failure],
        fence: int,
        *,
        release: bool,
        due: float | None = None,
        store: Store | None = None,
    ) -> None:
        kept = sealed_failures(failures) if failures else None
        reach("before-update")
        (store or self._store).update(
            run_id, status=status, updated=now, error=kept, fence=fence, release=release, due=due
        )
        reach("after-update")

    def claim(self, run_id: str, token: str, lease: float) -> int:
        """Own a run; return the fence."""
        reach("before-claim")
        fence = self.owner.act(lambda owner: self._store.claim(run_id, owner, lease=lease, token=token))
        reach("after-claim")
        return fence

    def release(self, run_id: str, fence: int) -> None:
        self._store.release(run_id, fence)

    def import_run(
        self, row: RunRow, log: RunLog, graph: Graph, entries: Sequence[LogEntry], blobs: Blobs
    ) -> None:
        """Write a run with its whole log, atomically. The graph has no code."""
        failures, row.failures = row.failures, ()
        blobs = dict(blobs)
        if row.parent is not None:
            row.start = stored_fork(row.parent, log.start, blobs)
        row.error = sealed_failures(failures) if failures else None
        token = fresh_owner()  # owned, so that no other process continues it yet
        try:
            fence = self.owner.act(
                lambda owner: self._store.create(
                    row, blobs, entries=entries, owner=owner, lease=_LEASE, token=token
                )
            )
            # The run is complete here. Snapshots make it fast to load; `close` stores the census.
            for snapshot, pieces in missing_snapshots(self.runs.open(row.run_id)):
                self._store.append(row.run_id, [snapshot], fence, blobs=pieces)
            self.close(row.run_id, fence, row.status, row.updated, failures)
        except BaseException as error:
            try:
                with HeldInterrupts(error):
                    self._take_back(row.run_id, token)
            except BaseException as interrupt:  # it came before the block
                with HeldInterrupts(interrupt):
                    self._take_back(row.run_id, token)
            raise

    def _take_back(self, run_id: str, token: str) -> None:
        """Delete a run that was to be imported. After an interrupt at any instant, only the token is known. If the run
        is not owned with this token, it is the run of another process, or its import is complete."""
        try:
            known = self._store.owner(run_id)
            if known is not None and known.token == token:
                self.owner.act(lambda owner: self._store.claim(run_id, owner, lease=_LEASE, token=token))
                self._store.delete(run_id)
        except UnknownRunError:
            pass


def missing_snapshots(run: StoredRun) -> Iterator[tuple[LogEntry, Blobs]]:
    """Create the snapshots that were due after the last one and are missing."""
    state, weight = run.snapshot(LAST, keeps=True) or (run.start(), 0)
    since, walk = SinceSnapshot(weight), run.walk(state)
    del state
    next(walk)
    for cursor, size in walk:
        if since.add(size):
            blobs: Blobs = {}
            entry, weight = snapshot_entry(cursor.state(fetched=False), blobs)
            if since.is_worth(weight):
                yield entry, blobs
