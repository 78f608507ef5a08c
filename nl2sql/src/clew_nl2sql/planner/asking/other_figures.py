"""The same rows shown in another way: a sum instead of a number, a person instead of a key, the first by a date."""

from __future__ import annotations

from collections.abc import Iterator

from clew_nl2sql.planner.asking.usable_columns import (
    COUNT,
    columns_of_tables,
    conditions_on,
    dates,
    is_said,
    measures,
    names,
    numbers_rows,
    said_first,
)
from clew_nl2sql.planner.building.render import needed_tables
from clew_nl2sql.planner.judging.figures import EACH
from clew_nl2sql.planner.judging.unread import SHARES
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import SHARE, Condition, Query, SelectItem
from clew_nl2sql.planner.words.inflection import parts, stem
from clew_nl2sql.planner.words.lexicon import word_set

_LATEST = word_set("latest last newest recent recently youngest")
_EARLIEST = word_set("earliest first oldest longest")
_SMALL = word_set("smallest lowest least cheapest shortest fewest minimum")
_MOST = 2  # measures


def by_sums(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield sums instead of numbers of rows: "the most money"."""
    tables = needed_tables(query, parsed.schema)
    for column in said_first(parsed, measures(parsed.schema, tables), _MOST):
        if "many" in parsed.low and not is_said(parsed, column):
            continue
        total = SelectItem(column.id, "sum")
        order = tuple((total if item.agg == "count" else item, desc) for item, desc in query.order)
        select = tuple(total if item.agg == "count" else item for item in query.select)
        if (select, order) != (query.select, query.order):
            yield query._replace(select=select, order=order)


def of_measures(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield a figure of a measure for "the average donation", whose amounts have no name in the question."""
    function = _figure(parsed)
    if not function or query.aggregates or query.group:
        return
    schema, used = parsed.schema, needed_tables(query, parsed.schema)
    tables = list(dict.fromkeys([*sorted(parsed.named_tables), *used]))
    plain = query._replace(tables=query.tables.union(used), order=(), limit=None, distinct=False)
    for column in said_first(parsed, measures(schema, tables), _MOST):
        figure = SelectItem(column.id, function)
        for table in _each(parsed):
            key = schema.tables[table].key
            if key is not None:
                yield plain._replace(select=(*names(schema, table), figure), group=(key,))
        yield plain._replace(select=(figure,))
        yield Query((figure,), where=conditions_on(schema, query, column.table))


def _figure(parsed: ParsedQuestion) -> str:
    """Return the figure that a question asks for, if any."""
    if parsed.low[:2] == ["how", "much"]:
        return "sum"
    cue = next((c for c in parsed.cues if c.kind in ("agg", "super")), None)
    if cue is None or cue.kind == "agg":
        return cue.what if cue is not None else ""
    return "max" if _SMALL.isdisjoint(parsed.low[cue.start : cue.end]) else "min"


def _each(parsed: ParsedQuestion) -> list[int]:
    """Return the tables after "each"."""
    after = [m.best() for m in parsed.mentions if parsed.word(m.start - 1) in EACH]
    return [target.table for target in after if target.column is None]


def as_shares(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield the percentage of rows that fulfil the last condition: "what percentage of the jobs is done"."""
    if SHARES.isdisjoint(parsed.low) or not query.where or query.where[-1].either or query.having:
        return
    used = query.tables.union(needed_tables(query._replace(order=(), group=()), parsed.schema))
    yield Query((SHARE,), used, query.where[:-1], share=query.where[-1])


def of_people(parsed: ParsedQuestion, query: Query) -> Iterator[Query]:
    """Yield the people that the rows of "who" refer to, and names instead of keys."""
    schema, columns = parsed.schema, parsed.schema.columns
    shown = [columns[i.column] for i in query.select if i.column is not None and not i.agg]
    if len(shown) != len(query.select) or not all(numbers_rows(schema, c) for c in shown):
        return
    tables, who = {c.table for c in shown}, parsed.word(0) == "who"
    far = [
        columns[b].table for a, b in schema.edges if a in query.plain or (who and columns[a].table in tables)
    ]
    for table in dict.fromkeys([*far, *sorted(tables)]):
        found = [columns[i.column] for i in names(schema, table) if i.column is not None]
        if found and not any(numbers_rows(schema, column) for column in found):
            yield query._replace(select=names(schema, table), tables=query.tables | tables)


def of_own_kind(parsed: ParsedQuestion, query: Query, unread: list[str]) -> Iterator[Query]:
    """Yield the rows that rows of the same table refer to, or that refer to them: "the manager of Ann Berg"."""
    schema = parsed.schema
    for table in needed_tables(query, schema):
        for column in _own_references(schema, table):
            key, shown = schema.tables[table].key, names(schema, table)
            if key is None or not shown or not query.where:
                continue
            if column.id in query.plain:
                inner = query._replace(select=(SelectItem(column.id),), distinct=False)
                yield Query(shown, where=(Condition(SelectItem(key), "in", inner),))
            elif {stem(word.lower()) for word in unread} & {stem(word) for word in column.words}:
                inner = Query((SelectItem(key),), frozenset([table]), query.where)
                yield query._replace(where=(Condition(SelectItem(column.id), "in", inner),))


def _own_references(schema: SchemaIndex, table: int) -> list[SchemaColumn]:
    """Return the columns that hold keys of their own table, declared or not."""
    number = schema.tables[table].key
    if number is None:
        return []
    key = schema.columns[number]
    known, last = set(key.source.values), parts(key.name)[-1]
    return [
        column
        for column in columns_of_tables(schema, [table])
        if column.id != number
        and column.kind == key.kind
        and (schema.refers(column.id, table) or (parts(column.name)[-1] == last and not column.is_ref))
        and known.issuperset(column.source.values)
    ]


def by_dates(parsed: ParsedQuestion, query: Query, unread: list[str]) -> Iterator[Query]:
    """Yield the first or the last row by each date, if a word for that is unread, or ranks something else."""
    said = {word.lower() for word in unread} if not query.order else set(parsed.low)
    late, early = not _LATEST.isdisjoint(said), not _EARLIEST.isdisjoint(said)
    counts = query.select == (COUNT,) and "many" not in parsed.low  # "the number of the oldest ticket"
    if (
        not (late or early)
        or (query.aggregates and not counts)
        or not set(query.plain).issuperset(query.group)
    ):
        return
    plain = query._replace(group=(), distinct=False, order=())
    tables = needed_tables(plain, parsed.schema)
    if counts:
        plain = plain._replace(select=names(parsed.schema, tables[0]) if tables else ())
    for column in dates(parsed, tables):
        shown = tuple(item for item in plain.select if item.column != column.id)
        if shown or (query.limit or 1) > 1:
            order = ((SelectItem(column.id), late),)
            yield plain._replace(select=shown or plain.select, order=order, limit=query.limit or 1)
        if not shown or parsed.word(0) == "when":
            yield plain._replace(select=(SelectItem(column.id, "max" if late else "min"),), limit=None)
