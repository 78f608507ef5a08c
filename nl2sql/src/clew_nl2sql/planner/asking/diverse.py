"""Choose readings that differ in what a person would care about.

Each place goes to the likeliest reading left, after a discount for every reading that is already there and resembles
it: one that shows the same under the same conditions, or one that reads all of its words and more. Next to a reading
that may be right, one that cannot be is not offered.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from clew_nl2sql.planner.building.dry_run import DryRunResult
from clew_nl2sql.planner.query import Query

UNREAD = 0.35  # for each unread word
RESULTS = {"empty": 0.4, "null": 0.4, "zero": 0.6, "failed": 0.0}
ALIKE = 0.15  # shows the same under the same conditions
POORER = 0.25  # reads fewer words than one that is there


class OfferedReading(NamedTuple):
    """A query with its share among all readings, the words that it does not read, and the result of its dry run."""

    query: Query
    expression: exp.Expression
    outcome: DryRunResult
    share: float
    unread: tuple[str, ...]
    impossible: bool = False


def diverse(readings: list[OfferedReading], most: int) -> list[OfferedReading]:
    """Return the readings to offer, the likeliest first, with what remains of their shares."""
    left = [one for one in readings if not one.impossible] or list(readings)
    chosen: list[OfferedReading] = []
    while left and len(chosen) < most:
        best = max(left, key=lambda one: _worth(one, chosen))
        left.remove(best)
        chosen.append(best._replace(share=_worth(best, chosen)))
    return chosen


def _worth(reading: OfferedReading, chosen: list[OfferedReading]) -> float:
    worth = reading.share * UNREAD ** len(reading.unread) * RESULTS.get(reading.outcome.kind, 1.0)
    for other in chosen:
        if _is_alike(reading.query, other.query):
            worth *= ALIKE
        if set(other.unread) < set(reading.unread):
            worth *= POORER
    return worth


def _is_alike(one: Query, other: Query) -> bool:
    """Return whether queries differ only in their joins, groups or repetitions."""
    return (set(one.select), set(one.where), one.order, one.compound) == (
        set(other.select), set(other.where), other.order, other.compound,
    )  # fmt: skip
