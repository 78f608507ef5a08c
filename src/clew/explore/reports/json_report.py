"""The JSON report: everything that was found, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

FORMAT = 1


def document(result: ExplorationResult) -> dict[str, Any]:
    """Return the report as JSON data. A transition is [from, action, to]; violations include their paths."""
    return {
        "format": FORMAT,
        "strategy": result.strategy,
        "seconds": round(result.seconds, 3),
        "truncated": result.truncated,
        "complete": result.complete,
        "initial": result.graph.initial_id,
        "counts": {
            "states": len(result.states),
            "transitions": len(result.transitions),
            "violations": len(result.violations),
            "open": result.coverage.untried_pairs,
        },
        "coverage": {
            name: {"tried": action.tried, "raised": action.raised}
            for name, action in result.coverage.actions.items()
        },
        "violations": [violation_json(violation) for violation in result.violations],
        "states": [{"id": state.id, "data": result.shown(state)} for state in result.states],
        "transitions": [[t.from_state_id, t.action_name, t.to_state_id] for t in result.transitions],
    }


def violation_json(violation: Violation) -> dict[str, Any]:
    return {
        "cause": violation.kind.cause,
        "name": violation.name,
        "exception": violation.kind.exception or None,
        "severity": violation.severity.value,
        "message": violation.message,
        "count": violation.count,
        "confirmed": violation.confirmed,
        "shrunk_from": violation.shrunk_from,
        "path": [
            {"action": each.action_name, "from": each.from_state_id, "to": each.to_state_id}
            for each in violation.path
        ],
        "error": violation.error,
    }
