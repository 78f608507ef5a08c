"""Build a table of a catalog: its columns with a sample of values, and a sample of rows.

Questions are linked to values ("tickets in Lyon"), so the most frequent values come first. The planner tests
its proposals on the rows. Only the beginning of a large table is read, because a catalog must not cost a full
scan. Tables that cannot be sampled (values that do not compare, a view that fails) are listed without
samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

from sqlglot import exp

from clew_nl2sql.planner.catalog import LONGEST_VALUE, SAMPLE_ROWS, Column, Table, Value, kind_of

SAMPLE = 1000  # values per column
ROWS = 50_000  # rows that are read per table
SECONDS = 5.0  # per query; a slower view is listed without a sample

Ask = Callable[[str], list[tuple[Any, ...]]]  # returns the rows of a query; none if it fails


class ColumnDescription(NamedTuple):
    """A column as the database describes it."""

    name: str
    declared: str
    comment: str = ""
    primary_key: bool = False


def sampled_table(
    ask: Ask,
    dialect: str,
    name: str,
    described: Sequence[ColumnDescription],
    *,
    schema: str = "",
    comment: str = "",
    estimate: int | None = None,
    view: bool = False,
) -> Table:
    """Return a table with samples; `estimate` is the database's estimate of its number of rows."""
    table = table_expression(schema, name)
    beginning = exp.select(exp.Literal.number(1)).from_(table).limit(ROWS + 1).subquery("beginning")
    counted = ask(exp.select(exp.Count(this=exp.Star())).from_(beginning).sql(dialect))
    count = int(counted[0][0]) if counted else 0
    is_whole = bool(counted) and count <= ROWS
    ask = ask if counted else _nothing  # the other queries would fail or time out as well
    columns = tuple(_column(ask, dialect, table, column, is_whole) for column in described)
    chosen = [exp.column(column.name, quoted=True) for column in described]
    rows = ask(exp.select(*chosen).from_(table).limit(SAMPLE_ROWS).sql(dialect)) if chosen else []
    return Table(
        name=f"{schema}.{name}" if schema else name,
        schema=schema,
        columns=columns,
        comment=comment,
        row_count=count if is_whole else estimate,
        view=view,
        rows=tuple(tuple(map(plain_value, row)) for row in rows),
    )


def table_expression(schema: str, name: str) -> exp.Table:
    """Return the table of a schema, or of the default schema, in a query."""
    within = exp.to_identifier(schema, quoted=True) if schema else None
    return exp.Table(this=exp.to_identifier(name, quoted=True), db=within)


def _nothing(_: str) -> list[tuple[Any, ...]]:
    return []


def _column(ask: Ask, dialect: str, table: exp.Table, column: ColumnDescription, is_whole: bool) -> Column:
    found = ask(_most_frequent(table, column.name).sql(dialect))
    kept = [value for value in (plain_value(row[0]) for row in found[:SAMPLE]) if value is not None]
    values = tuple(value for value in kept if not isinstance(value, str) or len(value) <= LONGEST_VALUE)
    all_seen = is_whole and len(found) <= SAMPLE
    return Column(
        name=column.name,
        type=column.declared,
        kind=kind_of(column.declared, values),
        comment=column.comment,
        values=values,
        complete=all_seen and len(values) == len(found),
        primary_key=column.primary_key,
        n_distinct=len(found) if all_seen else None,
    )


def _most_frequent(table: exp.Table, column: str) -> exp.Select:
    it = exp.column(column, quoted=True)
    beginning = exp.select(it).from_(table).limit(ROWS)
    return (
        exp.select(it)
        .from_(beginning.subquery("beginning"))
        .where(it.copy().is_(exp.null()).not_())
        .group_by(it.copy())
        .order_by(exp.Ordered(this=exp.Count(this=exp.Star()), desc=True), it.copy())
        .limit(SAMPLE + 1)
    )


def plain_value(value: Any) -> Value | None:
    """Return a value as a catalog holds it; None if it cannot."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else float(value)  # the range that a run can store
    if isinstance(value, float | Decimal):
        return float(value) if isfinite(value) else None
    if isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, date | datetime) else None
