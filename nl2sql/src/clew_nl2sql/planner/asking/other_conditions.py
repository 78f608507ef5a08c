"""The same question under another condition: another date, a flag, a missing value, a comparison that was not read."""

from __future__ import annotations

from collections.abc import Iterator

from clew_nl2sql.planner.asking.usable_columns import (
    COUNT,
    columns_of_tables,
    conditions_on,
    dates,
    denies,
    is_said,
    measures,
    names,
    said_first,
    shown_of,
    where,
)
from clew_nl2sql.planner.building.render import needed_tables
from clew_nl2sql.planner.catalog import Value
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.predicates import flag_words
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.query import NULL, Condition, Query, SelectItem
from clew_nl2sql.planner.words.cues import Amount
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import word_set

_YEARS = range(1900, 2101)
_YES = word_set("1 y yes true t")
_NOW = word_set("currently current now still open outstanding ongoing pending")
_MOST = 3  # columns that a comparison may belong to
_MOST_REFERRING = 3


def with_flags(parsed: ParsedQuestion, query: Query, unread: list[str]) -> Iterator[Query]:
    """Yield the rows with a flag that unread words may name: "subscribed to the newsletter"."""
    said = {stem(word.lower()) for word in unread}
    used = {condition.item.column for condition in query.where}
    for column in columns_of_tables(parsed.schema, needed_tables(query, parsed.schema)):
        words = flag_words(column, parsed.schema)
        if column.id in used or not said & {stem(word) for word in words}:
            continue
        for is_set in (False, True) if denies(parsed) else (True,):
            yield where(query, _flag(column, is_set))


