"""A disk: the store of a run under check. It survives the process, and can fail at any of its operations.

It keeps what the real stores keep, as bytes, in memory. Entries never change, so a copy of it is a few dicts. An
operation that is told to fail is refused and changes nothing, or is carried out and not confirmed: both happen to
real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from clew.errors import StoreUnavailableError
from clew.stores.memory import MemoryStore

CHANGES = ("create", "claim", "append", "update", "release", "renew")
"""The operations that write."""


class Image(msgspec.Struct, frozen=True):
    """All that is on a disk."""

    runs: dict[str, Any]
    blobs: dict[str, bytes]
    created: int


class Disk(MemoryStore):
    """A store in memory that keeps bytes, and outlives whoever writes to it."""

    encodes = True

    def __init__(self) -> None:
        super().__init__(keep=None)
        self.on_change: Callable[[str], str | None] | None = None
        """Asked before each operation that writes: None, or how it fails ("refused" or "unconfirmed")."""

    def image(self) -> Image:
        """What is on it now."""
        runs = {run_id: _copied(run) for run_id, run in self._runs.items()}
        return Image(runs, dict(self._blobs), self._created)

    def load(self, image: Image) -> None:
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

    def _changing(self, operation: str, carry_out: Callable[[], Any]) -> Any:
        fails = self.on_change(operation) if self.on_change is not None else None
        if fails == "refused":
            raise StoreUnavailableError(f"the disk did not take {operation!r}, as it was told to")
        done = carry_out()
        if fails is not None:
            raise StoreUnavailableError(f"the disk took {operation!r} and did not say so, as it was told to")
        return done

    def create(self, *args: Any, **kwargs: Any) -> int:
        return int(self._changing("create", lambda: super(Disk, self).create(*args, **kwargs)))

    def claim(self, *args: Any, **kwargs: Any) -> int:
        return int(self._changing("claim", lambda: super(Disk, self).claim(*args, **kwargs)))

    def append(self, *args: Any, **kwargs: Any) -> None:
        self._changing("append", lambda: super(Disk, self).append(*args, **kwargs))

    def update(self, *args: Any, **kwargs: Any) -> None:
        self._changing("update", lambda: super(Disk, self).update(*args, **kwargs))

    def release(self, *args: Any, **kwargs: Any) -> None:
        self._changing("release", lambda: super(Disk, self).release(*args, **kwargs))

    def renew(self, *args: Any, **kwargs: Any) -> None:
        self._changing("renew", lambda: super(Disk, self).renew(*args, **kwargs))


def _copied(run: Any) -> Any:
    return msgspec.structs.replace(
        run,
        row=msgspec.structs.replace(run.row),
        log=list(run.log),
        named=dict(run.named),
        blobs=set(run.blobs),
    )
