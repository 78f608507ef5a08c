"""The report for a terminal: what was explored, and each violation with its path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clew.explore.reports.state_diff import changes, told

if TYPE_CHECKING:
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

CHANGES = 4  # so many are shown for a step
# what would steer a terminal instead of being shown, or cannot be written at all
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def text(result: ExplorationResult) -> str:
    """The report as lines."""
    lines = [headline(result)]
    never = result.coverage.never
    if never:
        lines.append(f"never {'tried' if result.truncated else 'possible'}: {', '.join(never)}")
    for number, violation in enumerate(result.violations, 1):
        lines += ["", *_violation(number, violation, result)]
    return _UNSPEAKABLE.sub(lambda found: repr(found[0])[1:-1], "\n".join(lines))


def headline(result: ExplorationResult) -> str:
    """What was explored and found, in a line."""
    rate = len(result.transitions) / result.seconds if result.seconds > 0 else 0.0
    return (
        f"{_count(len(result.states), 'state')}, {_count(len(result.transitions), 'transition')}, "
        f"{_count(len(result.violations), 'violation')}; {extent(result)} "
        f"({result.strategy}, {result.seconds:.1f} s, {rate:,.0f}/s)"
    )


def extent(result: ExplorationResult) -> str:
    """How much of what there is was explored."""
    if not result.complete:
        return f"aborted, {_count(result.coverage.open, 'pair')} of state and action left"
    if result.truncated:
        return f"stopped early, {_count(result.coverage.open, 'pair')} of state and action left"
    return "explored to the end"


def standing(violation: Violation, result: ExplorationResult) -> str:
    """How sure it is, and how often it was seen."""
    seen = "seen once" if violation.count == 1 else f"seen {violation.count:,} times"
    shrunk = f", shrunk from {violation.shrunk_from} steps" if violation.shrunk_from else ""
    if violation.confirmed:
        sure = "confirmed by replay"
    elif result.complete:
        sure = "NOT confirmed: a replay did not show it again"
    else:
        sure = "not confirmed: the exploration was aborted before a replay"
    return f"{sure}, {seen}{shrunk}"


def _violation(number: int, violation: Violation, result: ExplorationResult) -> list[str]:
    lines = [
        f"{number}. {violation.severity.value.upper()} {violation.title}: {violation.message}",
        f"   {standing(violation, result)}",
    ]
    if not violation.path:
        lines.append("   in the initial state")
    for step, transition in enumerate(violation.path, 1):
        before = result.graph.get_state(transition.from_state_id)
        after = None if transition.to_state_id is None else result.graph.get_state(transition.to_state_id)
        what = [told(change) for change in changes(before, after)]
        more = [f"and {len(what) - CHANGES} more"] if len(what) > CHANGES else []
        end = (
            "raised" if transition.to_state_id is None else "; ".join([*what[:CHANGES], *more]) or "no change"
        )
        lines.append(f"   {step:>3}. {transition.action_name:<24} {end}")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
