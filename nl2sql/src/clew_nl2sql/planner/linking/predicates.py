"""Find predicates: words that filter by a flag, and words that ask for missing values.

A *flag* is a boolean column, or one that holds only 0 and 1, Y and N, or yes and no. The words of its name are a
condition: "active doctors" are those with `is_active` = 1. "inactive", "non-billable" and "not remote" are the
opposite. "no insurance" and "without a phone" ask for rows where a column is NULL, if the sample has such rows;
"no department" asks for a missing reference, and "have a phone?" for rows with a value. "Are closed" asks for rows
with a `closed_on`, and "unpaid" for rows without a `paid_on`, if the sample has rows without one.

A predicate is a value of the question with a column that holds it, so it is chosen like every other value.
"""

from __future__ import annotations

import re

from clew_nl2sql.planner.catalog import Value
from clew_nl2sql.planner.linking.schema_index import MANY, SchemaColumn, SchemaIndex
from clew_nl2sql.planner.linking.schema_linking import Mention
from clew_nl2sql.planner.linking.value_linking import ValueMatch, ValueMention
from clew_nl2sql.planner.query import KNOWN, NULL
from clew_nl2sql.planner.words.inflection import lemma, parts, stem
from clew_nl2sql.planner.words.tokens import Token

_YES = ("1", "y", "yes", "true", "t")
_PAIRS = ({"0", "1"}, {"y", "n"}, {"yes", "no"}, {"true", "false"}, {"t", "f"})
_EMPTY = frozenset(["is", "has", "are", "was", "can", "flag", "ind", "indicator", "yn", "be", "have"])
_VERBS = frozenset(
    "accept allow get include need offer provide receive require take use want with".split()  # noqa: SIM905
)  # `includes_sauna` is stated by "a sauna", unless there is a table of saunas
_QUANTITIES = frozenset(
    """age amount balance class code count day floor grade group hour level minute month number point position
    priority quantity rank rating score stage state status step type unit version week year""".split()  # noqa: SIM905
)
_OPPOSITE = ("in", "un", "non", "dis", "im")
_NOT = (
    "not",
    "no",
    "without",
    "never",
    "non",
    "lack",
    "lacks",
    "lacking",
    "missing",
    "neither",
    "nor",
    "unknown",
)
_UNKNOWN = ("unknown", "missing", "empty", "blank", "unset")
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
    "get",
    "gets",
    "receive",
    "receives",
    "want",
    "wants",
    "use",
    "include",
    "offer",
)
_GLUE = ("on", "to", "the", "for", "at", "in", "a", "an", "of")
_GROUPS = ("by", "each", "per", "every", "whether", "different")
_MOMENTS = ("on", "at", "date", "time", "day")
_STATES = ("is", "are", "was", "were", "be", "been", "being", "have", "has", "had", "already", "yet")
_TIMES = frozenset(
    """in on at before after since between during until till by last this past within from today yesterday first late
    early later earlier when over for per each most least""".split()  # noqa: SIM905
)
_ADJECTIVE = re.compile(r"(?:ed|able|ible|ive|ing|al|ful|ous)$")


def find_predicates(tokens: list[Token], schema: SchemaIndex, mentions: list[Mention]) -> list[ValueMention]:
    """Return the predicates of a question, without overlaps."""
    found: list[ValueMention] = []
    flags = [(column, words) for column in schema.columns if (words := flag_words(column, schema))]
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
    for at in range(len(tokens)):
        if not any(v.start <= at < v.end for v in found) and (event := _event(tokens, at, schema, mentions)):
            found.append(event)
    for mention in mentions:
        start = _denied_from(tokens, mention.start)
        end = _said_unknown(tokens, mention)
        if end and mention.best().column is not None and (holders := _missing(schema, mention, mentions)):
            found.append(_mention(tokens, mention.start, end, holders))
            continue
        taken = any(v.start < mention.end and start < v.end for v in found)
        if start < mention.start and not taken and (holders := _missing(schema, mention, mentions)):
            found.append(_mention(tokens, start, mention.end, holders))
        elif start == mention.start and not taken and _is_had(tokens, mention):
            known = tuple(h._replace(value=KNOWN) for h in _missing(schema, mention, mentions))
            if known and mention.best().column is not None:
                found.append(_mention(tokens, mention.start, mention.end, known))
    return found


def _said_unknown(tokens: list[Token], mention: Mention) -> int:
    """Return the end of "the phone is unknown"; 0 if the question does not say that."""
    after = [token.low for token in tokens[mention.end : mention.end + 3]]
    skipped = bool(after) and after[0] in ("is", "are", "was", "were")
    word = after[skipped] if len(after) > skipped else ""
    nothing = after[skipped : skipped + 2] in (["not", "known"], ["not", "set"])
    last = mention.end + skipped + (2 if nothing else 1)
    ends = last >= len(tokens) or tokens[last].kind == "punct" or tokens[last].low in ("and", "or", "but")
    return last if ends and (word in _UNKNOWN or nothing) else 0


