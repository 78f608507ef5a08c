"""The store of a checked run. It survives the simulated process.

It holds the same bytes as a real store, in memory. Entries never change, so a copy costs a few dicts. It never fails;
the simulated process reaches it through a `FaultyStore`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.stores.lease_clock import BOOT_CLOCK, LeaseClock
from clew.stores.memory.store import MemoryStore


class DiskImage(msgspec.Struct, frozen=True):
    """The complete content of a disk."""

    runs: dict[str, Any]
    blobs: dict[str, bytes]
    created: int
    results: dict[str, Any]
    workers: dict[str, Any]


class SimulatedDisk(MemoryStore):
    """A store in memory that holds encoded entries and can be copied."""

    encodes = True

    def __init__(self, clock: LeaseClock = BOOT_CLOCK) -> None:
        super().__init__(keep=None, clock=clock)

    def has(self, run_id: str) -> bool:
        """Return whether the run exists."""
        return run_id in self._runs

    def image(self) -> DiskImage:
        """Return a copy of the content."""
        runs = {run_id: _copied(run) for run_id, run in self._runs.items()}
        return DiskImage(runs, dict(self._blobs), self._created, dict(self._results.rows), self._registered())

    def load(self, image: DiskImage) -> None:
        """Replace the content with that of an image."""
        self._runs = {run_id: _copied(run) for run_id, run in image.runs.items()}
        self._children = {}
        for run_id, run in self._runs.items():
            if run.row.child_of is not None:
                self._children.setdefault(run.row.child_of, []).append(run_id)
        self._inner = sum(map(len, self._children.values()))
        self._blobs = dict(image.blobs)
        self._created = image.created
        self._results.rows = dict(image.results)
        self._workers = {name: msgspec.structs.replace(worker) for name, worker in image.workers.items()}

    def _registered(self) -> dict[str, Any]:
        return {name: msgspec.structs.replace(worker) for name, worker in self._workers.items()}

    def forget_owners(self) -> None:
        """Release the ownership of all runs: their process is dead."""
        self._workers.clear()
        for run in self._runs.values():
            run.owner = run.token = ""

    def content(self) -> dict[str, list[list[Any]]]:
        """Return the names of each run, by run id. The digest of a retry depends on time, so it is left out."""
        names = {run_id: self.names(run_id) for run_id in sorted(self._runs)}
        return {
            run_id: [name[:3] if name[0] == "retry" else name for name in found]
            for run_id, found in names.items()
        }

    def names(self, run_id: str) -> list[list[Any]]:
        """Return the status of a run, the keys of cached results, and its log entries: kind, path, number, digest."""
        run = self._runs.get(run_id)
        if run is None:
            return []
        entries = (run.named[name] for name in sorted(run.named))
        cached = [["cached", key] for key in sorted(self._results.rows)]
        return [[run.row.status], *cached, *([e.kind, e.path, e.n, e.digest] for e in entries)]


def _copied(run: Any) -> Any:
    return msgspec.structs.replace(
        run,
        row=msgspec.structs.replace(run.row),
        log=list(run.log),
        named=dict(run.named),
        blobs=set(run.blobs),
        inbox=dict(run.inbox),
        sent=dict(run.sent),
        entry=None if run.entry is None else msgspec.structs.replace(run.entry),
    )
