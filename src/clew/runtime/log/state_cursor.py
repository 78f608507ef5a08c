"""A cursor that moves a state forward step by step without keeping the steps, to load long runs with little memory.

The result equals that of a `Chain` of the same steps, in one pass: values, versions, and the latest execution of each
node. Digests are not computed: each stored step has one, which the reader has verified.

A step may contain large values that were not fetched (`Kept`). They are fetched when a reducer needs them, or with the
final state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from clew.engine.history.chain import executions_of
from clew.engine.program import Program
from clew.engine.records import Step
from clew.engine.working_state import WorkingState
from clew.runtime.log.entries.large_values import Kept
from clew.state import GraphState, assemble, position_of


class StateCursor:
    """A position in a run; `add` moves it to the next step. `fetch` returns the content of a large value."""

    def __init__(
        self, program: Program, start: GraphState, *, seed: int, on_conflict: str, fetch: Callable[[Any], Any]
    ) -> None:
        self._program = program
        self._start: GraphState | None = (
            start  # None after the first step: a second reference would force a copy of its lists
        )
        self._seed = seed
        self._on_conflict = on_conflict
        self._fetch = fetch
        self._view: WorkingState | None = None
        self.has_kept = any(type(value) is Kept for value in start.values.values())
        self.step = start.step
        self._began = position_of(start).began
        self.digest = start.digest
        self.done: Step | None = None  # the last step

    @property
    def values(self) -> Mapping[str, Any]:
        """The current values, to read at once; large ones may be `Kept`. A reference to a list keeps it from growing in
        place."""
        return self._start.values if self._view is None and self._start is not None else self._working.values

    @property
    def versions(self) -> Mapping[str, int]:
        """The current versions, to read at once."""
        return (
            self._start.versions if self._view is None and self._start is not None else self._working.versions
        )

    @property
    def _working(self) -> WorkingState:
        assert self._view is not None
        return self._view

    def add(self, step: Step, digest: str) -> None:
        """Apply the next step; `digest` is that of the state after it."""
        if self._view is None:
            assert self._start is not None
            self._view = WorkingState.restore(self._program, self._start)
            self._history = dict(self._start.node_history)
            self._start = None
        if self.has_kept and self._program.reducers:
            step = self._with_reduced(self._view, step)
        for execution in executions_of(self._program, self._view, step, self._on_conflict):
            self._history[execution.node_name] = execution
        self.digest = digest
        self.step = step.number
        self.done = step

    def _with_reduced(self, view: WorkingState, step: Step) -> Step:
        """Fetch the large values that reducers of this step use."""
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

    def view(self) -> GraphState:
        """Return the current state; the cursor can move on, and copies its lists then. Large values may be `Kept`."""
        state = self.state(fetched=False)
        if self._view is not None:
            self._history = dict(self._history)  # the state has the other one
        return state

    def state(self, *, fetched: bool = True) -> GraphState:
        """Return the current state; call `add` no more after that. Without `fetched`, large values may be `Kept`."""
        if self._view is None:
            assert self._start is not None
            return self._start
        view, digest = self._view, self.digest
        values = view.plain_values()
        if fetched:
            values.update({name: self._fetch(value) for name, value in values.items() if type(value) is Kept})
        return assemble(
            values=values,
            versions=view.plain_versions(),
            decisions=dict(view.decisions),
            terminated=view.terminated,
            position=view.position(step=self.step, seed=self._seed, began=self._began),
            history=self._history,
            digest=lambda: digest,
        )
