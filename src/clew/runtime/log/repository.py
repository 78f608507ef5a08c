"""The run repository: creates, claims and releases the runs of one graph in a store.

It writes the row and the initial state of a run, and creates its log writer. Reading is in ``clew.runtime.log.reader``,
which does not use this module.

In a chain of forks, some have a snapshot of their first state, so loading a fork does not load the whole chain: every
sixteenth, and in a longer chain (a thread with many turns) after an eighth more steps. So the snapshots of a chain take
a constant multiple of its data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any

from clew.engine.records import Failure
from clew.engine.stops import Stops
from clew.errors import UnknownRunError
from clew.graph import Graph
from clew.runtime.crash_points import reach
from clew.runtime.log.codec import EntryEncoder
from clew.runtime.log.fingerprints import description_of, kept_codes
from clew.runtime.log.large_values import Blobs
from clew.runtime.log.reader import RunReader
from clew.runtime.log.records import SNAPSHOT
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.run_rows import sealed_failures
from clew.runtime.log.snapshots import (
    is_fork,
    snapshot_entry,
    stored_fork,
    stored_start,
    stored_turn,
)
from clew.runtime.log.stop_records import with_stops
from clew.runtime.log.turns import Turn
from clew.runtime.log.writer import Durability, LogWriter
from clew.state import GraphState
from clew.stores import LogEntry, RunRow, Store, ThreadMove

_LEASE = 30.0  # seconds; of an import
_DEEP = 16  # length of a chain of forks at which the last one may get a snapshot
_MORE = 8  # and it does if a fraction of 1/8 of its steps have been added since the last snapshot


class RunRepository:
    """The runs of one graph in one store."""

    keeps = True  # the store keeps runs
    child_of: tuple[str, str] | None = None  # of children: the run that contains them, and their place

    def __init__(self, graph: Graph | None, store: Store, on_conflict: str) -> None:
        self._graph = graph
        self._store = store
        self._on_conflict = on_conflict

    @cached_property
    def runs(self) -> RunReader:
        """The reader of these runs."""
        return RunReader(self._graph, self._store, self._on_conflict)

    # -- writing -----------------------------------------------------------------------------------------

    def create(
        self,
        run_id: str,
        start: GraphState,
        seed: int,
        now: float,
        *,
        parent: str | None = None,
        parent_step: int | None = None,
        target: str = "",
        owner: str = "",
        lease: float = 0.0,
        on_conflict: str = "error",
        stops: Stops | None = None,
        wait: bool = True,
        at_once: bool = False,
        thread: ThreadMove | None = None,
        turn: Turn | None = None,
    ) -> int:
        """Create a run and own it; return the fence."""
        if not self.keeps:
            return 0
        graph = self._graph
        assert graph is not None, "creating a run needs a graph"
        row = RunRow(
            run_id=run_id,
            graph=graph.name or "",
            start=start,
            seed=seed,
            status="running",
            created=now,
            updated=now,
            parent=parent,
            parent_step=parent_step,
            codes=with_stops(kept_codes(graph, on_conflict), stops),
            description=graph,
            target=target,
        )
        if self.child_of is not None:
            row.child_of, row.place = self.child_of
        return self._create(row, start, turn, at_once, owner=owner, lease=lease, wait=wait, thread=thread)

    def _create(
        self, row: RunRow, start: GraphState, turn: Turn | None, at_once: bool, **options: Any
    ) -> int:
        """Store a new run, given as a row that contains the graph and the state, with the options of `Store.create`."""
        graph, parent = row.description, row.parent
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
        reach("before-create")
        fence = self._store_for(at_once).create(row, blobs, **options)
        reach("after-create")
        if parent is not None and self._is_deep(row):
            pieces: Blobs = {}
            entry, _ = snapshot_entry(start, pieces)
            self._store.append(row.run_id, [entry], fence, blobs=pieces)
        return fence

    def describe(self, graph: Graph) -> tuple[Any, bytes]:
        """Return what a row or a record stores as the description of a graph, and the blob that it refers to."""
        return description_of(graph)

    def _is_deep(self, row: RunRow) -> bool:
        """Return whether a fork needs a snapshot, because it ends a long chain of forks without one."""
        length, now = 0, row.parent_step or 0
        while is_fork(row.start) and row.parent is not None and row.parent_step is not None:
            length += 1
            known = self._store.last(row.parent, SNAPSHOT.name, "", row.parent_step)
            if known is not None:
                return length > _DEEP and (now - known.n) * _MORE >= known.n
            row = self._store.row(row.parent)
        return length >= _DEEP

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
        return LogWriter(
            self._store,
            run_id,
            fence,
            durability=durability,
            encoder=EntryEncoder({"": start.digest}, created),
            snapshot=lambda: self.runs.open(run_id).state(fetched=False),
            snapshots=lambda: self.runs.open(run_id).missing_snapshots(),
            owes=owes,
        )

    def writer(self, log: RunLog, fence: int, durability: Durability) -> LogWriter:
        """Return a writer that appends to an existing log."""
        run_id = log.row.run_id
        digests = {prefix: known[-1] for prefix, known in log.digests.items()}
        return LogWriter(
            self._store,
            run_id,
            fence,
            durability=durability,
            encoder=EntryEncoder(digests, log.row.created),
            snapshot=lambda: self.runs.open(run_id).state(fetched=False),
            snapshots=lambda: self.runs.open(run_id).missing_snapshots(),
            weight=log.weight,
            since=log.since,
            finished=log.finished_entries,
            asked=log.asked,
        )

    def begin(self, run_id: str, fence: int, now: float) -> None:
        """Mark a resumed run as running."""
        self._update(run_id, "running", now, (), fence, release=False)

    def close(
        self,
        run_id: str,
        fence: int,
        status: str,
        now: float,
        failures: Sequence[Failure],
        *,
        at_once: bool = False,
    ) -> None:
        """Store the status and failures of a run, and release it."""
        self._update(run_id, status, now, failures, fence, release=True, store=self._store_for(at_once))

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
        store: Store | None = None,
    ) -> None:
        kept = sealed_failures(failures) if failures else None
        reach("before-update")
        (store or self._store).update(
            run_id, status=status, updated=now, error=kept, fence=fence, release=release
        )
        reach("after-update")

    def claim(self, run_id: str, owner: str, lease: float) -> int:
        """Own a run; return the fence."""
        reach("before-claim")
        fence = self._store.claim(run_id, owner, lease=lease)
        reach("after-claim")
        return fence

    def release(self, run_id: str, fence: int) -> None:
        """Release a run."""
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
        owner = fresh_owner()  # owned, so that no other process continues it yet
        try:
            fence = self._store.create(row, blobs, entries=entries, owner=owner, lease=_LEASE)
            # The run is complete here. Snapshots make it fast to load; `close` stores the census.
            for snapshot, pieces in self.runs.open(row.run_id).missing_snapshots():
                self._store.append(row.run_id, [snapshot], fence, blobs=pieces)
            self.close(row.run_id, fence, row.status, row.updated, failures)
        except BaseException:
            try:
                self._take_back(row.run_id, owner)
            except BaseException:  # another interrupt
                self._take_back(row.run_id, owner)
            raise

    def _take_back(self, run_id: str, owner: str) -> None:
        """Delete a run that was to be imported. An interrupt may have come at any instant: only the owner's name is
        known. If that does not own it, the run is somebody else's, or is here and whole."""
        try:
            known = self._store.owner(run_id)
            if known is not None and known.name == owner:
                self._store.claim(run_id, owner, lease=_LEASE)
                self._store.delete(run_id)
        except UnknownRunError:
            pass


_process: tuple[int, str] = (0, "")
_owners = count(1)


def fresh_owner() -> str:
    """Return a unique owner name that also names the process, for messages."""
    global _process
    here = os.getpid()
    if _process[0] != here:  # first use in this process, also after os.fork
        _process = (here, os.urandom(4).hex())
    return f"process {here} ({_process[1]}.{next(_owners)})"
