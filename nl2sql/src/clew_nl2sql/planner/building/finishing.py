"""The last changes of a query: its join keys, groups of time, and rows that their own table refers to."""

from __future__ import annotations

from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Condition, Query, SelectItem


def finished(parsed: ParsedQuestion, query: Query) -> Query:
    """Return the query as it is run."""
    return _by_period(parsed, _by_referred_row(parsed, _with_keys(query, parsed.via)))


def _with_keys(query: Query, via: frozenset[int]) -> Query:
    """Make every join of the query prefer the keys that the question names."""
    if not via:
        return query
    where = tuple(
        c._replace(value=_with_keys(c.value, via)) if isinstance(c.value, Query) else c for c in query.where
    )
    compound = (query.compound[0], _with_keys(query.compound[1], via)) if query.compound else None
    return query._replace(via=query.via | via, where=where, compound=compound)


def _by_period(parsed: ParsedQuestion, query: Query) -> Query:
    """Group by the month of a date and not by the day, for "per month"; the month comes before its figures."""
    period = parsed.period
    if period is None or period.column not in query.group:
        return query
    cut = SelectItem(period.column)
    select = tuple(sorted(query.select, key=lambda item: item != cut))
    return query._replace(select=select, period=(period.column, period.unit))


def _by_referred_row(parsed: ParsedQuestion, query: Query) -> Query:
    """Show the manager of an employee by name: the employee whose key the reference holds."""
    schema = parsed.schema
    plain = len(query.select) == len(query.plain) == 1 and not (query.group or query.order or query.compound)
    key = schema.key_of_same(query.plain[0]) if plain else None
    if key is None or parsed.asks_for_ids or not query.where:
        return query
    table = schema.tables[schema.columns[key].table]
    names = schema.full_name(table.id) or (table.display,)
    if names == (key,):
        return query
    inner = query._replace(distinct=False, limit=None)
    return Query(
        tuple(SelectItem(name) for name in names),
        where=(Condition(SelectItem(key), "in", inner),),
        via=query.via,
    )
