"""Writes the log of a run to a store that keeps objects: the records themselves, at once, without encoding them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.runtime.log.metrics import latency_of
from clew.runtime.log.writer import NO_BLOBS, LogWriter
from clew.stores import Store


class MemoryWriter(LogWriter):
    """Writes the log of one run in memory. Nothing survives the process, so nothing waits and nothing is checked."""

    is_lasting = False
    often = 0
    refused = None
    waits = False

    def __init__(self, store: Store, run_id: str, fence: int) -> None:
        self._store = store
        self._run_id = run_id
        self._fence = fence
        self.attached = {}
        self.records: list[Any] = []
        self._counted = [0, 0]  # number of records that were counted, and the latency of their steps

    @property
    def latency(self) -> int:
        """The total latency of all written steps, in microseconds."""
        done, latency = self._counted
        self._counted = [len(self.records), latency + sum(map(latency_of, self.records[done:]))]
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

    def never_wait(self) -> None:
        """Do nothing: memory never waits."""

    def ensure(self) -> None:
        """Do nothing: memory never waits."""

    def close(self, *, at_once: bool = False) -> None:
        """Do nothing: everything is written."""
