"""``clew serve`` as a process: its address, its rules, and the worker that it starts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from clew import DependencyGraph, Engine, SQLiteStore
from clew.cli.commands.serve import _listening
from tests.browser import flows
from tests.browser.events import SCHEMAS
from tests.web.conftest import CHANGE

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "clew", "serve", "--port", "0"]


@contextmanager
def serving(*arguments: str, cwd: Path = ROOT) -> Iterator[str]:
    """Start the command; yield the address that it prints. It ends with Ctrl-C, and leaves no process behind."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, (line, process.stderr and process.stderr.read())
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=300)
        finally:
            process.kill()
            process.wait()


def refused(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done
    return done.stderr


def until(read: Any, test: Any, patience: float = 300.0) -> Any:
    deadline = time.monotonic() + patience
    while not test(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def test_another_address_than_loopback_needs_a_token(place: Path) -> None:
    assert "--token" in refused("--host", "0.0.0.0", "--store", str(place))
    assert "--token" in refused("--host", "0.0.0.0", "--token", "short", "--store", str(place))


@pytest.mark.posix
def test_an_empty_store_says_how_to_make_a_first_run(tmp_path: Path) -> None:
    with serving("--store", "new.db", cwd=tmp_path) as address:
        found = httpx.get(f"{address}api", timeout=300).json()
        assert found["counts"]["runs"] == 0
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        for command in found["first_run"]:  # as typed
            subprocess.run(command, shell=True, cwd=tmp_path, check=True, env=environment, timeout=300)
        runs = httpx.get(f"{address}api/runs", timeout=300).json()["runs"]
        assert len(runs) > 1, "the demo and the first run"
        assert runs[0]["says"]["kind"] == "question"
        place = f"{address}api/runs/{runs[0]['id']}"
        assert httpx.get(f"{place}/questions/decide%230", timeout=30).json()["schema"]["enum"] == [
            "yes",
            "no",
        ]


def is_alive(pid: int) -> bool:
    """Return whether a process executes; one that has ended, and that nobody has waited for, does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.posix
def test_the_worker_ends_with_a_server_that_is_killed(place: Path) -> None:
    command = [*COMMAND, "tests.browser.flows:walk", "--store", str(place)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        pid = httpx.get(f"{found[0]}api", timeout=300).json()["worker"]["pid"]
        assert is_alive(pid)
        server.kill()
    until(lambda: is_alive(pid), lambda alive: not alive)


@pytest.mark.posix
def test_a_server_with_a_graph_works_off_answers_and_runs_code_in_other_processes(place: Path) -> None:
    store = SQLiteStore(place)  # runs from Python have no target: the graph itself decides
    Engine(flows.letter, store=store, check=False).run({"text": "x"}, run_id="from-python")
    Engine(flows.walk, store=store, check=False).run({"at": 0, "upto": 2}, run_id="walk-from-python")
    store.close()
    with (
        serving("tests.browser.flows:walk", "--store", str(place)) as address,
        httpx.Client(base_url=address, headers=CHANGE, timeout=300) as client,
    ):

        def run(name: str) -> Any:
            return client.get(f"/api/runs/{name}").json()

        assert client.post("/api/runs/walk-77/fork", json={"step": 3, "run_id": "f"}).status_code == 202
        until(lambda: run("f")["status"], lambda status: status == "completed")
        made = client.post(
            "/api/runs/walk-77/fork", json={"step": 3, "values": {"upto": 5}, "run_id": "--odd id"}
        )
        assert made.status_code == 202, made.text
        until(lambda: run("--odd%20id")["status"], lambda status: status == "completed")
        assert client.post("/api/runs/walk-77/rerun", json={"run_id": "again"}).status_code == 202
        until(lambda: run("again")["status"], lambda status: status == "completed")
        replayed = client.post("/api/runs/walk-77/replay", json={})
        assert replayed.status_code == 200
        assert replayed.json()["ok"] is True
        wrong = client.post("/api/runs/walk-77/fork", json={"step": 3, "values": {"nothing": 5}})
        assert wrong.status_code == 409
        assert wrong.json()["error"]["type"] == "CommandError"
        other = client.post(
            "/api/runs/invoice-2199/replay", json={}
        )  # the code of another graph was not named
        assert (other.status_code, other.json()["error"]["type"]) == (409, "CodeNeeded")
        refused = client.post("/api/runs/from-python/rerun", json={"run_id": "never"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (409, "CodeNeeded")
        assert client.post("/api/runs/from-python/replay", json={}).status_code == 409
        assert client.get("/api/runs/never").status_code == 404
        known = client.post("/api/runs/walk-from-python/rerun", json={"run_id": "known"})
        assert known.status_code == 202, known.text
        until(lambda: run("known")["status"], lambda status: status == "completed")
        server = client.get("/api").json()
        assert server["worker"]["alive"] is True
        pid = server["worker"]["pid"]
    until(lambda: Path(f"/proc/{pid}").exists(), lambda exists: not exists)


RECORDED = """\
from clew import Graph, node


@node(output="total")
def add(a):
    return a + 1


graph = Graph([add], name="sums")
"""


@pytest.mark.posix
def test_a_replay_says_what_differs(tmp_path: Path) -> None:
    module = tmp_path / "sums.py"
    module.write_text(RECORDED)
    command = [sys.executable, "-m", "clew", "run", "sums:graph", "a=1", "--store", "s.db", "--run-id", "one"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    module.write_text(RECORDED.replace("a + 1", "a + 7 if a else 0"))
    with (
        serving("sums:graph", "--store", "s.db", cwd=tmp_path) as address,
        httpx.Client(base_url=address, headers=CHANGE, timeout=300) as client,
    ):
        found = client.post("/api/runs/one/replay", json={}).json()
    assert found["ok"] is False
    (difference,) = found["differences"]
    assert (difference["step"], difference["path"], difference["kind"]) == (1, "add#0", "update")
    assert str(difference["diff"]) in found["text"]
    assert "add#0" in found["text"]


@pytest.mark.posix
def test_values_are_pulled_set_and_invalidated_in_other_processes(tmp_path: Path) -> None:
    place = str(tmp_path / "values.db")
    with DependencyGraph(SCHEMAS, store=place, name="events") as graph:
        graph.set("names", {"e1": "Harbour"})
        graph.set("size", 300)
        graph.set("events", [{"id": "e1", "kind": "photo"}])
    with DependencyGraph(SCHEMAS, store=place, name="other") as graph:
        graph.set("size", 1)
    with (
        serving("--values", "tests.browser.events:graph", "--store", place) as address,
        httpx.Client(base_url=address, headers=CHANGE, timeout=300) as client,
    ):

        def do(verb: str, name: str = "events", **body: Any) -> httpx.Response:
            return client.post(f"/api/values/{name}/{verb}", json=body)

        def state(node: str) -> Any:
            return client.get("/api/values/events", params={"node": node}).json()["node"]["state"]

        assert do("pull", node="page(e1)").status_code == 200
        assert state("page(e1)") == "fresh"
        assert do("set", node="size", value=320).json()["node"] == "size"
        assert state("page(e1)") == "outdated"
        assert do("pull", node="page(e1)").status_code == 200
        assert do("invalidate", node="page(e1)").status_code == 200
        assert state("page(e1)") == "outdated"
        wrong = do("pull", node="--help")
        assert (wrong.status_code, wrong.json()["error"]["type"]) == (409, "CommandError")
        other = do("set", "other", node="size", value=2)  # the code of another graph was not named
        assert (other.status_code, other.json()["error"]["type"]) == (409, "CodeNeeded")
        assert client.get("/api").json()["worker"] is None


@pytest.mark.posix
def test_the_server_imports_no_user_code(tmp_path: Path, place: Path) -> None:
    """A module that says when it is imported; its runs are shown, and nothing is printed."""
    (tmp_path / "loud.py").write_text(
        "from pathlib import Path\nfrom clew import Graph, node\n"
        f"Path({str(tmp_path / 'imported')!r}).touch()\n"
        '@node(output="b")\ndef step(a):\n    return a\n\ngraph = Graph([step])\n'
    )
    command = [
        sys.executable,
        "-m",
        "clew",
        "run",
        "loud:graph",
        "a=1",
        "--store",
        "l.db",
        "--run-id",
        "loud",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    (tmp_path / "imported").unlink()
    with serving("--store", "l.db", cwd=tmp_path) as address:
        for part in ("", "/graph", "/items", "/changes", "/state/1", "/why?node=step", "/log", "/export"):
            assert httpx.get(f"{address}api/runs/loud{part}", timeout=300).status_code == 200
        headers = {**CHANGE, "content-type": "application/json"}
        forked = httpx.post(
            f"{address}api/runs/loud/fork", content=json.dumps({"step": 0}), headers=headers, timeout=30
        )
        assert forked.status_code == 202
    assert not (tmp_path / "imported").exists()


@pytest.mark.posix
def test_a_token_and_read_only(place: Path) -> None:
    with serving("--token", "new", "--read-only", "--store", str(place)) as address:
        base, _, token = address.partition("?token=")
        assert httpx.get(f"{base}api", timeout=300).status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{base}api", headers=headers, timeout=300).json()["read_only"] is True
        changed = httpx.delete(f"{base}api/runs/walk-77", headers={**headers, **CHANGE}, timeout=300)
        assert changed.status_code == 403
    store = SQLiteStore(place)
    assert store.row("walk-77").status == "completed"
    store.close()


def test_small_answers_do_not_wait_for_an_acknowledgement() -> None:
    """Head and body are two packets; with Nagle's algorithm the second waits 40 ms."""

    async def is_sent_at_once() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            found.set_result(option)
            writer.close()

        listener = _listening("127.0.0.1", 0)
        async with await asyncio.start_server(accept, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            try:
                return await found
            finally:
                writer.close()

    assert asyncio.run(is_sent_at_once())
