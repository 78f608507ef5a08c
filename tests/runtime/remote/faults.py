"""Faults that the tests of several clusters share."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from clew import Engine, Graph
from clew.runtime.remote.executor import RemoteExecutor
from tests.runtime.remote import flow
from tests.runtime.remote.checks import Fan, digests, fan_out, lines

STAGES = ("before-grant", "after-grant", "before-end", "after-end")
ROOT = Path(__file__).resolve().parents[3]

gated = Graph([flow.fan, flow.spread_gated, flow.gated], state=Fan, name="gated")


def until(holds: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def workers_die_at_every_stage(on: RemoteExecutor, kills: Path, folder: Path) -> None:
    """One worker dies at each stage of a task, and one in a recorded call. The chain is that of the local run."""
    for stage in STAGES:
        (kills / stage).touch()
    values = {"n": 12, "folder": str(folder)}
    with Engine(fan_out, store=folder / "there.db", executor=on, seed=2) as there:
        result = there.run(values, run_id="r")
        assert not [stage for stage in STAGES if (kills / stage).exists()], "each was reached"
        assert [each[3] for each in result["done"]] == [0] * 12
        effects, starts = lines(folder / "effects"), lines(folder / "starts")
        with Engine(fan_out, store=folder / "here.db", seed=2) as here:
            here.run(values, run_id="r")
            assert digests(there, "r") == digests(here, "r")
    assert all(1 <= effects.count(f"item {i}") <= 2 for i in range(12))
    assert len(effects) <= 12 + 1, "only the call that was killed is made twice"
    assert len(starts) <= 12 + len(STAGES) + 1, "items whose worker survived are started once"


def a_killed_driver_is_continued_elsewhere(
    on: RemoteExecutor, driver: str, folder: Path, *, is_cluster: bool
) -> None:
    """Kill the driver while its bodies run; the old ones have no effect when they go on."""
    script = folder / "driver.py"
    script.write_text(
        "import sys\n"
        "from clew import Engine\n"
        "from clew.runtime import executors\n"
        "from tests.runtime.remote.faults import gated\n"
        "if __name__ == '__main__':\n"
        f"    with {driver} as on:\n"
        f"        engine = Engine(gated, store={str(folder / 'there.db')!r}, executor=on, seed=5,\n"
        "                        default_node_timeout=300)\n"
        f"        engine.run({{'n': 4, 'folder': {str(folder)!r}}}, run_id='r')\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(lines(folder / "starts")) >= 2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    handled: list[object] = []
    with Engine(gated, store=folder / "there.db", executor=on, seed=5, default_node_timeout=300) as there:
        thread = Thread(target=lambda: handled.append(there.resume("r")))
        thread.start()
        if is_cluster:
            until(lambda: bool(on.desk.open_calls()))
        (folder / "go").touch()  # the bodies of the killed driver continue
        thread.join(300)
        assert handled, "the resumed run ends"
        effects = lines(folder / "effects")
        with Engine(gated, store=folder / "here.db", seed=5) as here:
            here.run({"n": 4, "folder": str(folder)}, run_id="r")
            assert digests(there, "r") == digests(here, "r")
    assert effects == [f"item {i}" for i in range(4)], "the old bodies were rejected"


class Proxy:
    """A TCP proxy that can stop to forward, as a network that is partitioned does."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._pairs: list[tuple[socket.socket, list[bool]]] = []
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            frozen = [False]
            self._pairs += [(near, frozen), (far, frozen)]
            Thread(target=self._copy, args=(near, far, frozen), daemon=True).start()
            Thread(target=self._copy, args=(far, near, frozen), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, frozen: list[bool]) -> None:
        while True:
            try:
                data = source.recv(65536)
                if frozen[0] and data:
                    continue
                if frozen[0]:
                    return
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return

    def freeze(self) -> None:
        """Forward nothing more on the connections of now; later ones work."""
        for _, frozen in self._pairs:
            frozen[0] = True

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for sock, _ in self._pairs:
            sock.close()
