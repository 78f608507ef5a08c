"""Processes that work on a dependency graph until they are killed.

A warmed-up process forks a child for each task, because starting Python takes longer than a task. The child opens the
database and executes one operation after the other. Before each one it reports the start through a pipe; these reports
survive the child. It is killed after a time, or kills itself at a call of a computor or at an SQL statement, always
with SIGKILL.
"""

from __future__ import annotations

import base64
import gc
import os
import pickle
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew import DependencyGraph
from clew.errors import ClewError
from tests.incremental.oracle_pair import Abandoned, Broken, Computors, Operation, spoken
from tests.incremental.oracle_worlds import Node, World


@dataclass(frozen=True)
class Task:
    """Operations to do on a database, and the end: ``("after", seconds)``, ``("call", n)`` or ``("statement", n)``."""

    world: World
    store: Path
    modes: dict[Node, str]
    operations: tuple[Operation, ...]
    end: tuple[str, float]


@dataclass(frozen=True)
class Ended:
    """Which operation had begun when the child ended: all before it were finished."""

    killed: bool
    begun: int
    told: str = ""


class Nursery:
    """The process that forks; `child` is the life of one child."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.incremental.oracle_child import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def child(self, task: Task) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(_written(task) + "\n")
        self._process.stdin.flush()
        ended: Ended = _read(self._process.stdout.readline())
        return ended

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """The process that forks. It opens no database and starts no thread."""
    DependencyGraph([]).close()
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of it
    for line in sys.stdin:
        task: Task = _read(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            _live(task, writing)
        os.close(writing)
        print(_written(_watched(pid, reading, task)), flush=True)


def _watched(pid: int, reading: int, task: Task) -> Ended:
    """A child from its first word to its end."""
    how, when = task.end
    said = os.read(reading, 1)  # it has opened the database
    if how == "after":
        end = time.monotonic() + when
        while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
            if not (more := os.read(reading, 65536)):
                break
            said += more
        os.kill(pid, signal.SIGKILL)
    while more := os.read(reading, 65536):
        said += more
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    words, _, told = said.decode().partition("!")
    return Ended(killed, words.count("b") - 1, told)


def _live(task: Task, writing: int) -> None:
    """A child's life."""
    try:
        if task.end[0] == "statement":
            _watch_statements(_nth(int(task.end[1])))
        computors = Computors(task.world, dict(task.modes))
        if task.end[0] == "call":
            kill = _nth(int(task.end[1]))
            computors.before_call = lambda: kill("call")
        graph = DependencyGraph(computors.schemas(), store=task.store)
        os.write(writing, b"o")
        for operation in task.operations:
            os.write(writing, b"b")
            perform(graph, operation, computors.modes)
        graph.close()
    except BaseException:
        import traceback

        os.write(writing, f"!{traceback.format_exc()}".encode())
    os._exit(0)


def _nth(left: int) -> Callable[[str], None]:
    """Ends this process at the nth time."""

    def reached(point: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def _watch_statements(reached: Callable[[str], None]) -> None:
    """Have a function called before each statement that any connection to SQLite executes."""

    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(reached)
        return connection

    sqlite3.connect = traced


def perform(graph: DependencyGraph, operation: Operation, modes: dict[Node, str]) -> None:
    """Execute an operation and ignore its errors."""
    match operation:
        case ("mode", node, how):
            modes[node] = how
        case ("batch", operations, breaks):
            try:
                with graph.batch():
                    for each in operations:
                        perform(graph, each, modes)
                    if breaks:
                        raise Abandoned
            except (Abandoned, ClewError, Broken):
                pass
        case (verb, node, *value):
            try:
                getattr(graph, verb)(*spoken(node), **({"value": value[0]} if value else {}))
            except (ClewError, Broken):
                pass


def _written(thing: Any) -> str:
    return base64.b64encode(pickle.dumps(thing)).decode()


def _read(line: str) -> Any:
    return pickle.loads(base64.b64decode(line))
