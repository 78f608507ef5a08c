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
from functools import partial

from clew_nl2sql.planner.catalog import Value
from clew_nl2sql.planner.linking.schema_index import MANY, SchemaColumn, SchemaIndex
from clew_nl2sql.planner.linking.schema_linking import Mention
from clew_nl2sql.planner.linking.value_linking import ValueMatch, ValueMention
from clew_nl2sql.planner.query import KNOWN, NULL
from clew_nl2sql.planner.words.abbreviations import is_short_form
from clew_nl2sql.planner.words.inflection import lemma, stem
from clew_nl2sql.planner.words.lexicon import word_set
from clew_nl2sql.planner.words.tokens import Token

_YES = ("1", "y", "yes", "true", "t")
_PAIRS = ({"0", "1"}, {"y", "n"}, {"yes", "no"}, {"true", "false"}, {"t", "f"})
_OTHER = {"y": "n", "n": "y", "yes": "no", "no": "yes", "true": "false", "false": "true", "t": "f", "f": "t"}
_EMPTY = frozenset(
    ["under", "is", "has", "are", "was", "can", "flag", "ind", "indicator", "yn", "be", "have"]
)
_VERBS = word_set(
    "accept allow get include need offer provide receive require take use want with"
)  # `includes_sauna` is stated by "a sauna", unless there is a table of saunas
_QUANTITIES = word_set("""
    age amount balance class code count day floor grade group hour level minute month number point position
    priority quantity rank rating score stage state status step type unit version week year
""")
_OPPOSITE = ("in", "un", "non", "dis", "im")
_TRUTH_TYPES = ("bool", "bit", "tinyint", "char")
_NOT = word_set("not no without never non lack lacks lacking missing neither nor unknown")
_UNKNOWN = ("unknown", "missing", "empty", "blank", "unset")
_BETWEEN = word_set(
    "a an any the been yet be - their currently of have has had is get gets receive receives want wants use "
    "include offer"
)
_GLUE = ("on", "to", "the", "for", "at", "in", "a", "an", "of")
_GROUPS = ("by", "each", "per", "every", "whether", "different")
_MOMENTS = ("on", "at", "date", "time", "day", "ts", "dt", "timestamp", "datetime")
_STATES = ("is", "are", "was", "were", "be", "been", "being", "have", "has", "had", "already", "yet")
_TIMES = word_set("""
    in on at before after since between during until till by last this past within from today yesterday first late
    early later earlier when over for per each most least
""")
_ADJECTIVE = re.compile(r"(?:ed|able|ible|ive|ing|al|ful|ous)$")


def find_predicates(tokens: list[Token], schema: SchemaIndex, mentions: list[Mention]) -> list[ValueMention]:
    """Return the predicates of a question, without overlaps."""
    found: list[ValueMention] = []
    flags = [(column, words) for column in schema.columns if (words := flag_words(column, schema))]
    for find in (
        partial(_flag, tokens, flags=flags),
        partial(_event, tokens, schema=schema, mentions=mentions),
    ):
        for at in range(len(tokens)):
            if not _is_taken(found, at, at + 1) and (predicate := find(at)):
                found.append(predicate)
    for mention in mentions:
        if absence := _absence(tokens, schema, mention, mentions, found):
            found.append(absence)
    return found


def _is_taken(found: list[ValueMention], start: int, end: int) -> bool:
    return any(v.start < end and start < v.end for v in found)


def _flag(
    tokens: list[Token], at: int, flags: list[tuple[SchemaColumn, tuple[str, ...]]]
) -> ValueMention | None:
    """Return the condition that a flag is set, or not."""
    matches = [(column, hit) for column, words in flags if (hit := _named_in_any_order(tokens, at, words))]
    if not matches or (at and tokens[at - 1].low in _GROUPS):
        return None
    longest = max(end for _, (end, _) in matches)
    start = _denied_from(tokens, at)
    holders = tuple(
        ValueMatch(column.id, _value(column, opposite == (start < at)), "exact")
        for column, (end, opposite) in matches
        if end == longest
    )
    return _mention(tokens, start, longest, holders[:8])


