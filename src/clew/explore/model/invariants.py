"""Invariants: rules that must hold in every state, each with a severity.

Rules:

- Only `True` passes. A string is the message of the violation; anything else fails with the invariant's own message.
- A check that raises is a violation too, because it did not show that the rule holds.
- Invariants are checked in the initial state and after each action, never during a rollback. A check must not change
  anything.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from clew.error_text import line_of
from clew.errors import DefinitionError
from clew.explore.model.actions import check_function
from clew.state.type_names import a

if TYPE_CHECKING:
    from clew.explore.model.world import World


class Severity(enum.Enum):
    """How serious a violation is, the most serious first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        """Return the position in the order of severities: 0 for the most serious."""
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


class Invariant(msgspec.Struct, frozen=True, eq=False):
    """A rule that must hold in every state.

    Args:
        name: Name in reports; unique in an exploration.
        check: Takes the world. Returns True if the rule holds, or a string that says why it does not.
        severity: How serious a violation is.
        message: Message of a violation if the check returns no string.
    """

    name: str
    check: Callable[[World], Any]
    severity: Severity = Severity.MEDIUM
    message: str = ""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise DefinitionError(f"the name of an invariant must be a non-empty string, got {self.name!r}")
        check_function(self.check, f"invariant {self.name!r}: check")
        if not isinstance(self.severity, Severity):
            raise DefinitionError(
                f"invariant {self.name!r}: severity must be a Severity, got {self.severity!r}"
            )


def failure_of(invariant: Invariant, world: World) -> str | None:
    """Check an invariant. Return None if it holds, else the message of the violation."""
    try:
        returned = invariant.check(world)
    except Exception as error:
        return f"the check raised {line_of(error)}"
    if returned is True:
        return None
    if type(returned) is str and returned:
        return returned
    return invariant.message or f"the check returned {_repr(returned)}, not True"


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # __repr__ is the user's code
        return a(type(value))


def error_message(error: BaseException) -> str:
    """Return the message of an exception as one line, or the name of its class if it has no message."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # __str__ is the user's code
        text = ""
    return text or type(error).__name__
