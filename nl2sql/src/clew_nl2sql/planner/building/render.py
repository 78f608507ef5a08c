"""Convert a query to a sqlglot expression, and to text in the catalog's dialect.

This module computes the join tree. Identifiers are quoted only where necessary. A single table has no alias;
several have T1, T2, … in join order.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.tokens import Tokenizer

from clew_nl2sql.planner.building.date_conditions import date_condition
from clew_nl2sql.planner.building.joins import JoinTree, join_tree
from clew_nl2sql.planner.catalog import Value
from clew_nl2sql.planner.linking.periods import UNITS
from clew_nl2sql.planner.linking.schema_index import SchemaIndex
from clew_nl2sql.planner.query import NULL, Condition, Query, Scalar, SelectItem, columns_of

_RESERVED = frozenset(word for keyword in Tokenizer.KEYWORDS for word in keyword.split())
_FOLDING = ("postgres", "redshift")  # dialects that convert an unquoted name to lower case
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FUNCTIONS: dict[str, type[exp.Expression]] = {
    "count": exp.Count, "sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max,
}  # fmt: skip
_OPERATORS: dict[str, type[exp.Expression]] = {
    "=": exp.EQ, "!=": exp.NEQ, ">": exp.GT, "<": exp.LT, ">=": exp.GTE, "<=": exp.LTE, "like": exp.Like,
}  # fmt: skip
_SET_OPERATIONS: dict[str, type[exp.Expression]] = {
    "intersect": exp.Intersect, "union": exp.Union, "except": exp.Except,
}  # fmt: skip


class UnjoinableTablesError(Exception):
    """Foreign keys do not connect the tables of a query. The planner catches this and drops the candidate."""


def needed_tables(query: Query, schema: SchemaIndex) -> list[int]:
    """Return the tables of a query's own FROM, in the order of their first use."""
    tables = [schema.columns[c].table for c in columns_of(query)]
    return list(dict.fromkeys(tables + sorted(query.tables)))


def tree_of(query: Query, schema: SchemaIndex) -> JoinTree | None:
    """Return the join tree of the query's tables."""
    return join_tree(schema, needed_tables(query, schema), frozenset(columns_of(query)) | query.via)


def to_expression(query: Query, schema: SchemaIndex) -> exp.Expression:
    """Return the whole query, including a set operation."""
    first = _select(query, schema)
    if query.compound is None:
        return first
    name, other = query.compound
    return _SET_OPERATIONS[name](this=first, expression=_select(other, schema), distinct=True)


def to_sql(expression: exp.Expression, dialect: str) -> str:
    """Return the text of an expression."""
    return expression.sql(dialect=dialect)


class _Scope:
    """Names of the tables inside one SELECT."""

    def __init__(self, schema: SchemaIndex, tree: JoinTree):
        self.schema = schema
        several = len(tree.tables) > 1
        self.alias = {table: f"T{at}" if several else None for at, table in enumerate(tree.tables, 1)}

    def column(self, number: int) -> exp.Column:
        column = self.schema.columns[number]
        alias = self.alias[column.table]
        return exp.Column(
            this=_identifier(column.name, self.schema), table=exp.to_identifier(alias) if alias else None
        )

    def item(self, item: SelectItem) -> exp.Expression:
        body: exp.Expression = exp.Star() if item.column is None else self.column(item.column)
        if not item.agg:
            return body
        if item.distinct:
            body = exp.Distinct(expressions=[body])
        return _FUNCTIONS[item.agg](this=body)


def _identifier(name: str, schema: SchemaIndex) -> exp.Identifier:
    folded = schema.dialect in _FOLDING and name != name.lower()
    quoted = folded or name.upper() in _RESERVED or not _SIMPLE.match(name)
    return exp.to_identifier(name, quoted=quoted)


