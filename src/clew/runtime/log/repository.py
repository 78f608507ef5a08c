"""The run repository: creates, claims and releases the runs of one graph in a store.

It writes the row and the initial state of a run, and creates its log writer. Reading is in ``clew.runtime.log.reader``,
which does not use this module.

In a chain of forks, some have a snapshot of their first state (``clew.runtime.log.turn_snapshots``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any

from clew.engine.records import Failure
from clew.engine.stops import Stops
from clew.graph import Graph
from clew.runtime.crash_points import reach
from clew.runtime.log.codec import EntryEncoder
from clew.runtime.log.due_snapshots import missing_snapshots
from clew.runtime.log.fingerprints import description_of, kept_codes
from clew.runtime.log.large_values import Blobs
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.run_rows import sealed_failures
from clew.runtime.log.snapshots import stored_fork, stored_start, stored_turn
from clew.runtime.log.stop_records import with_stops
from clew.runtime.log.turn_snapshots import SnapshotDistance, turn_snapshot
from clew.runtime.log.turns import Turn
from clew.runtime.log.writer import Durability, LogWriter
from clew.state import GraphState
from clew.stores import RunRow, Store, ThreadMove
from clew.stores.memory.store import NOWHERE


class RunRepository:
    """The runs of one graph in one store."""

    child_of: tuple[str, str] | None = None  # of children: the run that contains them, and their place

    def __init__(self, graph: Graph | None, store: Store, on_conflict: str) -> None:
        self._graph = graph
        self._store = store
        self._on_conflict = on_conflict
        self._keeps = store is not NOWHERE

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
        distance: SnapshotDistance | None = None,
    ) -> int:
        """Create a run and own it, if the store is shared between processes; return the fence.

        `distance` says how the state of its parent was read.
        """
        if not self._keeps:
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
        if not self._store.encodes:
            self._store.create(row, thread=thread)
            return 0
        row.structure = graph.structure_hash
        row.description, described = description_of(graph)
        blobs: Blobs = {row.description: described}
        row.start_digest = start.digest
        if parent is None:
            row.start = stored_start(start, blobs)
        elif turn is None:
            row.start = stored_fork(parent, start, blobs)
        else:
            row.start = stored_turn(parent, start, turn, blobs)
        found = None if distance is None else turn_snapshot(start, distance)
        if found is not None:
            blobs.update(found[1])
        entries = () if found is None else found[:1]
        reach("before-create")
        fence = self._store_for(at_once).create(
            row, blobs, owner=owner, lease=lease, entries=entries, wait=wait, thread=thread
        )
        reach("after-create")
        return fence

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
        if not self._store.encodes:
            return LogWriter(self._store, run_id, fence)
        return LogWriter(
            self._store,
            run_id,
            fence,
            durability=durability,
            encoder=EntryEncoder({"": start.digest}, created),
            snapshot=lambda: self.runs.open(run_id).state(fetched=False),
            snapshots=lambda: missing_snapshots(self.runs.open(run_id)),
            owes=owes,
        )

    def writer(self, log: RunLog, fence: int, durability: Durability) -> LogWriter:
        """Return a writer that appends to an existing log."""
        run_id = log.row.run_id
        if not self._store.encodes:
            return LogWriter(self._store, run_id, fence)
        digests = {prefix: known[-1] for prefix, known in log.digests.items()}
        return LogWriter(
            self._store,
            run_id,
            fence,
            durability=durability,
            encoder=EntryEncoder(digests, log.row.created),
            snapshot=lambda: self.runs.open(run_id).state(fetched=False),
            snapshots=lambda: missing_snapshots(self.runs.open(run_id)),
            weight=log.weight,
            since=log.since,
            finished=log.finished_entries,
            asked=log.asked,
        )

    def begin(self, run_id: str, fence: int, now: float) -> None:
        """Mark a resumed run as running."""
        self._update(run_id, "running", now, (), fence, release=False)

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
        at_once: bool = False,
    ) -> None:
        """Store the status and failures of a run, and release it."""
        if self._keeps:
            self._update(
                run_id,
                status,
                now,
                failures,
                fence,
                release=self._store.encodes,
                store=self._store_for(at_once),
            )

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
        kept: Any = tuple(failures) or None
        if self._store.encodes and failures:
            kept = sealed_failures(failures)
        reach("before-update")
        (store or self._store).update(
            run_id, status=status, updated=now, error=kept, fence=fence, release=release
        )
        reach("after-update")

    def claim(self, run_id: str, owner: str, lease: float) -> int:
        """Own a run, if the store is shared between processes; return the fence."""
        if not self._store.encodes:
            return 0
        reach("before-claim")
        fence = self._store.claim(run_id, owner, lease=lease)
        reach("after-claim")
        return fence

    def release(self, run_id: str, fence: int) -> None:
        """Release a run."""
        if self._store.encodes:
            self._store.release(run_id, fence)


_process: tuple[int, str] = (0, "")
_owners = count(1)


def fresh_owner() -> str:
    """Return a unique owner name that also names the process, for messages."""
    global _process
    here = os.getpid()
    if _process[0] != here:  # first use in this process, also after os.fork
        _process = (here, os.urandom(4).hex())
    return f"process {here} ({_process[1]}.{next(_owners)})"
