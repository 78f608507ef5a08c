"""Operations on one result: filter, aggregate, project, sort, limit. Each is a SELECT over the previous step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from clew_nl2sql.errors import AggregationError
from clew_nl2sql.schemas import PostOp

COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
FUNCTIONS: dict[str, type[exp.AggFunc]] = {
    "count": exp.Count,
    "sum": exp.Sum,
    "avg": exp.Avg,
    "min": exp.Min,
    "max": exp.Max,
}


def operation(post: PostOp, step: str, columns: Sequence[str]) -> exp.Select:
    """Return the query of one operation; raise AggregationError if the previous step lacks a column.

    `count` may refer to `count_country` if no other column is a count.
    """
    known = {name.lower(): name for name in columns}

    def column(name: str) -> exp.Column:
        begins = [own for own in columns if own.lower().startswith(f"{name.lower()}_")]
        found = known.get(name.lower()) or (begins[0] if name == "count" and len(begins) == 1 else None)
        if found is None:
            raise AggregationError(f"{post.kind}: unknown column {name!r}; use one of: {', '.join(columns)}")
        return exp.column(found, quoted=True)

    everything = exp.select("*").from_(step)
    if post.kind == "filter":
        return everything.where(_condition(post, column(post.column)))
    if post.kind == "project":
        return exp.select(*map(column, post.columns)).from_(step)
    if post.kind == "sort":
        keys = [exp.Ordered(this=column(n), desc=post.descending, nulls_first=False) for n in post.columns]
        return everything.order_by(*keys)
    if post.kind == "limit":
        return everything.limit(post.limit if post.limit is not None else 0)
    measures = []
    for function, name in post.measures:
        if function not in FUNCTIONS:
            raise AggregationError(f"unknown aggregate {function!r}; use one of: {', '.join(FUNCTIONS)}")
        over = exp.Star() if name == "*" else column(name)
        measures.append(exp.alias_(FUNCTIONS[function](this=over), _named(function, name), quoted=True))
    groups = [column(name) for name in post.columns]
    select = exp.select(*groups, *measures).from_(step)
    return select.group_by(*groups).order_by(*groups) if groups else select


def _named(function: str, name: str) -> str:
    return function if name == "*" else f"{function}_{name}"


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
