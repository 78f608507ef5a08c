"""The ids of a run's trace: they follow from its id and its creation time.

So every process that takes a run adds to the same trace, and nothing about the trace is stored. The creation time is
part of it because an id can be used again after its run was deleted. The spans inside a take have random ids.

`DerivedIds` gives these ids to the SDK: it is the id generator of the tracer that makes the spans of takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, NamedTuple

from clew.runtime.reporting.observers import ObservedRun


class RunIds(NamedTuple):
    """The ids of a run's trace, and of the span of its first take."""

    trace: int
    span: int


def ids_of(run: ObservedRun) -> RunIds:
    text = f"{len(run.run_id)}:{run.run_id}{round(run.created * 1e6)}"
    digest = sha256(text.encode()).digest()
    # an id of zero is invalid
    return RunIds(int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:24], "big") or 1)


_next: ContextVar[RunIds | None] = ContextVar("clew_trace_ids", default=None)


class DerivedIds:
    """An id generator that gives derived ids inside `deriving`."""

    def __init__(self, others: Any) -> None:
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others, name)

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        ids = _next.get()
        return int(self._others.generate_trace_id()) if ids is None else ids.trace

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        ids = _next.get()
        return int(self._others.generate_span_id()) if ids is None else ids.span


@contextmanager
def deriving(ids: RunIds) -> Iterator[None]:
    """Give these ids to the span that is started inside."""
    token = _next.set(ids)
    try:
        yield
    finally:
        _next.reset(token)
