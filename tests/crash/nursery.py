"""Processes to kill, cheaply: one warmed-up process forks a child for each stretch of a run.

Starting Python and importing the library takes a hundred times longer than a run of the program. So one process does
that once and then, asked over a pipe, forks; the child opens its own store, runs or resumes, and answers with what
came of it, unless it is killed: at a named point (`crash`), after a time (`after`), or not at all. One that stops at a
named point (`stop`) is told to go on with ``child(do="continue", pid=...)``.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from clew import Engine, PostgresStore, SQLiteStore
from clew.errors import ClewError
from clew.stores import Store
from clew.testing import crash_points
from tests.crash import program

RUN = "killed"
LONG = {"lease": 600.0}  # options for an owner that is stopped, and whose lease must not end by itself


def opened(address: str, synchronous: str = "normal") -> Store:
    """A store by its address: a file, or a PostgreSQL server and a schema."""
    if "|" in address:
        dsn, schema = address.split("|")
        return PostgresStore(dsn, schema=schema)
    return SQLiteStore(address, synchronous=synchronous)


class Nursery:
    """The process that forks; `child` is one stretch of a run."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.crash.nursery import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def begin(self, **task: Any) -> None:
        """Have a child begin; `end` waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """What came of it: ``{"killed": True}``, or the run's status or an error's name."""
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def child(self, **task: Any) -> dict[str, Any]:
        """A child from its beginning to its end."""
        self.begin(**task)
        return self.end()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main() -> None:
    """The process that forks. It opens no store and starts no thread."""
    warm_up()
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of it
    stopped: dict[int, int] = {}  # child -> what it will say
    for line in sys.stdin:
        task = json.loads(line)
        if task["do"] == "continue":
            os.kill(task["pid"], signal.SIGCONT)
            print(json.dumps(_outcome(task["pid"], stopped.pop(task["pid"]), task)), flush=True)
            continue
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            _live(task, writing)
        os.close(writing)
        answer = _outcome(pid, reading, task)
        if answer.get("stopped"):
            stopped[pid] = reading
        print(json.dumps(answer), flush=True)


def warm_up() -> None:
    """Import, and compile, whatever a run needs."""
    Engine(program.GRAPH, store=None).graph.node_hashes
    import sqlite3  # noqa: F401
    from concurrent.futures import thread  # noqa: F401

    import psycopg  # noqa: F401

    import clew.runtime.drivers.dispatch
    import clew.runtime.process.thread_pool  # noqa: F401


def _outcome(pid: int, reading: int, task: dict[str, Any]) -> dict[str, Any]:
    told = {"pid": pid}
    if "after" in task:
        time.sleep(task["after"])
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return {**told, "stopped": True}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        os.close(reading)
        return {**told, "killed": True}
    readable, _, _ = select.select([reading], [], [], 0)
    said = os.read(reading, 1 << 16) if readable else b""
    os.close(reading)
    return {**told, **json.loads(said)} if said else {**told, "error": f"ended with {status}"}


def _live(task: dict[str, Any], writing: int) -> None:
    """A child's life."""
    try:
        answer = _work(task)
    except ClewError as error:
        answer = {"error": type(error).__name__, "told": str(error)}
    except BaseException as error:
        import traceback

        answer = {"error": type(error).__name__, "told": traceback.format_exc()}
    os.write(writing, json.dumps(answer).encode())
    os._exit(0)


def _stopper(name: str, count: str, away: float) -> Callable[[str], None]:
    """Stops the process at a point, as SIGSTOP from outside would; when it goes on, it is `away` seconds later."""
    left = int(count)

    def on_reach(reached: str) -> None:
        nonlocal left
        left -= reached == name
        if not left and reached == name:
            # to this thread: sent to the process, another one might take it, and this one go on for a moment
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            now = time.monotonic
            time.monotonic = lambda: now() + away

    return on_reach


def _work(task: dict[str, Any]) -> dict[str, Any]:
    program.set_world(task["effects"], task.get("pad", 0))
    points: list[str] = []
    if task.get("crash"):
        crash_points.arm(task["crash"])
    elif task.get("watch"):
        crash_points.watch(points.append)
    elif task.get("stop"):
        crash_points.watch(_stopper(*task["stop"].split(":"), task.get("away", 0.0)))
    store = opened(task["store"], task.get("synchronous", "normal"))
    engine = Engine(
        program.GRAPHS[task.get("graph", "killed")],
        store=store,
        seed=7,
        max_concurrent_nodes=task.get("workers", 1),
        durability=task.get("durability", "sync"),
        **task.get("options", {}),
    )
    if task["do"] == "run":
        result = engine.run(program.VALUES, run_id=RUN, **task.get("stops", {}))
    elif task["do"] == "update":
        result = engine.update(RUN, task["values"])
    else:
        # It may have died right after it was answered: it still says that it waits, and asks nothing.
        asks = store.row(RUN).status == "waiting" and engine.result(RUN).questions
        answers = {"answer": True} if asks else {}
        result = engine.resume(RUN, **answers)
    return {"status": result.status, "error": result.error and repr(result.error), "points": points}
