"""A state that is moved forward step by step, without keeping the steps: how a long run is loaded in little memory.

What comes out is what a `Chain` of the same steps would say, computed in one pass: values, versions, the latest
execution of each node, and the digest.
"""

from __future__ import annotations

from clew.engine.chain import executions_of, step_digest
from clew.engine.records import Step
from clew.engine.rules import Program
from clew.engine.view import View
from clew.state import GraphState


class Advance:
    """Stands at a step of a run; `add` moves it on."""

    def __init__(self, program: Program, start: GraphState, *, seed: int, on_conflict: str) -> None:
        self._program = program
        self._start: GraphState | None = (
            start  # until it is moved: then it must not be held, or lists are copied
        )
        self._seed = seed
        self._on_conflict = on_conflict
        self._view: View | None = None
        self.step = start.step
        self.digest = start.digest

    def add(self, step: Step) -> None:
        """Move on by the next step."""
        if self._view is None:
            assert self._start is not None
            self._view = View.restore(self._program, self._start)
            self._history = dict(self._start.node_history)
            self._start = None
        for execution in executions_of(self._program, self._view, step, self._on_conflict):
            self._history[execution.node_name] = execution
        self.digest = step_digest(self.digest, step)
        self.step = step.number

    def state(self) -> GraphState:
        """The state where it stands. It is not moved on after that."""
        if self._view is None:
            assert self._start is not None
            return self._start
        view, digest = self._view, self.digest
        return GraphState.assemble(
            values=view.plain_values(),
            versions=view.plain_versions(),
            decisions=dict(view.decisions),
            terminated=view.terminated,
            position=view.position(step=self.step, seed=self._seed),
            history=self._history,
            digest=lambda: digest,
        )
