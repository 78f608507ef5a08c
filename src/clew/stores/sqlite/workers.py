"""Owners in a SQLite file: the table `workers`, with one row and one lease for each.

A row holds the slot of the owner's lock (`clew.stores.sqlite.owner_lock`), the end of its lease and the boot whose
clock measures it (`clew.stores.lease_clock`). A store takes its lock when it first owns a run. An owner is dead if its
row says so or does not exist. It can be declared dead if its lock is free, its lease has expired or its boot has ended.
The caller holds the lock of the store and has a transaction open.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew.errors import OwnerDeadError, StoreCorruptError
from clew.stores.lease_clock import LeaseClock
from clew.stores.messages import damaged_owner, declared_dead
from clew.stores.protocol import Owner, WorkerRow
from clew.stores.sql_rows import is_time, worker_info
from clew.stores.sqlite.owner_lock import OwnerLock, is_alive

_KEPT = 3600.0  # seconds for which an owner is listed after its lease
_FIND = "SELECT slot, until, boot, dead FROM workers WHERE owner = ?"
_TYPES: tuple[tuple[type, ...], ...] = ((int,), (int, float), (str,), (int,))
_ADD = (
    "INSERT INTO workers (owner, label, host, pid, started, slot, until, boot, dead, info) "
    "VALUES (?, '', ?, ?, ?, ?, ?, ?, 0, '{}')"
)
ENROLLED = (
    "owner = ? AND dead = 0 AND boot = ? AND slot = ? AND until BETWEEN ? AND 1e300"  # not a damaged row
)
"""The row of an owner that `Workers.enroll` would leave unchanged; `Workers.enrolled` returns the values."""

_FORGET = "DELETE FROM workers WHERE (boot <> ? OR until < ?) AND typeof(boot) = 'text'"  # not a damaged row
_EXPIRE = "UPDATE workers SET dead = 1 WHERE NOT dead AND (boot <> ? OR until <= ?)"


class Workers:
    """The owners in one file, and the lock of this store."""

    def __init__(self, path: Path, clock: LeaseClock) -> None:
        self._path = path
        self._clock = clock
        self._lock: OwnerLock | None = None

    def _slot(self) -> int:
        if self._lock is None or not self._lock.is_visible():  # not taken yet, or its file was removed
            self.close()
            self._lock = OwnerLock(self._path)
        return self._lock.slot

    def enroll(self, db: sqlite3.Connection, owner: str, lease: float) -> None:
        """Register an owner, or renew its lease if less than half is left. Raise OwnerDeadError if it is dead."""
        found, slot, now = _checked(owner, db.execute(_FIND, (owner,)).fetchone()), self._slot(), self._now()
        if found is None:
            db.execute(_FORGET, (self._clock.boot, now - _KEPT))
            values = (owner, socket.gethostname(), os.getpid(), self._clock.time(), slot, now + lease)
            db.execute(_ADD, (*values, self._clock.boot))
            return
        held, until, boot, dead = found
        if dead or boot != self._clock.boot:
            raise OwnerDeadError(declared_dead(owner))
        if until < now + lease / 2 or (held != slot and not is_alive(self._path, held)):
            until = max(until, now + lease)
            db.execute("UPDATE workers SET slot = ?, until = ? WHERE owner = ?", (slot, until, owner))

    def enrolled(self, owner: str, lease: float) -> tuple[str, str, int, float]:
        """Return the values of `ENROLLED`."""
        return owner, self._clock.boot, self._slot(), self._now() + lease / 2

    def describe(self, db: sqlite3.Connection, owner: str, label: str) -> None:
        db.execute("UPDATE workers SET label = ? WHERE owner = ?", (label, owner))

    def renew(self, db: sqlite3.Connection, owner: str, lease: float, info: Mapping[str, Any] | None) -> None:
        """Extend the lease of an owner. Raise OwnerDeadError if it is dead."""
        values: tuple[Any, ...] = (self._slot(), self._now() + lease)
        more = ""
        if info is not None:
            more, values = ", info = ?", (*values, msgspec.json.encode(info).decode())
        statement = f"UPDATE workers SET slot = ?, until = ?{more} WHERE owner = ? AND NOT dead AND boot = ?"
        if not db.execute(statement, (*values, owner, self._clock.boot)).rowcount:
            raise OwnerDeadError(declared_dead(owner))

    def find(self, db: sqlite3.Connection, owner: str, token: str) -> Owner:
        """Return the state of an owner of a run."""
        found = _checked(owner, db.execute(_FIND, (owner,)).fetchone())
        if found is None:
            return Owner(owner, 0.0, False, token)
        slot, until, boot, dead = found
        if boot != self._clock.boot:
            return Owner(owner, 0.0, False, token)
        return Owner(owner, until - self._now(), not dead and is_alive(self._path, slot), token)

    def bury(self, db: sqlite3.Connection, owner: str) -> None:
        """Declare an owner dead."""
        db.execute("UPDATE workers SET dead = 1 WHERE owner = ?", (owner,))

    def retire(self, db: sqlite3.Connection, owner: str) -> None:
        """Declare an owner dead, and forget it if it has no runs."""
        self.bury(db, owner)
        owns = "SELECT 1 FROM runs WHERE owner = ?1"
        db.execute(f"DELETE FROM workers WHERE owner = ?1 AND NOT EXISTS ({owns})", (owner,))

    def expire(self, db: sqlite3.Connection, *, probes: bool = True) -> int:
        """Declare all owners dead whose lease, whose boot or (with `probes`) whose process has ended."""
        count = db.execute(_EXPIRE, (self._clock.boot, self._now())).rowcount
        if probes:
            for owner, slot in db.execute("SELECT owner, slot FROM workers WHERE NOT dead").fetchall():
                if type(slot) is int and not is_alive(self._path, slot):
                    self.bury(db, owner)
                    count += 1
        return count

    def refuse_dead(self, db: sqlite3.Connection, owner: str) -> None:
        """Raise OwnerDeadError if an owner was declared dead."""
        if db.execute("SELECT 1 FROM workers WHERE owner = ? AND dead", (owner,)).fetchone():
            raise OwnerDeadError(declared_dead(owner))

    def has_expired(self, db: sqlite3.Connection) -> bool:
        """Return whether `expire` without probes would declare an owner dead."""
        expired = "SELECT 1 FROM workers WHERE NOT dead AND (boot <> ? OR until <= ?)"
        return db.execute(expired, (self._clock.boot, self._now())).fetchone() is not None

    def all(self, db: sqlite3.Connection) -> list[WorkerRow]:
        """Return the registered owners by name."""
        select = "SELECT owner, label, host, pid, started, info FROM workers ORDER BY owner"
        found = []
        for owner, label, host, pid, started, info in db.execute(select).fetchall():
            known = self.find(db, owner, "")
            if any(type(text) is not str for text in (owner, label, host)) or not is_time(started):
                raise StoreCorruptError(damaged_owner(owner))
            found.append(
                WorkerRow(
                    owner,
                    label,
                    host,
                    pid,
                    started,
                    known.expires_in,
                    known.is_alive,
                    worker_info(owner, info),
                )
            )
        return found

    def _now(self) -> float:
        return self._clock.monotonic()

    def leave_to_parent(self) -> None:
        """Own nothing in a forked child: the runs belong to the parent."""
        self._lock = None

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _checked(owner: str, found: Any) -> Any:
    """Return a row of `_FIND`, or None. Raise StoreCorruptError if a value has an unexpected type."""
    if found is not None and any(type(value) not in types for value, types in zip(found, _TYPES)):
        raise StoreCorruptError(damaged_owner(owner))
    return found
