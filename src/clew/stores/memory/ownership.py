"""Owners of runs in memory: methods of `MemoryStore`. The store ends with its process, so only leases and `retire` show
that an owner is dead."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import OwnerDeadError, RunOwnedError
from clew.stores.messages import declared_dead, owned
from clew.stores.protocol import Owner, WorkerRow
from clew.stores.queue import PARKED

if TYPE_CHECKING:
    from clew.stores.memory.store import MemoryStore

_KEPT = 3600.0  # seconds for which a dead owner without runs is listed


class MemoryWorker(msgspec.Struct):
    """A registered owner."""

    started: float
    until: float
    label: str = ""
    info: Mapping[str, Any] = {}
    dead: bool = False


def claim(store: MemoryStore, run_id: str, owner: str, *, lease: float, token: str = "") -> int:
    with store._lock:
        run = store._find(run_id)
        if owner in store._workers and store._workers[owner].dead:
            raise OwnerDeadError(declared_dead(owner))
        holder = run.owner
        if run.row.child_of is None and holder and not (holder == owner and token and token == run.token):
            left = _expires_in(store, holder)
            if holder == owner or left > 0:
                raise RunOwnedError(owned(run_id, holder, left))
            if holder in store._workers:
                store._workers[holder].dead = True
        enroll(store, owner, lease)
        return take(run, owner, token)


def take(run: Any, owner: str, token: str) -> int:
    """Store the owner of a run, and return the new fence."""
    run.fence = (run.fence or run.number << 32) + 1
    run.owner, run.token = owner, token
    if run.entry is not None:
        run.entry.taken = True
    return int(run.fence)


def fence(store: MemoryStore, run_id: str) -> int:
    """Return the current fence of a run. Raise RunOwnedError if it has a living owner."""
    with store._lock:
        run = store._runs.get(run_id)
        if run is None:
            return 0  # the next operation raises that it does not exist
        if run.owner and run.row.child_of is None and (left := _expires_in(store, run.owner)) > 0:
            raise RunOwnedError(owned(run_id, run.owner, left))
        return int(run.fence)


def release(store: MemoryStore, run_id: str, fence: int) -> None:
    with store._lock:
        run = store._runs.get(run_id)
        if run is not None and run.fence == fence:
            run.owner = run.token = ""
            if run.entry is not None:
                run.entry.taken = False
                if run.row.status == "running" and run.entry.due < PARKED:
                    run.row.status = "queued"


def owner(store: MemoryStore, run_id: str) -> Owner | None:
    with store._lock:
        run = outermost = store._find(run_id)
        while outermost.row.child_of is not None:
            outermost = store._find(outermost.row.child_of)
        name = outermost.owner or run.owner
        worker = store._workers.get(outermost.owner)
        if worker is None:
            return Owner(name, 0.0, False, run.token) if name else None
        return Owner(name, worker.until - store._clock.monotonic(), not worker.dead, run.token)


def register(
    store: MemoryStore, owner: str, *, lease: float, label: str = "", info: Mapping[str, Any] | None = None
) -> None:
    with store._lock:
        enroll(store, owner, lease)
        store._workers[owner].label = label
        _renew(store, owner, lease, info)


def renew(store: MemoryStore, owner: str, *, lease: float, info: Mapping[str, Any] | None = None) -> None:
    with store._lock:
        if owner not in store._workers:
            raise OwnerDeadError(declared_dead(owner))
        _renew(store, owner, lease, info)


def retire(store: MemoryStore, owner: str) -> None:
    with store._lock:
        if owner in store._workers:
            store._workers[owner].dead = True
            if all(run.owner != owner for run in store._runs.values()):
                del store._workers[owner]


def expire(store: MemoryStore) -> int:
    with store._lock:
        return len(bury(store))


def bury(store: MemoryStore) -> list[str]:
    """Declare all owners dead whose lease has expired; the caller holds the lock."""
    now = store._clock.monotonic()
    gone = [name for name, worker in store._workers.items() if not worker.dead and worker.until <= now]
    for name in gone:
        store._workers[name].dead = True
    return gone


def workers(store: MemoryStore) -> list[WorkerRow]:
    with store._lock:
        now, host, pid = store._clock.monotonic(), socket.gethostname(), os.getpid()
        return [
            WorkerRow(name, each.label, host, pid, each.started, each.until - now, not each.dead, each.info)
            for name, each in sorted(store._workers.items())
        ]


def _expires_in(store: MemoryStore, owner: str) -> float:
    """Return the seconds until an owner that is not dead loses its runs; 0 or less if it can lose them now."""
    worker = store._workers.get(owner)
    return 0.0 if worker is None or worker.dead else worker.until - store._clock.monotonic()


def enroll(store: MemoryStore, owner: str, lease: float) -> None:
    """Register an owner, or renew its lease if less than half is left; the caller holds the lock."""
    worker, now = store._workers.get(owner), store._clock.monotonic()
    if worker is None:
        for name in [name for name, each in store._workers.items() if each.until + _KEPT < now]:
            if all(run.owner != name for run in store._runs.values()):
                del store._workers[name]
        store._workers[owner] = MemoryWorker(store._clock.time(), now + lease)
    elif worker.dead:
        raise OwnerDeadError(declared_dead(owner))
    elif worker.until < now + lease / 2:
        worker.until = now + lease


def _renew(store: MemoryStore, owner: str, lease: float, info: Mapping[str, Any] | None) -> None:
    worker = store._workers[owner]
    if worker.dead:
        raise OwnerDeadError(declared_dead(owner))
    worker.until = store._clock.monotonic() + lease
    if info is not None:
        worker.info = dict(info)
