"""What is counted, under which labels, and how many of them there can be."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from clew import Cache, Context, Engine, Graph, RetryPolicy, Worker, node
from clew.errors import DefinitionError, StoreUnavailableError
from clew.observe import Metrics, store_metrics
from clew.observe.label_names import BoundedNames
from clew.observe.store_collector import StoreCollector
from clew.stores import MemoryStore, QueueCount, SQLiteStore, Store

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "examples/recipes/workers/grafana-dashboard.json"


class Counted:
    """A registry of a test."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield made
    made.close()


@node(output="b")
def up(a: int) -> int:
    return a + 1


@node(output="c")
def double(b: int) -> int:
    return b * 2


def test_runs_steps_and_items_are_counted(store: Store, counted: Counted) -> None:
    engine = Engine(Graph([up, double], name="g"), store=store, listeners=[counted.metrics])
    for _ in range(3):
        engine.run({"a": 1})
    assert counted("clew_runs_total", graph="g", status="completed") == 3
    assert counted("clew_runs_total", graph="g", status="failed") == 0  # so that an increase is seen
    assert counted("clew_runs_executing", graph="g") == 0
    assert counted("clew_run_duration_seconds_count", graph="g") == 3
    assert counted("clew_steps_total", graph="g") == 6
    assert counted("clew_items_total", graph="g", node="up", status="completed") == 3
    assert counted("clew_item_duration_seconds_count", graph="g", node="double") == 3
    appends = counted("clew_store_duration_seconds_count", operation="append")
    assert appends == (None if isinstance(store, MemoryStore) else 6)


def test_concurrent_and_async_items_are_counted(store: Store, counted: Counted) -> None:
    @node(output="d")
    async def later(a: int) -> int:
        await asyncio.sleep(0)
        return a

    engine = Engine(Graph([up, double, later], name="g"), store=store, listeners=[counted.metrics])
    asyncio.run(engine.arun({"a": 1}))
    assert counted("clew_items_total", graph="g", node="later", status="completed") == 1
    assert counted("clew_items_total", graph="g", node="double", status="completed") == 1
    assert counted("clew_steps_total", graph="g") == 2


def test_retries_failures_and_rescues_are_counted(store: Store, counted: Counted) -> None:
    @node(output="b", retry=RetryPolicy(max_attempts=3, base_delay=0))
    def flaky(a: int, ctx: Context) -> int:
        if ctx.attempt < a:
            raise ConnectionError(a)
        return a

    @node(output="c", rescue=lambda error: 0)
    def rescued(b: int) -> int:
        raise ValueError(b)

    engine = Engine(Graph([flaky, rescued], name="g"), store=store, listeners=[counted.metrics], check=False)
    engine.run({"a": 2})
    assert counted("clew_retries_total", graph="g", node="flaky") == 2
    assert counted("clew_items_total", graph="g", node="flaky", status="completed") == 1
    assert counted("clew_items_total", graph="g", node="rescued", status="rescued") == 1
    assert counted("clew_items_total", graph="g", node="rescued", status="failed") is None
    assert engine.run({"a": 9}).status == "failed"
    assert counted("clew_items_total", graph="g", node="flaky", status="failed") == 1
    assert counted("clew_retries_total", graph="g", node="flaky") == 4
    assert counted("clew_item_duration_seconds_count", graph="g", node="flaky") == 6
    assert counted("clew_runs_total", graph="g", status="failed") == 1


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_a_failure_counts_once(store: Store, counted: Counted, on_error: Any) -> None:
    @node(output="b")
    def fails(a: int) -> int:
        raise ValueError(a)

    engine = Engine(
        Graph([fails], name="g"), store=store, listeners=[counted.metrics], on_error=on_error, check=False
    )
    engine.run({"a": 1})
    assert counted("clew_items_total", graph="g", node="fails", status="failed") == 1
    assert counted("clew_items_total", graph="g", node="fails", status="completed") is None
    assert counted("clew_item_duration_seconds_count", graph="g", node="fails") == 1


def test_cached_results_are_counted(store: Store, counted: Counted) -> None:
    @node(output="b", cache=Cache())
    def slow(a: int) -> int:
        return a

    engine = Engine(Graph([slow], name="g"), store=store, listeners=[counted.metrics])
    engine.run({"a": 1})
    engine.run({"a": 1})
    assert counted("clew_cache_hits_total", graph="g", node="slow") == 1
    assert counted("clew_items_total", graph="g", node="slow", status="cached") == 1
    assert counted("clew_item_duration_seconds_count", graph="g", node="slow") == 1


