"""A query as plain data: selection, filters, groups and order, by the numbers of the schema index.

Columns imply their tables; `tables` holds only additional tables to join. Queries are values: equal queries
are one candidate.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.catalog import Value

NULL = "\0"  # the value of `IS NULL`; no text of a database holds this character
KNOWN = "\0\0"  # the value of `IS NOT NULL`


class SelectItem(NamedTuple):
    """A column or an aggregate of one; column None is `*`."""

    column: int | None
    agg: str = ""
    distinct: bool = False


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


def columns_of(query: Query) -> list[int]:
    """Return every column that the query's own FROM must provide."""
    found = [i.column for i in query.select if i.column is not None]
    for condition in query.where + query.having:
        if condition.item.column is not None:
            found.append(condition.item.column)
        if isinstance(condition.value, SelectItem) and condition.value.column is not None:
            found.append(condition.value.column)
    found.extend(query.group)
    found.extend(item.column for item, _ in query.order if item.column is not None)
    return found


def rivals(conditions: list[tuple[int, int, Condition]]) -> tuple[Condition, Condition] | None:
    """Return two conditions on one column that no row can satisfy at the same time."""
    for n, (_, _, first) in enumerate(conditions):
        for _, _, second in conditions[n + 1 :]:
            if (
                first.item == second.item
                and first != second
                and not isinstance(first.value, Scalar | SelectItem)
            ):
                return first, second
    return None
