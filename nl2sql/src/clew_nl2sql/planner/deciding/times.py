"""Which column a range or "the latest" may mean: keys have no ranges, and what is new has a date."""

from __future__ import annotations

from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.words.cues import Amount
from clew_nl2sql.planner.words.lexicon import IDENTIFIERS, word_set

_LATE = word_set("latest recent newest last")
EARLY = word_set("earliest oldest")
_MEASURED_BY = word_set("year age birth born")  # the oldest of these is not the one that was entered first
_RANGES = (">", "<", ">=", "<=", "between")
_TIMED = word_set("before after since until")


def may_be_ranged(parsed: ParsedQuestion, column: SchemaColumn, amount: Amount, number: int) -> bool:
    """Return whether a range of a column makes sense: "donors with more than 25" is not about their keys, and
    "before 2020" is about a time.
    """
    if not amount.explicit or amount.op not in _RANGES:
        return True
    mention = parsed.mentions[number]
    if column.is_id and column.kind == "number":
        return not IDENTIFIERS.isdisjoint(parsed.low[mention.start : mention.end])
    first = amount.values[0]
    is_year = not isinstance(first, str) and 1500 <= first <= 2100
    timed = is_year and not _TIMED.isdisjoint(parsed.low[amount.cue_start : amount.start])
    return not timed or column.kind == "date" or _holds_years(column)


def _holds_years(column: SchemaColumn) -> bool:
    numbers = [value for value in column.source.values if isinstance(value, int | float)]
    return "year" in column.words or all(1000 <= value <= 2200 for value in numbers)


def moment_of(parsed: ParsedQuestion, degree: str) -> SchemaColumn | None:
    """Return the date of "the most recent invoice": the only one of its table that every row has."""
    if degree not in _LATE | EARLY or degree not in parsed.low:
        return None
    at = parsed.low.index(degree)
    named = [m.best().table for m in parsed.mentions if m.start == at + 1 and m.best().column is None]
    columns = [parsed.schema.columns[c] for table in named for c in parsed.schema.tables[table].columns]
    if any(not _MEASURED_BY.isdisjoint(column.words) for column in columns):
        return None
    dates = [c for c in columns if c.kind == "date" and not c.nulls]
    return dates[0] if len(dates) == 1 else None
