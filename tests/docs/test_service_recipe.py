"""The service of the recipe: two processes on one PostgreSQL database, requests that are refused, and stopping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import httpx
import psycopg
import pytest

from clew import Engine
from tests.docs.markdown import read_blocks
from tests.stores.servers import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("fastapi")


@contextmanager
def served(folder: Path, store: str, *options: str) -> Iterator[httpx.Client]:
    """One process of the service, on a free port."""
    with process_of(folder, store, *options) as (_, client):
        yield client


@contextmanager
def process_of(
    folder: Path, store: str, *options: str
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", "0", "--log-level", "info", *options]
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "STORE": store}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "running on" in line:
                address = line.split("running on ")[1].split()[0]
                break
        else:
            raise AssertionError("the service has not started")
        with httpx.Client(base_url=address, timeout=300) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


def write_service(folder: Path, **changes: str) -> None:
    """Write the module of the recipe, with changes to its text."""
    [code] = [
        block.code for block in read_blocks((ROOT / "docs/recipes/service.md").read_text()) if block.file
    ]
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    (folder / "service.py").write_text(code)


def events_of(client: httpx.Client, run: str, after: str | None = None) -> list[tuple[str, str]]:
    """The ids and kinds of the events until the run stops."""
    headers = {} if after is None else {"Last-Event-ID": after}
    lines = client.get(f"/runs/{run}/events", headers=headers).raise_for_status().text.splitlines()
    ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    return list(zip(ids, kinds, strict=True))


def test_a_run_is_followed_and_answered_through_the_other_process(
    tmp_path: Path, server: PostgresServer
) -> None:
    write_service(tmp_path)
    database = f"orders_{token_hex(6)}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    address = f"postgresql://postgres@/{database}?host={server.folder}"
    with served(tmp_path, address) as one, served(tmp_path, address) as two:
        run = one.post("/runs", json={"item": "tea"}).json()["run"]
        assert events_of(one, run)[-1][1] == "run_finished"
        seen = events_of(two, run)
        assert [kind for _, kind in seen if kind in ("step_committed", "interrupted", "emitted")] == [
            "emitted",
            "step_committed",
            "interrupted",
        ]
        assert two.get(f"/runs/{run}").json()["questions"] == {"ask#0": "Accept tea for 42?"}
        assert two.post(f"/runs/{run}/answer?accepted=true").status_code == 200
        last = seen[-1][0]
        committed = 0
        while committed < 2:  # of the process that does not execute it, until the run is completed
            more = events_of(one, run, last)
            committed += [kind for _, kind in more].count("step_committed")
            last = more[-1][0] if more else last
        assert committed == 2
        assert one.get(f"/runs/{run}").json()["values"]["order"] == "ordered tea for 42"
        assert one.get("/runs/unknown").status_code == 404
        assert one.post(f"/runs/{run}/answer?accepted=true").status_code == 409


def test_refused_requests_have_their_status(tmp_path: Path) -> None:
    write_service(tmp_path)
    with served(tmp_path, "orders.db") as client:
        first, second = (client.post("/runs", json={"item": item}).json()["run"] for item in ("tea", "milk"))
        last = events_of(client, first)[-1][0]
        assert events_of(client, second)[-1][1] == "run_finished"
        expected = [
            ("GET", "/runs/unknown", {}, 404),
            ("GET", "/runs/unknown/events", {}, 404),
            ("POST", "/runs/unknown/answer?accepted=true", {}, 404),
            ("GET", f"/runs/{first}/events", {"headers": {"Last-Event-ID": "rubbish"}}, 422),
            ("GET", f"/runs/{second}/events", {"headers": {"Last-Event-ID": last}}, 422),
            ("POST", "/runs", {"json": {"itm": "tea"}}, 422),
            ("POST", "/runs", {"json": {"item": 5}}, 422),
            ("POST", "/runs", {"json": []}, 422),
            ("POST", f"/runs/{first}/answer?accepted=perhaps", {}, 422),
            ("POST", f"/runs/{first}/answer", {}, 422),
            ("POST", f"/runs/{first}/answer?accepted=true", {}, 200),
            ("POST", f"/runs/{first}/answer?accepted=true", {}, 409),  # it is completed
        ]
        for method, path, options, status in expected:
            response = client.request(method, path, **options)
            assert (method, path, response.status_code) == (method, path, status)
            assert status == 200 or response.json()["detail"]
        with Engine(store=tmp_path / "orders.db") as engine:
            assert engine.handle(second).cancel()
            assert {row.status for row in engine.runs()} == {"completed", "cancelled"}  # nothing else began
        assert client.post(f"/runs/{second}/answer?accepted=true").status_code == 409  # it is cancelled


SLOW = {'f"{item} for 42"': "await asyncio.Event().wait()"}


def test_a_run_at_work_is_cancelled_when_the_service_stops(tmp_path: Path) -> None:
    write_service(tmp_path, **SLOW)
    with process_of(tmp_path, "orders.db", "--timeout-graceful-shutdown", "1") as (process, client):
        run = client.post("/runs", json={"item": "tea"}).json()["run"]
        with client.stream("GET", f"/runs/{run}/events") as response:
            assert next(response.iter_lines()).startswith("id: ")
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            log = process.stderr.read()
        process.wait()
    assert "shutdown complete" in log
    with Engine(store=tmp_path / "orders.db") as engine:
        assert engine.handle(run).status == "cancelled"
        assert engine.store.owner(run) is None


def test_a_follower_is_told_that_the_process_of_a_run_is_gone(tmp_path: Path) -> None:
    write_service(tmp_path, **SLOW, **{"publish=True": "publish=True, lease=1.0"})
    with process_of(tmp_path, "orders.db") as (process, client), served(tmp_path, "orders.db") as other:
        run = client.post("/runs", json={"item": "tea"}).json()["run"]
        process.kill()
        lines = other.get(f"/runs/{run}/events").raise_for_status().text.splitlines()
        assert [line for line in lines if line.startswith("event: ")][-1] == "event: lost"
        assert other.get(f"/runs/{run}").json()["status"] == "running"
