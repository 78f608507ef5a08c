"""Find the words of a question that its query does not read.

A token is *read* if a chosen part of the query covers its position, if it is a word of a table or column that
the query uses, or a synonym of one, or if it is a unit after a number. Fillers, presentation words and light
verbs need no part of the query. They are closed lists in `silent_words.txt`. Every other word, number, date
or quoted string is *unread*.

An answer with an unread word may be an answer to another question, so it is never complete.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from clew_nl2sql.planner.building.render import needed_tables
from clew_nl2sql.planner.deciding.acts import Filter, Ignore
from clew_nl2sql.planner.linking.parsed_question import NEGATIONS, ParsedQuestion
from clew_nl2sql.planner.linking.predicates import flag_words
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import Query, Scalar, columns_of
from clew_nl2sql.planner.ranking.expectations import abilities
from clew_nl2sql.planner.ranking.features import CandidateFeatures
from clew_nl2sql.planner.words.cues import comparative
from clew_nl2sql.planner.words.inflection import parts, stem
from clew_nl2sql.planner.words.lexicon import SYNONYMS, word_set

# What stems end in after the letters that related words share.
_ENDINGS = frozenset(["", *"t s ss c d at it ut pt ib iv ic al an abl r ar ist ur".split()])  # noqa: SIM905
_ADDED = ("total", "amount", "overall", "altogether", "combined")
SHARES = word_set("percentage percentages percent proportion proportions fraction share ratio")
_WHEN = ("in", "on", "before", "after", "since", "between", "during", "from", "until")
_NOW = ("currently", "now", "current")
_BE = ("is", "are", "was", "were", "be", "been", "being")
_ADVERBS = ("not", "already", "still", "fully", "currently", "ever", "never", "yet", "completely")
_TIME_WORDS = ("year", "date", "time", "day", "month")
# Words that continue an earlier question, which the planner does not know.
_BACK = (
    ("of", "them"),
    ("of", "those"),
    ("of", "these"),
    ("among", "them"),
    ("what", "about"),
    ("how", "about"),
)


@lru_cache(maxsize=1)
def silent_words() -> dict[str, frozenset[str]]:
    """Return the closed lists, by name."""
    text = resources.files(__package__).joinpath("silent_words.txt").read_text("utf-8")
    lists: dict[str, set[str]] = {}
    for line in text.splitlines():
        name, _, words = line.partition(" ")
        if name != "#":
            lists.setdefault(name, set()).update(words.split())
    lists["silent"] = lists["filler"] | lists["presentation"] | lists["light"]
    return {name: frozenset(words) for name, words in lists.items()}


def unread(parsed: ParsedQuestion, best: CandidateFeatures) -> list[str]:
    """Return the unread words, in the order of the question."""
    return [parsed.tokens[at].text for at in unread_positions(parsed, best)]


def unread_features(parsed: ParsedQuestion, candidate: CandidateFeatures) -> list[tuple[str, float]]:
    """Return features for the ranking and the certainty: a query that reads more of the question is likelier."""
    count = len(unread_positions(parsed, candidate))
    return [(f"unread={min(count, 3)}", 1.0), ("unread", float(count))]


def unread_positions(parsed: ParsedQuestion, best: CandidateFeatures) -> list[int]:
    """Return the positions of unread tokens."""
    covered, reader = _covered(parsed, best), _ReadWords(parsed, best)
    found = [
        at
        for at, token in enumerate(parsed.tokens)
        if at not in covered
        and token.kind != "punct"
        and not (token.kind == "word" and reader.reads(at))
        and not (token.low == "still" and at + 1 in covered)  # "still in transit"
    ]
    return sorted({*found, *_backward(parsed)})


class _ReadWords:
    """What a query reads of the words that no chosen part covers."""

    def __init__(self, parsed: ParsedQuestion, best: CandidateFeatures):
        self._parsed, self._best = parsed, best
        self._named = _stems_in_use(parsed, best.query)
        self._tables = tables_in_use(best.query, parsed.schema)
        self._does = _functions(best.query) | abilities(best.query)
        self._states, self._denies = _has_state(parsed, best.query), _denies(best.query)

    def reads(self, at: int) -> bool:
        """Return whether a word needs no part of the query, or says what the query does."""
        return (
            self._is_silent(at)
            or self._is_done(at)
            or self._always_happened(at)
            or _dates_a_condition(self._parsed, self._best, at)
        )

    def _always_happened(self, at: int) -> bool:
        """Return whether a verb is the event of every row in use: tickets with an `opened_at` were all opened."""
        word = self._parsed.low[at]
        if not word.endswith("ed") or self._parsed.word(at + 1) in _WHEN:
            return False
        return any(
            c.kind == "date" and not c.nulls and c.table in self._tables and word in parts(c.name)
            for c in self._parsed.schema.columns
        )

    def _is_silent(self, at: int) -> bool:
        parsed, lists, token = self._parsed, silent_words(), self._parsed.tokens[at]
        before, after = parsed.word(at - 1), parsed.word(at + 1)
        if token.low == "may" and (before in _WHEN or (at and token.text == "May")):
            return False  # the month
        if _is_named(token.low, self._named) or (at == 0 and token.low == "name") or before == after == "as":
            return True  # "as well as"
        if token.lemma == "address" and before in ("email", "mail", "e-mail", "web", "ip"):
            return True
        if token.low in lists["unit"] and at and parsed.tokens[at - 1].value is not None:
            return True
        is_silent = not lists["silent"].isdisjoint((token.low, token.lemma))
        return is_silent and not _is_state(parsed, at) and not _is_asked_for(parsed, at)

    def _is_done(self, at: int) -> bool:
        parsed, token, does = self._parsed, self._parsed.tokens[at], self._does
        following = parsed.tokens[min(at + 1, len(parsed.tokens) - 1)]
        return any(
            (
                self._states and token.low in _NOW,
                self._denies and token.low in NEGATIONS,
                "compared" in does and comparative(parsed.low, at) is not None,
                token.low in ("under", "over") and following.kind == "word",
                token.low in SHARES and "share" in does,
                token.lemma in _ADDED and not does.isdisjoint(("sum", "count")),
                token.lemma in silent_words()["pattern"] and "like" in does,
            )
        )


def _is_state(parsed: ParsedQuestion, at: int) -> bool:
    """Return whether a word is what the question says about its subject: "are full", "were processed"."""
    lists = silent_words()
    word, after = parsed.tokens[at], parsed.word(at + 1)
    if word.low in lists["filler"] or word.lemma in lists["filler"] or word.low in lists["existing"]:
        return False
    before = parsed.word(at - 1) if parsed.word(at - 1) not in _ADVERBS else parsed.word(at - 2)
    return before in _BE and after in ("", "?", ".", "!", ",", "and", "or", "but")


def _is_asked_for(parsed: ParsedQuestion, at: int) -> bool:
    """Return whether a word that is often a verb is the noun of "how many works" or "which plays"."""
    asked = parsed.low[:2] == ["how", "many"] and at == 2
    return (
        asked
        and parsed.tokens[at].low != parsed.tokens[at].lemma
        and parsed.tokens[at].low in silent_words()["light"]
    )


def _has_state(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a query asks for what is so now: a flag, a missing date, a day."""
    columns = parsed.schema.columns
    return any(
        c.op in ("is", "is not")
        or (c.item.column is not None and columns[c.item.column].kind in ("boolean", "date"))
        or isinstance(c.value, str)
        or (c.item.column is not None and bool(flag_words(columns[c.item.column], parsed.schema)))
        for each in _queries(query)
        for c in each.where
    )


