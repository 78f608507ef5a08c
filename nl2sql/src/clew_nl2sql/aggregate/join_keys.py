"""Find the columns of two results that hold the same things.

Sources do not share keys, but they share things: customers have the same names everywhere. Given keys come
first. Otherwise the score of a pair of columns is the share of the smaller side's values that the other side
contains; the entity of the question and equal names break ties. A computed column is never a key, because a
count that equals an id means nothing. Too few common values mean that there is no key.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from clew_nl2sql.decompose.normalization import stem
from clew_nl2sql.schemas import ColumnRef, CombineGroup

if TYPE_CHECKING:
    from clew_nl2sql.aggregate.combine import ResultInput

ENOUGH = 0.3  # share of the smaller side's values


def find_key(left: ResultInput, right: ResultInput, group: CombineGroup) -> tuple[str, str] | None:
    """Return the columns to join on, if any."""
    for key in group.keys:
        own = [_find(one, key) for one in (left, right)]
        if all(own):
            return str(own[0]), str(own[1])
    scored = []
    for a, b in product(left.columns, right.columns):
        overlap = _overlap(left, a, right, b) if _may_match(a, b) else 0.0
        if overlap >= ENOUGH:
            named = sum(
                (_speaks_of(a, group.entity), _speaks_of(b, group.entity), a.name.lower() == b.name.lower())
            )
            place = -left.columns.index(a) - right.columns.index(b)
            scored.append((overlap + 0.2 * named, named, place, a.name, b.name))
    return max(scored)[3:] if scored else None


def _may_match(a: ColumnRef, b: ColumnRef) -> bool:
    return a.role == b.role == "attribute" and _family(a) == _family(b)


def _find(one: ResultInput, key: str) -> str | None:
    return next((c.name for c in one.columns if c.name.lower() == key.lower()), None)


def _family(column: ColumnRef) -> str:
    for family, beginnings in {"number": ("int", "double", "decimal"), "time": ("date", "timestamp")}.items():
        if column.type.startswith(beginnings):
            return family
    return column.type


def _overlap(left: ResultInput, a: ColumnRef, right: ResultInput, b: ColumnRef) -> float:
    one = {value for value in left.table.column(a.name).to_pylist() if value is not None}
    other = {value for value in right.table.column(b.name).to_pylist() if value is not None}
    return len(one & other) / min(len(one), len(other)) if one and other else 1.0


def _speaks_of(column: ColumnRef, entity: str) -> bool:
    """Return whether the name of a column, or of its table, is the entity of the question."""
    if not entity:
        return False
    wanted = stem(entity.split()[-1])
    return any(stem(part) == wanted for part in f"{column.name}_{column.entity}".lower().split("_") if part)