def _select(query: Query, schema: SchemaIndex) -> exp.Select:
    tree = tree_of(query, schema)
    if tree is None:
        raise UnjoinableTablesError
    scope = _Scope(schema, tree)
    share = query.share
    shown = [_share(share, scope)] if share else [_shown(item, query, scope) for item in query.select]
    select = exp.Select(expressions=shown)
    select = _joined(select, tree, scope)
    if query.distinct:
        select = select.distinct(copy=False)
    for condition in _where(query, scope):
        select = select.where(condition, copy=False)
    if query.group:
        groups = [_cut(SelectItem(c), query, scope) for c in _group_columns(query, schema)]
        select = select.group_by(*groups, copy=False)
    if query.having:
        select = select.having(_conditions(query.having, scope, schema), copy=False)
    if order := _order(query):
        # NULL sorts first in every dialect; this is written only if the dialect's default differs.
        keys = [exp.Ordered(this=_cut(i, query, scope), desc=desc, nulls_first=not desc) for i, desc in order]
        select = select.order_by(*keys, copy=False)
    return select.limit(query.limit, copy=False) if query.limit is not None else select


def _order(query: Query) -> tuple[tuple[SelectItem, bool], ...]:
    """Return the order; groups of time are in the order of time."""
    if query.order or query.period is None:
        return query.order
    return ((SelectItem(query.period[0]), False),)


def _shown(item: SelectItem, query: Query, scope: _Scope) -> exp.Expr:
    cut = _cut(item, query, scope)
    return exp.alias_(cut, query.period[1]) if query.period and isinstance(cut, exp.Substring) else cut


def _cut(item: SelectItem, query: Query, scope: _Scope) -> exp.Expr:
    """Return a column or figure; a date that is grouped by month is cut to the month."""
    made = scope.item(item)
    if query.period is None or item != SelectItem(query.period[0]):
        return made
    text = made if scope.schema.dialect == "sqlite" else exp.cast(made, "text")
    length = exp.Literal.number(UNITS[query.period[1]])
    return exp.Substring(this=text, start=exp.Literal.number(1), length=length)


def _joined(select: exp.Select, tree: JoinTree, scope: _Scope) -> exp.Select:
    select = select.from_(_table(scope.schema, scope, tree.tables[0]), copy=False)
    for table, (left, right) in zip(tree.tables[1:], tree.on):
        on = exp.EQ(this=scope.column(left), expression=scope.column(right))
        select = select.join(_table(scope.schema, scope, table), on=on, copy=False)
    return select


def _where(query: Query, scope: _Scope) -> list[exp.Expr]:
    """Return the conditions, and that what is ranked is known: the smallest value is not a missing one."""
    said = [_conditions(query.where, scope, scope.schema)] if query.where else []
    ranked = _ranked_with_nulls(query, scope.schema)
    return said + [_is_null(scope.column(column), "is not") for column in ranked]


def _group_columns(query: Query, schema: SchemaIndex) -> list[int]:
    """Return the columns of GROUP BY. Only SQLite shows columns that are not among them; a key determines them."""
    shown = [item.column for item in query.select if not item.agg and item.column is not None]
    keyed = {schema.columns[c].table for c in query.group if schema.tables[schema.columns[c].table].key == c}
    if schema.dialect == "sqlite":
        return list(query.group)
    return list(dict.fromkeys((*query.group, *(c for c in shown if schema.columns[c].table in keyed))))


def _ranked_with_nulls(query: Query, schema: SchemaIndex) -> list[int]:
    """Return columns with NULLs that would be ranked: the smallest value, or the value of most rows."""
    if query.limit is None or not query.order:
        return []
    item, descending = query.order[0]
    ranked = [item.column] if item.column is not None and not descending and not query.group else []
    if item.agg:
        ranked = [column for column in query.group if column in query.plain]
    return [column for column in ranked if schema.columns[column].nulls]


def _table(schema: SchemaIndex, scope: _Scope, number: int) -> exp.Expr:
    entry = schema.tables[number]
    within = _identifier(entry.schema, schema) if entry.schema else None
    table = exp.Table(this=_identifier(entry.own_name, schema), db=within)
    alias = scope.alias[number]
    return exp.alias_(table, alias, table=True) if alias else table


