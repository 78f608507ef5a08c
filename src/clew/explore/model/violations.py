"""Violations: what was found wrong, one entry for each kind, with the shortest way to see it.

A kind is an invariant that fails, an action together with the exception that it raises, or a precondition together
with its exception. Of a kind, the shortest path is shrunk and confirmed; the others are counted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.explore.model.invariants import Severity
from clew.explore.model.states import Transition

Cause = Literal["invariant", "action", "precondition"]


class ViolationKind(msgspec.Struct, frozen=True, gc=False):
    """What violations are grouped by."""

    cause: Cause
    name: str  # of the invariant or action
    exception: str = ""  # the class, where an action or a precondition raised


class Violation(msgspec.Struct, frozen=True):
    """A rule that does not hold, or an action that raises.

    `path` is the shortest one known, shrunk so that no action can be left out. `confirmed` says that it was done once
    more, from the initial state, and showed the violation again. `count` is how often this kind was seen. `error` is
    the exception, as text, where one was raised.
    """

    kind: ViolationKind
    message: str
    severity: Severity
    path: list[Transition]
    count: int = 1
    confirmed: bool = False
    shrunk_from: int | None = None  # how long the path was before, if shrinking made it shorter
    error: str | None = None

    @property
    def name(self) -> str:
        """The name of the invariant, or of the action that raised."""
        return self.kind.name

    @property
    def invariant(self) -> str | None:
        """The name of the invariant; None where an action raised."""
        return self.kind.name if self.kind.cause == "invariant" else None

    @property
    def exception(self) -> str | None:
        """The class of the exception, where an action or a precondition raised."""
        return self.kind.exception or None

    @property
    def action(self) -> str | None:
        """The last action of the path; None where the initial state is at fault."""
        return self.path[-1].action_name if self.path else None

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions of the path."""
        return tuple(transition.action_name for transition in self.path)

    @property
    def state_id(self) -> str | None:
        """The state that the path ends in; None where the last action raised, or the path is empty."""
        return self.path[-1].to_state_id if self.path else None

    @property
    def title(self) -> str:
        """The kind in a few words."""
        if self.kind.cause == "invariant":
            return self.kind.name
        what = "raised" if self.kind.cause == "action" else "could not say whether it may run:"
        return f"{self.kind.name} {what} {self.kind.exception}"


class ViolationGroup(msgspec.Struct):
    """All that was seen of one kind."""

    kind: ViolationKind
    severity: Severity
    message: str
    occurrences: list[tuple[str | None, str | None]]  # state and action
    error: str | None = None
    count: int = 0


class ViolationLog:
    """Violations as they come in, by kind, in the order of discovery."""

    def __init__(self) -> None:
        self.by_kind: dict[ViolationKind, ViolationGroup] = {}

    def add(
        self,
        kind: ViolationKind,
        severity: Severity,
        message: str,
        state_id: str | None,
        action: str | None,
        error: str | None = None,
    ) -> None:
        """One more: the action was done in the state (both None: the initial state is at fault)."""
        found = self.by_kind.get(kind)
        if found is None:
            found = self.by_kind[kind] = ViolationGroup(kind, severity, message, [], error)
        found.count += 1
        found.occurrences.append((state_id, action))

    def __len__(self) -> int:
        return len(self.by_kind)
