"""A query as plain data: selection, filters, groups and order, by the numbers of the schema index.

Columns imply their tables; `tables` holds only additional tables to join. Queries are values: equal queries
are one candidate.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from clew_nl2sql.planner.catalog import Value

NULL = "\0"  # the value of `IS NULL`; no text of a database holds this character
KNOWN = "\0\0"  # the value of `IS NOT NULL`


class SelectItem(NamedTuple):
    """A column or an aggregate of one; column None is `*`."""

    column: int | None
    agg: str = ""
    distinct: bool = False

    @property
    def is_plain(self) -> bool:
        """Return whether this is a column as it is."""
        return self.column is not None and not self.agg


SHARE = SelectItem(None, "share")  # the percentage of rows that fulfil a condition


class Scalar(NamedTuple):
    """A subquery of one value: `(SELECT agg(column) FROM its table)`."""

    agg: str
    column: int
    where: tuple[Condition, ...] = ()


class Condition(NamedTuple):
    """`item op value`; `either` connects it to the previous condition with OR."""

    item: SelectItem
    op: str  # = != > < >= <= between like, in, not in, is, is not
    value: Value | tuple[Value, ...] | Scalar | Query | SelectItem
    either: bool = False


class PlacedCondition(NamedTuple):
    """A condition, and the position of its words in the question."""

    start: int
    end: int
    condition: Condition


class Query(NamedTuple):
    """One SELECT, optionally with a second one after a set operation."""

    select: tuple[SelectItem, ...]
    tables: frozenset[int] = frozenset()
    where: tuple[Condition, ...] = ()
    group: tuple[int, ...] = ()
    having: tuple[Condition, ...] = ()
    order: tuple[tuple[SelectItem, bool], ...] = ()  # True for descending
    limit: int | None = None
    distinct: bool = False
    compound: tuple[str, Query] | None = None
    via: frozenset[int] = frozenset()  # keys that the question names; joins prefer them
    period: tuple[int, str] | None = None  # a date that is grouped by year, month or day
    share: Condition | None = None  # of which `SHARE` is the percentage of rows

    @property
    def plain(self) -> tuple[int, ...]:
        """Return the columns that are selected as they are."""
        return tuple(i.column for i in self.select if i.column is not None and not i.agg)

    @property
    def aggregates(self) -> bool:
        """Return whether an aggregate is selected."""
        return any(i.agg for i in self.select)

    @property
    def picks_by_count(self) -> bool:
        """Return whether rows are ordered by a count, or groups filtered by an aggregate."""
        ranked = any(item.agg == "count" for item, _ in self.order)
        return ranked or any(c.item.agg for c in self.having)


def columns_of(query: Query) -> list[int]:
    """Return every column that the query's own FROM must provide."""
    found = [i.column for i in query.select if i.column is not None]
    shared = () if query.share is None else (query.share,)
    for condition in query.where + query.having + shared:
        if condition.item.column is not None:
            found.append(condition.item.column)
        if isinstance(condition.value, SelectItem) and condition.value.column is not None:
            found.append(condition.value.column)
    found.extend(query.group)
    found.extend(item.column for item, _ in query.order if item.column is not None)
    return found


def rivals(conditions: list[PlacedCondition]) -> tuple[Condition, Condition] | None:
    """Return two conditions on one column that no row can satisfy at the same time."""
    for (_, _, first), (_, _, second) in combinations(conditions, 2):
        same = first.item == second.item and first != second
        if same and not isinstance(first.value, Scalar | SelectItem):
            return first, second
    return None
