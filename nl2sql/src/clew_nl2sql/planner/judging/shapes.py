"""Queries whose shape cannot answer the question. They are not candidates.

- "The customers with the highest total amount of orders" are groups of orders, and not single orders.
- "Which 10 customers" are ten, and not one.
- "Per month" makes groups of months.
- "The average distance per trip" is no list of trips with the distance of each.
"""

from __future__ import annotations

from clew_nl2sql.planner.judging.figures import EACH
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Query


def has_strange_shape(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether groups are single rows, or a number of things is forgotten."""
    return (
        _adds_up_single_rows(parsed, query)
        or _averages_single_rows(parsed, query)
        or _forgets_how_many(parsed, query)
        or _forgets_period(parsed, query)
    )


def _forgets_period(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "per month" makes no groups of months, or more groups than these."""
    if parsed.period is None:
        return False
    figures = [*query.select, *(item for item, _ in query.order), *(c.item for c in query.having)]
    if not any(item.agg for item in figures):
        return True  # a list of months
    return query.period is None or (len(query.group) > 1 and len(EACH & set(parsed.low)) < 2)


def _adds_up_single_rows(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether figures of a table are added up in groups of one row of that table."""
    columns, tables = parsed.schema.columns, parsed.schema.tables
    single = {columns[c].table for c in query.group if tables[columns[c].table].key == c}
    ranked = [item for item, _ in query.order] + [c.item for c in query.having]
    added = {columns[i.column].table for i in ranked if i.agg in ("sum", "avg") and i.column is not None}
    shown = {columns[c].table for c in query.plain}
    return bool(single & added) and single.isdisjoint(shown)


def _averages_single_rows(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether the average of a table's column is taken for each row of that table."""
    columns = parsed.schema.columns
    averaged = [columns[i.column] for i in query.select if i.agg == "avg" and i.column is not None]
    grouped = [columns[c] for c in query.group]
    return any(
        c.table == group.table and (group.is_key or group.unique) for c in averaged for group in grouped
    )


def _forgets_how_many(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "which 10 donors have the highest" is answered with one."""
    if query.limit != 1 or parsed.word(0) not in ("which", "what"):
        return False
    number = parsed.tokens[1].value if len(parsed.tokens) > 2 else None
    things = any(m.start == 2 and m.best().column is None for m in parsed.mentions)
    return things and number is not None and number > 1
