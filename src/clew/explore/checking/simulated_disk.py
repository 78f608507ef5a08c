"""A disk: the store of a run under check. It survives the process.

It keeps what the real stores keep, as bytes, in memory. Entries never change, so a copy of it is a few dicts. It never
fails: what can fail is the line that a process has to it (`clew.explore.checking.faulty_store`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.stores.lease_clock import BOOT_CLOCK, LeaseClock
from clew.stores.memory.store import MemoryStore


class DiskImage(msgspec.Struct, frozen=True):
    """All that is on a disk."""

    runs: dict[str, Any]
    blobs: dict[str, bytes]
    created: int


class SimulatedDisk(MemoryStore):
    """A store in memory that keeps bytes, and outlives whoever writes to it."""

    encodes = True

    def __init__(self, clock: LeaseClock = BOOT_CLOCK) -> None:
        super().__init__(keep=None, clock=clock)

    def has(self, run_id: str) -> bool:
        """Whether there is such a run."""
        return run_id in self._runs

    def image(self) -> DiskImage:
        """What is on it now."""
        runs = {run_id: _copied(run) for run_id, run in self._runs.items()}
        return DiskImage(runs, dict(self._blobs), self._created)

    def load(self, image: DiskImage) -> None:
        """Hold what was on it then."""
        self._runs = {run_id: _copied(run) for run_id, run in image.runs.items()}
        self._blobs = dict(image.blobs)
        self._created = image.created

    def forget_owners(self) -> None:
        """The process that owned runs is dead, and everybody can tell."""
        for run in self._runs.values():
            run.owner, run.until = "", 0.0

    def names(self, run_id: str) -> list[list[Any]]:
        """What is kept of a run, by name and digest."""
        run = self._runs.get(run_id)
        if run is None:
            return []
        entries = (run.named[name] for name in sorted(run.named))
        return [[run.row.status], *([e.kind, e.path, e.n, e.digest] for e in entries)]


def _copied(run: Any) -> Any:
    return msgspec.structs.replace(
        run,
        row=msgspec.structs.replace(run.row),
        log=list(run.log),
        named=dict(run.named),
        blobs=set(run.blobs),
    )
