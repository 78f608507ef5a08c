"""Similarity of a word of a question and a word of a schema, from 0 to 1, with the kind of match.

The kinds, in order: equal lemmas, stems, synonyms, abbreviations and prefixes, spelling. The ranking learns
how reliable each kind is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from clew_nl2sql.planner.words.inflection import lemma, stem
from clew_nl2sql.planner.words.lexicon import ABBREVIATIONS, MONTHS, SYNONYMS

EXACT, STEM, SYNONYM, PREFIX, FUZZY = "exact", "stem", "synonym", "prefix", "fuzzy"


@lru_cache(maxsize=200_000)
def alike(word: str, schema_word: str) -> tuple[float, str] | None:
    """Compare a question's word (lower case) with a schema's word; return None if they do not match."""
    if _is_same(word, schema_word):
        return 1.0, EXACT
    if len(word) < 3 or len(schema_word) < 3 or schema_word.isdigit():
        return None
    for way, (weight, matches) in _WAYS.items():
        if matches(word, schema_word):
            return weight, way
    return None


def _is_same(word: str, schema_word: str) -> bool:
    if schema_word in (word, lemma(word)) or ABBREVIATIONS.get(word) == (schema_word,):
        return True
    return word in MONTHS and MONTHS[word] == MONTHS.get(schema_word)


def _has_stem(word: str, schema_word: str) -> bool:
    return stem(word) == stem(schema_word)


def _is_synonym(word: str, schema_word: str) -> bool:
    forms = (lemma(word), word, stem(word))  # the stem, because "what costs 5" refers to a price
    return any(schema_word in SYNONYMS.get(form, ()) for form in forms)


def _is_prefix(word: str, schema_word: str) -> bool:
    singular = lemma(word)
    shorter, longer = sorted((singular, schema_word), key=len)
    least = 3 if shorter == schema_word else 4
    return least <= len(shorter) < len(longer) - 1 and longer.startswith(shorter)


def _is_misspelled(word: str, schema_word: str) -> bool:
    singular = lemma(word)
    return len(singular) >= 5 and singular[0] == schema_word[0] and _one_edit(singular, schema_word)


_WAYS: dict[str, tuple[float, Callable[[str, str], bool]]] = {
    STEM: (0.85, _has_stem),
    SYNONYM: (0.7, _is_synonym),
    PREFIX: (0.65, _is_prefix),
    FUZZY: (0.6, _is_misspelled),
}


def _one_edit(first: str, second: str) -> bool:
    """Return whether one insertion, deletion, replacement or swap of adjacent letters makes the words equal."""
    if abs(len(first) - len(second)) > 1:
        return False
    if len(first) > len(second):
        first, second = second, first
    at = 0
    while at < len(first) and first[at] == second[at]:
        at += 1
    if len(first) < len(second):
        return first[at:] == second[at + 1 :]
    if first[at + 1 :] == second[at + 1 :]:
        return True
    return first[at : at + 2] == second[at : at + 2][::-1] and first[at + 2 :] == second[at + 2 :]