def of_shown_flags(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield the rows with a flag instead of its values: "who must not be contacted" for `do_not_contact`."""
    schema = parsed.schema
    for item in query.select:
        column = schema.columns[item.column] if item.column is not None else None
        if column is None or not flag_words(column, schema):
            continue
        others = tuple(one for one in query.select if one != item)
        shown = others or ((COUNT,) if item.agg else names(schema, column.table))
        if shown and item not in shown:
            group = tuple(c for c in query.group if c != column.id)
            for is_set in (True, False):
                plain = query._replace(select=shown, distinct=False, group=group)
                yield where(plain, _flag(column, is_set))


def _flag(column: SchemaColumn, is_set: bool) -> Condition:
    known = [value for value in column.source.values if (str(value).lower() in _YES) == is_set]
    value: Value = known[0] if known else int(is_set)
    return Condition(SelectItem(column.id), "=", value)


def of_states(parsed: ParsedQuestion, query: Query, unread: list[str]) -> Iterator[Query]:
    """Yield the rows with a date, and those without it, if its event is said: "which shops have closed"."""
    schema, said = parsed.schema, {stem(word) for word in parsed.low}
    now = not _NOW.isdisjoint(word.lower() for word in unread)
    used = {condition.item.column for condition in query.where}
    for column in columns_of_tables(schema, needed_tables(query, schema)):
        named = bool(said.intersection(map(stem, column.core)))
        if column.kind != "date" or not column.nulls or column.id in used or not (named or now):
            continue
        shown = tuple(item for item in query.select if item.column != column.id)
        plain = query._replace(select=shown or names(schema, column.table), order=(), limit=None)
        for op in ("is",) if now else ("is", "is not") if denies(parsed) else ("is not", "is"):
            yield where(plain, Condition(SelectItem(column.id), op, NULL))


def without_references(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield the rows that refer to nothing: "jobs without a mechanic", "assets that are not assigned"."""
    schema, named = parsed.schema, parsed.named_tables
    targets = {a: schema.columns[b].table for a, b in schema.edges}
    for column in columns_of_tables(schema, sorted(named)) if denies(parsed) else ():
        table = column.table
        is_meant = table == parsed.main_table or targets.get(column.id) in named
        if column.is_ref and column.nulls and is_meant:
            absent = Condition(SelectItem(column.id), "is", NULL)
            own = conditions_on(schema, query, table)
            yield Query(shown_of(schema, query, table), frozenset([table]), (*own, absent))


def without_any(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield the rows to which no row refers: "artworks that were never lent"."""
    schema, columns, table = parsed.schema, parsed.schema.columns, parsed.main_table
    if table is None or not denies(parsed):
        return
    own = conditions_on(schema, query, table)
    lacking = {c.item.column for c in query.where if c.op == "is"}
    edges = [edge for edge in schema.edges if columns[edge[1]].table == table]
    for source, target in edges[:_MOST_REFERRING]:
        far = schema.tables[columns[source].table]
        known = tuple(Condition(SelectItem(c), "is not", NULL) for c in far.columns if c in lacking)
        for inside in dict.fromkeys([known, ()]):
            inner = Query((SelectItem(source),), frozenset([far.id]), inside)
            absent = Condition(SelectItem(target), "not in", inner)
            yield Query(shown_of(schema, query, table), frozenset([table]), (*own, absent))


def _tables_with_dates(parsed: ParsedQuestion, query: Query) -> list[int]:
    """Return the tables of a query, the named ones, and those that refer to them: the shifts of volunteers."""
    columns = parsed.schema.columns
    near = dict.fromkeys([*needed_tables(query, parsed.schema), *sorted(parsed.named_tables)])
    far = sorted({columns[a].table for a, b in parsed.schema.edges if columns[b].table in near})
    return list(dict.fromkeys([*near, *far]))


def at_other_dates(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield a period of another date of the same rows, or of what refers to them."""
    columns = parsed.schema.columns
    dated = {
        c.item.column
        for c in query.where
        if c.item.column is not None
        and columns[c.item.column].kind == "date"
        and c.op not in ("is", "is not")
    }
    for own in sorted(dated):
        named = is_said(parsed, columns[own])
        for other in dates(parsed, _tables_with_dates(parsed, query)):
            if other.id not in dated and (is_said(parsed, other) or not named):
                moved = tuple(
                    c._replace(item=SelectItem(other.id)) if c.item == SelectItem(own) else c
                    for c in query.where
                )
                yield query._replace(where=moved, tables=query.tables | {columns[own].table})


def in_years(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield a date in a year, instead of a number that is equal to it."""
    for at, condition in enumerate(query.where):
        text = str(condition.value).strip("%") if condition.op in ("=", "like") else ""
        number = condition.item.column
        is_date = number is not None and parsed.schema.columns[number].kind == "date"
        if is_date or not text.isdigit() or int(text) not in _YEARS:
            continue
        for column in dates(parsed, _tables_with_dates(parsed, query)):
            dated = Condition(SelectItem(column.id), "=", int(text))
            yield query._replace(where=(*query.where[:at], dated, *query.where[at + 1 :]))


def with_amounts(parsed: ParsedQuestion, query: Query, unread: list[str]) -> Iterator[Query]:
    """Yield the comparisons that were not read, with each date or measure: "donations of more than 5000"."""
    tables = needed_tables(query, parsed.schema)
    for amount in parsed.amounts:
        if not {token.text for token in parsed.tokens[amount.start : amount.end]} <= set(unread):
            continue
        found = [_dated(amount, column) for column in dates(parsed, _tables_with_dates(parsed, query))]
        if amount.op in (">", "<", ">=", "<=") and not any(isinstance(v, str) for v in amount.values):
            for column in said_first(parsed, measures(parsed.schema, tables), _MOST):
                found.append(Condition(SelectItem(column.id), amount.op, amount.values[0]))
        for condition in found:
            if condition is not None:
                yield where(query, condition)


def _dated(amount: Amount, column: SchemaColumn) -> Condition | None:
    """Return the comparison of a date with days or a year; None for another number."""
    first, several = amount.values[0], len(amount.values) > 1
    if not isinstance(first, str) and (several or first not in _YEARS):
        return None
    return Condition(SelectItem(column.id), amount.op, amount.values if several else first)
