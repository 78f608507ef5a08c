"""Find states: words that say that something goes on.

What goes on has no end yet. So "open claims", "members are still active" and "waiters still work here" are rows without
the date of an end, if the table has exactly one such date, and if the sample has rows without it.
"""

from __future__ import annotations

from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.linking.schema_linking import Mention
from clew_nl2sql.planner.linking.value_linking import ValueMatch, ValueMention
from clew_nl2sql.planner.query import NULL
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import word_set
from clew_nl2sql.planner.words.tokens import Token

_GOING_ON = word_set("open outstanding pending unresolved unsettled ongoing active current alive")
_STAYING = word_set("work works working employed live lives living with here running")
_STILL = word_set("still currently presently")
_NOT = word_set("not no never non longer")
_SAID_OF = word_set("is are was were be been being have has had already yet who that which")
_ENDS = frozenset(
    stem(word)
    for word in word_set("""
        closed closing settled paid returned resolved completed completion finished ended end left leaving cancelled
        canceled terminated termination death died retired expired fixed
    """)
)


def find_states(
    tokens: list[Token], schema: SchemaIndex, mentions: list[Mention], values: list[ValueMention]
) -> list[ValueMention]:
    """Return the states of a question, as values of the dates that are missing."""
    found = []
    for at, token in enumerate(tokens):
        start = at - 1 if at and tokens[at - 1].low in _STILL else at
        goes_on = token.low in _GOING_ON or (start < at and token.low in _STAYING)
        if not goes_on or (start and tokens[start - 1].low in _NOT):
            continue
        table = _subject(tokens, start, at, mentions)
        if table is None:
            table = _kind(start, schema, values)
        ends = [c for c in schema.columns if c.table == table and _is_end(c)]
        if len(ends) == 1:
            text = " ".join(t.text for t in tokens[start : at + 1])
            found.append(ValueMention(start, at + 1, text, False, (ValueMatch(ends[0].id, NULL, "exact"),)))
    return found


def _subject(tokens: list[Token], start: int, at: int, mentions: list[Mention]) -> int | None:
    """Return the table that a state is said about: "open claims", "claims are open", "waiters still work"."""
    named = [m for m in mentions if m.best().column is None]
    for mention in named:
        if mention.start == at + 1:
            return mention.best().table
    before = [m for m in named if m.end <= start]
    if not before:
        return None
    between = [token.low for token in tokens[before[-1].end : start]]
    return before[-1].best().table if all(word in _SAID_OF for word in between) else None


def _kind(start: int, schema: SchemaIndex, values: list[ValueMention]) -> int | None:
    """Return the table of a value before a state: "receptionists still work here"."""
    tables = {schema.columns[h.column].table for v in values if v.end == start for h in v.holders}
    return tables.pop() if len(tables) == 1 else None


def _is_end(column: SchemaColumn) -> bool:
    """Return whether a column has the moment at which something ended, and some rows lack it."""
    moment = column.kind == "date" or "year" in column.words
    return moment and column.nulls and any(stem(word) in _ENDS for word in column.words)
