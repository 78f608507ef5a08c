"""Queued runs that no living worker can take, because none has their structure; and the queues that are known."""

from __future__ import annotations

import msgspec

from clew.runtime.workers.presence import graphs_of
from clew.stores import QueueEntry, RunRow, Store
from clew.stores.queue import PARKED

_PAGE = 1_000
_MOST_READ = 100_000  # runs of each status
_NAMED = 5


class Unserved(msgspec.Struct):
    """Runs of one structure that no living worker has."""

    graph: str
    structure: str
    target: str  # MODULE:GRAPH, if it is known
    count: int = 0
    runs: list[str] = []  # some of them
    queues: list[str] = []  # those that the runs are in


def unserved_runs(store: Store) -> list[Unserved]:
    """Return the runs that no living worker can take, by structure: queued and sleeping ones, and those that wait with
    an answer to read or a time limit."""
    served = _served(store)
    found: dict[str, Unserved] = {}
    for status in ("queued", "sleeping", "waiting"):
        cursor, read = None, 0
        while read < _MOST_READ:
            rows, cursor = store.page(
                status=status, due=status == "waiting", limit=_PAGE, cursor=cursor, order="oldest"
            )
            read += len(rows)
            for row in rows:
                if row.structure not in served:
                    group = found.setdefault(row.structure, _unserved(row))
                    group.count += 1
                    if row.queue and row.queue not in group.queues:
                        group.queues.append(row.queue)
                    if len(group.runs) < _NAMED:
                        group.runs.append(row.run_id)
            if cursor is None:
                break
    return list(found.values())


def unserved_run(store: Store, run_id: str) -> Unserved | None:
    """Return a run that waits for a worker if no living one can take it; None for any other run."""
    row, owner, entry = store.row(run_id), store.owner(run_id), store.entry(run_id)
    is_held = owner is not None and owner.holds
    if is_held or entry is None or entry.due == PARKED or row.structure in _served(store):
        return None
    return msgspec.structs.replace(_unserved(row), count=1, runs=[run_id])


def _served(store: Store) -> set[str]:
    return {each.structure for worker in store.workers() if worker.is_alive for each in graphs_of(worker)}


def _unserved(row: RunRow) -> Unserved:
    return Unserved(row.graph, row.structure, row.target)


def known_queues(store: Store) -> set[str]:
    """Return the queues that have runs, those that living workers take from, and the default one."""
    names = {QueueEntry().queue, *(each.queue for each in store.queues())}
    for worker in store.workers():
        if worker.is_alive:
            names.update(name for name in worker.info.get("queues", ()) if isinstance(name, str))
    return names
