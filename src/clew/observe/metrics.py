"""Metrics: what engines and workers do, and what waits in the queues of a store, for Prometheus.

===============================  ======================  =============================================================
clew_runs_total                  graph, status           takes that ended here, by the status of the run afterwards
clew_runs_executing              graph                   runs that execute here now
clew_run_duration_seconds        graph                   histogram: how long a take lasted
clew_steps_total                 graph                   committed steps, without those inside subgraphs
clew_items_total                 graph, node, status     items: completed, cached, rescued or failed
clew_item_duration_seconds       graph, node             histogram: how long an attempt of a node took
clew_retries_total               graph, node             attempts that were followed by another one
clew_cache_hits_total            graph, node             results that were reused instead of computed
clew_store_duration_seconds      operation               histogram: append, take, renew
clew_lease_renewals_total        outcome                 renewed or failed
clew_queue_runs                  queue, state            runs in a queue: ready, later or taken
clew_queue_oldest_seconds        queue                   how long the oldest ready run has waited
clew_workers                     state                   registered workers: alive or dead
clew_store_up                                            1 if the store answered, otherwise 0
===============================  ======================  =============================================================

A take is the time in which one process executes a run: "released" means that another process continues it. The node of
a subgraph is named with its place, ``plan/search``. Labels are bounded (``clew.observe.label_names``). Runs of children
count under the names of their graphs.

The last four are read from the store when they are asked for, at most once a second. The others are counted where runs
execute, so they belong to an engine or a worker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from clew.engine.records import FailedAttempt, Outcome, SingleItemStep, Step
from clew.errors import DefinitionError
from clew.observe.label_names import BoundedNames
from clew.runtime.reporting.observers import ObservedRun, Observer, RunObserver
from clew.state.number_checks import is_int
from clew.stores import Store

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, start_http_server
    from prometheus_client.exposition import choose_encoder
except ImportError as error:
    raise DefinitionError(
        'metrics need prometheus-client; install it: pip install "clew[metrics]"'
    ) from error

from clew.observe.store_collector import StoreCollector

_ITEM_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_RUN_SECONDS = (0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 14400)
_STORE_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5)
_NUMBERS = re.compile(r"#\d+(\[\d+\])?")


class _Instruments:
    """The metrics of one registry, and the values of their labels."""

    def __init__(self, registry: CollectorRegistry, most: int) -> None:
        given: Any = {"registry": registry}
        graph, node = ["graph"], ["graph", "node"]
        self.runs = Counter("clew_runs", "Takes of runs that ended here.", ["graph", "status"], **given)
        # over several processes the default mode would add their ids as labels
        self.executing = Gauge(
            "clew_runs_executing", "Runs that execute here now.", graph, multiprocess_mode="livesum", **given
        )
        self.run_seconds = Histogram(
            "clew_run_duration_seconds", "Duration of takes of runs.", graph, buckets=_RUN_SECONDS, **given
        )
        self.steps = Counter("clew_steps", "Committed steps.", graph, **given)
        self.items = Counter("clew_items", "Items that ended.", ["graph", "node", "status"], **given)
        self.item_seconds = Histogram(
            "clew_item_duration_seconds", "Duration of attempts.", node, buckets=_ITEM_SECONDS, **given
        )
        self.retries = Counter("clew_retries", "Attempts that were followed by another one.", node, **given)
        self.cache_hits = Counter("clew_cache_hits", "Results that were reused.", node, **given)
        self.store_seconds = Histogram(
            "clew_store_duration_seconds",
            "Duration of operations of the store.",
            ["operation"],
            buckets=_STORE_SECONDS,
            **given,
        )
        self.renewals = Counter("clew_lease_renewals", "Lease renewals.", ["outcome"], **given)
        self.graphs = BoundedNames("graph", most)
        self.nodes = BoundedNames("node", most)
        self.queues = BoundedNames("queue", most)
        self.watched: Store | None = None
        self.begun: set[str] = set()  # graphs that have run


_made: WeakKeyDictionary[CollectorRegistry, _Instruments] = WeakKeyDictionary()


class Metrics(Observer):
    """Counts what the runs of an engine or a worker do; pass it among the `listeners`.

    Metrics go to a registry of ``prometheus_client``, by default the global one. Several objects for one registry count
    together. A label has at most `most_names` values.
    """

    def __init__(self, registry: CollectorRegistry | None = None, *, most_names: int = 500) -> None:
        if registry is not None and not isinstance(registry, CollectorRegistry):
            raise DefinitionError(f"registry must be a prometheus_client.CollectorRegistry, got {registry!r}")
        most: Any = most_names
        if not is_int(most, 1):
            raise DefinitionError(f"most_names must be an int >= 1, got {most_names!r}")
        self.registry = REGISTRY if registry is None else registry
        if self.registry not in _made:
            _made[self.registry] = _Instruments(self.registry, most_names)
        self._made = _made[self.registry]

    def __repr__(self) -> str:
        return "<Metrics>"

    def watch(self, store: Store) -> None:
        """Also report what waits in the queues of a store, and its workers. A registry can have one store."""
        if self._made.watched is store:
            return
        if self._made.watched is not None:
            raise DefinitionError(
                f"this registry already reports {self._made.watched!r}; give {store!r} its own registry: "
                f"Metrics(CollectorRegistry())"
            )
        self._made.watched = store
        self.registry.register(StoreCollector(store, self._made.queues))

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> MetricsServer:
        """Serve the metrics over HTTP on a thread, for a Prometheus server; port 0 chooses a free one."""
        return MetricsServer(*start_http_server(port, host, self.registry))

    def begin(self, run: ObservedRun) -> RunObserver:
        """Count the take of a run."""
        graph = self._made.graphs.of(run.graph)
        if graph not in self._made.begun:
            self._made.begun.add(graph)
            # Prometheus sees no increase of a counter that begins at 1
            for status in ("completed", "failed"):
                self._made.runs.labels(graph, status)
        return _RunMetrics(self._made, graph)

    def store(self, operation: str, seconds: float) -> None:
        """Count an operation of the store."""
        self._made.store_seconds.labels(operation).observe(seconds)

    def renew(self, is_renewed: bool) -> None:
        """Count a lease renewal."""
        self._made.renewals.labels("renewed" if is_renewed else "failed").inc()


class MetricsServer:
    """An HTTP server that reports metrics."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server = server
        self._thread = thread
        self.host, self.port = str(server.server_address[0]), int(server.server_address[1])

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _RunMetrics(RunObserver):
    """Counts one take."""

    def __init__(self, made: _Instruments, graph: str) -> None:
        self._made = made
        self._graph = graph
        self._began = monotonic()
        self._steps = made.steps.labels(graph)
        self._ends: dict[tuple[str, str], Any] = {}  # counters of items, by node and status
        self._seconds: dict[str, Any] = {}  # histograms, by node
        made.executing.labels(graph).inc()

    def write(self, records: Sequence[Any]) -> None:
        """Count what the records say."""
        for record in records:
            kind = type(record)
            if kind is SingleItemStep:
                self._steps.inc()
                self._count(record.node, "completed")
                self._measure(record.node, record.duration)
            elif kind is Step:
                if not record.prefix:
                    self._steps.inc()
                for outcome in record.outcomes:
                    self._settle(_node_at(record.prefix + outcome.node), outcome)
            elif kind is FailedAttempt:
                self._fail(_node_at(record.path), record)

    def _settle(self, node: str, outcome: Outcome) -> None:
        if outcome.error is not None or outcome.by_hand:
            return  # a failed attempt was counted
        if outcome.cached:
            self._count(node, "cached")
            self._made.cache_hits.labels(self._graph, self._made.nodes.of(node, self._graph)).inc()
            return
        self._count(node, "rescued" if outcome.rescued else "completed")
        self._measure(node, outcome.duration)

    def _fail(self, node: str, failed: FailedAttempt) -> None:
        self._measure(node, failed.duration)
        if failed.follows == "retry":
            self._made.retries.labels(self._graph, self._made.nodes.of(node, self._graph)).inc()
        elif not failed.follows:
            self._count(node, "failed")

    def _count(self, node: str, status: str) -> None:
        found = self._ends.get((node, status))
        if found is None:
            name = self._made.nodes.of(node, self._graph)
            found = self._ends[node, status] = self._made.items.labels(self._graph, name, status)
        found.inc()

    def _measure(self, node: str, seconds: float) -> None:
        found = self._seconds.get(node)
        if found is None:
            name = self._made.nodes.of(node, self._graph)
            found = self._seconds[node] = self._made.item_seconds.labels(self._graph, name)
        found.observe(seconds)

    def store(self, operation: str, seconds: float) -> None:
        """Count an operation of the store."""
        self._made.store_seconds.labels(operation).observe(seconds)

    def end(self, status: str, error: BaseException | None) -> None:
        """Count the end of the take."""
        self._made.executing.labels(self._graph).dec()
        self._made.runs.labels(self._graph, status).inc()
        self._made.run_seconds.labels(self._graph).observe(monotonic() - self._began)


def _node_at(path: str) -> str:
    """Return the node of an item without visits and indexes: ``plan#0/search#2[1]`` is ``plan/search``."""
    return _NUMBERS.sub("", path) if "#" in path else path


def store_metrics(store: Store, accept: str = "") -> tuple[bytes, str]:
    """Return the metrics of a store, for a server that executes no runs, and their content type.

    `accept` is the header of the request. The store is asked once; call this on a thread if the caller must not wait.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoreCollector(store, BoundedNames("queue", 500)))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