def _absence(
    tokens: list[Token],
    schema: SchemaIndex,
    mention: Mention,
    mentions: list[Mention],
    found: list[ValueMention],
) -> ValueMention | None:
    """Return the condition that a value is missing, or known: "no phone", "the phone is unknown", "have a phone"."""
    holders, start = _missing(schema, mention, mentions), _denied_from(tokens, mention.start)
    is_column, unknown = mention.best().column is not None, _said_unknown(tokens, mention)
    if not holders:
        return None
    if unknown and is_column:
        return _mention(tokens, mention.start, unknown, holders)
    if _is_taken(found, start, mention.end):
        return None
    if start < mention.start:
        return _mention(tokens, start, mention.end, holders)
    if is_column and _is_had(tokens, mention):
        known = tuple(holder._replace(value=KNOWN) for holder in holders)
        return _mention(tokens, start, mention.end, known)
    return None


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
    has = before in (["have", "a"], ["have", "an"], ["has", "a"], ["has", "an"])
    return has and after in ("?", ".", "and", "but")


def _event(tokens: list[Token], at: int, schema: SchemaIndex, mentions: list[Mention]) -> ValueMention | None:
    """Return the condition that something happened, or did not: "are closed", "unpaid invoices"."""
    start = _denied_from(tokens, at)
    if not _says_state(tokens, at, start, mentions):
        return None
    holders = []
    own = {m.best().table for m in mentions if m.start == at + 1 and m.best().column is None}
    for column in schema.columns:
        opposite = _states(column, tokens[at].low)
        elsewhere = bool(own) and column.table not in own  # "cancelled bookings" of members who cancelled
        if opposite is not None and not elsewhere:
            value = NULL if opposite != (start < at) else KNOWN
            holders.append(ValueMatch(column.id, value, "exact"))
    return _mention(tokens, start, at + 1, tuple(holders[:4])) if holders else None


def _says_state(tokens: list[Token], at: int, start: int, mentions: list[Mention]) -> bool:
    """Return whether a word says what is the case, and not when something happened."""
    after = tokens[at + 1].low if at + 1 < len(tokens) else ""
    if tokens[at].kind != "word" or after in _TIMES or tokens[0].low == "when":
        return False
    before = tokens[start - 1].low if start else ""
    attributive = any(m.start == at + 1 and m.best().column is None for m in mentions)
    return before in _STATES or tokens[at - 1].low in _STATES or attributive


def _states(column: SchemaColumn, said: str) -> bool | None:
    """Return whether a word says that the event of a column did not happen; None if it says something else."""
    words = column.parts
    dated = _MOMENTS if len(words) == 2 else ("ed",)  # `closed_on`, or just `closed`
    if len(words) > 2 or not words[-1].endswith(dated) or column.kind != "date" or not column.nulls:
        return None
    if said == words[0]:
        return False
    return True if said in [f"{prefix}{words[0]}" for prefix in _OPPOSITE] else None


def _mention(tokens: list[Token], start: int, end: int, holders: tuple[ValueMatch, ...]) -> ValueMention:
    return ValueMention(start, end, " ".join(t.text for t in tokens[start:end]), False, holders)


def flag_words(column: SchemaColumn, schema: SchemaIndex) -> tuple[str, ...]:
    """Return the words that state a flag; none if the column is not a flag."""
    values = _spellings(column)
    is_flag = column.kind == "boolean" or any(values <= pair for pair in _PAIRS if values)
    if not is_flag or column.is_key or column.is_ref:
        return ()
    words = _stating(column, schema)
    if column.kind == "boolean" or not values <= {"0", "1"}:
        return words
    both_in_many = (schema.tables[column.table].rows or 0) >= MANY and values == {"0", "1"}
    return words if _names_flag(column, words, both_in_many) else ()  # or a count that happens to be 0 or 1


