"""A store in memory: for tests, for graphs that need no durability, and the default of `Graph.run`.

It keeps the last `keep` runs that have ended (all of them with ``keep=None``); runs that are running or waiting are
never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from clew.errors import RunExistsError, UnknownRunError
from clew.stores.protocol import RunRow


class MemoryStore:
    """Runs in a dict."""

    def __init__(self, keep: int | None = 1_000) -> None:
        if keep is not None and keep < 0:
            raise ValueError(f"keep is a number of runs, or None for all, not {keep!r}")
        self._keep = keep
        self._runs: dict[str, tuple[RunRow, list[Any]]] = {}
        self._ended: dict[str, None] = {}  # in the order in which they ended
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._runs)} runs)"

    def create(self, row: RunRow) -> list[Any]:
        """Keep a new run. RunExistsError if its id is taken."""
        entries: list[Any] = []
        with self._lock:
            if row.run_id in self._runs:
                raise RunExistsError(
                    f"there is a run {row.run_id!r} already; choose another run_id, or go on with "
                    f"engine.resume({row.run_id!r})"
                )
            while self._keep is not None and len(self._ended) > self._keep:
                oldest = next(iter(self._ended))
                del self._ended[oldest], self._runs[oldest]
            self._runs[row.run_id] = (row, entries)
            self._note(row)
        return entries

    def _note(self, row: RunRow) -> None:
        """Keep account of the runs that have ended."""
        self._ended.pop(row.run_id, None)
        if row.status not in ("running", "waiting"):
            self._ended[row.run_id] = None

    def _find(self, run_id: str) -> tuple[RunRow, list[Any]]:
        try:
            return self._runs[run_id]
        except KeyError:
            raise UnknownRunError(
                f"there is no run {run_id!r}; engine.runs() lists those there are"
            ) from None

    def append(self, run_id: str, entries: Sequence[Any]) -> None:
        """Add to a run's log."""
        self._find(run_id)[1].extend(entries)

    def update(self, run_id: str, *, status: str, updated: float, error: BaseException | None) -> None:
        """Change what is known about a run."""
        with self._lock:
            row = self._find(run_id)[0]
            row.status, row.updated, row.error = status, updated, error
            self._note(row)

    def row(self, run_id: str) -> RunRow:
        """One run."""
        return self._find(run_id)[0]

    def entries(self, run_id: str) -> Sequence[Any]:
        """A run's log so far."""
        return self._find(run_id)[1]

    def rows(self, status: str | None = None) -> list[RunRow]:
        """All runs, or those of one status, oldest first."""
        with self._lock:
            return [row for row, _ in self._runs.values() if status is None or row.status == status]

    def delete(self, run_id: str) -> None:
        """Forget a run."""
        with self._lock:
            self._find(run_id)
            del self._runs[run_id]
            self._ended.pop(run_id, None)

    def close(self) -> None:
        """Nothing to let go of: the runs stay readable."""
