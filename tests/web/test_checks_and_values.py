"""What checks and dependency graphs leave in a store, as the page shows it; neither needs their code."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from clew import DependencyGraph, SQLiteStore, schema
from tests.web.test_api import get

ROOT = Path(__file__).resolve().parents[2]


SCHEMAS = [
    schema("index", inputs=["events"], computor=lambda inputs, old, bindings: len(inputs[0])),
    schema(
        "title(e)",
        inputs=["events", "size"],
        computor=lambda inputs, old, bindings: f"{bindings['e']} of {len(inputs[0])}",
    ),
    schema(
        "page(e)",
        inputs=["index", "title(e)"],
        computor=lambda inputs, old, bindings: f"{inputs[1]}: {inputs[0]}",
    ),
]


@pytest.fixture
def pulled(place: Path) -> None:
    graph = DependencyGraph(SCHEMAS, store=place)
    graph.set("events", ["e1", "e2"])
    graph.set("size", 5)
    graph.pull("page", "e1")
    graph.pull("page", "e2")
    graph.set("size", 6)
    graph.close()


def test_values_are_shown_with_their_freshness(client: TestClient, pulled: None) -> None:
    (listed,) = get(client, "values")["graphs"]
    assert (listed["values"], listed["sources"], listed["outdated"]) == (7, 2, 4)
    found = get(client, f"values/{listed['target']}", node="page(e1)")
    states = {node["name"]: node["state"] for node in found["nodes"]}
    assert states["events"] == "source"
    assert states["index"] == "fresh"
    assert states["page(e1)"] == "outdated"
    node: Any = found["node"]
    assert node["value"] == "e1 of 2: 2"
    assert node["exact"] == '"e1 of 2: 2"'
    assert {each["node"] for each in node["inputs"]} == {"index", "title(e1)"}
    assert node["why"][1]["node"] == "size"
    assert node["would_compute"] == 2
    assert {box["name"] for box in found["picture"]["boxes"]} == set(states)
    assert get(client, "")["counts"]["values"] == 1


def test_looking_computes_and_changes_nothing(client: TestClient, pulled: None, store: SQLiteStore) -> None:
    before = store._db.execute("SELECT version FROM kv_tables").fetchall()
    name = get(client, "values")["graphs"][0]["target"]
    get(client, f"values/{name}", node="page(e2)")
    assert store._db.execute("SELECT version FROM kv_tables").fetchall() == before
    assert get(client, "values/nobody", 404)["error"]["type"] == "UnknownValueError"
    assert get(client, f"values/{name}", 404, node="page(e9)")["error"]["type"] == "UnknownValueError"


def test_schemas_are_drawn_too(client: TestClient, pulled: None) -> None:
    picture = get(client, "values/graph", show="schemas")["picture"]
    states = {box["name"]: box["state"] for box in picture["boxes"]}
    assert states == {
        "events": "source",
        "size": "source",
        "index": "fresh",
        "title(e)": "outdated",
        "page(e)": "outdated",
    }
    assert len(picture["arrows"]) == 5


def test_changing_a_value_needs_the_code_of_its_graph(client: TestClient, pulled: None) -> None:
    for verb in ("pull", "set", "invalidate"):
        answer = client.post(f"/api/values/graph/{verb}", json={"node": "page(e1)", "value": 1})
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (409, "CodeNeeded")
        assert error["command"].startswith(f"clew {verb} MODULE:GRAPH 'page(e1)'")
    assert client.post("/api/values/graph/pull", json={}).status_code == 400
    assert client.post("/api/values/graph/set", json={"node": "size"}).status_code == 400
    commands = get(client, "values/graph", node="page(e1)")["commands"]
    assert commands["pull"].startswith("clew pull MODULE:GRAPH 'page(e1)' --store ")


def test_a_check_leaves_its_result_in_the_store(client: TestClient, place: Path) -> None:
    command = [sys.executable, "-m", "clew", "check", "double_charge:check", "--max-faults", "1"]
    command += ["--store", str(place)]
    done = subprocess.run(
        command, cwd=ROOT / "examples/checks", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    (listed,) = get(client, "checks")["checks"]
    assert (listed["id"], listed["violations"], listed["finished"]) == ("double_charge:check", 1, True)
    found = get(client, "checks/double_charge:check")
    assert len(found["nodes"]) == found["states"]
    assert found["command"] == shlex.join(["clew", *command[3:]])
    assert found["nodes"][0]["kind"] == "start"
    (violation,) = found["violations"]
    assert violation["path"][0]["state"] == 0
    assert any(row[0] == "+" for step in violation["path"] for row in step["diff"])
    assert violation["path"][0]["narrative"]
    assert get(client, "")["counts"]["checks_bad"] == 1
    assert get(client, "checks/nobody", 404)["error"]["type"] == "UnknownValueError"


def test_an_exploration_leaves_its_result_in_the_store(client: TestClient, place: Path) -> None:
    command = [sys.executable, "-m", "clew", "explore", "shop:buggy", "--store", str(place)]
    done = subprocess.run(
        command, cwd=ROOT / "tests/cli", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    (listed,) = get(client, "checks")["checks"]
    assert (listed["id"], listed["kind"], listed["finished"]) == ("shop:buggy", "exploration", True)
    assert listed["violations"]
    found = get(client, "checks/shop:buggy")
    assert len(found["nodes"]) == found["states"]
    assert found["command"] == f"clew explore shop:buggy --store {place}"
    violation = found["violations"][0]
    broken = [each["name"] for each in found["guarantees"] if each["violated"]]
    assert violation["guarantee"] in broken
    assert violation["path"][0]["state"] == 0
    assert any(step["diff"] for step in violation["path"])
    assert get(client, "")["counts"]["checks_bad"] == 1
