"""The repository of runs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from clew.engine.records import Failure
from clew.graph import Graph
from clew.runtime.log.codec import EntryDecoder
from clew.runtime.log.in_memory.reader import MemoryReader
from clew.runtime.log.in_memory.writer import MemoryWriter
from clew.runtime.log.large_values import Blobs
from clew.runtime.log.repository import RunRepository
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.snapshots import read_start
from clew.runtime.log.turns import Turn
from clew.runtime.log.writer import LogWriter
from clew.state import GraphState
from clew.stores import LogEntry, RunRow, Store
from clew.stores.memory.store import NOWHERE


def repository_of(graph: Graph | None, store: Store, on_conflict: str) -> RunRepository:
    """Return the repository for a store."""
    return (RunRepository if store.encodes else MemoryRepository)(graph, store, on_conflict)


class MemoryRepository(RunRepository):
    """The runs of one graph in a memory store."""

    def __init__(self, graph: Graph | None, store: Store, on_conflict: str) -> None:
        super().__init__(graph, store, on_conflict)
        self.keeps = store is not NOWHERE

    @cached_property
    def runs(self) -> MemoryReader:
        """The reader of these runs."""
        return MemoryReader(self._graph, self._store, self._on_conflict)

    def _create(self, row: RunRow, start: GraphState, turn: Turn | None, *_: Any, **options: Any) -> int:
        self._store.create(row, thread=options["thread"])
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
        """Return a writer for a new run."""
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
        **_: Any,
    ) -> None:
        if self.keeps:
            self._store.update(run_id, status=status, updated=now, error=tuple(failures) or None, fence=fence)

    def claim(self, run_id: str, owner: str, lease: float) -> int:
        """Return the fence of a run that nobody claims."""
        return 0

    def release(self, run_id: str, fence: int) -> None:
        """Do nothing: the run has no owner."""

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
