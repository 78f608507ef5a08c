"""Violations: broken invariants and unexpected exceptions, grouped by kind.

A kind is an invariant that fails, a key of findings that actions return, an action with the exception that it raises,
or a precondition with its exception.
For each kind the shortest path is shrunk and confirmed; all other occurrences are only counted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.explore.model.invariants import Severity
from clew.explore.model.states import Transition

Cause = Literal["invariant", "action", "precondition", "finding"]


class ViolationKind(msgspec.Struct, frozen=True, gc=False):
    """The key by which violations are grouped."""

    cause: Cause
    name: str  # of the invariant or action, or the key of the finding
    exception: str = ""  # the class of the exception, if an action or a precondition raised


class Violation(msgspec.Struct, frozen=True):
    """An invariant that does not hold, a finding of an action, or an action or precondition that raises.

    `path` is the shortest known path, shrunk so that no action can be left out. `confirmed` is true if a repetition of
    the path from the initial state reproduced the violation; `replayed` is false if the time for that ran out. `count`
    is the number of occurrences of this kind. `error` is the traceback of the exception, if there was one.
    """

    kind: ViolationKind
    message: str
    severity: Severity
    path: list[Transition]
    count: int = 1
    confirmed: bool = False
    shrunk_from: int | None = None  # length of the path before shrinking, if shrinking made it shorter
    error: str | None = None
    replayed: bool = True

    @property
    def name(self) -> str:
        """Return the name of the invariant or of the action, or the key of the finding."""
        return self.kind.name

    @property
    def invariant(self) -> str | None:
        """Return the name of the invariant, or None if the violation is about something else."""
        return self.kind.name if self.kind.cause == "invariant" else None

    @property
    def exception(self) -> str | None:
        """Return the class name of the exception, or None if nothing was raised."""
        return self.kind.exception or None

    @property
    def action(self) -> str | None:
        """Return the last action of the path, or None if the violation is in the initial state."""
        return self.path[-1].action_name if self.path else None

    @property
    def actions(self) -> tuple[str, ...]:
        """Return the names of the actions on the path."""
        return tuple(transition.action_name for transition in self.path)

    @property
    def state_id(self) -> str | None:
        """Return the last state of the path, or None if the last action raised or the path is empty."""
        return self.path[-1].to_state_id if self.path else None

    @property
    def title(self) -> str:
        """Return a short description of the kind."""
        if self.kind.cause in ("invariant", "finding"):
            return self.kind.name
        what = "raised" if self.kind.cause == "action" else "has a precondition that raised"
        return f"{self.kind.name} {what} {self.kind.exception}"


class RecordedViolation(msgspec.Struct, frozen=True, array_like=True):
    """A violation as it was found."""

    kind: ViolationKind
    severity: Severity
    message: str
    error: str | None = None


class ViolationGroup(msgspec.Struct):
    """All occurrences of one kind: the first one, and the state and the action of each."""

    first: RecordedViolation
    occurrences: list[tuple[str | None, str | None]] = []


class ViolationLog:
    """All violations so far, by kind, in the order of discovery."""

    def __init__(self) -> None:
        self.by_kind: dict[ViolationKind, ViolationGroup] = {}

    def add(self, found: RecordedViolation, state_id: str | None, action: str | None) -> None:
        """Add an occurrence: a state and the action that ran in it, or None twice for the initial state."""
        group = self.by_kind.get(found.kind)
        if group is None:
            group = self.by_kind[found.kind] = ViolationGroup(found)
        group.occurrences.append((state_id, action))

    def __len__(self) -> int:
        return len(self.by_kind)
