"""Queries that read the words of a condition as something else. They are not candidates.

- "Bought before 2020" is about a day, and not about a price below 2020.
- "More than 90 complaints" are not 90 rows of a table whose `com_flag` begins like complaints.
- "Who opened a ticket?" tells what happened, if there is a day of opening. It is not the state "open".
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding.acts import ExcludeRows, Filter, HavingCount
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.deciding.decisions import Decision, Option
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import word_set

_WHEN = word_set("before after since until till during")
_YEARS = range(1000, 2101)
_STATES = word_set("is are be been being as status state")


def misreads_condition(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether a year is compared with an amount, a verb with a state, or rows of another table are counted."""
    return any(_counts_by_weak_name(parsed, option) for _, option in assignment.choices) or any(
        (decision.kind == "amount" and _is_year_as_amount(parsed, decision, option.act))
        or (decision.kind == "value" and _is_verb_as_state(parsed, decision, option.act))
        for decision, option in assignment.choices
        if isinstance(option.act, Filter | ExcludeRows)
    )


def _counts_by_weak_name(parsed: ParsedQuestion, option: Option) -> bool:
    """Return whether groups are filtered by the number of things that only resemble a column's name."""
    if not isinstance(option.act, HavingCount):
        return False
    bests = [parsed.mentions[int(use[1:])].best() for use in option.uses if use.startswith("m")]
    return any(b.column is not None and b.way in ("prefix", "fuzzy") and b.coverage < 1 for b in bests)


def _is_year_as_amount(parsed: ParsedQuestion, decision: Decision, act: Filter | ExcludeRows) -> bool:
    amount = parsed.amounts[decision.number]
    cues = {parsed.word(amount.start - 1), *parsed.low[amount.cue_start : amount.start]}
    years = all(isinstance(value, int) and value in _YEARS for value in amount.values)
    column = parsed.schema.columns[act.column]
    return years and not _WHEN.isdisjoint(cues) and column.kind == "number" and not _holds_years(column)


def _holds_years(column: SchemaColumn) -> bool:
    numbers = [value for value in column.source.values if not isinstance(value, str)]
    return "year" in column.words or (bool(numbers) and all(value in _YEARS for value in numbers))


def _is_verb_as_state(parsed: ParsedQuestion, decision: Decision, act: Filter | ExcludeRows) -> bool:
    said, columns = parsed.low[decision.start : decision.end], parsed.schema.columns
    if len(said) != 1 or not said[0].endswith("ed") or str(act.value).lower() == said[0]:
        return False
    if parsed.word(decision.start - 1) in _STATES or not _is_form(said[0], str(act.value)):
        return False
    own = (columns[c] for c in parsed.schema.tables[columns[act.column].table].columns)
    return any(c.kind == "date" and stem(said[0]) in map(stem, c.words) for c in own)


def _is_form(word: str, value: str) -> bool:
    return stem(word) == stem(value.lower())
