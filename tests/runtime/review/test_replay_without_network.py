"""A run that talked to a real server is replayed where there is no network: no call is made, and it ends the same."""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import Engine, SQLiteStore
from tests.runtime import networked

ALONE = ["unshare", "--user", "--map-root-user", "--net"]


def may_be_alone() -> bool:
    return (
        shutil.which("unshare") is not None and not subprocess.run([*ALONE, "true"], check=False).returncode
    )


class Server(socketserver.ThreadingTCPServer):
    """Returns its input in capitals, and counts."""

    daemon_threads = True
    asked = 0


class Answer(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        said = self.rfile.read()
        assert isinstance(self.server, Server)
        self.server.asked += 1
        self.wfile.write(said.upper() + b"!")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def replayed(how: list[str], file: Path, port: int) -> dict[str, object]:
    done = subprocess.run(
        [*how, sys.executable, "-m", "tests.runtime.networked", file, str(port)],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not may_be_alone(), reason="no process may be without a network here; see test_replay")
def test_without_a_network_a_run_replays(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server.server_address[1]
    monkeypatch.setattr(networked, "port", port)
    file = tmp_path / "runs.db"
    with Engine(networked.GRAPH, store=SQLiteStore(file)) as engine:
        assert engine.run({"question": "how are you"}, run_id="r")["answer"] == "HOW ARE YOU!!"
    assert server.asked == 2
    expected = {"ok": [True], "calls": [2]}
    assert replayed(ALONE, file, port) == {"reached": False, **expected}
    assert server.asked == 2
    assert replayed([], file, port) == {"reached": True, **expected}  # where it could ask, it does not either
    assert server.asked == 3  # by the program itself, to see whether there is a network