def test_nodes_of_subgraphs_and_children_have_names_without_numbers(counted: Counted) -> None:
    inner = Graph([up], name="inner")

    @node(output="out")
    def outer(c: int, ctx: Context) -> Any:
        return ctx.run(Graph([up], name="child"), {"a": c})["b"]

    graph = Graph([inner.as_node(name="sub"), double, outer], name="g")
    Engine(graph, listeners=[counted.metrics]).run({"a": 1})
    assert counted("clew_items_total", graph="g", node="sub/up", status="completed") == 1
    assert counted("clew_items_total", graph="child", node="up", status="completed") == 1
    assert counted("clew_steps_total", graph="g") == 3


def test_names_that_come_from_data_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, most_names=5)
    for number in range(30):
        made = node(output="b", name=f"node{number}")(lambda a: a)
        Engine(Graph([made], name=f"tenant-{number}"), listeners=[metrics]).run({"a": 1})
    graphs = _labels(registry, "clew_runs_total", "graph")
    assert len(graphs) == 6
    assert "other" in graphs
    assert registry.get_sample_value("clew_runs_total", {"graph": "other", "status": "completed"}) == 25
    pairs = {
        (sample.labels["graph"], sample.labels["node"]) for sample in _samples(registry, "clew_items_total")
    }
    assert len(pairs) <= 2 * 5 + 1
    warned = [record for record in caplog.records if record.name == "clew.metrics"]
    assert len(warned) == 2  # one for each label


def test_long_names_are_cut() -> None:
    registry = CollectorRegistry()
    made = node(output="b", name="n" * 50_000)(lambda a: a)
    Engine(Graph([made], name="g" * 50_000), listeners=[Metrics(registry)]).run({"a": 1})
    assert max(map(len, _labels(registry, "clew_items_total", "node"))) == 200
    assert max(map(len, _labels(registry, "clew_runs_total", "graph"))) == 200


def _samples(registry: CollectorRegistry, name: str) -> list[Any]:
    text = generate_latest(registry).decode()
    families = text_string_to_metric_families(text)
    return [sample for family in families for sample in family.samples if sample.name == name]


def _labels(registry: CollectorRegistry, name: str, label: str) -> set[str]:
    return {sample.labels[label] for sample in _samples(registry, name)}


def test_no_label_has_a_run_id(store: Store, counted: Counted) -> None:
    engine = Engine(Graph([up], name="g"), store=store, listeners=[counted.metrics])
    engine.run({"a": 1}, run_id="a-special-run")
    assert "a-special-run" not in generate_latest(counted.registry).decode()


def test_a_worker_counts_and_reports_its_queues(store: Store, counted: Counted) -> None:
    engine = Engine(Graph([up], name="g"), store=store)
    counted.metrics.watch(store)
    for _ in range(3):
        engine.submit({"a": 1}, queue="low")
    assert counted("clew_queue_runs", queue="low", state="ready") == 3
    age = counted("clew_queue_oldest_seconds", queue="low")
    assert age is not None
    assert age >= 0
    worker = Worker(engine.graph, store=store, queues=["low"], listeners=[counted.metrics])
    worker.run(until_idle=True)
    assert counted("clew_runs_total", graph="g", status="completed") == 3
    assert counted("clew_store_duration_seconds_count", operation="take")
    assert counted("clew_store_up") == 1


def test_an_empty_queue_is_reported(store: Store, counted: Counted) -> None:
    engine = Engine(Graph([up], name="g"), store=store)
    engine.submit({"a": 1}, queue="low")
    made = StoreCollector(store, BoundedNames("queue", 5), pause=0)
    counted.registry.register(made)
    assert counted("clew_queue_runs", queue="low", state="ready") == 1
    assert counted("clew_queue_runs", queue="default", state="ready") == 0
    Worker(engine.graph, store=store, queues=["low"]).run(until_idle=True)
    assert counted("clew_queue_runs", queue="low", state="ready") == 0
    assert counted("clew_queue_oldest_seconds", queue="low") == 0


