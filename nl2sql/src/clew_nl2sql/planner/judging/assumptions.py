"""Say what the planner assumed: values that the query spells differently from the question, and unnamed schemas.

Such an answer may be complete, but its first line states the assumption.
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding.acts import ExcludeRows, Filter
from clew_nl2sql.planner.deciding.decisions import Decision
from clew_nl2sql.planner.judging.unread import tables_in_use
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import KNOWN, NULL
from clew_nl2sql.planner.ranking.features import CandidateFeatures
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import word_set

_LACKING = word_set("no not without never lack lacks lacking missing unknown un")

_ASKING_FOR_PART = (
    "contain", "include", "start", "begin", "end", "like", "substring", "letter", "word", "phrase", "prefix",
)  # fmt: skip


def assumptions(parsed: ParsedQuestion, best: CandidateFeatures) -> list[str]:
    """Return one sentence for each value with another spelling, and for each table whose name other schemas have."""
    found = []
    for table in sorted(tables_in_use(best.query, parsed.schema)):
        entry, others = parsed.schema.tables[table], parsed.schema.namesakes(table)
        if others and not entry.schema:
            names = ", ".join(other.name for other in others)
            found.append(f"{entry.name!r} is read as the table of the default schema, not {names}.")
    for decision, option in best.assignment.choices:
        if decision.kind == "value" and isinstance(option.act, Filter | ExcludeRows):
            found += _respelled(parsed, decision, option.act)
    return list(dict.fromkeys(found))


def _respelled(parsed: ParsedQuestion, decision: Decision, act: Filter | ExcludeRows) -> list[str]:
    """Return a sentence if a value is not what the question says, or only a part of it."""
    if act.value in (NULL, KNOWN):
        return _missing(parsed, act, parsed.low[decision.start : decision.end])
    if not isinstance(act.value, str):
        return []
    first, last = parsed.tokens[decision.start], parsed.tokens[decision.end - 1]
    said = parsed.question[first.start : last.end].strip("\"'“”‘’`")
    column, value, how = parsed.schema.columns[act.column].name, act.value, "="
    if act.op == "like":
        value, how = value.strip("%"), "contains"
    as_said = act.op != "like" or _asks_for_part(parsed, decision.start)
    if as_said and said.casefold() == value.casefold():
        return []
    return [f"{said!r} is read as: {column} {how} {value!r}."]


def _missing(parsed: ParsedQuestion, act: Filter | ExcludeRows, said: list[str]) -> list[str]:
    """Return the sentence for a state that its column does not name: "open" for a missing `closed_on`."""
    column = parsed.schema.columns[act.column]
    if act.value != NULL or {stem(word) for word in said} & {stem(word) for word in column.words}:
        return []
    if any(t.column == act.column for m in parsed.mentions for t in m.targets) or set(said) & _LACKING:
        return []
    return [f"{' '.join(said)!r} is read as: {column.name} is missing."]


def _asks_for_part(parsed: ParsedQuestion, at: int) -> bool:
    return any(parsed.word(n).startswith(_ASKING_FOR_PART) for n in range(max(0, at - 7), at))
