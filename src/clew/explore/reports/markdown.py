"""The Markdown report, for a pull request or a wiki."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.explore.reports.state_diff import describe_change, step_changes, unchanged
from clew.explore.reports.text import confirmation, extent

if TYPE_CHECKING:
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

CHANGES = 6  # shown per step


def markdown(result: ExplorationResult) -> str:
    """Return the report as a Markdown page."""
    verdict = f"{len(result.violations)} found" if result.violations else "none found"
    lines = [
        "# Exploration",
        "",
        "| states | transitions | violations | extent | strategy | time |",
        "|--:|--:|---|---|---|--:|",
        f"| {len(result.states):,} | {len(result.transitions):,} | {verdict} | {extent(result)} "
        f"| {_cell(result.strategy)} | {result.seconds:.1f} s |",
        "",
    ]
    for violation in result.violations:
        lines += _violation(violation, result)
    lines += ["## Actions", "", "| action | tried | raised |", "|---|--:|--:|"]
    for name, action in result.coverage.actions.items():
        lines.append(f"| {_cell(name)} | {action.tried:,} | {action.raised:,} |")
    return "\n".join(lines) + "\n"


def _violation(violation: Violation, result: ExplorationResult) -> list[str]:
    lines = [
        f"## {violation.severity.value.capitalize()}: {_plain(violation.title)}",
        "",
        _plain(violation.message),
        "",
        f"*{confirmation(violation, result)}*",
        "",
    ]
    if not violation.path:
        return [*lines, "In the initial state.", ""]
    lines += ["| step | action | changes |", "|--:|---|---|"]
    for step, transition in enumerate(violation.path, 1):
        what = [_cell(describe_change(change)) for change in step_changes(result, transition)]
        more = [f"and {len(what) - CHANGES} more"] if len(what) > CHANGES else []
        end = "**raised**" if transition.to_state_id is None else "<br>".join([*what[:CHANGES], *more])
        lines.append(
            f"| {step} | {_cell(transition.action_name)} | {end or unchanged(result.graph, transition)} |"
        )
    if violation.error:
        lines += ["", "```text", violation.error.replace("```", "'''"), "```"]
    return [*lines, ""]


def _cell(text: str) -> str:
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`"


def _plain(text: str) -> str:
    line = " ".join(text.split())
    return "".join(f"\\{symbol}" if symbol in "\\`*_<>[]#|" else symbol for symbol in line)
