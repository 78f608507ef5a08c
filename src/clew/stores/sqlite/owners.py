"""Owners of runs in a SQLite file.

A row holds the name of the owner, the slot of its lock (`clew.stores.sqlite.owner_lock`), the end of its lease and the
boot whose clock measures it (`clew.stores.lease_clock`). A store takes its lock when it first owns a run. The caller
holds the lock of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.errors import StoreCorruptError
from clew.stores.lease_clock import LeaseClock
from clew.stores.messages import damaged_row
from clew.stores.protocol import Owner
from clew.stores.sqlite.owner_lock import OwnerLock, is_alive

LEASE = "slot = ?, until = ?, boot = ?"
"""Assigns the values of `Owners.lease`."""

RELEASED = "owner = '', slot = 0, until = 0.0, boot = ''"

OWNER = "SELECT fence, owner, slot, until, boot FROM runs WHERE id = ?"
"""Selects a fence and the arguments of `Owners.read`, for `checked_owner`."""

_TYPES: tuple[tuple[type, ...], ...] = ((int,), (str,), (int,), (int, float), (str,))


def checked_owner(run_id: str, found: Sequence[Any]) -> Sequence[Any]:
    """Return a row of `OWNER`. Raise StoreCorruptError if a value has an unexpected type."""
    if any(type(value) not in types for value, types in zip(found, _TYPES)):
        raise StoreCorruptError(damaged_row(run_id, "its owner is unreadable"))
    return found


class Owners:
    """The owners in one file, and the lock of this store."""

    def __init__(self, path: Path, clock: LeaseClock) -> None:
        self._path = path
        self._clock = clock
        self._lock: OwnerLock | None = None

    def lease(self, seconds: float) -> tuple[int, float, str]:
        """Return the values of `LEASE` for a run of this store, from now on."""
        if self._lock is None or not self._lock.is_visible():  # not taken yet, or its file was removed
            self.close()
            self._lock = OwnerLock(self._path)
        return self._lock.slot, self._clock.monotonic() + seconds, self._clock.boot

    def read(self, name: str, slot: int, until: float, boot: str) -> Owner:
        """Return the owner in a row; one from an earlier boot is dead."""
        if boot != self._clock.boot:
            return Owner(name, 0.0, is_alive=False)
        return Owner(name, until - self._clock.monotonic(), is_alive(self._path, slot))

    def leave_to_parent(self) -> None:
        """Own nothing in a forked child: the runs belong to the parent."""
        self._lock = None

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
