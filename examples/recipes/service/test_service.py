import importlib
import sys

import pytest
from fastapi.testclient import TestClient


@pytest.fixture
def client(monkeypatch, tmp_path):
    monkeypatch.setenv("STORE", str(tmp_path / "orders.db"))
    sys.modules.pop("service", None)
    with TestClient(importlib.import_module("service").app) as client:
        yield client


def test_an_order_is_placed_after_the_answer(client):
    run = client.post("/runs", json={"item": "tea"}).json()["run"]
    assert "event: interrupted" in client.get(f"/runs/{run}/events").text
    assert client.get(f"/runs/{run}").json()["questions"] == {"ask#0": "Accept tea for 42?"}
    assert client.post(f"/runs/{run}/answer?accepted=true").json()["status"] == "completed"
    assert client.post(f"/runs/{run}/answer?accepted=true").status_code == 409
