"""The queue in memory: methods of `MemoryStore`. The rules are in `clew.stores.queue`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from clew.stores.memory import ownership
from clew.stores.protocol import QueueCount, QueueEntry, TakenRun
from clew.stores.queue import FINAL, PARKED, WAKES, apart, queue_count, rank

if TYPE_CHECKING:
    from clew.stores.memory.store import MemoryStore


class MemoryEntry(msgspec.Struct):
    """The entry of a queued run."""

    queue: str
    priority: int
    due: float
    taken: bool = False
    tries: int = 0
    mark: Any = None  # what the run had committed when it was last taken


def put(store: MemoryStore, run: Any, entry: QueueEntry) -> None:
    """Add the entry of a new run."""
    due = store._clock.time() if entry.due is None else entry.due
    run.entry, run.row.queue = MemoryEntry(entry.queue, entry.priority, due), entry.queue


def settle(store: MemoryStore, run: Any, status: str, due: float | None, *, release: bool) -> None:
    """Delete or park the entry of a run that gets a status."""
    if status in FINAL:
        run.entry = None
    elif release:
        if run.entry is None and due is not None:
            run.entry = MemoryEntry(QueueEntry().queue, QueueEntry().priority, due)
        if run.entry is not None:
            run.entry.taken, run.entry.tries = False, 0
            run.entry.due = PARKED if due is None else due
            wake(store, run)


def take(
    store: MemoryStore,
    owner: str,
    *,
    structures: Collection[str],
    queues: Collection[str],
    limit: int,
    lease: float,
    token: str = "",
) -> list[TakenRun]:
    with store._lock:
        ownership.enroll(store, owner, lease)
        ownership.bury(store)
        now, ready = store._clock.time(), []
        for number, run in enumerate(store._runs.values()):
            entry = run.entry
            if entry is None or entry.queue not in queues or _structure(run) not in structures:
                continue
            if _is_lost(store, run) if entry.taken else entry.due <= now:
                ready.append((rank(entry.priority, entry.due, now), number, entry, run))
        chosen = sorted(ready, key=lambda each: each[:2])[:limit]
        return [_taken(run, owner, token) for *_, run in apart(chosen, lambda each: each[2].tries)]


def wake(store: MemoryStore, run: Any) -> None:
    """Make the entry of a run due that sleeps or waits and has a message."""
    if run.entry is not None and run.inbox and run.row.status in WAKES:
        run.entry.due = min(run.entry.due, store._clock.time())


def entry(store: MemoryStore, run_id: str) -> QueueEntry | None:
    with store._lock:
        found = store._find(run_id).entry
        return None if found is None else QueueEntry(found.queue, found.priority, found.due)


def _structure(run: Any) -> str:
    """Return the structure of a run. A run that was not created in a queue has only its graph."""
    return str(run.row.structure or getattr(run.row.description, "structure_hash", ""))


def _is_lost(store: MemoryStore, run: Any) -> bool:
    worker = store._workers.get(run.owner)
    return worker is None or worker.dead


def _taken(run: Any, owner: str, token: str) -> TakenRun:
    entry, mark = run.entry, (len(run.log), len(run.named), hash(frozenset(run.named)))
    entry.tries = entry.tries + 1 if mark == entry.mark else 1
    entry.taken, entry.mark = True, mark
    fence = ownership.take(run, owner, token)
    run.row.status = "running"
    row = replace(run.row, structure=_structure(run))
    return TakenRun(row, fence, entry.tries, not run.log and not run.named)


def enqueue(
    store: MemoryStore,
    run_id: str,
    fence: int,
    *,
    status: str,
    due: float | None = None,
    queue: str = "",
    priority: int | None = None,
) -> None:
    with store._lock:
        run = store._owned(run_id, fence)
        old = run.entry or MemoryEntry(QueueEntry().queue, QueueEntry().priority, 0.0)
        old.queue, old.priority = queue or old.queue, old.priority if priority is None else priority
        old.due, old.taken = store._clock.time() if due is None else due, False
        run.entry, run.owner, run.token, run.row.status = old, "", "", status
        run.row.queue = old.queue


def now(store: MemoryStore) -> float:
    return store._clock.time()


def queues(store: MemoryStore) -> list[QueueCount]:
    with store._lock:
        now, found = store._clock.time(), dict[str, tuple[list[float], list[float]]]()
        for run in store._runs.values():
            if run.entry is not None:
                found.setdefault(run.entry.queue, ([], []))[run.entry.taken].append(run.entry.due)
        return [queue_count(name, dues, len(taken), now) for name, (dues, taken) in sorted(found.items())]
