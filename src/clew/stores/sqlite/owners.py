"""What a row of a SQLite file says about the owner of a run, and what that means now.

A row has the owner's name, the slot of its lock (`clew.stores.sqlite.owner_lock`), and how long its lease lasts on
the clock of which boot (`clew.stores.lease_clock`). The lock is taken when the store first owns something.
Everything here runs under the lock of the store.
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
"""Sets what `Owners.lease` gives."""

RELEASED = "owner = '', slot = 0, until = 0.0, boot = ''"

OWNER = "SELECT fence, owner, slot, until, boot FROM runs WHERE id = ?"
"""Selects what `checked_owner` checks: a fence, and what `Owners.read` reads."""

_TYPES: tuple[tuple[type, ...], ...] = ((int,), (str,), (int,), (int, float), (str,))


def checked_owner(run_id: str, found: Sequence[Any]) -> Sequence[Any]:
    """Return what `OWNER` selects. StoreCorruptError if a value has another type."""
    if any(type(value) not in types for value, types in zip(found, _TYPES)):
        raise StoreCorruptError(damaged_row(run_id, "it does not say who owns it"))
    return found


class Owners:
    """The owners in one file, as one store sees them, and the lock of this store."""

    def __init__(self, path: Path, clock: LeaseClock) -> None:
        self._path = path
        self._clock = clock
        self._lock: OwnerLock | None = None

    def lease(self, seconds: float) -> tuple[int, float, str]:
        """Return what a row says from now on of a run that this store owns, in the order of `LEASE`."""
        if self._lock is None or not self._lock.is_visible():  # not taken yet, or somebody removed its file
            self.close()
            self._lock = OwnerLock(self._path)
        return self._lock.slot, self._clock.monotonic() + seconds, self._clock.boot

    def read(self, name: str, slot: int, until: float, boot: str) -> Owner:
        """Read what a row says of an owner; one from another boot is dead."""
        if boot != self._clock.boot:
            return Owner(name, 0.0, is_alive=False)
        return Owner(name, until - self._clock.monotonic(), is_alive(self._path, slot))

    def leave_to_parent(self) -> None:
        """Own nothing: this process was forked, and its parent owns what was owned."""
        self._lock = None

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
