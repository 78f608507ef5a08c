"""Operations on one result: filter, aggregate, project, sort, limit. Each is a SELECT over the previous step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from clew_nl2sql.errors import AggregationError
from clew_nl2sql.schemas import PostOp

COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
}  # fmt: skip
FUNCTIONS: dict[str, type[exp.AggFunc]] = {
    "count": exp.Count, "sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max,
}  # fmt: skip


def operation(post: PostOp, step: str, columns: Sequence[str]) -> exp.Select:
    """Return the query of one operation; raise AggregationError if the previous step lacks a column.

    `count` may refer to `count_country` if no other column is a count.
    """
    everything = exp.select("*").from_(step)
    if post.kind == "filter":
        return everything.where(_condition(post, _column(post.kind, post.column, columns)))
    if post.kind == "limit":
        return everything.limit(post.limit or 0)
    found = [_column(post.kind, name, columns) for name in post.columns]
    if post.kind == "project":
        return exp.select(*found).from_(step)
    if post.kind == "sort":
        keys = [exp.Ordered(this=key, desc=post.descending, nulls_first=False) for key in found]
        return everything.order_by(*keys)
    measures = [_measure(function, name, columns) for function, name in post.measures]
    select = exp.select(*found, *measures).from_(step)
    return select.group_by(*found).order_by(*found) if found else select


def _column(kind: str, name: str, columns: Sequence[str]) -> exp.Column:
    known = {own.lower(): own for own in columns}
    begins = [own for own in columns if own.lower().startswith(f"{name.lower()}_")]
    found = known.get(name.lower()) or (begins[0] if name == "count" and len(begins) == 1 else None)
    if found is None:
        raise AggregationError(f"{kind}: unknown column {name!r}; use one of: {', '.join(columns)}")
    return exp.column(found, quoted=True)


def _measure(function: str, name: str, columns: Sequence[str]) -> exp.Expr:
    if function not in FUNCTIONS:
        raise AggregationError(f"unknown aggregate {function!r}; use one of: {', '.join(FUNCTIONS)}")
    over = exp.Star() if name == "*" else _column("aggregate", name, columns)
    label = function if name == "*" else f"{function}_{name}"
    return exp.alias_(FUNCTIONS[function](this=over), label, quoted=True)


def _condition(post: PostOp, column: exp.Column) -> Any:
    if post.operator == "contains":
        haystack = exp.Lower(this=exp.cast(column, "text"))
        return exp.GT(
            this=exp.StrPosition(this=haystack, substr=exp.Literal.string(str(post.value).lower())),
            expression=exp.Literal.number(0),
        )
    if post.operator not in COMPARISONS:
        raise AggregationError(
            f"filter: unknown operator {post.operator!r}; use one of: {', '.join(COMPARISONS)}, contains"
        )
    return COMPARISONS[post.operator](this=column, expression=exp.convert(post.value))
