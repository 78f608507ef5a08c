"""What a store is: rows about runs, and for each run a log of entries that only grows.

A store does not know what the entries mean. It keeps them in the order given, hands them out again, and never
has half of an `append`: either all entries of a call are there afterwards, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from clew.state import GraphState


class RunRow(msgspec.Struct):
    """What is known about a run beside its log."""

    run_id: str
    graph: str  # the graph's name
    start: GraphState  # S(0), or the state that the run went on from
    seed: int
    status: str = "running"
    created: float = 0.0
    updated: float = 0.0
    parent: str | None = None  # the run that this one was forked from
    error: BaseException | None = None


class Store(Protocol):
    """Where runs are kept."""

    def create(self, row: RunRow) -> list[Any]:
        """Keep a new run. RunExistsError if its id is taken."""

    def append(self, run_id: str, entries: Sequence[Any]) -> None:
        """Add to a run's log, all or nothing."""

    def update(self, run_id: str, *, status: str, updated: float, error: BaseException | None) -> None:
        """Change what is known about a run."""

    def row(self, run_id: str) -> RunRow:
        """One run. UnknownRunError if there is none of that id."""

    def entries(self, run_id: str) -> Sequence[Any]:
        """A run's log so far."""

    def rows(self, status: str | None = None) -> list[RunRow]:
        """All runs, or those of one status, oldest first."""

    def delete(self, run_id: str) -> None:
        """Forget a run. UnknownRunError if there is none of that id."""

    def close(self) -> None:
        """Let go of whatever the store holds."""
