"""What came of an exploration."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from clew.explore.model.state_graph import StateGraph
from clew.explore.model.states import State, Transition
from clew.explore.model.violations import Violation


class ActionCoverage(msgspec.Struct, frozen=True):
    """How often an action was tried, and how often it raised."""

    tried: int
    raised: int


class Coverage(msgspec.Struct, frozen=True):
    """What was tried: each action by name, and how many pairs of state and action are still open."""

    actions: dict[str, ActionCoverage]
    open: int

    @property
    def never(self) -> tuple[str, ...]:
        """Actions that were possible in no state that was found."""
        return tuple(name for name, action in self.actions.items() if not action.tried)

    @property
    def percent(self) -> float:
        """The share of the actions that were tried at all."""
        return 100.0 * (len(self.actions) - len(self.never)) / len(self.actions) if self.actions else 100.0


class ExplorationResult:
    """States, transitions and violations; saved as a report, or looked at."""

    def __init__(
        self,
        graph: StateGraph,
        violations: list[Violation],
        coverage: Coverage,
        *,
        truncated: bool,
        strategy: str,
        seconds: float,
        invariants: tuple[str, ...] = (),
        recalled: int = 0,
        complete: bool = True,
    ) -> None:
        self.graph = graph
        self.violations = violations
        self.coverage = coverage
        self.truncated = truncated
        self.strategy = strategy
        self.seconds = seconds
        self.invariants = invariants
        self.recalled = recalled
        self.complete = complete  # False: it was aborted
        self._states: list[State] = []

    @property
    def states(self) -> list[State]:
        """All states, in the order in which they were found."""
        if len(self._states) != len(self.graph.states):
            self._states = list(self.graph.states.values())
        return self._states

    @property
    def transitions(self) -> list[Transition]:
        """All transitions, in the order in which they were tried."""
        return self.graph.transitions

    @property
    def initial(self) -> State:
        """The state in which it began."""
        assert self.graph.initial_id is not None
        return self.graph.states[self.graph.initial_id]

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.violations

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a report: .json, .html, .xml (JUnit), .md or .dot, as the name ends."""
        from clew.explore.reports import save

        save(self, path)

    def to_json(self) -> dict[str, Any]:
        """The result as a tree of JSON."""
        from clew.explore.reports.json_report import document

        return document(self)

    def __str__(self) -> str:
        from clew.explore.reports.text import text

        return text(self)

    def __repr__(self) -> str:
        return (
            f"ExplorationResult({len(self.graph.states)} states, {len(self.graph.transitions)} transitions, "
            f"{len(self.violations)} violations{', truncated' if self.truncated else ''})"
        )

    def _repr_html_(self) -> str:
        from clew.explore.reports.html import fragment

        return fragment(self)