def _covered(parsed: ParsedQuestion, best: CandidateFeatures) -> set[int]:
    covered: set[int] = set()
    for decision, option in best.assignment.choices:
        if isinstance(option.act, Ignore):
            continue
        covered.update(range(decision.start, decision.end))
        if decision.kind == "amount":
            amount = parsed.amounts[int(decision.key[1:])]
            covered.update(range(amount.cue_start, amount.cue_end))
    ordered = bool(best.query.order)
    counts = bool(_functions(best.query) & {"count", "sum"})
    for cue in parsed.cues:  # "the most" of "which city has the most" is an order, whichever decision made it
        if (cue.kind == "super" and ordered) or (cue.kind == "count" and counts):
            covered.update(range(cue.start, cue.end))
    return covered


def tables_in_use(query: Query, schema: SchemaIndex) -> set[int]:
    """Return the tables of a query and of the queries inside it."""
    return {table for each in _queries(query) for table in needed_tables(each, schema)}


def _stems_in_use(parsed: ParsedQuestion, query: Query) -> frozenset[str]:
    schema = parsed.schema
    tables = [schema.tables[table] for table in tables_in_use(query, schema)]
    columns = [schema.columns[column] for each in _queries(query) for column in columns_of(each)]
    words = set().union(*(table.words for table in tables), *(parts(table.schema) for table in tables))
    words.update(*map(_words_of, columns))
    identifiers = {"number"} if any(column.kind == "text" for column in columns) else set()
    words.update(*(SYNONYMS.get(word, ()) for word in words - identifiers))
    return frozenset(map(stem, words))


