"""Detect questions that this planner cannot answer: a change of the data, a percentage, a median.

Such a question still has candidates, because most of its words are linked, but none of them is correct. The
same holds for a query that ignores a comparison of the question. These are never answered.
"""

from __future__ import annotations

from clew_nl2sql.planner.acts import Ignore
from clew_nl2sql.planner.expectations import abilities
from clew_nl2sql.planner.features import CandidateFeatures
from clew_nl2sql.planner.lexicon import word_set
from clew_nl2sql.planner.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Condition
from clew_nl2sql.planner.value_linking import ValueMention

CEILING = 0.05  # certainty of an answer to a different question

_TIMES = word_set("date year time day month start end begin from to")
_CHANGES = word_set("delete drop insert update remove create add alter truncate rename change erase replace")
_POLITE = word_set("please can could would you now then kindly just")
_STATISTICS = word_set("median deviation variance correlation percentile quartile difference")
_SHARES = word_set("percentage percentages percent proportion proportions fraction share ratio")


def is_beyond(reading: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the question asks for something that its best candidate cannot express."""
    return (
        _changes(reading)
        or _computes(reading)
        or _leaves_out(reading, best)
        or _forgets_denial(reading, best)
        or _tells_no_time(reading, best)
        or _forgets_rank(reading, best)
        or _adds_nothing_up(reading, best)
    )


def _changes(reading: ParsedQuestion) -> bool:
    """Return whether the question is a command to change data, which starts with a verb."""
    first = next((at for at, word in enumerate(reading.low) if word not in _POLITE), 0)
    return reading.word(first) in _CHANGES and not _linked(reading, first)


def _computes(reading: ParsedQuestion) -> bool:
    """Return whether the question asks for a figure computed from others: of two numbers, or a share of rows."""
    for at, word in enumerate(reading.low):
        if _linked(reading, at):
            continue
        if word in _STATISTICS:
            return True
        if word in _SHARES and reading.word(at + 1) == "of" and not _linked(reading, at - 1):
            after = at + 2 + (reading.word(at + 2) in ("the", "all", "our"))
            if any(m.start <= after < m.end and m.best().column is None for m in reading.mentions):
                return True
    return False


def _leaves_out(reading: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a comparison or a proper name."""
    for decision, option in best.assignment.choices:
        number = int(decision.key[1:])
        if not isinstance(option.act, Ignore):
            continue
        if decision.kind == "amount":
            amount = reading.amounts[number]
            if amount.op == "in" or (amount.explicit and amount.op in (">", "<", ">=", "<=", "between")):
                return True
        if decision.kind == "value" and _is_name(reading, reading.values[number]):
            return True
    return False


def _forgets_denial(reading: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a negation."""
    if "negation" in abilities(best.query) or any(_says_no(c) for c in best.query.where):
        return False
    return any(not _linked(reading, at) for at in reading.denials)


def _tells_no_time(reading: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether a "when" would be answered without a date."""
    columns = [reading.schema.columns[i.column] for i in best.query.select if i.column is not None]
    timed = any(c.kind == "date" or not _TIMES.isdisjoint(c.words) for c in columns)
    return reading.word(0) == "when" and not timed


def _forgets_rank(reading: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a rank: "Who came first?" with all rows, or without an order."""
    words = [at for at, token in enumerate(reading.tokens) if token.kind != "punct"]
    if not words or reading.word(words[-1]) not in ("first", "last"):
        return False
    if any(i.agg for i in best.query.select):
        return False
    if reading.word(0) in ("who", "which"):
        return not (best.query.order and best.query.limit)
    taken = [d for d, option in best.assignment.choices if not isinstance(option.act, Ignore)]
    return not best.query.order and not any(d.start <= words[-1] < d.end for d in taken)


def _adds_nothing_up(reading: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query lists a column row by row for "the total amount of the orders"."""
    query, columns = best.query, reading.schema.columns
    if not reading.within_names or query.group or query.limit or reading.word(1) not in ("is", "was"):
        return False
    if any(c.op == "=" and c.item.column is not None and columns[c.item.column].unique for c in query.where):
        return False
    said = [m for m in reading.mentions if any(m.start <= at < m.end for at in reading.within_names)]
    listed = {i.column for i in query.select if not i.agg}
    return any(
        t.column in listed and t.coverage == 1 for m in said for t in m.targets if t.column is not None
    )


def _says_no(condition: Condition) -> bool:
    return str(condition.value).lower() in ("no", "n", "false", "f", "0", "none")


def _is_name(reading: ParsedQuestion, value: ValueMention) -> bool:
    """Return whether a value is quoted or capitalized, and does not name a table or column."""
    capital = value.start > 0 and reading.tokens[value.start].text[:1].isupper()
    if any(m.start < value.end and value.start < m.end for m in reading.mentions):
        return False
    return value.quoted or (capital and bool(value.holders) and value.holders[0].way == "exact")


def _linked(reading: ParsedQuestion, at: int) -> bool:
    spans = [(m.start, m.end) for m in reading.mentions] + [(v.start, v.end) for v in reading.values]
    return any(start <= at < end for start, end in spans)
