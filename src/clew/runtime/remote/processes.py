"""Worker processes of this machine. Each has one task at a time, so ending a running task kills only its own process.

Processes start when they are needed. They end with the executor, or with the process that created it, even if that
process is killed. Large inputs are files in a temporary folder.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections import deque
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import mkdtemp
from threading import Condition, Lock, RLock
from typing import Any

from clew.errors import DefinitionError
from clew.runtime.remote.attempts import Attempt
from clew.runtime.remote.desk import Desk
from clew.runtime.remote.executor import Done
from clew.runtime.remote.frames import Task
from clew.runtime.remote.links import LinkClosedError, WorkerLink
from clew.runtime.remote.pickling import plain_dumps
from clew.runtime.remote.worker import serve
from clew.state.number_checks import is_int

_children = Lock()  # multiprocessing has none: starting a process also waits for others that have ended


def _end(process: BaseProcess) -> int | None:
    """Kill a process, and return its exit code; None if something else has waited for it (SIGCHLD may be ignored)."""
    with _children:
        process.kill()
        process.join()
        code = process.exitcode
        if code is not None:
            process.close()
    return code


class _Worker:
    """A process, its link, and the task that it has."""

    def __init__(self, process: BaseProcess, link: WorkerLink) -> None:
        self.process = process
        self.link = link
        self.has_started = False
        self.task: _Task | None = None


class _Task:
    """A task that waits, or runs."""

    def __init__(self, token: str, data: bytes, borrows: bool, done: Done) -> None:
        self.token = token
        self.data = data
        self.borrows = borrows
        self.done = done
        self.worker: _Worker | None = None


class ProcessBackend:
    """A pool of worker processes."""

    is_cluster = False
    dumps = staticmethod(plain_dumps)

    def __init__(self, workers: Any = None) -> None:
        count: Any = (os.cpu_count() or 1) if workers is None else workers
        if not is_int(count, 1):
            raise DefinitionError(f"workers must be an int >= 1 or None, got {workers!r}")
        self.count = count
        # spawn: a forked process would keep the links of other workers open and inherit locks of threads that it lacks
        self._context: Any = get_context("spawn")
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._waiting: deque[_Task] = deque()
        self._workers: dict[WorkerLink, _Worker] = {}
        self._idle: list[_Worker] = []
        self._folder: Path | None = None
        self._files = 0
        self._closed = False

    def open(self, desk: Desk) -> None:
        """Begin to use a desk."""
        self._desk = desk
        desk.on_ready, desk.on_gone = self._ready, self._gone

    def submit(self, token: str, task: bytes, handles: Sequence[Any], attempt: Attempt, done: Done) -> Any:
        """Give a task to an idle process, or to a new one; otherwise it waits."""
        found = _Task(token, plain_dumps((task, list(handles))), attempt.borrows, done)
        with self._lock:
            if attempt.borrows:
                self._waiting.appendleft(found)
            else:
                self._waiting.append(found)
            self._assign()
        return found

    def ended(self, handle: Any) -> None:
        """Do nothing: the process says when it is ready for the next task."""

    def cancel(self, handle: Any, *, is_running: bool) -> None:
        """Drop a task that waits, or kill the process of one that runs."""
        with self._lock:
            if handle in self._waiting:
                self._waiting.remove(handle)
            elif handle.worker is not None and handle.worker.task is handle:
                handle.worker.process.kill()

    def _assign(self) -> None:
        """Give waiting tasks to processes."""
        while self._waiting and self._idle:
            worker, task = self._idle.pop(), self._waiting.popleft()
            worker.task, task.worker = task, worker
            try:
                worker.link.send(Task(task.token), task.data)
            except LinkClosedError:
                pass  # noticed by the desk: the task is lost
        busy = sum(1 for worker in self._workers.values() if worker.task is not None)
        starting = len(self._workers) - busy - len(self._idle)
        borrowed = sum(1 for task in self._waiting if task.borrows)
        while len(self._waiting) > starting and (len(self._workers) < self.count or borrowed > starting):
            self._begin()
            starting += 1

    def _begin(self) -> None:
        mine, theirs = socket.socketpair()
        try:
            process = self._context.Process(target=serve, args=(theirs,), daemon=True)
            with _children:
                process.start()
        except BaseException:
            mine.close()
            raise
        finally:
            theirs.close()
        link = WorkerLink(mine)
        self._workers[link] = _Worker(process, link)
        self._desk.add(link)

    def _ready(self, link: WorkerLink) -> None:
        """Handle a process that is ready for a task."""
        with self._lock:
            worker = self._workers[link]
            task, worker.task, worker.has_started = worker.task, None, True
            surplus = len(self._workers) - self.count
            if surplus > 0 and not self._waiting:  # it was started for a task that borrowed
                link.close()
            else:
                self._idle.append(worker)
                self._assign()
        if task is not None:
            task.done("over", "")

    def _gone(self, link: WorkerLink) -> None:
        """Handle the end of a process."""
        with self._lock:
            worker = self._workers[link]
            if worker in self._idle:
                self._idle.remove(worker)
        code = _end(worker.process)  # it is useless without its link
        failed: list[_Task] = []
        with self._lock:
            del self._workers[link]
            if not self._closed:
                if not worker.has_started and self._waiting:
                    failed.append(self._waiting.popleft())
                self._assign()
            self._changed.notify_all()
        for task in failed:
            task.done("broken", "the worker process did not start; its error is on standard error")
        if worker.task is not None:
            worker.task.done("lost", f"its process ended with code {code}")

    def has_workers(self) -> bool:
        """Return True: processes start when they are needed."""
        return True

    def close(self, *, wait: bool) -> None:
        with self._lock:
            self._closed = True
            workers = list(self._workers.values())
        for worker in workers:
            worker.link.close()  # the process ends when its link is closed
        with self._changed:
            self._changed.wait_for(lambda: not self._workers)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- large inputs ------------------------------------------------------------------------------------

    def put(self, blob: bytes) -> str:
        """Write an input into a file."""
        with self._lock:
            if self._folder is None:
                self._folder = Path(mkdtemp(prefix="clew-inputs-"))
            self._files += 1
            path = self._folder / str(self._files)
        path.write_bytes(blob)
        return str(path)

    def drop(self, handle: str) -> None:
        """Remove the file of an input."""
        Path(handle).unlink(missing_ok=True)

    def is_lost(self, handle: str) -> bool:
        """Return whether the file is missing."""
        return not os.path.exists(handle)
