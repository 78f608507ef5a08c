"""Find the words of a question that a model's query does not read.

A model says which words of the question are which part of its query. Such a pair counts only if the words occur in
the question and the part in the SQL, and if that part does more than to begin a clause. A word also counts as read if
it names a table or column in use, a value of the query, or what the query does ("average", "more than"), and if it is
in the closed lists of words that need no part.

A literal of the question (a quoted string, a code, an e-mail address) is read only if the query has it verbatim, and a
number only if the query has it. No pair can replace that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from clew_nl2sql.planner.judging.unread import silent_words
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import SYNONYMS
from clew_nl2sql.planner.words.literals import literals
from clew_nl2sql.planner.words.tokens import Token, tokenize

_WORDS = re.compile(r"[a-z]+|\d+", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# A pair with one of these alone says nothing.
_CLAUSES = frozenset("select from where and as on join inner left outer by with t1 t2 t3 t4".split())  # noqa: SIM905

_COMPARED = (
    "more less fewer greater than over under above below least most before after since until between older"
    " younger exactly"
)
_LARGEST = "most highest largest max maximum latest newest longest top best biggest greatest last first"
_DOES: tuple[tuple[tuple[type[Any], ...], str], ...] = (
    ((exp.Count,), "how many number count often much total times"),
    ((exp.Sum,), "total sum amount overall altogether combined much"),
    ((exp.Avg,), "average mean typical"),
    ((exp.Max, exp.Order), _LARGEST),
    ((exp.Min, exp.Order), "least lowest smallest min minimum fewest earliest oldest shortest cheapest first"),
    ((exp.Order,), "sorted sort ordered order descending ascending alphabetical alphabetically rank ranked"),
    ((exp.Limit,), "top first one two three four five six seven eight nine ten twenty"),
    ((exp.Group,), "each per every by grouped"),
    ((exp.Distinct,), "different distinct unique"),
    ((exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between), _COMPARED),
    ((exp.Not, exp.NEQ, exp.Except, exp.Is, exp.Null), "not no without never except none missing"),
    ((exp.Or, exp.In, exp.Union), "or either any"),
    ((exp.Intersect, exp.And), "both and also"),
    ((exp.Like, exp.ILike), "contain contains containing start starts starting begin begins end ends ending like"),
)  # fmt: skip


def unread_words(question: str, sql: str, pairs: Iterable[tuple[str, str]], dialect: str) -> tuple[str, ...]:
    """Return the unread words, in the order of the question. `pairs` are words and parts of the SQL."""
    try:
        tree: Any = sqlglot.parse_one(sql, dialect=dialect)
    except (SqlglotError, RecursionError):
        return ()  # the guard refuses it
    tokens = tokenize(question)
    values = [literal.name.casefold() for literal in tree.find_all(exp.Literal)]
    verbatim = {one.start for one in literals(tokens) if one.verbatim}
    covered = _covered(tokens, pairs, sql)
    lists = silent_words()
    known = lists["filler"] | lists["presentation"] | lists["light"] | _done(tree)
    stems = _names(tree)

    def is_read(at: int, token: Token) -> bool:
        if at in verbatim:
            return token.text.casefold() in values
        if any(map(str.isdigit, token.text)):
            return _are_within(re.findall(r"\d+", token.text), values)
        return at in covered or _is_known(tokens, at, known, stems, values, lists["unit"])

    return tuple(t.text for at, t in enumerate(tokens) if t.kind != "punct" and not is_read(at, t))


def _are_within(digits: list[str], values: list[str]) -> bool:
    return all(any(digit in value for value in values) for digit in digits)


def _is_known(
    tokens: list[Token],
    at: int,
    known: frozenset[str],
    stems: frozenset[str],
    values: list[str],
    units: frozenset[str],
) -> bool:
    token = tokens[at]
    if token.low in known or token.lemma in known or stem(token.low) in stems:
        return True
    if any(re.search(rf"\b{re.escape(token.low)}\b", value) for value in values):
        return True
    return token.low in units and at > 0 and tokens[at - 1].value is not None


def _covered(tokens: list[Token], pairs: Iterable[tuple[str, str]], sql: str) -> set[int]:
    low = [token.low for token in tokens]
    query = _spaced(sql)
    covered: set[int] = set()
    for words, part in pairs:
        said = [token.low for token in tokenize(words) if token.kind != "punct"]
        parts = _spaced(part)
        telling = set(parts.split()) - _CLAUSES
        if not said or not telling or f" {parts.strip()} " not in query:
            continue
        for at in range(len(low) - len(said) + 1):
            if low[at : at + len(said)] == said:
                covered.update(range(at, at + len(said)))
    return covered


def _spaced(sql: str) -> str:
    return " " + " ".join(re.findall(r"\w+|[^\w\s]", sql.casefold())) + " "


def _names(tree: Any) -> frozenset[str]:
    names = [name for table in tree.find_all(exp.Table) for name in (table.db, table.name)]
    names += [column.name for column in tree.find_all(exp.Column)]
    words = {word.lower() for name in names for word in _WORDS.findall(_CAMEL.sub(" ", name))}
    words |= {other for word in words for other in SYNONYMS.get(word, ())}
    return frozenset(stem(word) for word in words)


def _done(tree: Any) -> frozenset[str]:
    kinds = {type(node) for node in tree.walk()}
    return frozenset(
        word
        for classes, words in _DOES
        if any(issubclass(kind, classes) for kind in kinds)
        for word in words.split()
    )
