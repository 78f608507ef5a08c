"""Queues and workers: what waits, which worker executes what, what no worker serves, and how many runs ended when.

A run keeps the name of its queue when it ends, so each queue has a curve of finished runs, and the store one of all. It
counts the runs of the window, and those that began up to a day before it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.error_text import encodable
from clew.runtime.workers.presence import graphs_of
from clew.runtime.workers.unserved import unserved_runs
from clew.stores import Store
from clew.stores.protocol import QueueCount, WorkerRow
from clew.views.commands import worker_command

Json = dict[str, Any]

WINDOWS = (900, 3_600, 86_400)
_BEFORE = 86_400.0
_BINS = 60
_PAGE = 1_000
_MOST = 20_000
_MOST_QUEUES = 1_000
_FRESH = 5.0  # seconds
_ENDED = ("completed", "failed", "cancelled", "compensated")


class FinishedRuns:
    """Counts the runs that ended in a window. It reads the store at most every few seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, tuple[float, Json]] = {}

    def json(self, window: int, now: float) -> Json:
        """Return totals and a curve of the last `window` seconds."""
        read, found = self._known.get(window, (0.0, {}))
        if not 0 <= now - read < _FRESH:
            found = self._read(window, now)
            self._known[window] = (now, found)
        return found

    def _read(self, window: int, now: float) -> Json:
        begin, width = now - window, window / _BINS
        finished, failed, took = [0] * _BINS, 0, list[float]()
        by_queue: dict[str, list[int]] = {}
        cursor: str | None = None
        rows, is_cut = 0, False
        while True:
            page, cursor = self._store.page(after=begin - _BEFORE, limit=_PAGE, cursor=cursor)
            for row in page:
                if row.status in _ENDED and begin <= row.updated <= now:
                    place = min(_BINS - 1, int((row.updated - begin) / width))
                    finished[place] += 1
                    if row.queue and (row.queue in by_queue or len(by_queue) < _MOST_QUEUES):
                        by_queue.setdefault(row.queue, [0] * _BINS)[place] += 1
                    failed += row.status == "failed"
                    took.append(max(0.0, row.updated - row.created))
            rows += len(page)
            is_cut = cursor is not None and rows >= _MOST
            if cursor is None or is_cut:
                break
        took.sort()
        half, most = (took[len(took) // 2], took[int(len(took) * 0.95)]) if took else (None, None)
        return {
            "totals": {
                "finished": len(took),
                "failed": failed,
                "per_minute": round(len(took) * 60 / window, 2),
                "p50": half,
                "p95": most,
                "window": window,
                "truncated": is_cut,
            },
            "series": {"from": begin, "width": width, "finished": finished},
            "by_queue": by_queue,
        }


def queues_json(store: Store, address: str, ended: Json) -> Json:
    """Return the queues of a store and its workers, with the runs that have ended (`FinishedRuns`)."""
    workers = store.workers()
    alive = [each for each in workers if each.is_alive]
    served = {name for each in alive for name in _texts(each.info.get("queues"))}
    unserved = unserved_runs(store)
    target = next((each.target for each in unserved if each.target), "")
    curves: dict[str, list[int]] = ended["by_queue"]
    known = store.queues()
    names = {each.queue for each in known}
    known += [QueueCount(name, 0, 0, 0, None) for name in sorted(curves) if name not in names]
    queues = [
        {
            "name": encodable(each.queue),
            "ready": each.ready,
            "later": each.later,
            "taken": each.taken,
            "oldest": each.oldest,
            "finished": curves.get(each.queue, []),
            "served": each.queue in served,
            "command": worker_command(target, queue=each.queue, address=address),
        }
        for each in known
    ]
    shown = [_worker(each) for each in workers if each.info.get("graphs") is not None]
    return {
        "queues": queues,
        "workers": shown,
        "unserved": [
            {
                "graph": encodable(each.graph),
                "target": encodable(each.target),
                "count": each.count,
                "runs": each.runs,
                "command": worker_command(each.target, queue=",".join(sorted(each.queues)), address=address),
            }
            for each in unserved
        ],
        "totals": {
            "ready": sum(each["ready"] for each in queues),
            "running": sum(each["executes"] for each in shown if each["alive"]),
            "slots": sum(each["slots"] for each in shown if each["alive"]),
            **ended["totals"],
        },
        "series": ended["series"],
    }


def _worker(worker: WorkerRow) -> Json:
    info = worker.info
    return {
        "owner": worker.owner,
        "label": encodable(worker.label),
        "host": encodable(worker.host),
        "pid": worker.pid,
        "started": worker.started,
        "lease": worker.expires_in,
        "alive": worker.is_alive and worker.expires_in > 0,
        "draining": info.get("draining") is True,
        "queues": _texts(info.get("queues")),
        "slots": _number(info.get("slots")),
        "executes": _number(info.get("executes")),
        "graphs": [msgspec.to_builtins(each) for each in graphs_of(worker)],
        "running": [each for each in info.get("running", ()) if isinstance(each, dict)],
        "troubles": [each for each in info.get("troubles", ()) if isinstance(each, dict)],
    }


def _texts(found: Any) -> list[str]:
    return [encodable(each) for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _number(found: Any) -> int:
    return found if type(found) is int else 0
