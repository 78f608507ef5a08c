"""Value linking: find the words of a question that are values of a column.

A quoted string, a capitalized phrase or plain words may equal a value, be an alias of it, or be part of values.
Plain words may also be another form of a value ("lamps"). A capitalized word may not: Lyons is not Lyon. A quoted
string or a code equals a value letter by letter, in upper or lower case, and is never replaced by a similar value.
It is a value even if no column is known to hold it: a code then belongs to the columns whose values look like it.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from clew_nl2sql.planner.catalog import Catalog, Value
from clew_nl2sql.planner.catalog_cache import CatalogCache
from clew_nl2sql.planner.linking.schema_index import SchemaIndex, prepare
from clew_nl2sql.planner.words.aliases import also_known_as
from clew_nl2sql.planner.words.inflection import lemma, stem
from clew_nl2sql.planner.words.lexicon import FILLER, MONTHS, STOP, word_set
from clew_nl2sql.planner.words.literals import has_shape, is_telling
from clew_nl2sql.planner.words.tokens import Token

LONGEST_PHRASE = 9
KEPT_HOLDERS = 8
_EDGES = word_set("start starts starting begin begins beginning end ends ending")
_SPELLED_BEFORE = word_set("letter letters substring string word phrase")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_PLAIN = re.compile(r"[^\w.]+|_+|\.(?!\d)", re.UNICODE)


class ValueMatch(NamedTuple):
    """A column that holds a value, the database's spelling, and the kind of match."""

    column: int
    value: Value | tuple[Value, ...]  # several if the question lists them
    way: str  # exact, lemma, stem, alias, part


ValuePair = tuple[int, Value, int, Value]  # two columns of one row that together hold a value


class ValueMention(NamedTuple):
    """Tokens `start` to `end` (exclusive), and the columns that hold them."""

    start: int
    end: int
    text: str
    quoted: bool
    holders: tuple[ValueMatch, ...]
    pairs: tuple[ValuePair, ...] = ()


class ValueIndex:
    """Every known text value of a catalog, by its plain spelling and by its lemmas."""

    def __init__(self, schema: SchemaIndex):
        self.plain: dict[str, list[tuple[int, Value]]] = {}
        self.lemmas: dict[str, list[tuple[int, Value]]] = {}
        self.stems: dict[str, list[tuple[int, Value]]] = {}
        self.tables = {c.id: c.table for c in schema.columns}
        self.first_names = [
            c.id for c in schema.columns if c.kind == "text" and c.core[:1] in (("first",), ("given",))
        ]
        self.texts: list[tuple[int, str, str]] = []
        self.codes = {c.id: c.source.values for c in schema.columns if c.kind == "text"}
        for column in schema.columns:
            for value in column.source.values:
                self._add(column.id, value, plain(str(value)))

    def _add(self, column: int, value: Value, text: str) -> None:
        if not text:
            return
        self.plain.setdefault(text, []).append((column, value))
        if isinstance(value, str):
            self.lemmas.setdefault(_lemmas(text), []).append((column, value))
            self.texts.append((column, value, text))
            if " " not in text and len(text) >= 4:
                self.stems.setdefault(stem(text), []).append((column, value))


def _index(catalog: Catalog) -> ValueIndex:
    return ValueIndex(prepare(catalog))


value_index = CatalogCache(_index)  # cached for the next question


@lru_cache(maxsize=100_000)
def plain(text: str) -> str:
    """Return text in lower case, with single spaces and without punctuation."""
    return _PLAIN.sub(" ", text.lower()).strip()


@lru_cache(maxsize=100_000)
def _lemmas(text: str) -> str:
    return " ".join(lemma(word) for word in text.split())


def link_values(tokens: list[Token], index: ValueIndex) -> list[ValueMention]:
    """Return mentions of values in order of position; where they overlap, the longest is used."""
    found = [_quoted(at, token, index) for at, token in enumerate(tokens) if _is_verbatim(tokens, at)]
    spans = [(start, start + n) for n in range(LONGEST_PHRASE, 0, -1) for start in range(len(tokens) - n + 1)]
    for find in (_phrase, _inflected):
        for start, end in spans:
            if not _is_taken(found, start, end) and (mention := find(start, end, tokens, index)):
                found.append(mention)
    return _listed(sorted(found, key=lambda m: (m.start, m.end)), tokens)


