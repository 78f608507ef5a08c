"""The result of an exploration."""

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
    """The use of each action by name, and the number of pairs of state and action that were not tried."""

    actions: dict[str, ActionCoverage]
    untried_pairs: int

    @property
    def never_enabled(self) -> tuple[str, ...]:
        """Return the actions that were never tried; after a complete exploration, no state enabled them."""
        return tuple(name for name, action in self.actions.items() if not action.tried)

    @property
    def percent(self) -> float:
        """Return the percentage of actions that were tried at least once."""
        tried = len(self.actions) - len(self.never_enabled)
        return 100.0 * tried / len(self.actions) if self.actions else 100.0


class ExplorationResult:
    """States, transitions, violations and coverage of an exploration."""

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
        resumed_transitions: int = 0,
        complete: bool = True,
    ) -> None:
        self.graph = graph
        self.violations = violations
        self.coverage = coverage
        self.truncated = truncated
        self.strategy = strategy
        self.seconds = seconds
        self.invariants = invariants
        self.resumed_transitions = resumed_transitions
        self.complete = complete  # False: the exploration was aborted
        self._states: list[State] = []

    @property
    def states(self) -> list[State]:
        """Return all states, in the order in which they were found."""
        if len(self._states) != len(self.graph.states):
            self._states = list(self.graph.states.values())
        return self._states

    @property
    def transitions(self) -> list[Transition]:
        """Return all transitions, in the order in which they were tried."""
        return self.graph.transitions

    @property
    def initial(self) -> State:
        """Return the initial state."""
        assert self.graph.initial_id is not None
        return self.graph.states[self.graph.initial_id]

    def shown(self, state: State) -> dict[str, Any]:
        """Return what the reports show of a state, as JSON data."""
        from clew.explore.reports.state_diff import tree

        return tree(state)

    @property
    def ok(self) -> bool:
        """Return whether there are no violations."""
        return not self.violations

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a report. The extension selects the format: .json, .html, .xml (JUnit), .md or .dot."""
        from clew.explore.reports import save

        save(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the JSON report."""
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