def _words_of(column: SchemaColumn) -> tuple[str, ...]:
    """Return the words that name a column; "the last payment" of a person does not name `last_name`."""
    return ("name",) if column.core in (("first", "name"), ("last", "name")) else column.words


def _is_named(word: str, stems: frozenset[str]) -> bool:
    """Return whether a word is a form of a used word: submitted, for `submission`."""
    base = stem(word)
    return base in stems or (len(base) > 4 and any(_is_derived(base, other) for other in stems))


def _is_derived(one: str, other: str) -> bool:
    """Return whether two stems differ only in a common ending: submit and submiss, but not complaint and complet."""
    shared = next((n for n, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return (
        shared >= 5
        and len(one) - shared <= 3
        and len(other) - shared <= 3
        and {one[shared:], other[shared:]} <= _ENDINGS
    )


def _queries(query: Query) -> list[Query]:
    """Return a query and the queries inside it."""
    found = [query]
    if query.compound:
        found += _queries(query.compound[1])
    for condition in query.where + query.having:
        if isinstance(condition.value, Query):
            found += _queries(condition.value)
        elif isinstance(condition.value, Scalar):
            found.append(Query((), where=condition.value.where))
    return found


def _denies(query: Query) -> bool:
    return any(
        (each.compound is not None and each.compound[0] == "except")
        or any(
            c.op in ("!=", "not in", "is", "<=", ">=", "<", ">") or _is_no(c.value)
            for c in each.where + each.having
        )
        for each in _queries(query)
    )


def _functions(query: Query) -> frozenset[str]:
    """Return the aggregates of a query, and "like" if it compares with a pattern."""
    found = {i.agg for each in _queries(query) for i in (*each.select, *(item for item, _ in each.order))}
    found |= {c.item.agg for each in _queries(query) for c in each.having}
    return frozenset(found | {c.op for each in _queries(query) for c in each.where if c.op == "like"})


def _dates_a_condition(parsed: ParsedQuestion, best: CandidateFeatures, at: int) -> bool:
    """Return whether a verb only says what happened then: "opened in 1958", where the column is just `year`.

    If the column names another event (`placed_at` for "cancelled in 2024"), the verb is not read.
    """
    if not parsed.low[at].endswith("ed") or parsed.word(at + 1) not in _WHEN:
        return False
    for decision, option in best.assignment.choices:
        if decision.kind == "amount" and isinstance(option.act, Filter) and at < decision.start <= at + 5:
            column = parsed.schema.columns[option.act.column]
            table = parsed.schema.tables[column.table]
            return all(word in _TIME_WORDS or word in table.words for word in column.words)
    return False


def _is_no(value: object) -> bool:
    return str(value).lower() in ("no", "n", "false", "f", "0", "none")


def _backward(parsed: ParsedQuestion) -> list[int]:
    """Return words that refer to an earlier question: "of them" before anything is named, "and in Paris?"."""
    found = [0] if parsed.word(0) == "and" else []
    for at in range(len(parsed.low) - 1):
        first = parsed.word(at + 1) == "about" or not any(m.end <= at for m in parsed.mentions)
        if first and (parsed.word(at), parsed.word(at + 1)) in _BACK:
            found.append(at + 1)
    return found