def _conditions(conditions: tuple[Condition, ...], scope: _Scope, schema: SchemaIndex) -> exp.Expr:
    """Return an AND of groups; each group is an OR of conditions connected by `either`."""
    groups: list[list[exp.Expr]] = []
    for condition in conditions:
        made = _condition(condition, scope, schema)
        if condition.either and groups:
            groups[-1].append(made)
        else:
            groups.append([made])
    return exp.and_(*[exp.or_(*group) if len(group) > 1 else group[0] for group in groups])


def _condition(condition: Condition, scope: _Scope, schema: SchemaIndex) -> exp.Expr:
    left = scope.item(condition.item)
    value = condition.value
    if (by_day := date_condition(condition, left, schema)) is not None:
        return by_day
    if condition.op in ("is", "is not"):
        return _is_null(left, condition.op)
    if isinstance(value, Query):
        return _in_query(condition.op, left, value, schema)
    if not isinstance(value, Scalar | SelectItem | str | int | float):
        return _of_several(condition.op, left, value)
    right = _right(condition.item, value, scope)
    if condition.op == "like" and schema.dialect != "sqlite":  # dialects where LIKE depends on case and type
        column = condition.item.column
        if column is not None and schema.columns[column].kind != "text":
            left = exp.cast(left, "text")
        return exp.ILike(this=left, expression=right)
    return _OPERATORS[condition.op](this=left, expression=right)


def _share(condition: Condition, scope: _Scope) -> exp.Expr:
    """Return the percentage of rows that fulfil a condition."""
    fulfilled = exp.If(this=_condition(condition, scope, scope.schema), true=exp.Literal.number("100.0"))
    return exp.Avg(this=exp.Case(ifs=[fulfilled], default=exp.Literal.number(0)))


def _is_null(left: exp.Expression, op: str) -> exp.Expr:
    missing = exp.Is(this=left, expression=exp.Null())
    return missing if op == "is" else exp.Not(this=missing)


def _in_query(op: str, left: exp.Expression, query: Query, schema: SchemaIndex) -> exp.Expr:
    inner = _without_nulls(query, schema) if op == "not in" else query
    inside = exp.In(this=left, query=exp.Subquery(this=_select(inner, schema)))
    return exp.Not(this=inside) if op == "not in" else inside


def _right(item: SelectItem, value: Scalar | SelectItem | Value, scope: _Scope) -> exp.Expr:
    if isinstance(value, Scalar):
        source = Query((SelectItem(value.column, value.agg),), where=value.where)
        return exp.Subquery(this=_select(source, scope.schema))
    return scope.item(value) if isinstance(value, SelectItem) else _of_column(value, item, scope.schema)


def _without_nulls(query: Query, schema: SchemaIndex) -> Query:
    """Return a query without missing values: nothing is NOT IN a list with a NULL."""
    item = query.select[0]
    if item.column is None or item.agg or not schema.columns[item.column].may_lack:
        return query
    return query._replace(where=(*query.where, Condition(item, "is not", NULL)))


def _of_column(value: Value, item: SelectItem, schema: SchemaIndex) -> exp.Expr:
    """Return a literal; a flag of a boolean column is TRUE or FALSE where numbers are not."""
    boolean = item.column is not None and not item.agg and schema.columns[item.column].kind == "boolean"
    if boolean and value in (0, 1) and schema.dialect != "sqlite":
        return exp.Boolean(this=bool(value))
    return _literal(value)


def _of_several(op: str, left: exp.Expression, values: tuple[Value, ...]) -> exp.Expr:
    """Return a comparison with several values: BETWEEN, or a list."""
    if op == "between":
        return exp.Between(this=left, low=_literal(values[0]), high=_literal(values[1]))
    inside = exp.In(this=left, expressions=[_literal(one) for one in values])
    return exp.Not(this=inside) if op == "not in" else inside


def _literal(value: Value) -> exp.Expr:
    if isinstance(value, str):
        return exp.Literal.string(value)
    if value < 0:
        return exp.Neg(this=exp.Literal.number(-value))
    return exp.Literal.number(value)
