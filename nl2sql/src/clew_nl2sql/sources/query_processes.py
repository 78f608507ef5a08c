"""Send queries to processes that execute them, and end a process that exceeds the limits of its query.

A database library executes a query inside the process that calls it, and nothing there can stop a single call of
`replace` that takes minutes, or give back its memory. So queries are executed by `clew_nl2sql.query_worker`, in
separate processes. Idle processes are kept for the next query. A process that has exceeded a limit is killed, with its
folder of temporary files, and a new one takes its place.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading

from clew_nl2sql.errors import QueryMemoryError, QueryTimeoutError
from clew_nl2sql.query_worker.messages import LATE, QueryReply, QueryRequest, receive, send

MEMORY = 1_000_000_000  # bytes for one query
KEPT = 2  # idle processes
SLACK = 2.0  # seconds after the limit, in which a process should have ended by itself

_START = "import sys; sys.path[:] = sys.argv[2:]; from clew_nl2sql.query_worker.serve import serve; serve(sys.argv[1])"


def executed(request: QueryRequest) -> QueryReply:
    """Execute a query in another process; raise QueryTimeoutError or QueryMemoryError if it exceeds a limit."""
    process = _idle_process() or QueryProcess()
    _busy.add(process)
    try:
        reply = process.ask(request)
    except BaseException:  # an interrupt too: the reply would be read as that of the next query
        process.kill()
        raise
    finally:
        _busy.discard(process)
    if reply.problem in ("timeout", "memory"):
        process.kill()
        raise _limit_error(request, reply)
    _keep(process)
    return reply


def _limit_error(request: QueryRequest, reply: QueryReply) -> QueryTimeoutError | QueryMemoryError:
    if reply.problem == "timeout":
        return QueryTimeoutError(
            f"the query exceeded its limit of {request.seconds:g} s; ask for less, or raise the timeout"
        )
    detail = f" ({reply.message})" if reply.message else ""
    return QueryMemoryError(
        f"the query exceeded its limit of {request.memory / 1e6:,.0f} MB{detail}; ask for less, or raise max_memory"
    )


class QueryProcess:
    """One process, which executes one query at a time."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="clew-query-")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, self._folder, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def ask(self, request: QueryRequest) -> QueryReply:
        """Return the reply. A process that ends without one has exceeded a limit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._process.kill()

        limit = threading.Timer(request.seconds + SLACK, stop)
        limit.daemon = True
        limit.start()
        try:
            send(self._process.stdin, pickle.dumps(request))
            reply: QueryReply = receive(self._process.stdout)
            return reply
        except (EOFError, OSError, pickle.UnpicklingError):
            ended = self._process.wait() == LATE or late.is_set()
            return QueryReply(problem="timeout" if ended else "memory")
        finally:
            limit.cancel()

    def kill(self) -> None:
        """End the process now, and delete its temporary files."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process, and delete its temporary files."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was not sent yet
                    pass
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def is_alive(self) -> bool:
        """Return whether the process can take a query."""
        return self._process.poll() is None

    def leave(self) -> None:
        """Forget the process, which belongs to the parent of this one."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                os.close(stream.fileno())
        self._process.returncode = 0


_idle: list[QueryProcess] = []
_busy: set[QueryProcess] = set()
_lock = threading.Lock()


def _idle_process() -> QueryProcess | None:
    while True:
        with _lock:
            if not _idle:
                return None
            process = _idle.pop()
        if process.is_alive():
            return process
        process.close()


def _keep(process: QueryProcess) -> None:
    with _lock:
        if len(_idle) < KEPT:
            _idle.append(process)
            return
    process.close()


def close_idle() -> None:
    """End the idle processes."""
    while (process := _idle_process()) is not None:
        process.close()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    while _idle:
        _idle.pop().leave()


atexit.register(close_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
