"""Findings: violations that an action reports about its own transition.

An invariant judges a state. Some rules are about a step: a request that is answered with 500, a rejected request that
changes a row. An action reports these by returning a `Finding`, or a list of them. Any other return value is ignored.
Findings are grouped by their key, whichever action returned them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.errors import DefinitionError
from clew.explore.model.invariants import Severity
from clew.explore.model.violations import RecordedViolation, ViolationKind


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
