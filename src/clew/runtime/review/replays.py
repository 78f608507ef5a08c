"""Replay a run of a store with its children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from clew.graph import Graph
from clew.runtime.children.deep_children import is_deep, on_thread
from clew.runtime.inspection import read_result
from clew.runtime.opener import RunOpener
from clew.runtime.result import RunResult
from clew.runtime.review.replay import Replayer
from clew.runtime.review.replay_report import Divergence, ReplayReport
from clew.runtime.settings import Settings
from clew.state import position_of


def replay(
    opener: RunOpener, settings: Settings, run_id: str, *, strict: bool, level: int = 0
) -> ReplayReport:
    """Replay a run, and the children that its nodes start; `level` is 1 in a child."""
    log = opener.runs.open(run_id).whole()
    children = _Children(opener, settings, strict, level + 1)
    return Replayer(log, opener.program(log.start), settings, strict=strict, children=children).run()


class _Children:
    """The children of a replayed run."""

    def __init__(self, opener: RunOpener, settings: Settings, strict: bool, level: int) -> None:
        self._level = level
        self._store = opener.store
        self._settings = settings
        self._strict = strict

    def find(self, run_id: str, place: str) -> str | None:
        """Return the last child of a run at a place."""
        found = [row.run_id for row in self._store.rows(of=run_id) if row.place == place]
        return found[-1] if found else None

    def given(self, run_id: str) -> Mapping[str, Any]:
        """Return the values that a child was given."""
        start = RunOpener(None, self._store, self._settings, ()).runs.open(run_id).whole().start
        return {name: start.get(name) for name in position_of(start).given}

    def _opener(self, graph: Graph) -> RunOpener:
        return RunOpener(graph, self._store, self._settings, ())

    def replay(self, run_id: str, graph: Graph) -> Sequence[Divergence]:
        """Replay a child; return what differs."""
        opener, strict, level = self._opener(graph), self._strict, self._level
        work = partial(replay, opener, self._settings, run_id, strict=strict, level=level)
        return (on_thread(work, lambda: None) if is_deep(self._level) else work()).divergences

    def result(self, run_id: str, graph: Graph) -> RunResult:
        """Return the recorded result of a child."""
        return read_result(self._opener(graph), run_id)
