"""Queries without the figures and groups that the words of their question ask for. They are not candidates.

- "How many bookings" and "the number of bookings" are numbers, and "bookings per channel" too.
- "The average salary per department" has groups, and shows them.
- "The 3 hotels with the most rooms" are not those of hotel 3.
- "The sum of the prices" is one figure.
- "Payments of more than 50" is no number of payments; "more than 50 payments" is.
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding.acts import Filter, HavingCount
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion, head
from clew_nl2sql.planner.query import Query, Scalar
from clew_nl2sql.planner.words.lexicon import IDENTIFIERS, word_set

EACH = word_set("each every per")
_BEFORE_COUNT = word_set("what is was are were the show me give find tell us list return total")
_TIMES = word_set("time times once twice")


def has_other_figures(parsed: ParsedQuestion, query: Query, assignment: Assignment) -> bool:
    """Return whether a query lacks the figures or groups of its question, or reads its numbers as something else."""
    return (
        _counts_nothing(parsed, query)
        or _forgets_groups(parsed, query)
        or _numbers_rows(parsed, assignment)
        or _counts_amounts(parsed, assignment)
        or _adds_nothing_up(parsed, query)
    )


def _counts_nothing(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "how many", "the number of" or "bookings per channel" is answered with a list."""
    if _is_thing_per_thing(parsed):
        return not query.group or not any(item.agg for item in query.select)
    if query.having or query.order or query.compound or not _starts_with_count(parsed):
        return False
    columns = parsed.schema.columns
    shown = [columns[i.column] for i in query.select if i.column is not None and not i.agg]
    figures = any(c.kind == "number" and not (c.is_key or c.is_ref) for c in shown)
    return not figures and not any(item.agg for item in query.select)


def _starts_with_count(parsed: ParsedQuestion) -> bool:
    """Return whether a question asks for one number, and for nothing else."""
    if parsed.low[:2] == ["how", "much"]:
        return True
    first = next((c for c in parsed.cues if c.kind == "count"), None)
    if first is None or not {"and", ","}.isdisjoint(parsed.low):
        return False
    return all(word in _BEFORE_COUNT for word in parsed.low[: first.start])


def _is_thing_per_thing(parsed: ParsedQuestion) -> bool:
    """Return whether a question is just "bookings per channel"."""
    asked = head(parsed)
    said = asked is not None and asked.best().column is None and parsed.word(0) not in ("which", "what")
    return said and asked is not None and parsed.word(asked.end) in ("per", "by")


def _forgets_groups(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a figure "per department" has no groups, or does not show them."""
    if query.compound or not any(item.agg for item in query.select) or query.limit is not None:
        return False
    starts = {m.start for m in parsed.mentions}
    if not any(word in EACH and at + 1 in starts for at, word in enumerate(parsed.low)):
        return False
    return not query.group or all(item.agg for item in query.select)


def _numbers_rows(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether the number of "which 3 hotels" or "the 5 latest visits" is read as a key."""
    for decision, option in assignment.choices:
        if (
            decision.kind != "amount"
            or not isinstance(option.act, Filter | HavingCount)
            or option.act.op != "="
        ):
            continue
        after = next((m for m in parsed.mentions if m.start >= decision.end), None)
        before = parsed.word(decision.start - 1)
        if after is None or after.start - decision.end > 2 or before in IDENTIFIERS:
            continue
        last = parsed.tokens[after.end - 1]
        asked = before in ("which", "what", "top") and after.start == decision.end
        if last.low != last.lemma and (asked or _is_key(parsed, option.act)):
            return True
    return False


def _is_key(parsed: ParsedQuestion, act: Filter | HavingCount) -> bool:
    column = parsed.schema.columns[act.column] if isinstance(act, Filter) else None
    return column is not None and (column.is_key or column.is_ref)


def _counts_amounts(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether rows are counted for "payments of more than 50": no thing to count follows the number."""
    for decision, option in assignment.choices:
        if decision.kind != "amount" or not isinstance(option.act, HavingCount):
            continue
        amount = parsed.amounts[int(decision.key[1:])]
        if any(use.startswith("c") for use in option.uses) or parsed.word(amount.end) in _TIMES:
            continue
        follows = any(amount.end <= m.start <= amount.end + 2 for m in parsed.mentions)
        if not follows and parsed.word(amount.cue_start - 1) == "of":
            return True
    return False


def _adds_nothing_up(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "the sum of" or "the average" is answered without any figure."""
    said = any(
        c.kind == "agg" and parsed.word(c.start) in ("sum", "average", "mean", "avg") for c in parsed.cues
    )
    items = [*query.select, *(item for item, _ in query.order), *(c.item for c in query.having)]
    nested = any(isinstance(c.value, Query | Scalar) for c in query.where)
    return said and not nested and not any(item.agg for item in items) and query.compound is None
