"""Detect questions that this planner cannot answer: a change of the data, a percentage, a median.

Such a question still has candidates, because most of its words are linked, but none of them is correct. The
same holds for a query that ignores a comparison of the question, for a table whose name several schemas have, and
for a time that does not exist. These are never answered.
"""

from __future__ import annotations

import re
from datetime import date

from clew_nl2sql.planner.deciding.acts import CountRows, Filter, Ignore, Limit
from clew_nl2sql.planner.judging.ambiguities import is_ambiguous
from clew_nl2sql.planner.judging.figures import EACH
from clew_nl2sql.planner.judging.unread import SHARES, tables_in_use
from clew_nl2sql.planner.linking.parsed_question import NEGATIONS, ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.linking.value_linking import ValueMention
from clew_nl2sql.planner.query import Condition, Query
from clew_nl2sql.planner.ranking.expectations import abilities
from clew_nl2sql.planner.ranking.features import CandidateFeatures
from clew_nl2sql.planner.words.cues import Amount
from clew_nl2sql.planner.words.inflection import parts, stem
from clew_nl2sql.planner.words.lexicon import word_set

CEILING = 0.05  # certainty of an answer to a different question

_TIMES = word_set("date year time day month start end begin from to")
_CHANGES = word_set("delete drop insert update remove create add alter truncate rename change erase replace")
_POLITE = word_set("please can could would you now then kindly just")
_STATISTICS = word_set("median deviation variance correlation percentile quartile difference")
_LATELY = word_set("last past previous next coming")
_SPANS = word_set(
    "second minute hour day night week weekend fortnight month quarter season year decade century"
)
_WITHIN = word_set("in during over within for of from since until till before after by")
_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")


