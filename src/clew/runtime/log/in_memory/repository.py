"""The repository of runs in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.engine.records import Failure
from clew.graph import Graph
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.entries.large_values import Blobs
from clew.runtime.log.entries.records import AcceptedChanges
from clew.runtime.log.metrics import latency_of
from clew.runtime.log.repository import FirstState, RunRepository
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.snapshots import read_start
from clew.runtime.log.writer import NO_BLOBS, LogWriter
from clew.state import GraphState
from clew.stores import LogEntry, RunRow, Store
from clew.stores.memory.store import NOWHERE


def repository_of(graph: Graph | None, store: Store, on_conflict: str) -> RunRepository:
    return (RunRepository if store.encodes else MemoryRepository)(graph, store, on_conflict)


class MemoryWriter(LogWriter):
    """Writes the log of one run in memory. Nothing survives the process, so nothing waits and nothing is checked."""

    is_lasting = False
    often = 0
    refused = None
    is_behind = False
    waits = False
    _counted = (0, 0)  # number of records that were counted, and the latency of their steps

    def __init__(self, store: Store, run_id: str, fence: int) -> None:
        self._store = store
        self._run_id = run_id
        self._fence = fence
        self.attached = {}
        self.records: list[Any] = []

    @property
    def latency(self) -> int:
        """The total latency of all written steps, in microseconds."""
        done, latency = self._counted
        self._counted = (len(self.records), latency + sum(map(latency_of, self.records[done:])))
        return self._counted[1]

    def write(self, records: Sequence[Any], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        """Write records in order."""
        self._store.append(self._run_id, records, self._fence)
        self.records += records

    def check(self, value: Any, at: str) -> None:
        """Accept any value."""

    def image_of(self, values: Mapping[str, Any]) -> Any:
        """Return a copy of the values."""
        return dict(values)

    def measure(self, report: Callable[[float], None]) -> None:
        """Do nothing: an append in memory is not an operation of an external store."""

    def never_wait(self) -> None:
        """Do nothing: memory never waits."""

    def ensure(self) -> None:
        """Do nothing: memory never waits."""

    def close(self, *, at_once: bool = False) -> None:
        """Do nothing: everything is written."""


class MemoryRepository(RunRepository):
    """The runs of one graph in a memory store."""

    def __init__(self, graph: Graph | None, store: Store, on_conflict: str) -> None:
        super().__init__(graph, store, on_conflict)
        self.keeps = store is not NOWHERE

    def _create(
        self, row: RunRow, begins: FirstState, first: AcceptedChanges | None, *_: Any, **options: Any
    ) -> int:
        queue = options.get("queue")
        if queue is not None:
            row.structure = row.description.structure_hash  # workers take runs by it
        self._store.create(
            row, thread=options["thread"], queue=queue, entries=() if first is None else (first,)
        )
        return 0

    def detach(self, run_id: str, fence: int) -> None:
        """Make a run independent of its parent: it has a full initial state."""
        row = self._store.row(run_id)
        row.parent = row.parent_step = None
        self._store.detach(row, {}, fence)

    def describe(self, graph: Graph) -> tuple[Any, bytes]:
        """Return the graph itself: it is its own description."""
        return graph, b""

    def new_writer(
        self, run_id: str, start: GraphState, created: float, fence: int, *_: Any, **__: Any
    ) -> LogWriter:
        return MemoryWriter(self._store, run_id, fence)

    def writer(self, log: RunLog, fence: int, *_: Any) -> LogWriter:
        """Return a writer that appends to an existing log."""
        return MemoryWriter(self._store, log.row.run_id, fence)

    def _update(
        self,
        run_id: str,
        status: str,
        now: float,
        failures: Sequence[Failure],
        fence: int,
        *,
        release: bool = False,
        due: float | None = None,
        **_: Any,
    ) -> None:
        if self.keeps:
            given: Any = {"release": release} if fence else {}  # without a fence, it was never claimed
            error = tuple(failures) or None
            self._store.update(run_id, status=status, updated=now, error=error, fence=fence, due=due, **given)

    def claim(self, run_id: str, token: str, lease: float) -> int:
        """Return the fence of a run without claiming it. Raise RunOwnedError if a worker has the run."""
        store: Any = self._store
        return int(store.fence(run_id))

    def release(self, run_id: str, fence: int) -> None:
        """Release a run that a worker has taken."""
        self._store.release(run_id, fence)

    def import_run(
        self, row: RunRow, log: RunLog, graph: Graph, entries: Sequence[LogEntry], blobs: Blobs
    ) -> None:
        """Write a run with its whole log. The graph has no code."""
        failures, row.failures = row.failures, ()
        classes = self.runs.classes
        decoder = EntryDecoder(row.run_id, blobs.__getitem__, row.created, classes=classes)
        row.start = read_start(row.start, row.start_digest, blobs.__getitem__, classes=classes)
        row.error, row.description = failures or None, graph
        self._store.create(row, entries=[decoder.record(entry) for entry in entries])