def _is_had(tokens: list[Token], mention: Mention) -> bool:
    """Return whether a question only says that something exists: "have a phone", not "have a budget over 10"."""
    before = [token.low for token in tokens[max(0, mention.start - 2) : mention.start]]
    after = tokens[mention.end].low if mention.end < len(tokens) else "?"
    return before in (["have", "a"], ["have", "an"], ["has", "a"], ["has", "an"]) and after in (
        "?",
        ".",
        "and",
        "but",
    )


def _event(tokens: list[Token], at: int, schema: SchemaIndex, mentions: list[Mention]) -> ValueMention | None:
    """Return the condition that something happened, or did not: "are closed", "unpaid invoices"."""
    said = tokens[at].low
    after = tokens[at + 1].low if at + 1 < len(tokens) else ""
    if tokens[at].kind != "word" or after in _TIMES or tokens[0].low == "when":
        return None
    start = _denied_from(tokens, at)
    before = tokens[start - 1].low if start else ""
    attributive = any(m.start == at + 1 and m.best().column is None for m in mentions)
    if not (before in _STATES or tokens[at - 1].low in _STATES or attributive):
        return None
    holders = []
    for column in schema.columns:
        words = parts(column.name)
        if len(words) == 2 and words[1] in _MOMENTS and column.kind == "date" and column.nulls:
            opposite = said in [f"{prefix}{words[0]}" for prefix in _OPPOSITE]
            if opposite or said == words[0]:
                denied = opposite != (start < at)
                holders.append(ValueMatch(column.id, NULL if denied else KNOWN, "exact"))
    return _mention(tokens, start, at + 1, tuple(holders[:4])) if holders else None


def _mention(tokens: list[Token], start: int, end: int, holders: tuple[ValueMatch, ...]) -> ValueMention:
    return ValueMention(start, end, " ".join(t.text for t in tokens[start:end]), False, holders)


def flag_words(column: SchemaColumn, schema: SchemaIndex) -> tuple[str, ...]:
    """Return the words that state a flag; none if the column is not a flag."""
    values = {str(value).strip().lower() for value in column.source.values}
    pair = any(values and values <= pair for pair in _PAIRS)
    if column.is_key or column.is_ref or (column.kind != "boolean" and not pair):
        return ()
    words = tuple(word for word in column.core if word not in _EMPTY)
    if len(words) > 1 and words[0] in _VERBS and words[1:] not in {table.words for table in schema.tables}:
        words = words[1:]
    if column.kind != "boolean" and values <= {"0", "1"}:
        declared = column.source.type.lower()
        named = parts(column.name)[0] in _EMPTY or bool(words and _ADJECTIVE.search(words[-1]))
        many = (schema.tables[column.table].rows or 0) >= MANY and values == {"0", "1"}
        named = named or (
            many
            and bool(words)
            and words[-1] not in _QUANTITIES
            and lemma(parts(column.name)[-1]) == parts(column.name)[-1]
        )
        if not named and not any(part in declared for part in ("bool", "bit", "tinyint", "char")):
            return ()  # a count that happens to be 0 or 1
    return words


def _named(tokens: list[Token], at: int, words: tuple[str, ...]) -> tuple[int, bool] | None:
    """Return the end of a flag's words at a position, and whether they state its opposite.

    "Open on Sunday" are the words of `open_sunday`.
    """
    if tokens[at].low in _GLUE:
        return None
    run: list[Token] = []
    end = at
    while end < len(tokens) and len(run) < len(words):
        if tokens[end].low not in _GLUE or tokens[end].low in words:
            run.append(tokens[end])
        end += 1
    if len(run) < len(words) or any(token.kind != "word" for token in run):
        return None
    if all(stem(token.low) == stem(word) for token, word in zip(run, words)):
        return end, False
    for prefix in _OPPOSITE:
        first = run[0].low.removeprefix(prefix)
        rest = all(stem(t.low) == stem(w) for t, w in zip(run[1:], words[1:]))
        if first != run[0].low and len(first) > 3 and stem(first) == stem(words[0]) and rest:
            return end, True
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


def _missing(schema: SchemaIndex, mention: Mention, mentions: list[Mention]) -> tuple[ValueMatch, ...]:
    """Return the columns with NULLs that a mention names, and the references with NULLs to its table.

    A reference counts only in a table that the question names too: "depots have no vehicles" does not ask for
    shipments without a vehicle.
    """
    best, columns = mention.best(), schema.columns
    found = [t.column for t in mention.targets if t.column is not None and t.quality >= best.quality - 0.2]
    if best.column is None:
        named = {m.best().table for m in mentions if m.best().column is None}
        found += [a for a, b in schema.edges if columns[b].table == best.table]
        found = [column for column in found if columns[column].table in named]
    found = [column for column in found if columns[column].nulls]
    return tuple(ValueMatch(column, NULL, "exact") for column in dict.fromkeys(found))[:4]
