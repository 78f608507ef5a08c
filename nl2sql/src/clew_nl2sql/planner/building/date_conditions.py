"""Compare a column of dates with days and years.

A day is a half-open range on a column of timestamps: "on 2025-03-03" is from its first moment until the next day.
"After 2020" starts after its last day; comparing 2020-05-01 with 2020, as text or as a date, would be incorrect.

A day begins at midnight in the time zone of the source. Databases with a type for that know it. SQLite does not, so its
texts in UTC are compared with the beginning of the day in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from sqlglot import exp

from clew_nl2sql.planner.catalog import DATES_LOOKED_AT, are_dates
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import Condition
from clew_nl2sql.timezones import in_utc

_OPS = ("=", "!=", "<", "<=", ">", ">=", "between")
_YEAR = re.compile(r"\d{4}\Z")
_DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}\Z")
_UTC = re.compile(r"^\S{10}[T ]\d\d:\d\d.*(?:Z|[+]00:?00)\Z")
_TIMED = re.compile(r"timestamp|datetime", re.IGNORECASE)


def date_condition(condition: Condition, left: exp.Expression, schema: SchemaIndex) -> exp.Expr | None:
    """Return the comparison, or None if it does not compare a date with days or years."""
    number, value = condition.item.column, condition.value
    if number is None or condition.item.agg or condition.op not in _OPS:
        return None
    column = schema.columns[number]
    if column.kind != "date" or (schema.dialect == "sqlite" and not are_dates(column.source.values)):
        return None
    given = value if type(value) is tuple else (value, value)
    periods = [period for one in given if (period := _period(one))]
    if len(periods) != 2 or len(given) != 2:
        return None
    at = _utc_literal(column, schema.timezone) if schema.dialect == "sqlite" else None
    first, last = periods[0][0], periods[1][1]
    return _compared(condition.op, left, first, last, timed=_is_timed(column), literal=at or _literal)


def _compared(
    op: str,
    left: exp.Expression,
    first: date,
    last: date,
    *,
    timed: bool,
    literal: Callable[[date], exp.Expr],
) -> exp.Expr:
    since, until = literal(first), literal(last)
    following = literal(last + timedelta(days=1)) if last < date.max else until
    before_end = exp.LT(this=left.copy(), expression=following)
    if op == ">=":
        return exp.GTE(this=left, expression=since)
    if op == "<":
        return exp.LT(this=left, expression=since)
    if op == "<=":
        return before_end if timed else exp.LTE(this=left, expression=until)
    if op == ">":
        return exp.GTE(this=left, expression=following) if timed else exp.GT(this=left, expression=until)
    if timed:
        within: exp.Expr = exp.and_(exp.GTE(this=left, expression=since), before_end)
    elif first == last:
        within = exp.EQ(this=left, expression=since)
    else:
        within = exp.Between(this=left, low=since, high=until)
    return exp.Not(this=exp.paren(within)) if op == "!=" else within


def _period(value: object) -> tuple[date, date] | None:
    """Return the first and the last day of a day or a year."""
    text = str(value) if isinstance(value, str | int) else ""
    try:
        if _YEAR.match(text):
            return date(int(text), 1, 1), date(int(text), 12, 31)
        if _DAY.match(text):
            day = date(*map(int, text.split("-")))
            return day, day
    except ValueError:  # 2025-02-30
        pass
    return None


def _is_timed(column: SchemaColumn) -> bool:
    """Return whether a column holds times of day, by its type or its values."""
    values = column.source.values[:DATES_LOOKED_AT]
    return bool(_TIMED.search(column.source.type)) or any(isinstance(v, str) and len(v) > 10 for v in values)


def _utc_literal(column: SchemaColumn, timezone: str) -> Callable[[date], exp.Expr] | None:
    """Return how to write the beginning of a day for a text in UTC, such as 2025-03-03T09:00:00Z; None if it is not."""
    values = column.source.values[:DATES_LOOKED_AT]
    if not timezone or not all(isinstance(v, str) and _UTC.search(v) for v in values):
        return None
    separator = str(values[0])[10]
    return lambda day: exp.Literal.string(in_utc(day, timezone).strftime(f"%Y-%m-%d{separator}%H:%M:%S"))


def _literal(day: date) -> exp.Expr:
    return exp.Literal.string(day.isoformat())
