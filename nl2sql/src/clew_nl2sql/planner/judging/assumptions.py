"""Say what the planner assumed: values that the query spells differently from the question, and unnamed schemas.

Such an answer may be complete, but its first line states the assumption.
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding.acts import ExcludeRows, Filter
from clew_nl2sql.planner.judging.unread import tables_in_use
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import NULL
from clew_nl2sql.planner.ranking.features import CandidateFeatures


def assumptions(parsed: ParsedQuestion, best: CandidateFeatures) -> list[str]:
    """Return one sentence for each value with another spelling, and for each table whose name other schemas have."""
    found = []
    for table in sorted(tables_in_use(best.query, parsed.schema)):
        entry, others = parsed.schema.tables[table], parsed.schema.namesakes(table)
        if others and not entry.schema:
            names = ", ".join(other.name for other in others)
            found.append(f"{entry.name!r} is read as the table of the default schema, not {names}.")
    for decision, option in best.assignment.choices:
        act = option.act
        if (
            decision.kind != "value"
            or not isinstance(act, Filter | ExcludeRows)
            or not isinstance(act.value, str)
        ):
            continue
        if act.value == NULL:
            continue
        first, last = parsed.tokens[decision.start], parsed.tokens[decision.end - 1]
        said = parsed.question[first.start : last.end].strip("\"'“”‘’`")
        like = act.op == "like"
        value = act.value.strip("%") if like else act.value
        if said.casefold() == value.casefold() and not (like and not _asks_for_part(parsed, decision.start)):
            continue
        column = parsed.schema.columns[act.column].name
        how = f"{column} contains {value!r}" if like else f"{column} = {value!r}"
        found.append(f"{said!r} is read as: {how}.")
    return list(dict.fromkeys(found))


def _asks_for_part(parsed: ParsedQuestion, at: int) -> bool:
    words = (
        "contain",
        "include",
        "start",
        "begin",
        "end",
        "like",
        "substring",
        "letter",
        "word",
        "phrase",
        "prefix",
    )
    return any(parsed.word(n).startswith(words) for n in range(max(0, at - 7), at))
