"""`clew serve` exposes the metrics of its store to Prometheus, under the same rules as everything else."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from clew import Engine, Graph, SQLiteStore, node
from clew.web.server import create_app


@node(output="x")
def add(n: int) -> int:
    return n + 1


def test_the_queues_of_the_store_are_reported(client: TestClient, store: SQLiteStore) -> None:
    with Engine(Graph([add], name="adder"), store=store) as engine:
        for n in range(3):
            engine.submit({"n": n}, queue="low")
        answer = client.get("/metrics")
    assert answer.status_code == 200
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert found["clew_store_up",] == 1
    assert found["clew_queue_runs", "low", "ready"] == 3
    assert found["clew_queue_oldest_seconds", "low"] >= 0


def test_metrics_need_the_token(store: SQLiteStore) -> None:
    app = create_app(store, hosts=["clew.example"], token="secret")
    with TestClient(app, base_url="http://clew.example") as remote:
        assert remote.get("/metrics").status_code == 401
        assert remote.get("/metrics", headers={"authorization": "Bearer secret"}).status_code == 200
    with TestClient(app, base_url="http://evil.example") as other:
        assert other.get("/metrics").status_code == 403