def _spellings(column: SchemaColumn) -> set[str]:
    return {str(value).strip().lower() for value in column.source.values}


def _stating(column: SchemaColumn, schema: SchemaIndex) -> tuple[str, ...]:
    words = tuple(word for word in column.core if word not in _EMPTY)
    verbal = len(words) > 1 and words[0] in _VERBS
    return words[1:] if verbal and words[1:] not in {table.words for table in schema.tables} else words


def _names_flag(column: SchemaColumn, words: tuple[str, ...], both_in_many: bool) -> bool:
    """Return whether a column of 0 and 1 is called or declared like a flag; many rows with both are evidence too."""
    name, declared = column.parts, column.source.type.lower()
    if name[0] in _EMPTY or "flag" in column.words or any(part in declared for part in _TRUTH_TYPES):
        return True
    if not words:
        return False
    counts = words[-1] in _QUANTITIES or lemma(name[-1]) != name[-1]
    return bool(_ADJECTIVE.search(words[-1])) or (both_in_many and not counts)


def _named_in_any_order(tokens: list[Token], at: int, words: tuple[str, ...]) -> tuple[int, bool] | None:
    """Return where a flag ends; "subscribed to the newsletter" states `newsletter_subscriber`."""
    return _named(tokens, at, words) or (_named(tokens, at, words[::-1]) if len(words) == 2 else None)


def _named(tokens: list[Token], at: int, words: tuple[str, ...]) -> tuple[int, bool] | None:
    """Return the end of a flag's words at a position, and whether they state its opposite."""
    run = _run(tokens, at, words)
    if not run or _stems(run[1:], tokens) != [stem(word) for word in words[1:]]:
        return None
    first, wanted = tokens[at].low, stem(words[0])
    if is_short_form(words[0]) and lemma(first) != words[0]:
        return None  # "come" is no form of `com`
    if stem(first) == wanted or lemma(first) in (f"{words[0]}r", f"{words[0]}er"):  # freelancers
        return run[-1] + 1, False
    bare = [first.removeprefix(prefix) for prefix in _OPPOSITE if first.startswith(prefix)]
    return (run[-1] + 1, True) if any(len(word) > 3 and stem(word) == wanted for word in bare) else None


def _run(tokens: list[Token], at: int, words: tuple[str, ...]) -> list[int]:
    """Return the positions of as many words as a flag has; "open on Sunday" are the words of `open_sunday`."""
    if tokens[at].low in _GLUE:
        return []
    said = [n for n in range(at, len(tokens)) if tokens[n].low not in _GLUE or tokens[n].low in words]
    run = said[: len(words)]
    return run if len(run) == len(words) and all(tokens[n].kind == "word" for n in run) else []


def _stems(run: list[int], tokens: list[Token]) -> list[str]:
    return [stem(tokens[at].low) for at in run]


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
    pair = _spellings(column)
    if pair <= {"0", "1"}:
        return int(is_true)
    other = next(iter(pair), "")
    return _OTHER.get(other, "1" if is_true else "0")


def _missing(schema: SchemaIndex, mention: Mention, mentions: list[Mention]) -> tuple[ValueMatch, ...]:
    """Return the columns with NULLs that a mention names, and the references with NULLs to its table.

    A reference counts only in a table that the question names too: "depots have no vehicles" does not ask for
    shipments without a vehicle.
    """
    best, columns = mention.best(), schema.columns
    found = [t.column for t in mention.targets if t.column is not None and t.quality >= best.quality - 0.2]
    if best.column is None:
        found += [a for a, b in schema.edges if columns[b].table == best.table]
        named = _named_tables(mentions)
        found = [column for column in found if columns[column].table in named]
    lacking = [ValueMatch(c, NULL, "exact") for c in dict.fromkeys(found) if columns[c].nulls]
    return tuple(lacking[:4])


def _named_tables(mentions: list[Mention]) -> set[int]:
    return {m.best().table for m in mentions if m.best().column is None}
