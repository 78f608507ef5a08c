"""The metrics of a store: its queues and its workers, read on request.

A store that does not answer is a metric too: ``clew_store_up`` is 0, and the others are left out. Requests within a
second get the same numbers. A queue that is empty is reported with zeros if a living worker takes from it, or if it had
runs before: otherwise its chart would end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from threading import Lock
from time import monotonic
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from clew.errors import ClewError
from clew.observe.label_names import BoundedNames
from clew.stores import QueueEntry, Store, WorkerRow

_PAUSE = 1.0  # seconds


class StoreCollector(Collector):
    """Reads the metrics of one store."""

    def __init__(self, store: Store, queues: BoundedNames, *, pause: float = _PAUSE) -> None:
        self._store = store
        self._queues = queues
        self._lock = Lock()
        self._pause = pause
        self._read = -pause
        self._known: list[Any] = []
        self._seen = {QueueEntry().queue}  # queues that are reported although they are empty

    def describe(self) -> list[Any]:
        """Return nothing: registering must not read the store."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metrics."""
        with self._lock:
            if monotonic() - self._read >= self._pause:
                up = GaugeMetricFamily("clew_store_up", "1 if the store answered, otherwise 0.")
                try:
                    workers = [each for each in self._store.workers() if "graphs" in each.info]
                    self._known = [*self._queue_metrics(workers), self._worker_metric(workers), up]
                    up.add_metric([], 1)
                except ClewError:
                    self._known = [up]
                    up.add_metric([], 0)
                self._read = monotonic()
            known = self._known
        yield from known

    def _queue_metrics(self, workers: Sequence[WorkerRow]) -> list[Any]:
        runs = GaugeMetricFamily("clew_queue_runs", "Runs in a queue.", labels=["queue", "state"])
        age = GaugeMetricFamily(
            "clew_queue_oldest_seconds", "How long the oldest ready run has waited.", labels=["queue"]
        )
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        oldest: dict[str, float] = defaultdict(float)
        for worker in workers:
            if worker.is_alive:
                self._seen |= {self._queues.of(str(name)) for name in worker.info.get("queues", ())}
        for name in self._seen:
            counts[name], oldest[name] = [0, 0, 0], 0.0
        for each in self._store.queues():
            name = self._queues.of(each.queue)
            self._seen.add(name)
            for place, number in enumerate((each.ready, each.later, each.taken)):
                counts[name][place] += number
            oldest[name] = max(oldest[name], each.oldest or 0.0)
        for name, numbers in sorted(counts.items()):
            for state, number in zip(("ready", "later", "taken"), numbers, strict=True):
                runs.add_metric([name, state], number)
            age.add_metric([name], oldest[name])
        return [runs, age]

    def _worker_metric(self, workers: Sequence[WorkerRow]) -> Any:
        found = GaugeMetricFamily("clew_workers", "Registered workers.", labels=["state"])
        alive = sum(each.is_alive for each in workers)
        found.add_metric(["alive"], alive)
        found.add_metric(["dead"], len(workers) - alive)
        return found
