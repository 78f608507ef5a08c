"""A state that is moved forward step by step, without keeping the steps: how a long run is loaded in little memory.

What comes out is what a `Chain` of the same steps would say, computed in one pass: values, versions, the latest
execution of each node. Digests are not made: a stored step has its own, and whoever reads it has checked it.

A step may hold large values that were not fetched (`Kept`). They are fetched where a reducer needs them, and when
somebody asks for the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from clew.engine.chain import executions_of
from clew.engine.program import Program
from clew.engine.records import Step
from clew.engine.working_state import WorkingState
from clew.runtime.log.large_values import Kept
from clew.state import GraphState


class StateCursor:
    """Stands at a step of a run; `add` moves it on. `fetch` gives the content of a large value."""

    def __init__(
        self,
        program: Program,
        start: GraphState,
        *,
        seed: int,
        on_conflict: str,
        fetch: Callable[[Any], Any],
    ) -> None:
        self._program = program
        self._start: GraphState | None = (
            start  # until it is moved: then it must not be held, or lists are copied
        )
        self._seed = seed
        self._on_conflict = on_conflict
        self._fetch = fetch
        self._view: WorkingState | None = None
        self.has_kept = any(type(value) is Kept for value in start.values.values())
        self.step = start.step
        self.digest = start.digest

    def add(self, step: Step, digest: str) -> None:
        """Move on by the next step; `digest` is that of the state after it."""
        if self._view is None:
            assert self._start is not None
            self._view = WorkingState.restore(self._program, self._start)
            self._history = dict(self._start.node_history)
            self._start = None
        if self.has_kept and self._program.reducers:
            step = self._needed(self._view, step)
        for execution in executions_of(self._program, self._view, step, self._on_conflict):
            self._history[execution.node_name] = execution
        self.digest = digest
        self.step = step.number

    def _needed(self, view: WorkingState, step: Step) -> Step:
        """Fetch what a reducer of this step looks at."""
        reduced = {
            name for outcome in step.outcomes for name in outcome.update if name in self._program.reducers
        }
        for name in reduced:
            if type(view.values.get(name)) is Kept:
                view.values[name] = self._fetch(view.values[name])
        if not any(type(outcome.update.get(name)) is Kept for outcome in step.outcomes for name in reduced):
            return step
        outcomes = (
            replace(
                outcome,
                update={
                    name: self._fetch(value) if name in reduced else value
                    for name, value in outcome.update.items()
                },
            )
            for outcome in step.outcomes
        )
        return replace(step, outcomes=tuple(outcomes))

    def state(self, *, fetched: bool = True) -> GraphState:
        """The state where it stands. It is not moved on after that. Unless `fetched`, large values may be `Kept`."""
        if self._view is None:
            assert self._start is not None
            return self._start
        view, digest = self._view, self.digest
        values = view.plain_values()
        if fetched:
            values.update({name: self._fetch(value) for name, value in values.items() if type(value) is Kept})
        return GraphState.assemble(
            values=values,
            versions=view.plain_versions(),
            decisions=dict(view.decisions),
            terminated=view.terminated,
            position=view.position(step=self.step, seed=self._seed),
            history=self._history,
            digest=lambda: digest,
        )