def is_unsupported(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the best candidate cannot express what the question asks for, or is only one of its readings."""
    return is_impossible(parsed, best) or is_ambiguous(parsed, best)


def is_impossible(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether a candidate is no reading of the question."""
    return (
        _changes(parsed)
        or (best.query.share is None and _computes(parsed))
        or _leaves_out(parsed, best)
        or _forgets_denial(parsed, best)
        or _tells_no_time(parsed, best)
        or _spans_no_days(parsed)
        or _names_no_day(parsed, best)
        or _names_nobody(parsed, best)
        or _forgets_rank(parsed, best)
        or _adds_nothing_up(parsed, best)
        or _names_no_schema(parsed, best)
        or _counts_total(parsed, best)
        or _forgets_group(parsed, best)
        or _computes_age(parsed, best)
        or _divides(parsed)
        or _ranks_single_rows(parsed, best)
        or _dates_another_event(parsed, best)
    )


def _changes(parsed: ParsedQuestion) -> bool:
    """Return whether the question is a command to change data, which starts with a verb."""
    first = next((at for at, word in enumerate(parsed.low) if word not in _POLITE), 0)
    return parsed.word(first) in _CHANGES and not _linked(parsed, first)


def _computes(parsed: ParsedQuestion) -> bool:
    """Return whether the question asks for a figure computed from others: of two numbers, or a share of rows."""
    return any(
        _is_rate(parsed, at) or _is_share(parsed, at) or (word in _STATISTICS and not _linked(parsed, at))
        for at, word in enumerate(parsed.low)
    )


def _is_rate(parsed: ParsedQuestion, at: int) -> bool:
    """Return whether a word is "the no-show rate", where there is no such column."""
    is_value = any(v.start <= at < v.end for v in parsed.values)
    return parsed.low[at] == "rate" and not is_value and not _is_column(parsed, at)


def _is_share(parsed: ParsedQuestion, at: int) -> bool:
    """Return whether a word is a share of the rows of a table."""
    if parsed.low[at] not in SHARES or parsed.word(at + 1) != "of":
        return False
    if _linked(parsed, at) or _linked(parsed, at - 1):
        return False
    after = at + 2 + (parsed.word(at + 2) in ("the", "all", "our"))
    return any(m.start <= after < m.end and m.best().column is None for m in parsed.mentions)


def _is_column(parsed: ParsedQuestion, at: int) -> bool:
    return any(m.start <= at < m.end and m.best().way in ("exact", "synonym") for m in parsed.mentions)


def _leaves_out(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a comparison, a proper name or a number of rows."""
    limits = any(isinstance(option.act, Limit) for _, option in best.assignment.choices)
    if limits and best.query.limit is None:
        return True
    amounts = [parsed.amounts[decision.number] for decision, _, _ in best.assignment.acts("amount", Ignore)]
    values = [parsed.values[decision.number] for decision, _, _ in best.assignment.acts("value", Ignore)]
    return any(map(_is_compared, amounts)) or any(_is_name(parsed, value) for value in values)


def _is_compared(amount: Amount) -> bool:
    return amount.op == "in" or (amount.explicit and amount.op in (">", "<", ">=", "<=", "between"))


def _forgets_denial(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a negation."""
    if "neither" in parsed.low and sum(c.op in ("!=", "not in", "is") for c in best.query.where) < 2:
        return True
    if "negation" in abilities(best.query) or any(
        _says_no(c) or _denies(parsed, c) for c in best.query.where
    ):
        return False
    ignored = {
        at
        for decision, option in best.assignment.choices
        if decision.kind == "value" and isinstance(option.act, Ignore)
        for at in range(decision.start, decision.end)
    }
    return any(at in ignored or not _linked(parsed, at) for at in parsed.denials)


def _tells_no_time(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether a "when" would be answered without a date."""
    columns = [parsed.schema.columns[i.column] for i in best.query.select if i.column is not None]
    timed = any(c.kind == "date" or not _TIMES.isdisjoint(c.words) for c in columns)
    return parsed.word(0) == "when" and not timed


def _spans_no_days(parsed: ParsedQuestion) -> bool:
    """Return whether the question has a period that could not be turned into days: "in the last 0 weeks", "the last
    9999 years".

    "The last 3 years" without a preposition may be rows, if a table or a column has that name.
    """
    for at, token in enumerate(parsed.tokens[:-2]):
        if token.low not in _LATELY or parsed.tokens[at + 1].value is None:
            continue
        if parsed.tokens[at + 2].lemma in _SPANS:
            lead = parsed.word(at - 2) if parsed.word(at - 1) == "the" else parsed.word(at - 1)
            named = any(m.start == at + 2 and m.best().coverage == 1 for m in parsed.mentions)
            if lead in _WITHIN or not named:
                return True
    return False


def _names_no_day(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query compares a date with a day that does not exist, or with letters: 2025-02-31, "Q5"."""
    plain = [c for c in best.query.where if c.item.column is not None and not c.item.agg]
    dated = [(c, parsed.schema.columns[c.item.column or 0]) for c in plain]
    return any(_is_no_day(condition, column) for condition, column in dated if column.kind == "date")


def _is_no_day(condition: Condition, column: SchemaColumn) -> bool:
    given = condition.value if type(condition.value) is tuple else (condition.value,)
    texts = [value for value in given if isinstance(value, str)]
    if any((day := _DAY.match(text)) and not _exists(day) for text in texts):
        return True
    spelled = condition.op in ("like", "=", "!=") and any(map(str.isalpha, "".join(texts)))
    return spelled and all(str(value)[:4].isdigit() for value in column.source.values)


def _exists(day: re.Match[str]) -> bool:
    try:
        date(*map(int, day.groups()))
    except ValueError:
        return False
    return True


def _names_nobody(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether a "who" would be answered with a date, an amount or a number, or without a name."""
    columns = [parsed.schema.columns[i.column] for i in best.query.select if i.column is not None]
    impersonal = [c.kind in ("date", "number", "boolean") for c in columns]
    if parsed.word(0) != "who" or not impersonal:
        return False
    said = {t.column for m in parsed.mentions for t in m.targets}  # "who is the author"
    named = any("name" in c.words or "title" in c.words or c.id in said for c in columns)
    people = any(
        c.core in (("first", "name"), ("last", "name"), ("full", "name")) for c in parsed.schema.columns
    )
    return all(impersonal) or (people and not named)


def _forgets_rank(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query ignores a rank: "Who came first?" with all rows, or without an order."""
    words = [at for at, token in enumerate(parsed.tokens) if token.kind != "punct"]
    if not words or parsed.word(words[-1]) not in ("first", "last") or best.query.aggregates:
        return False
    if parsed.word(0) in ("who", "which"):
        return not (best.query.order and best.query.limit)
    return not best.query.order and words[-1] not in _taken(best)


def _taken(best: CandidateFeatures) -> set[int]:
    """Return the positions that a part of the query covers."""
    used = [d for d, option in best.assignment.choices if not isinstance(option.act, Ignore)]
    return {at for decision in used for at in range(decision.start, decision.end)}


def _adds_nothing_up(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the query lists a column row by row for "the total amount of the orders"."""
    query = best.query
    if not parsed.within_names or query.group or query.limit or parsed.word(1) not in ("is", "was"):
        return False
    said = [m for m in parsed.mentions if not parsed.within_names.keys().isdisjoint(range(m.start, m.end))]
    listed = any(t.column in query.plain and t.coverage == 1 for m in said for t in m.targets)
    return listed and not _is_of_one_row(parsed, query)


def _is_of_one_row(parsed: ParsedQuestion, query: Query) -> bool:
    equal = [c.item.column for c in query.where if c.op == "=" and c.item.column is not None]
    return any(parsed.schema.columns[column].unique for column in equal)


def _names_no_schema(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether several schemas have the table, and the question names none of them."""
    schema = parsed.schema
    return any(
        schema.tables[t].schema
        and schema.namesakes(t)
        and not any(word in parsed.low for word in parts(schema.tables[t].schema))
        for t in tables_in_use(best.query, schema)
    )


def _counts_total(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether rows are counted for "the total of the invoices", which have amounts to add up."""
    for decision, option in best.assignment.choices:
        if option.role == "g.cnt" and isinstance(option.act, CountRows) and option.act.table is not None:
            columns = [parsed.schema.columns[c] for c in parsed.schema.tables[option.act.table].columns]
            measured = any(c.kind == "number" and not (c.is_key or c.is_ref) for c in columns)
            if measured and parsed.word(decision.end) == "of":
                return True
    return False


def _forgets_group(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the question has more groups than the query: "each employee on each project"."""
    said = [at for at, word in enumerate(parsed.low) if word in EACH]
    groups = [at for at in said if any(m.start == at + 1 for m in parsed.mentions)]
    return len(groups) > 1 and len(best.query.group) < len(groups)


def _computes_age(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether "how old" would be answered with a date or a year."""
    if parsed.word(0) != "how" or parsed.word(1) != "old":
        return False
    columns = [parsed.schema.columns[i.column] for i in best.query.select if i.column is not None]
    return not any("age" in column.words for column in columns)


def _divides(parsed: ParsedQuestion) -> bool:
    """Return whether the question asks for "the price per seat", and a column counts the seats."""
    for at, word in enumerate(parsed.low):
        for mention in parsed.mentions if word == "per" else ():
            if mention.start != at + 1:
                continue
            best = mention.best()
            column = parsed.schema.columns[best.column] if best.column is not None else None
            if column is not None and column.kind == "number" and parts(column.name)[-1].endswith("s"):
                return True
    return False


def _ranks_single_rows(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether "the highest repair costs" of a building are those of a single repair."""
    query, columns = best.query, parsed.schema.columns
    if query.limit is None or query.group or not query.order or query.order[0][0].agg:
        return False
    measure, shown = query.order[0][0].column, query.select[0].column
    if measure is None or shown is None or columns[measure].table == columns[shown].table:
        return False
    said = [m for m in parsed.mentions if any(t.column == measure for t in m.targets)]
    lasts = [parsed.tokens[m.end - 1] for m in said]
    return any(token.low != token.lemma for token in lasts)


def _dates_another_event(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether "cancelled last month" would be answered with what was placed last month."""
    for decision, _, act in best.assignment.acts("amount", Filter):
        column = parsed.schema.columns[act.column]
        event = {stem(word) for word in column.words if word not in _TIMES and word not in ("on", "at")}
        start = min(decision.start, parsed.amounts[decision.number].cue_start)
        verb = _state_before(parsed, best, start)
        if column.kind == "date" and event and verb:
            return stem(verb) not in event
    return False


def _state_before(parsed: ParsedQuestion, best: CandidateFeatures, start: int) -> str:
    """Return the verb of a condition that ends right before a position, if any."""
    values = [d for d, o in best.assignment.choices if d.kind == "value" and not isinstance(o.act, Ignore)]
    verbs = [parsed.low[d.end - 1] for d in values if 0 <= start - d.end <= 1]
    return next((verb for verb in verbs if verb.endswith("ed")), "")


def _says_no(condition: Condition) -> bool:
    return str(condition.value).lower() in ("no", "n", "false", "f", "0", "none")


def _denies(parsed: ParsedQuestion, condition: Condition) -> bool:
    """Return whether the column itself denies something: `do_not_contact`."""
    column = condition.item.column
    return column is not None and not NEGATIONS.isdisjoint(parts(parsed.schema.columns[column].name))


def _is_name(parsed: ParsedQuestion, value: ValueMention) -> bool:
    """Return whether a value is quoted or capitalized, and does not name a table or column."""
    capital = value.start > 0 and parsed.tokens[value.start].text[:1].isupper()
    if any(m.start < value.end and value.start < m.end for m in parsed.mentions):
        return False
    return value.quoted or (capital and bool(value.holders) and value.holders[0].way == "exact")


def _linked(parsed: ParsedQuestion, at: int) -> bool:
    spans = [(m.start, m.end) for m in parsed.mentions] + [(v.start, v.end) for v in parsed.values]
    return any(start <= at < end for start, end in spans)
