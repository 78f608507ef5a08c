"""The text report, for a terminal: what was explored, and each violation with its path."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from clew.explore.reports.state_diff import describe_change, step_changes, unchanged

if TYPE_CHECKING:
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

CHANGES = 4  # shown per step
ACTIONS = 10  # shown of those that were never tried
# control characters, and lone surrogates, which cannot be encoded
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def text(result: ExplorationResult, hidden: Collection[str] = ()) -> str:
    """Return the report as text, without changes of the `hidden` parts of a state."""
    lines = [headline(result)]
    untried = result.coverage.never_enabled
    if untried:
        lines.append(f"never {'tried' if result.truncated else 'enabled'}: {listed(untried, ACTIONS)}")
    for number, violation in enumerate(result.violations, 1):
        lines += ["", *_violation(number, violation, result, hidden)]
    return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], "\n".join(lines))


def headline(result: ExplorationResult) -> str:
    """Return a summary in one line."""
    rate = len(result.transitions) / result.seconds if result.seconds > 0 else 0.0
    return (
        f"{counted(len(result.states), 'state')}, {counted(len(result.transitions), 'transition')}, "
        f"{counted(len(result.violations), 'violation')}; {extent(result)} "
        f"({result.strategy}, {result.seconds:.1f} s, {rate:,.0f}/s)"
    )


def extent(result: ExplorationResult) -> str:
    """Return how complete the exploration is."""
    untried = f"{counted(result.coverage.untried_pairs, 'pair')} of state and action not tried"
    if not result.complete:
        return f"aborted, {untried}"
    return f"stopped early, {untried}" if result.truncated else "exploration complete"


def confirmation(violation: Violation, result: ExplorationResult) -> str:
    """Return whether a violation is confirmed, and how often it was seen."""
    seen = "seen once" if violation.count == 1 else f"seen {violation.count:,} times"
    shrunk = f", shrunk from {violation.shrunk_from} steps" if violation.shrunk_from else ""
    if violation.confirmed:
        status = "confirmed by replay"
    elif not violation.replayed and result.complete:
        status = "not confirmed: the time for a replay ran out"
    elif result.complete:
        status = "NOT confirmed: a replay did not reproduce it"
    else:
        status = "not confirmed: the exploration was aborted before a replay"
    return f"{status}, {seen}{shrunk}"


def _violation(
    number: int, violation: Violation, result: ExplorationResult, hidden: Collection[str]
) -> list[str]:
    lines = [
        f"{number}. {violation.severity.value.upper()} {violation.title}: {violation.message}",
        f"   {confirmation(violation, result)}",
    ]
    if not violation.path:
        lines.append("   in the initial state")
    for step, transition in enumerate(violation.path, 1):
        what = [
            describe_change(change)
            for change in step_changes(result, transition)
            if change[0].split(".")[0] not in hidden
        ]
        more = [f"and {len(what) - CHANGES} more"] if len(what) > CHANGES else []
        end = (
            "raised"
            if transition.to_state_id is None
            else "; ".join([*what[:CHANGES], *more]) or unchanged(result.graph, transition)
        )
        lines.append(f"   {step:>3}. {transition.action_name:<24} {end}")
    return lines


def listed(texts: Sequence[str], limit: int) -> str:
    """Return the first texts, and how many more there are."""
    more = f" and {len(texts) - limit:,} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + more


def counted(number: int, what: str) -> str:
    """Return a number with a noun in the singular or plural."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