def test_lease_renewals_are_counted(tmp_path: Path, counted: Counted) -> None:
    from threading import Event

    renewed = Event()

    class Heard(Metrics):
        def renew(self, is_renewed: bool) -> None:
            super().renew(is_renewed)
            renewed.set()

    @node(output="b")
    def waits(a: int) -> bool:
        return renewed.wait(120)

    with Engine(
        Graph([waits]),
        store=tmp_path / "runs.db",
        lease=0.3,
        listeners=[Heard(counted.registry)],
        default_node_timeout=None,
    ) as engine:
        assert engine.run({"a": 1})["b"]
    assert (counted("clew_lease_renewals_total", outcome="renewed") or 0) >= 1
    assert (counted("clew_store_duration_seconds_count", operation="renew") or 0) >= 1


def test_a_store_that_does_not_answer_is_reported() -> None:
    class Away(MemoryStore):
        def queues(self) -> list[QueueCount]:
            raise StoreUnavailableError("away")

    text, _ = store_metrics(Away())
    assert b"clew_store_up 0.0" in text
    assert b"clew_queue_runs" not in text


def test_the_metrics_of_a_store_can_be_served_without_runs(store: Store) -> None:
    Engine(Graph([up], name="g"), store=store).submit({"a": 1})
    text, kind = store_metrics(store)
    assert kind.startswith("text/plain")
    assert b'clew_queue_runs{queue="default",state="ready"} 1.0' in text
    open_metrics, kind = store_metrics(store, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert open_metrics.rstrip().endswith(b"# EOF")


def test_metrics_are_served_over_http(counted: Counted) -> None:
    Engine(Graph([up], name="g"), listeners=[counted.metrics]).run({"a": 1})
    with counted.metrics.serve() as server, urllib.request.urlopen(server.url, timeout=60) as response:
        text = response.read().decode()
    assert 'clew_runs_total{graph="g",status="completed"} 1.0' in text


def test_several_objects_count_together() -> None:
    registry = CollectorRegistry()
    for _ in range(2):
        Engine(Graph([up], name="g"), listeners=[Metrics(registry)]).run({"a": 1})
    assert registry.get_sample_value("clew_runs_total", {"graph": "g", "status": "completed"}) == 2


@pytest.mark.parametrize("wrong", [{"registry": 3}, {"most_names": 0}, {"most_names": True}])
def test_a_wrong_option_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Metrics(**wrong)


def test_a_registry_has_one_store(counted: Counted) -> None:
    first = MemoryStore()
    counted.metrics.watch(first)
    counted.metrics.watch(first)
    with pytest.raises(DefinitionError):
        counted.metrics.watch(MemoryStore())


def test_the_dashboard_uses_metrics_that_exist(store: Store, counted: Counted) -> None:
    counted.metrics.watch(store)
    exported = {
        sample.name + suffix
        for family in counted.registry.collect()
        for suffix in ("",)
        for sample in family.samples
    } | {name for family in counted.registry.collect() for name in _names_of(family)}
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    queries += [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    used = {name for query in queries for name in re.findall(r"\bclew_\w+", str(query))}
    assert used
    assert used <= exported
    documented = set(re.findall(r"`(clew_\w+)`", (ROOT / "docs/reference/observe.md").read_text("utf-8")))
    assert documented == {
        name for name in exported if not name.endswith(("_bucket", "_count", "_sum", "_created"))
    }


def _names_of(family: Any) -> list[str]:
    """The names of the samples that a family has as soon as something is counted."""
    if family.type == "counter":
        return [f"{family.name}_total"]
    if family.type == "histogram":
        return [f"{family.name}{suffix}" for suffix in ("", "_bucket", "_count", "_sum")]
    return [family.name]


SEVERAL_PROCESSES = """
import os
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
from clew import Engine, Graph, node
from clew.observe import Metrics

@node(output="b")
def up(a):
    return a

for _ in range(2):
    child = os.fork()
    if not child:
        Engine(Graph([up], name="g"), listeners=[Metrics()]).run({"a": 1})
        os._exit(0)
    os.waitpid(child, 0)
registry = CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


@pytest.mark.posix
def test_several_processes_count_together_without_a_label_for_each(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL_PROCESSES],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert 'clew_runs_total{graph="g",status="completed"} 2.0' in lines
    assert [line for line in lines if line.startswith("clew_runs_executing")] == [
        'clew_runs_executing{graph="g"} 0.0'
    ]
