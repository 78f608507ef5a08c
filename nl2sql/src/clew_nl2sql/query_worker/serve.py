"""Execute the queries that arrive on standard input, one after the other, within limits.

- Time: each engine interrupts its query. A watch ends the whole process a little later, because no engine interrupts a
  single call of a function such as `replace`.
- Memory: the engine's own limit, and one of the operating system for the process (Linux).
- Disk: temporary files are in the folder of this process, with a limit, and the folder is deleted with the process.

The process ends when its standard input does, so it does not outlive the process that started it.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import threading
from typing import IO

from clew_nl2sql.query_worker.messages import LATE, QueryProblem, QueryReply, QueryRequest, receive, send

GRACE = 0.5  # seconds in which an engine's own interrupt may work
OWN_MEMORY = 300_000_000  # bytes of the interpreter and the drivers
LARGEST_SHARE = 4  # a result may have a quarter of the memory: two processes hold it, as objects and as bytes


def serve(folder: str) -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for the reply
    os.environ["SQLITE_TMPDIR"] = os.environ["TMPDIR"] = folder
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of a driver is not a reply
    try:
        while True:
            request = receive(sys.stdin.buffer)
            answer_within_limits(request, folder, replies)
    except (EOFError, BrokenPipeError):
        pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answer_within_limits(request: QueryRequest, folder: str, replies: IO[bytes]) -> None:
    """Execute one query, and send its reply."""
    watch = threading.Timer(request.seconds + GRACE, _end, (folder,))
    watch.daemon = True
    _limit_process(request.memory)
    watch.start()
    try:
        reply = _executed(request, folder)
        encoded = pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
        if len(encoded) > request.memory // LARGEST_SHARE:
            raise MemoryError
    except QueryProblem as problem:
        encoded = pickle.dumps(QueryReply(problem=problem.problem, message=str(problem)))
    except MemoryError:
        encoded = pickle.dumps(QueryReply(problem="memory"))
    finally:
        watch.cancel()
    send(replies, encoded)


def _executed(request: QueryRequest, folder: str) -> QueryReply:
    if request.engine == "sqlite":
        from clew_nl2sql.query_worker.sqlite_queries import execute
    elif request.engine == "duckdb":
        from clew_nl2sql.query_worker.duckdb_queries import execute
    else:
        from clew_nl2sql.query_worker.postgres_queries import execute
    return execute(request, folder)


def _limit_process(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    _lower(resource.RLIMIT_DATA, memory + OWN_MEMORY)
    _lower(resource.RLIMIT_FSIZE, memory)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(kind: int, limit: int) -> None:
    import resource

    most = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _end(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(LATE)
