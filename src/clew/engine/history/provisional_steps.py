"""Provisional steps: what a run has done after its last committed step, as far as its finished items tell.

The machine plans the open steps with the results that are known, as it does when a run continues (`Machine.preview`).
So the steps of finished items, and of those that execute, are the ones in which they will be committed. Nothing is
executed or committed. A provisional state has no digest: the open items of its step may still add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from clew.engine.frame import NO_LIMIT, Item, OpenStep
from clew.engine.lookahead import state_after
from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import Program
from clew.engine.records import Outcome
from clew.engine.working_state import WorkingState
from clew.state import GraphState


class ProvisionalStep:
    """A step that is not committed: its planned items, and the outcomes of nodes that have finished in it."""

    def __init__(self, machine: Machine, open_step: OpenStep) -> None:
        self.number = open_step.number
        self._machine = machine
        self._open_step = open_step

    @cached_property
    def paths(self) -> list[str]:
        """The planned items, in order."""
        batches = sorted(self._open_step.batches.items())
        return [Item(batch, index).path for _, batch in batches for index in range(len(batch.payloads))]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes that count so far: those of nodes of which all items have finished."""
        return self._open_step.outcomes(self._open_step.left_out)

    @property
    def before(self) -> dict[str, Any]:
        """The values that its items see."""
        return self._open_step.working_state.plain_values()

    @cached_property
    def _after(self) -> WorkingState:
        return self._open_step.lookahead_state or state_after(self._machine, self._open_step)

    @property
    def values(self) -> dict[str, Any]:
        """The values after it, so far."""
        return self._after.plain_values()

    @property
    def versions(self) -> dict[str, int]:
        """The versions of the values after it."""
        return self._after.plain_versions()

    @property
    def unfinished(self) -> set[str]:
        """The names of values that custom reducers make when their steps are committed."""
        _ = self._after  # it finds them
        found = self._machine.root.unfinished
        return {name for name, numbers in found.items() if numbers[0] <= self.number}


def provisional_steps(
    program: Program, state: GraphState, finished: Mapping[str, Outcome], on_conflict: str = "error"
) -> list[ProvisionalStep]:
    """Return the steps after `state` that are planned, given the outcomes of finished items by path."""
    confined = any(outcome.error is not None for outcome in finished.values())
    options = Options(
        queue_depth=NO_LIMIT,
        max_steps=NO_LIMIT,
        on_conflict="last" if on_conflict == "last" else "error",
        on_error="continue" if confined else "stop",
    )
    machine = Machine.restore(program, state, options, PriorWork(finished=finished))
    machine.preview()
    return [ProvisionalStep(machine, open_step) for open_step in machine.root.open_steps]
