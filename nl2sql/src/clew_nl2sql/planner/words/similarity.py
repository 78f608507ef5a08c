"""Similarity of a word of a question and a word of a schema, from 0 to 1, with the kind of match.

The kinds, in order: equal lemmas, stems, synonyms, abbreviations and prefixes, spelling. The ranking learns
how reliable each kind is.
"""

from __future__ import annotations

from functools import lru_cache

from clew_nl2sql.planner.words.inflection import lemma, stem
from clew_nl2sql.planner.words.lexicon import ABBREVIATIONS, MONTHS, SYNONYMS

EXACT, STEM, SYNONYM, PREFIX, FUZZY = "exact", "stem", "synonym", "prefix", "fuzzy"
_WEIGHT = {EXACT: 1.0, STEM: 0.85, SYNONYM: 0.7, PREFIX: 0.65, FUZZY: 0.6}


@lru_cache(maxsize=200_000)
def alike(word: str, schema_word: str) -> tuple[float, str] | None:
    """Compare a question's word (lower case) with a schema's word; return None if they do not match."""
    singular = lemma(word)
    if word == schema_word or singular == schema_word:
        return 1.0, EXACT
    if ABBREVIATIONS.get(word) == (schema_word,):
        return 1.0, EXACT
    if word in MONTHS and MONTHS[word] == MONTHS.get(schema_word):
        return 1.0, EXACT
    if len(word) < 3 or len(schema_word) < 3 or schema_word.isdigit():
        return None
    if stem(word) == stem(schema_word):
        return _WEIGHT[STEM], STEM
    forms = (singular, word, stem(word))  # the stem, because "what costs 5" refers to a price
    if any(schema_word in SYNONYMS.get(form, ()) for form in forms):
        return _WEIGHT[SYNONYM], SYNONYM
    if len(schema_word) >= 3 and len(singular) > len(schema_word) + 1 and singular.startswith(schema_word):
        return _WEIGHT[PREFIX], PREFIX
    if len(singular) >= 4 and len(schema_word) > len(singular) + 1 and schema_word.startswith(singular):
        return _WEIGHT[PREFIX], PREFIX
    if len(singular) >= 5 and singular[0] == schema_word[0] and _one_edit(singular, schema_word):
        return _WEIGHT[FUZZY], FUZZY
    return None


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
