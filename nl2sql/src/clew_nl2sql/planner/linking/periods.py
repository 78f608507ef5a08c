"""Find groups of time: "per month" and "for each year" are groups of a date, cut to the month or the year.

The date is the one that the question names, or else the only one of the tables that it names. It has no gaps: if some
rows lack the date, or if several dates may be meant, the word stays unread.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.linking.schema_linking import Mention, Target
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import word_set
from clew_nl2sql.planner.words.tokens import Token

UNITS = {"year": 4, "month": 7, "day": 10}  # length of the beginning of a date
_EACH = word_set("each every per by")
_WHICH = ("which", "what")
_RANKS = word_set("most fewest least highest lowest")
_BIRTHS = word_set("birth born dob birthdate birthday")


_GLUE = word_set("in for on the each every per by which what")
CREATED = frozenset(
    stem(word)
    for word in word_set("created creation recorded registered registration entered inserted made placed")
)
_PLAIN = frozenset(stem(word) for word in ["date", "time", "day", "at", "on", "timestamp", "datetime"])


class Period(NamedTuple):
    """A word that groups by time, and the date column that it cuts."""

    at: int
    column: int
    unit: str


def link_period(
    tokens: list[Token], schema: SchemaIndex, mentions: list[Mention]
) -> tuple[Period | None, list[Mention]]:
    """Return the period that a question groups by, and the mentions with it; "year" has no other meaning then."""
    at = _said_at(tokens, schema, mentions)
    if at is None:
        return None, mentions
    others = [m for m in mentions if not m.start <= at < m.end]
    date = _date(schema, others)
    if date is None or _happens_at_another(tokens, at, date, schema):
        return None, others
    target = Target(date.table, date.id, 1.0, 1.0, "exact", False)
    linked = sorted([*others, Mention(at, at + 1, (target,))], key=lambda m: m.start)
    return Period(at, date.id, tokens[at].low), linked


def _said_at(tokens: list[Token], schema: SchemaIndex, mentions: list[Mention]) -> int | None:
    """Return the position of the year of "per year", if it is not the name of a column."""
    for at, token in enumerate(tokens[1:], 1):
        if token.low in UNITS and _groups(tokens, at - 1):
            around = next((m for m in mentions if m.start <= at < m.end), None)
            return None if around is not None and _is_column(around, schema, mentions) else at
    return None


def _is_column(mention: Mention, schema: SchemaIndex, mentions: list[Mention]) -> bool:
    """Return whether a mention is the name of a column, or a part of it in a table that the question names: the
    `monthly_fee` of "per month". A date is not named by just "year".
    """
    best = mention.best()
    if best.way != "exact" and _names_date(schema, mention):
        return False
    tables = _named(mentions) or {m.best().table for m in mentions if m is not mention}
    return best.coverage == 1 or best.table in tables


def _groups(tokens: list[Token], at: int) -> bool:
    """Return whether a word makes groups: "per", and the "which" of "which month had the most"."""
    ranked = tokens[at].low in _WHICH and not _RANKS.isdisjoint(token.low for token in tokens)
    return tokens[at].low in _EACH or ranked


def _acting(schema: SchemaIndex) -> set[int]:
    """Return the tables of who or what something with a date was done to: "donors who gave" did not register then."""
    columns = schema.columns
    dated = {c.table for c in columns if c.kind == "date"}
    pairs = [(columns[a].table, columns[b].table) for a, b in schema.edges]
    return {b for a, b in pairs if a != b and a in dated}


def _date(schema: SchemaIndex, mentions: list[Mention]) -> SchemaColumn | None:
    """Return the date of a period: the one that the question names in its tables, or else the only one of these."""
    tables = {m.best().table for m in mentions}
    dates = [c for c in schema.columns if c.kind == "date" and _BIRTHS.isdisjoint(c.words)]
    said = {t.column for m in mentions for t in m.targets if _names_date(schema, m)}
    if said:
        tables = _named(mentions) or tables
        meant = [c for c in dates if c.id in said and c.table in tables]
    else:
        own = [c for c in dates if c.table in tables and not _event(schema, c)]
        free = [c for c in dates if c.table in tables - _acting(schema)]
        created = [c for c in free if _event(schema, c) <= CREATED]
        meant = own if len(own) == 1 else created if len(created) == 1 else free
    return meant[0] if len(meant) == 1 and not meant[0].nulls else None


def _event(schema: SchemaIndex, column: SchemaColumn) -> set[str]:
    """Return what happened on a date, without the words of its table: none for the `booked_at` of bookings."""
    own = {stem(word) for word in schema.tables[column.table].words}
    return {stem(word) for word in column.words} - _PLAIN - own


def _happens_at_another(tokens: list[Token], at: int, date: SchemaColumn, schema: SchemaIndex) -> bool:
    """Return whether "delivered per month" would be the month of another event."""
    before = [token.low for token in tokens[:at] if token.low not in _GLUE]
    verb = before[-1] if before else ""
    known = {stem(word) for word in (*date.words, *schema.tables[date.table].words)} | CREATED
    return verb.endswith("ed") and stem(verb) not in known


def _named(mentions: list[Mention]) -> set[int]:
    return {m.best().table for m in mentions if m.best().column is None}


def _names_date(schema: SchemaIndex, mention: Mention) -> bool:
    column = mention.best().column
    return column is not None and schema.columns[column].kind == "date"
