"""Find predicates: words that filter by a flag, and words that ask for missing values.

A *flag* is a boolean column, or one that holds only 0 and 1, Y and N, or yes and no. The words of its name are a
condition: "active doctors" are those with `is_active` = 1. "inactive", "non-billable" and "not remote" are the
opposite. "no insurance" and "without a phone" ask for rows where a column is NULL, if the sample has such rows;
"no department" asks for a missing reference.

A predicate is a value of the question with a column that holds it, so it is chosen like every other value.
"""

from __future__ import annotations

import re

from clew_nl2sql.planner.catalog import Value
from clew_nl2sql.planner.inflection import stem
from clew_nl2sql.planner.query import NULL
from clew_nl2sql.planner.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.schema_linking import Mention
from clew_nl2sql.planner.tokens import Token
from clew_nl2sql.planner.value_linking import ValueMatch, ValueMention

_YES = ("1", "y", "yes", "true", "t")
_PAIRS = ({"0", "1"}, {"y", "n"}, {"yes", "no"}, {"true", "false"}, {"t", "f"})
_EMPTY = frozenset(["is", "has", "are", "was", "can", "flag", "ind", "indicator", "yn", "be", "have"])
_OPPOSITE = ("in", "un", "non", "dis", "im")
_NOT = ("not", "no", "without", "never", "non", "lack", "lacks", "lacking", "missing")
_BETWEEN = (
    "a",
    "an",
    "any",
    "the",
    "been",
    "yet",
    "be",
    "-",
    "their",
    "currently",
    "of",
    "have",
    "has",
    "had",
    "is",
)
_GROUPS = ("by", "each", "per", "every", "whether", "different")
_ADJECTIVE = re.compile(r"(?:ed|able|ible|ive|ing|al|ful|ous)$")


def find_predicates(tokens: list[Token], schema: SchemaIndex, mentions: list[Mention]) -> list[ValueMention]:
    """Return the predicates of a question, without overlaps."""
    found: list[ValueMention] = []
    flags = [(column, words) for column in schema.columns if (words := _flag_words(column))]
    for at in range(len(tokens)):
        if any(v.start <= at < v.end for v in found):
            continue
        matches = [(column, hit) for column, words in flags if (hit := _named(tokens, at, words))]
        if not matches or (at and tokens[at - 1].low in _GROUPS):
            continue
        longest = max(end for _, (end, _) in matches)
        start = _denied_from(tokens, at)
        holders = tuple(
            ValueMatch(column.id, _value(column, opposite == (start < at)), "exact")
            for column, (end, opposite) in matches
            if end == longest
        )
        found.append(_mention(tokens, start, longest, holders[:8]))
    for mention in mentions:
        start = _denied_from(tokens, mention.start)
        taken = any(v.start < mention.end and start < v.end for v in found)
        if start < mention.start and not taken and (holders := _missing(schema, mention)):
            found.append(_mention(tokens, start, mention.end, holders))
    return found


def _mention(tokens: list[Token], start: int, end: int, holders: tuple[ValueMatch, ...]) -> ValueMention:
    return ValueMention(start, end, " ".join(t.text for t in tokens[start:end]), False, holders)


def _flag_words(column: SchemaColumn) -> tuple[str, ...]:
    """Return the words that state a flag; none if the column is no flag."""
    values = {str(value).strip().lower() for value in column.source.values}
    pair = any(values and values <= pair for pair in _PAIRS)
    if column.is_key or column.is_ref or (column.kind != "boolean" and not pair):
        return ()
    words = tuple(word for word in column.core if word not in _EMPTY)
    if column.kind != "boolean" and values <= {"0", "1"}:
        declared = column.source.type.lower()
        named = column.words[0] in _EMPTY or bool(words and _ADJECTIVE.search(words[-1]))
        if not named and not any(part in declared for part in ("bool", "bit", "tinyint", "char")):
            return ()  # a count that happens to be 0 or 1
    return words


def _named(tokens: list[Token], at: int, words: tuple[str, ...]) -> tuple[int, bool] | None:
    """Return the end of a flag's words at a position, and whether they state its opposite."""
    if at + len(words) > len(tokens):
        return None
    run = tokens[at : at + len(words)]
    if any(token.kind != "word" for token in run):
        return None
    if all(stem(token.low) == stem(word) for token, word in zip(run, words)):
        return at + len(words), False
    for prefix in _OPPOSITE:
        first = run[0].low.removeprefix(prefix)
        rest = all(stem(t.low) == stem(w) for t, w in zip(run[1:], words[1:]))
        if first != run[0].low and len(first) > 3 and stem(first) == stem(words[0]) and rest:
            return at + len(words), True
    return None


def _denied_from(tokens: list[Token], at: int) -> int:
    """Return the position of a "not" or "without" that belongs to a word, or the position of the word."""
    before = at - 1
    while before >= 0 and at - before <= 4 and tokens[before].low in _BETWEEN:
        before -= 1
    return before if before >= 0 and at - before <= 4 and tokens[before].low in _NOT else at


def _value(column: SchemaColumn, is_true: bool) -> Value:
    for value in column.source.values:
        if (str(value).strip().lower() in _YES) == is_true:
            return value
    pair = {str(value).strip().lower() for value in column.source.values}
    if pair <= {"0", "1"}:
        return int(is_true)
    other = next(iter(pair), "")
    known = {
        "y": "n",
        "n": "y",
        "yes": "no",
        "no": "yes",
        "true": "false",
        "false": "true",
        "t": "f",
        "f": "t",
    }
    return known.get(other, "1" if is_true else "0")


def _missing(schema: SchemaIndex, mention: Mention) -> tuple[ValueMatch, ...]:
    """Return the columns with NULLs that a mention names, and the references with NULLs to a named table."""
    best = mention.best()
    found = [
        t.column
        for t in mention.targets
        if t.column is not None and t.quality >= best.quality - 0.2 and schema.columns[t.column].nulls
    ]
    if best.column is None:
        columns = schema.columns
        found += [a for a, b in schema.edges if columns[b].table == best.table and columns[a].nulls]
    return tuple(ValueMatch(column, NULL, "exact") for column in dict.fromkeys(found))[:4]
