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


def is_unsupported(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the question asks for something that its best candidate cannot express."""
    return (
        _changes(parsed)
        or _computes(parsed)
        or _leaves_out(parsed, best)
        or _forgets_denial(parsed, best)
        or _tells_no_time(parsed, best)
        or _forgets_rank(parsed, best)
        or _adds_nothing_up(parsed, best)
    )


def _changes(parsed: ParsedQuestion) -> bool:
    """Return whether the question is a command to change data, which starts with a verb."""
    first = next((at for at, word in enumerate(parsed.low) if word not in _POLITE), 0)
    return parsed.word(first) in _CHANGES and not _linked(parsed, first)


def _computes(parsed: ParsedQuestion) -> bool:
    """Return whether the question asks for a figure computed from others: of two numbers, or a share of rows."""
    for at, word in enumerate(parsed.low):
        if _linked(parsed, at):
            continue
        if word in _STATISTICS:
            return True
        if word in _SHARES and parsed.word(at + 1) == "of" and not _linked(parsed, at - 1):
            after = at + 2 + (parsed.word(at + 2) in ("the", "all", "our"))
            if any(m.start <= after < m.end and m.best().column is None for m in parsed.mentions):
                return True
    return False


def _leaves_out(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a comparison or a proper name."""
    for decision, option in best.assignment.choices:
        number = int(decision.key[1:])
        if not isinstance(option.act, Ignore):
            continue
        if decision.kind == "amount":
            amount = parsed.amounts[number]
            if amount.op == "in" or (amount.explicit and amount.op in (">", "<", ">=", "<=", "between")):
                return True
        if decision.kind == "value" and _is_name(parsed, parsed.values[number]):
            return True
    return False


def _forgets_denial(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a negation."""
    if "negation" in abilities(best.query) or any(_says_no(c) for c in best.query.where):
        return False
    return any(not _linked(parsed, at) for at in parsed.denials)


def _tells_no_time(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether a "when" would be answered without a date."""
    columns = [parsed.schema.columns[i.column] for i in best.query.select if i.column is not None]
    timed = any(c.kind == "date" or not _TIMES.isdisjoint(c.words) for c in columns)
    return parsed.word(0) == "when" and not timed


def _forgets_rank(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a rank: "Who came first?" with all rows, or without an order."""
    words = [at for at, token in enumerate(parsed.tokens) if token.kind != "punct"]
    if not words or parsed.word(words[-1]) not in ("first", "last"):
        return False
    if any(i.agg for i in best.query.select):
        return False
    if parsed.word(0) in ("who", "which"):
        return not (best.query.order and best.query.limit)
    taken = [d for d, option in best.assignment.choices if not isinstance(option.act, Ignore)]
    return not best.query.order and not any(d.start <= words[-1] < d.end for d in taken)


def _adds_nothing_up(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query lists a column row by row for "the total amount of the orders"."""
    query, columns = best.query, parsed.schema.columns
    if not parsed.within_names or query.group or query.limit or parsed.word(1) not in ("is", "was"):
        return False
    if any(c.op == "=" and c.item.column is not None and columns[c.item.column].unique for c in query.where):
        return False
    said = [m for m in parsed.mentions if any(m.start <= at < m.end for at in parsed.within_names)]
    listed = {i.column for i in query.select if not i.agg}
    return any(
        t.column in listed and t.coverage == 1 for m in said for t in m.targets if t.column is not None
    )


def _says_no(condition: Condition) -> bool:
    return str(condition.value).lower() in ("no", "n", "false", "f", "0", "none")


def _is_name(parsed: ParsedQuestion, value: ValueMention) -> bool:
    """Return whether a value is quoted or capitalized, and does not name a table or column."""
    capital = value.start > 0 and parsed.tokens[value.start].text[:1].isupper()
    if any(m.start < value.end and value.start < m.end for m in parsed.mentions):
        return False
    return value.quoted or (capital and bool(value.holders) and value.holders[0].way == "exact")


def _linked(parsed: ParsedQuestion, at: int) -> bool:
    spans = [(m.start, m.end) for m in parsed.mentions] + [(v.start, v.end) for v in parsed.values]
    return any(start <= at < end for start, end in spans)
