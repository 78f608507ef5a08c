"""Processes that the server starts for a graph: a worker, and commands that need its code.

User code never runs in the server. With ``clew serve MODULE:GRAPH --values MODULE:GRAPH``, the user has named the code
that may run; these processes import it. They are the command line itself, with the arguments that a person would type,
and no shell.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from clew.web.answers import ApiError

log = logging.getLogger("clew.web")

_MOST = 4  # commands at the same time
_LONGEST = 300.0  # seconds of a command whose result is awaited
_STEP = 0.05
_GRACE = 10.0
_SHOWN = 2_000


class ServerProcesses:
    """The worker of a server, and its commands. `values` names a dependency graph."""

    def __init__(self, target: str, address: str, *, values: str = "") -> None:
        self.target = target
        self.values = values
        self._store = ["--store", address] if address else []
        self._worker: subprocess.Popen[bytes] | None = None
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def start_worker(self) -> None:
        command = [
            sys.executable,
            "-m",
            "clew",
            "worker",
            self.target,
            "--label",
            "clew serve",
            "--until-eof",  # it ends with the server, also if that is killed
            *self._store,
        ]
        self._worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def worker_json(self) -> dict[str, Any] | None:
        """Return what is known about the worker."""
        worker = self._worker
        if worker is None:
            return None
        code = worker.poll()
        error = None if code is None else f"it ended with code {code}; see the output of `clew serve`"
        return {"pid": worker.pid, "alive": code is None, "error": error}

    def close(self) -> None:
        """End the worker and the commands."""
        with self._lock:
            found = [*self._running, *([self._worker] if self._worker is not None else [])]
        for process in found:
            if process.poll() is None:
                process.terminate()
        for process in found:
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _start(self, verb: str, *rest: str, has_input: bool = False) -> subprocess.Popen[bytes]:
        # options first: after "--", everything is an argument
        return self._launch([verb, *self._store, "--json", *rest], has_input=has_input)

    def _launch(self, words: list[str], *, has_input: bool) -> subprocess.Popen[bytes]:
        with self._lock:
            self._running = {each for each in self._running if each.poll() is None}
            if len(self._running) >= _MOST:
                raise ApiError(503, "Busy", f"{_MOST} commands are running", hint="wait until one has ended")
            command = [sys.executable, "-m", "clew", *words]
            stdin = subprocess.PIPE if has_input else subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self._running.add(process)
            return process

    def result(self, verb: str, *arguments: str) -> tuple[int, Any, str]:
        """Execute a command on a run; return its exit code, what it printed as JSON, and its errors."""
        return self._finished(self._start(verb, "--graph", self.target, *arguments))

    def graph(self) -> tuple[str, str]:
        """Return the name and the structure of the graph, as its code is now. Raise ApiError if it cannot be loaded."""
        process = self._launch(["graph", self.target, "--json"], has_input=False)
        code, found, errors = self._finished(process)
        if code or not isinstance(found, dict):
            raise failed(errors)
        return str(found.get("name") or ""), str(found.get("structure_hash") or "")

    def on_value(self, verb: str, node: str, given: bytes | None = None) -> Any:
        """Execute a command on a value of the dependency graph; return what it printed as JSON. Raise ApiError if it
        fails. `given` is its standard input."""
        more = [] if given is None else ["-"]
        process = self._start(verb, "--", self.values, node, *more, has_input=given is not None)
        code, found, errors = self._finished(process, given)
        if code:
            raise failed(errors)
        return found

    def _finished(self, process: subprocess.Popen[bytes], given: bytes | None = None) -> tuple[int, Any, str]:
        try:
            out, errors = process.communicate(given, timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise ApiError(
                503, "Busy", f"it took longer than {_LONGEST:.0f} s", hint="use the command line"
            ) from None
        return process.returncode, _json(out), errors.decode(errors="replace")[:_SHOWN]

    def begin(self, exists: Callable[[], bool], verb: str, *arguments: str) -> None:
        """Start a command that makes a run, and return as soon as the run exists. Raise ApiError if it fails before."""
        process = self._start(verb, "--graph", self.target, *arguments)
        reader = _ErrorReader(process)
        while not exists():
            if reader.done.wait(_STEP):
                if exists():
                    return
                raise failed(reader.errors)


class _ErrorReader:
    """Reads the output of a process until it ends, so that it never blocks."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.errors = ""
        self.done = threading.Event()
        threading.Thread(target=self._read, name="clew-command", daemon=True).start()

    def _read(self) -> None:
        _, errors = self._process.communicate()
        self.errors = errors.decode(errors="replace")[:_SHOWN]
        self.done.set()


def failed(errors: str) -> ApiError:
    """Return the answer for a command that has failed: its own two lines."""
    lines = dict(line.partition(": ")[::2] for line in errors.splitlines() if ": " in line)
    message = lines.get("error", errors.strip() or "the command has failed")
    return ApiError(409, "CommandError", message, hint=lines.get("hint"))


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
