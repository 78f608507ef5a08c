"""Read the abbreviations of a schema by the words of a question: in "open complaints", the table `cmpl` has complaints.

A word counts only if it is no value and no name of the schema. If it fits two abbreviations, the one that names a
table is meant; otherwise it stays unread. So does an abbreviation that fits two words. A spoken abbreviation (`vac`)
counts only where others show that the schema abbreviates.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.catalog_cache import CatalogCache
from clew_nl2sql.planner.linking.schema_index import NameReadings, SchemaIndex, prepare
from clew_nl2sql.planner.words.abbreviations import has_vowel, is_compound_of, is_short_form, may_stand_for
from clew_nl2sql.planner.words.inflection import lemma, parts
from clew_nl2sql.planner.words.lexicon import ABBREVIATIONS, FILLER, STOP
from clew_nl2sql.planner.words.similarity import EXACT, STEM, alike
from clew_nl2sql.planner.words.tokens import Token

_SHORTEST = 4
_ENOUGH = 3  # abbreviations that show that a schema abbreviates
_KEPT = 64


class ShortForms(NamedTuple):
    """The abbreviations in the names of a schema."""

    of_tables: frozenset[str]
    unknown: frozenset[str]
    known: frozenset[str]  # with a usual meaning, which a question may replace: `dist` for district
    pairs: frozenset[str]  # of two letters, in names that are abbreviated throughout: `pt_flg`
    words: frozenset[str]


def _short_forms(catalog: Catalog) -> ShortForms:
    schema = prepare(catalog)
    tables = [parts(table.own_name) for table in schema.tables]
    names = tables + [parts(column.name) for column in schema.columns]
    short = frozenset(p for name in names for p in name if is_short_form(p))
    abbreviates = sum(p in ABBREVIATIONS or not has_vowel(p) for p in short) >= _ENOUGH
    read = frozenset(p for p in short if len(p) > 2 and (abbreviates or not has_vowel(p)))
    pairs = {
        p
        for name in names
        for p in name
        if len(p) == 2 and p in short and not has_vowel(p) and _abbreviates_others(name, p)
    }
    return ShortForms(
        frozenset(p for name in tables for p in name),
        read - ABBREVIATIONS.keys(),
        read & ABBREVIATIONS.keys(),
        frozenset(pairs - ABBREVIATIONS.keys()),
        frozenset(
            w
            for words in (*(t.words for t in schema.tables), *(c.words for c in schema.columns))
            for w in words
        ),
    )


def _abbreviates_others(name: tuple[str, ...], part: str) -> bool:
    return any(other in ABBREVIATIONS for other in name if other != part)


short_forms = CatalogCache(_short_forms)  # cached for the next question
_read: CatalogCache[dict[NameReadings, SchemaIndex]] = CatalogCache(lambda _: {})


def read_names(tokens: list[Token], taken: set[int], catalog: Catalog) -> SchemaIndex:
    """Return the schema, with the abbreviations that the question explains; words at `taken` are values."""
    forms = short_forms(catalog)
    said = [at for at, token in enumerate(tokens) if at not in taken and _may_explain(token, forms)]
    readings = {
        **_single(dict.fromkeys(tokens[at].lemma for at in said), forms),
        **_initials(tokens, taken, forms),
    }
    if not readings:
        return prepare(catalog)
    known, key = _read(catalog), tuple(sorted(readings.items()))
    if key not in known and len(known) >= _KEPT:
        known.clear()
    return known.setdefault(key, known.get(key) or SchemaIndex(catalog, key))


def _may_explain(token: Token, forms: ShortForms) -> bool:
    """Return whether a word has content, and is not itself a word of the schema."""
    if token.kind != "word" or len(token.low) < _SHORTEST or not {token.low, token.lemma}.isdisjoint(FILLER):
        return False
    found = (alike(token.low, word) for word in forms.words)
    return not any(match and match[1] in (EXACT, STEM) for match in found)


def _single(words: Iterable[str], forms: ShortForms) -> dict[str, tuple[str, ...]]:
    """Return the abbreviations that stand for one word each, and no word for two of them."""
    meant: dict[str, list[str]] = {}
    for word in words:
        fits = _fitting(word, forms)
        if len(fits) > 1:
            fits = [part for part in fits if part in forms.of_tables]
        if len(fits) == 1:
            meant.setdefault(fits[0], []).append(word)
    return {part: tuple(found) for part, found in meant.items() if len(found) == 1}


def _fitting(word: str, forms: ShortForms) -> list[str]:
    for group in (forms.unknown, forms.known):
        if fits := [part for part in sorted(group) if may_stand_for(part, word)]:
            return fits
    return [part for part in sorted(forms.pairs) if is_compound_of(part, word)]


def _initials(tokens: list[Token], taken: set[int], forms: ShortForms) -> dict[str, tuple[str, ...]]:
    """Return the abbreviations of two words next to each other: `pt`, part time."""
    found: dict[str, tuple[str, ...]] = {}
    for at, (one, two) in enumerate(pairwise(tokens)):
        initials = one.low[:1] + two.low[:1]
        whole = all(t.kind == "word" and len(t.low) >= _SHORTEST for t in (one, two))
        if (
            whole
            and initials in forms.pairs
            and taken.isdisjoint((at, at + 1))
            and STOP.isdisjoint((one.low, two.low))
        ):
            found[initials] = (one.lemma, lemma(two.low))
    return found
