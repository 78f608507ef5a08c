"""Violations: broken invariants, findings and unexpected exceptions, grouped by kind.

A kind is an invariant that fails, a key of findings that actions return, an action with the exception that it raises,
or a precondition with its exception. For each kind the shortest path is shrunk and confirmed; all other occurrences are
only counted.

An invariant judges a state. Some rules are about a step: a request that is answered with 500, a rejected request that
changes a row. An action reports these by returning a `Finding`, or a list of them. Any other return value is ignored.
Findings are grouped by their key, whichever action returned them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clew.errors import DefinitionError
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


class Finding(msgspec.Struct, frozen=True):
    """A rule that a transition breaks.

    Args:
        key: Findings with the same key are one violation.
        message: What happened in this transition.
        severity: How serious it is.
    """

    key: str
    message: str
    severity: Severity = Severity.MEDIUM

    def __post_init__(self) -> None:
        if type(self.key) is not str or not self.key:
            raise DefinitionError(f"the key of a finding must be a non-empty string, got {self.key!r}")
        if not isinstance(self.severity, Severity):
            raise DefinitionError(f"finding {self.key!r}: severity must be a Severity, got {self.severity!r}")


def findings_of(returned: Any) -> tuple[Finding, ...]:
    """Return the findings in the return value of an action."""
    if isinstance(returned, Finding):
        return (returned,)
    if type(returned) in (list, tuple):
        return tuple(each for each in returned if isinstance(each, Finding))
    return ()


def recorded_findings(returned: Any) -> list[RecordedViolation]:
    """Return the findings in the return value of an action as violations, one for each key."""
    found = {
        each.key: RecordedViolation(ViolationKind("finding", each.key), each.severity, each.message)
        for each in reversed(findings_of(returned))
    }
    return list(reversed(found.values()))