def _inflected(start: int, end: int, tokens: list[Token], index: ValueIndex) -> ValueMention | None:
    """Return another form of a value of one word: "lamps"."""
    token = tokens[start]
    if end - start > 1 or not _is_plain(token):
        return None
    holders = [ValueMatch(c, v, "stem") for c, v in index.stems.get(stem(token.low), ())]
    return ValueMention(start, end, token.text, False, _kept(holders)) if holders else None


def _is_taken(found: list[ValueMention], start: int, end: int) -> bool:
    return any(m.start < end and start < m.end for m in found)


def _is_verbatim(tokens: list[Token], at: int) -> bool:
    token = tokens[at]
    if token.kind not in ("word", "number"):
        return token.kind == "quoted"
    return (token.low not in STOP or len(token.low) == 1) and _is_spelled(tokens, at)


def _is_spelled(tokens: list[Token], at: int) -> bool:
    """Return whether a word stands for its letters: "the letter A", "the first letter is A", "starts with A"."""
    before, earlier = [tokens[at - n].low if at >= n else "" for n in (1, 2)]
    if before in _SPELLED_BEFORE or (before == "is" and earlier in ("letter", "character")):
        return True
    return before == "with" and earlier in _EDGES and tokens[at].text[:1].isupper()


def _listed(found: list[ValueMention], tokens: list[Token]) -> list[ValueMention]:
    """Merge three or more adjacent values of one column into one value that matches any of them."""
    lists: list[list[ValueMention]] = []
    for mention in found:
        gap = tokens[lists[-1][-1].end : mention.start] if lists else []
        if gap and all(t.low in (",", "and", "or") for t in gap) and _shared([*lists[-1], mention]):
            lists[-1].append(mention)
        else:
            lists.append([mention])
    return [one for several in lists for one in ([_joined(several)] if len(several) > 2 else several)]


def _shared(mentions: list[ValueMention]) -> list[int]:
    """Return columns that hold each of some values as a whole."""
    held = [[h.column for h in m.holders if h.way != "part"] for m in mentions]
    return [column for column in held[0] if all(column in other for other in held[1:])]


def _joined(mentions: list[ValueMention]) -> ValueMention:
    holders = []
    for column in _shared(mentions):
        each = [next(h for h in m.holders if h.column == column) for m in mentions]
        values = [h.value for h in each if not isinstance(h.value, tuple)]  # lists are merged only once
        holders.append(ValueMatch(column, tuple(values), each[0].way))
    text = " ".join(m.text for m in mentions)
    quoted = all(m.quoted for m in mentions)
    return ValueMention(mentions[0].start, mentions[-1].end, text, quoted, tuple(holders))


def _phrase(start: int, end: int, tokens: list[Token], index: ValueIndex) -> ValueMention | None:
    run = tokens[start:end]
    said = " ".join(t.text for t in run)
    text = plain(said)
    if not text or not _may_be_value(start, run):
        return None
    capital = start > 0 and any(t.is_capital for t in run)
    holders = _exact(text, index, lemmas=not capital) or _renamed(start, run, text, index)
    pairs = [] if holders else _people(run, text, index)
    return ValueMention(start, end, said, False, _kept(holders), tuple(pairs)) if holders or pairs else None


def _renamed(start: int, run: list[Token], text: str, index: ValueIndex) -> list[ValueMatch]:
    """Return the columns that a few words refer to by another name."""
    if len(run) > 4:
        return []
    return _aliases(text, index) or (_named(start, run[0], text, index) if len(run) == 1 else [])


def _people(run: list[Token], text: str, index: ValueIndex) -> list[ValuePair]:
    """Return the columns of a full name: some capitalized words."""
    return _pairs(text, index) if 2 <= len(run) <= 4 and all(t.is_capital for t in run) else []


def _may_be_value(start: int, run: list[Token]) -> bool:
    """Return whether words can be a value: not punctuation, a date or a number, nor a word of the grammar alone."""
    if any(t.kind in ("quoted", "date") for t in run) or "punct" in (run[0].kind, run[-1].kind):
        return False
    if len(run) > 1:
        return True
    if run[0].kind == "number" or (run[0].low in STOP and not _shouted(start, run[0])):
        return False
    return run[0].low not in FILLER or (start > 0 and run[0].is_capital)


def _named(start: int, token: Token, text: str, index: ValueIndex) -> list[ValueMatch]:
    """Return the columns that a capitalized word may refer to: by people, by month, or as a part of a value."""
    if not token.is_capital:
        return []
    found = _people_of(text, index) or (_in_dates(MONTHS[text], index) if text in MONTHS else [])
    return found or (_parts(text, index) if start > 0 and len(text) >= 4 else [])


