"""The same API over PostgreSQL: lists, windows, verbs and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.testclient import TestClient

from clew import DependencyGraph, Engine, PostgresStore, Worker
from clew.web.server import create_app
from tests.browser import flows
from tests.web.conftest import CHANGE
from tests.web.test_checks_and_values import SCHEMAS


def test_a_store_on_a_server(open_postgres: Callable[..., PostgresStore]) -> None:
    store = open_postgres()
    client = TestClient(create_app(store), base_url="http://localhost", headers=CHANGE)

    def get(path: str) -> Any:
        answer = client.get(f"/api/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert get("")["counts"] == {
        "runs": 0,
        "questions": 0,
        "queues": 0,
        "checks": 0,
        "checks_bad": 0,
        "values": 0,
    }
    Engine(flows.walk, store=store).run({"at": 0, "upto": 30}, run_id="walk")
    Engine(flows.letter, store=store).run({"text": "x"}, run_id="letter")
    lines = [{"amount": 1, "currency": "CHF"}]
    Engine(flows.invoice, store=store, check=False).run({"invoice": {"lines": lines}}, run_id="bad")
    assert [row["id"] for row in get("runs")["runs"]] == ["bad", "letter", "walk"]
    assert [row["id"] for row in get("runs?q=CHF&sort=-steps")["runs"]] == ["bad"]
    assert get("runs")["counts"]["needs_me"] == 2
    assert get("runs/walk")["last"] == 61
    assert [step["k"] for step in get("runs/walk/changes?from=5&to=9")["steps"]] == [5, 6, 7, 8, 9]
    assert get("runs/walk/overview?buckets=3")["items"] == 61
    assert client.post("/api/runs/letter/answer", json={"answer": True}).status_code == 202
    Worker([flows.letter], store=store, grace=0.0).run(until_idle=True)
    assert get("runs/letter")["status"] == "completed"
    graph = DependencyGraph(SCHEMAS, store=store)
    graph.set("events", ["e1"])
    graph.pull("index")
    assert get("values")["graphs"][0]["values"] == 2
    assert get("")["counts"]["values"] == 1
