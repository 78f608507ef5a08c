"""The date that a period belongs to, if the question names none.

A table may have several dates: a booking was booked, begins and ends. "How many bookings were made yesterday?" means
the day of booking: the date with the word of its table, or the one of its creation. Without such a date, it is the one
that every row has, if the others may be missing because they come later. A period that could belong to another date
as well has several readings, and is asked back. What starts and ends belongs to the day of its start. "Done last
month", and a period after all known dates, may be any of them.
"""

from __future__ import annotations

from datetime import date, timedelta

from clew_nl2sql.planner.building.render import tree_of
from clew_nl2sql.planner.deciding.acts import ExcludeRows, Filter
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.periods import CREATED
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import SYNONYMS, word_set

_SAMPLED = timedelta(days=4)  # the latest days may be missing in a sample
_UPDATED = word_set("update updated modified changed load loaded")
_BIRTHS = word_set("birth born dob birthdate birthday")
_STARTS = frozenset(stem(word) for word in ["started", "starts", "begins", "began", "from"])
_FINISHES = frozenset(stem(word) for word in ["ended", "ends", "finished", "until", "to"])
_DONE = word_set("done performed completed finished carried")
_PLAIN = frozenset(
    stem(word) for word in ["date", "time", "day", "at", "on", "timestamp", "datetime", "year", "month"]
)


def dates_other_moment(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether a period is compared with another date than the one that it usually means."""
    for column in _unnamed_dates(parsed, assignment):
        usual = _usual(parsed, column.table)
        if usual is not None and usual != column.id:
            return True
    return False


def dates_an_entity(parsed: ParsedQuestion, assignment: Assignment, query: Query) -> bool:
    """Return whether a period without a name is that of an entity, although the query joins what the entity did:
    "volunteers who worked in 2025" did not join in 2025.
    """
    schema = parsed.schema
    tree = tree_of(query, schema)
    joined = set(tree.tables) if tree else set()
    for column in _unnamed_dates(parsed, assignment):
        if column.table not in joined:
            continue
        did = {schema.columns[a].table for a, b in schema.edges if schema.columns[b].table == column.table}
        for table in did & joined - {column.table}:
            if any(_UPDATED.isdisjoint(c.words) for c in _dates(parsed, table)):
                return True
    return False


def has_several_moments(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether a period may belong to several dates of its table."""
    done = not _DONE.isdisjoint(parsed.low)
    return any(
        len(_dates(parsed, column.table)) > 1
        and (_usual(parsed, column.table) is None or done or _is_after_all(column, parsed))
        for column in _unnamed_dates(parsed, assignment)
    )


def _is_after_all(column: SchemaColumn, parsed: ParsedQuestion) -> bool:
    """Return whether a period is later than all known dates: nothing was booked "next week"."""
    days = [day for a in parsed.amounts for value in a.values[:1] if (day := _day(value))]
    known = [day for value in column.source.values if (day := _day(value))]
    return bool(days and known) and min(days) > max(known) + _SAMPLED


def _day(value: object) -> date | None:
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        return None


def _unnamed_dates(parsed: ParsedQuestion, assignment: Assignment) -> list[SchemaColumn]:
    """Return the dates that numbers are compared with, of tables none of whose dates the question names."""
    said = {stem(other) for word in parsed.low for other in (word, *SYNONYMS.get(word, ()))}
    found = []
    for decision, option in assignment.choices:
        if decision.kind != "amount" or not isinstance(option.act, Filter | ExcludeRows):
            continue
        column = parsed.schema.columns[option.act.column]
        if column.kind == "date" and not any(
            said & _event(parsed, c) for c in _dates(parsed, column.table) + [column]
        ):
            found.append(column)
    return found


def _dates(parsed: ParsedQuestion, table: int) -> list[SchemaColumn]:
    columns = [parsed.schema.columns[c] for c in parsed.schema.tables[table].columns]
    return [c for c in columns if c.kind == "date" and _BIRTHS.isdisjoint(c.words)]


def _event(parsed: ParsedQuestion, column: SchemaColumn) -> set[str]:
    """Return what happened on a date, without the words of its table: {"paid"} for `paid_on`."""
    own = {stem(word) for word in parsed.schema.tables[column.table].words}
    return {stem(word) for word in column.words} - _PLAIN - own


def _usual(parsed: ParsedQuestion, table: int) -> int | None:
    """Return the date that a period without a name means; None if there is no such date."""
    dates = _dates(parsed, table)
    starts = [c.id for c in dates if _event(parsed, c) & _STARTS]
    paired = len(dates) == 2 and any(_event(parsed, c) & _FINISHES for c in dates)
    for own in (
        [c.id for c in dates if not _event(parsed, c)],
        starts if paired else [],
        [c.id for c in dates if _event(parsed, c) and _event(parsed, c) <= CREATED],
        [c.id for c in dates if not c.may_lack] if any(c.nulls for c in dates) else [],
    ):
        if len(own) == 1:
            return own[0]
    return dates[0].id if len(dates) == 1 else None