def _people_of(text: str, index: ValueIndex) -> list[ValueMatch]:
    """Return places whose names start like a nationality: Bangladeshi, Icelander, Angolan."""
    for ending in ("i", "n", "an", "ian", "ese", "er", "ish"):
        place = text[: -len(ending)]
        if text.endswith(ending) and len(place) >= 4 and place in index.plain:
            return [ValueMatch(c, v, "alias") for c, v in index.plain[place]]
    return []


def _in_dates(month: int, index: ValueIndex) -> list[ValueMatch]:
    """Return date columns, with their notation of a month: "-03-" or "mar"."""
    short = next(name for name, number in MONTHS.items() if number == month and len(name) == 3)
    found: dict[int, str] = {}
    for column, value, text in index.texts:
        if _ISO.match(value):
            found.setdefault(column, f"-{month:02d}-")
        elif any(map(str.isdigit, text)) and any(w[:3] == short for w in text.split()):
            found.setdefault(column, short)
    return [ValueMatch(column, part, "part") for column, part in sorted(found.items())]


def _shouted(at: int, token: Token) -> bool:
    return at > 0 and len(token.text) > 1 and token.text.isupper()


def _quoted(at: int, token: Token, index: ValueIndex) -> ValueMention:
    text = token.text.casefold()
    same = [
        ValueMatch(c, v, "exact") for c, v in index.plain.get(plain(text), ()) if str(v).casefold() == text
    ]
    pairs = [] if same else _pairs(plain(text), index)
    holders = same or _alike(token.text, index) or _holding(token.text, index)
    return ValueMention(at, at + 1, token.text, True, _kept(holders), tuple(pairs))


def _pairs(text: str, index: ValueIndex) -> list[ValuePair]:
    """Return pairs of columns of one table that hold the first and last part of a full name."""
    words = text.split()
    found: list[ValuePair] = []
    for cut in range(1, len(words)):
        for one, left in index.plain.get(" ".join(words[:cut]), ()):
            for two, right in index.plain.get(" ".join(words[cut:]), ()):
                if one != two and index.tables[one] == index.tables[two] and one in index.first_names:
                    found.append((one, left, two, right))
    return found[:3]


def _kept(holders: list[ValueMatch]) -> tuple[ValueMatch, ...]:
    seen: dict[int, ValueMatch] = {}
    for holder in holders:
        seen.setdefault(holder.column, holder)
    return tuple(seen.values())[:KEPT_HOLDERS]


def _is_plain(token: Token) -> bool:
    return (
        token.kind == "word" and len(token.low) >= 5 and token.text[:1].islower() and token.low not in FILLER
    )


def _alike(text: str, index: ValueIndex) -> list[ValueMatch]:
    """Return the columns of codes like this one, with the text as their value."""
    if not is_telling(text):
        return []
    return [
        ValueMatch(column, text, "exact") for column, values in index.codes.items() if has_shape(values, text)
    ]


def _holding(text: str, index: ValueIndex) -> list[ValueMatch]:
    """Return columns with values that contain the text, for "contains" and "starts with"."""
    counts = Counter(column for column, value, _ in index.texts if text.casefold() in value.casefold())
    return [ValueMatch(column, text, "part") for column in sorted(counts, key=lambda c: (-counts[c], c))]


def _exact(text: str, index: ValueIndex, *, lemmas: bool = True) -> list[ValueMatch]:
    exact = [ValueMatch(c, v, "exact") for c, v in index.plain.get(text, ())]
    if exact or not lemmas:
        return exact
    return [ValueMatch(c, v, "lemma") for c, v in index.lemmas.get(_lemmas(text), ())]


def _aliases(text: str, index: ValueIndex) -> list[ValueMatch]:
    found: list[ValueMatch] = []
    for form in dict.fromkeys((text, _lemmas(text))):
        for other in also_known_as(form):
            found.extend(ValueMatch(c, v, "alias") for c, v in index.plain.get(other, ()))
    return found


def _parts(text: str, index: ValueIndex) -> list[ValueMatch]:
    """Return columns with values that contain the words; the match value is the text itself, for LIKE."""
    counts: dict[int, int] = {}
    padded = f" {text} "
    for column, _, other in index.texts:
        if padded in f" {other} ":
            counts[column] = counts.get(column, 0) + 1
    ranked = sorted(counts, key=lambda c: (-counts[c], c))
    return [ValueMatch(column, text, "part") for column in ranked]
