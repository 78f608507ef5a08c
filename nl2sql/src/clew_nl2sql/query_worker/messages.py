"""What a source and a query process send each other. Both sides are this package, and a reply holds only values that a
driver returned.
"""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any, Literal, NamedTuple

Engine = Literal["sqlite", "duckdb", "postgres"]
Problem = Literal["down", "own functions", "failed", "timeout", "memory"]

LATE = 75  # exit status of a process that ended itself at the time limit
_HEADER = struct.Struct("!Q")


class QueryRequest(NamedTuple):
    """A query with its limits. `calls` are the functions that it may call, `memory` is a number of bytes."""

    engine: Engine
    address: str
    sql: str
    explain: bool
    max_rows: int
    calls: tuple[str, ...]
    seconds: float
    memory: int
    timezone: str = ""  # of the session; empty for the database's own


class QueryReply(NamedTuple):
    """The rows, or a problem; at most one row more than requested."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    problem: Problem | None = None
    message: str = ""


class QueryProblem(Exception):
    """Ends a query with a problem."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem: Problem = problem


def send(stream: IO[bytes], message: bytes) -> None:
    """Write one message."""
    stream.write(_HEADER.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message; raise EOFError if the other side has ended."""
    return pickle.loads(_exactly(stream, _HEADER.unpack(_exactly(stream, _HEADER.size))[0]))


def _exactly(stream: IO[bytes], count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise EOFError
    return found
