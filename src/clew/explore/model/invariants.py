"""Invariants: what must hold in every state, and how serious it is where one does not.

Rules:

- Only `True` passes. A text is what the report says; anything else fails with the invariant's own message.
- A check that raises is a violation too: it could not show that the rule holds.
- They are checked on the initial state and after each action, never during a rollback. A check only looks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import DefinitionError
from clew.explore.model.actions import check_function

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
        """0 for the most serious."""
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


class Invariant(msgspec.Struct, frozen=True, eq=False):
    """A rule that every state must keep.

    Args:
        name: What it is called in reports; unique in an exploration.
        check: Takes the world. True: the rule holds. A text: why it does not.
        severity: How serious it is where it does not hold.
        message: What the report says where the check gives no text.
    """

    name: str
    check: Callable[[World], Any]
    severity: Severity = Severity.MEDIUM
    message: str = ""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise DefinitionError(f"the name of an invariant is a text, not {self.name!r}")
        check_function(self.check, f"invariant {self.name!r}: check")
        if not isinstance(self.severity, Severity):
            raise DefinitionError(f"invariant {self.name!r}: severity is a Severity, not {self.severity!r}")


def judge(invariant: Invariant, world: World) -> str | None:
    """None where the invariant holds, else what is wrong."""
    try:
        verdict = invariant.check(world)
    except Exception as error:
        return f"the check raised {told(error)}"
    if verdict is True:
        return None
    if type(verdict) is str and verdict:
        return verdict
    return invariant.message or f"the check gave {_shown(verdict)}, not True"


def _shown(verdict: Any) -> str:
    try:
        return repr(verdict)
    except Exception:  # what a check gave is the user's, and so is what it makes of repr
        return f"a {type(verdict).__name__}"


def complaint(error: BaseException) -> str:
    """What an exception says, as one line; its class where it says nothing."""
    return _said(error) or type(error).__name__


def told(error: BaseException) -> str:
    """An exception as one line."""
    text = _said(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _said(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())
    except Exception:  # an exception of the user's that cannot be printed is still the one that was raised
        return ""
