"""Commands as real processes, cheaply: one warmed-up process forks a child for each command.

Starting Python and importing the command line takes five times longer than most commands. So one process does that
once and then, asked over a socket, forks; the child has the folder, the environment and the files that it is given,
runs the command, and exits like any other process. Settings that Python reads as it starts (`PYTHONUTF8`, the locale)
need a process of their own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

ROOT = str(Path(__file__).parents[1])
WARM = (
    "clew.cli.app",
    "clew.runtime.drivers.dispatch",
    "clew.runtime.drivers.thread_pool",
    "clew.stores.sqlite.store",
    "pytest",
    "rich.cells",
    "rich.console",
    "typer._adapters",  # imports pydantic when an option is parsed; other versions of typer do not have it
)


class ForkServer:
    """The process that forks; `run` is one command."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from tests.fork_server import serve; serve({theirs.fileno()})"],
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: str = "",
        timeout: float = 300,
        is_one_stream: bool = False,
        module: str = "clew",
    ) -> subprocess.CompletedProcess[str]:
        """Give a command, and wait until it has ended; with `is_one_stream`, errors are part of the output.

        The command is that of a `module` which can be executed: ``clew`` or ``pytest``.
        """
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            given_words = {"words": list(words), "module": module}
            request = json.dumps({**given_words, "cwd": str(cwd), "env": dict(env)}).encode()
            self._socket.settimeout(timeout)
            socket.send_fds(
                self._socket,
                [len(request).to_bytes(4, "big")],
                [given.fileno(), out.fileno(), (out if is_one_stream else err).fileno()],
            )
            self._socket.sendall(request)
            try:
                answer = self._socket.recv(4)
            except TimeoutError:
                self._process.kill()
                fork_server.cache_clear()
                raise
            assert answer, "the process that forks has ended"
            code = int.from_bytes(answer, "big", signed=True)
            return subprocess.CompletedProcess(list(words), code, _text(out), _text(err))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@functools.cache
def fork_server() -> ForkServer:
    """The server of this process."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def serve(number: int) -> None:
    """Fork a child for each request, and answer with its exit code."""
    for module in WARM:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of it
    path = [place for place in sys.path if place not in ("", ROOT)]
    with socket.socket(fileno=number) as requests:
        while True:
            head, files, _, _ = socket.recv_fds(requests, 4, 3)
            if not head:
                return
            request, length = b"", int.from_bytes(head, "big")
            while len(request) < length:
                request += requests.recv(length - len(request))
            child = os.fork()
            if not child:
                break
            for file in files:
                os.close(file)
            _, status = os.waitpid(child, 0)
            requests.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    _become(json.loads(request), files, path)


def _become(request: Mapping[str, object], files: Sequence[int], path: Sequence[str]) -> None:
    """Be the command."""
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    sys.path[:] = [str(request["cwd"]), *path]
    if request["module"] == "clew":
        from clew.cli import main

        main(request["words"])
    else:
        import pytest

        # Its plugins are imported already, so it warns that it cannot rewrite their assertions.
        sys.exit(pytest.main([*request["words"], "-W", "ignore::pytest.PytestAssertRewriteWarning"]))
