"""The service of the recipe, as two processes on one PostgreSQL database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import httpx
import psycopg
import pytest

from tests.docs.markdown import read_blocks
from tests.stores.servers import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("fastapi")


@contextmanager
def served(folder: Path, store: str) -> Iterator[httpx.Client]:
    """One process of the service, on a free port."""
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", "0", "--log-level", "info"]
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
        with httpx.Client(base_url=address, timeout=60) as client:
            yield client
    finally:
        process.kill()
        process.communicate()


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
    [code] = [
        block.code for block in read_blocks((ROOT / "docs/recipes/service.md").read_text()) if block.file
    ]
    (tmp_path / "service.py").write_text(code)
    database = f"orders_{token_hex(6)}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")  # type: ignore[arg-type]
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
