"""English word forms: singulars, stems and the words of an identifier.

`lemma` removes plurals, and equal lemmas are a reliable match. `stem` removes more ("enrolled", "enrollment")
and is a weaker match. Neither uses a dictionary beyond the irregular forms below.
"""

from __future__ import annotations

import re
from functools import lru_cache

IRREGULAR = {
    "ids": "id", "os": "os", "ssns": "ssn", "dobs": "dob",
    "people": "person", "persons": "person", "men": "man", "women": "woman", "children": "child", "kids": "kid",
    "feet": "foot", "teeth": "tooth", "mice": "mouse", "geese": "goose", "lives": "life", "wives": "wife",
    "knives": "knife", "shelves": "shelf", "leaves": "leaf", "halves": "half", "wolves": "wolf",
    "data": "data", "media": "media", "series": "series", "species": "species", "status": "status",
    "statuses": "status", "news": "news", "bus": "bus", "buses": "bus", "gas": "gas", "gases": "gas",
    "address": "address", "addresses": "address", "analyses": "analysis", "bases": "base", "theses": "thesis",
    "criteria": "criterion", "phenomena": "phenomenon", "staff": "staff", "campuses": "campus", "campus": "campus",
    "courses": "course", "houses": "house", "nurses": "nurse", "horses": "horse", "purchases": "purchase",
    "bonuses": "bonus", "bonus": "bonus", "viruses": "virus", "menus": "menu", "has": "have", "had": "have",
    "having": "have", "was": "be", "were": "be", "is": "be", "are": "be", "been": "be", "being": "be", "am": "be",
    "does": "do", "did": "do", "done": "do", "doing": "do", "its": "its", "this": "this", "us": "us", "as": "as",
    "movies": "movie", "cookies": "cookie", "ties": "tie", "lies": "lie", "pies": "pie", "prices": "price",
    "sizes": "size", "prizes": "prize", "axes": "axis", "indices": "index", "taught": "teach", "bought": "buy",
    "sold": "sell", "made": "make", "paid": "pay", "held": "hold", "won": "win", "lost": "lose", "took": "take",
    "taken": "take", "gave": "give", "given": "give", "wrote": "write", "written": "write", "ran": "run",
    "spent": "spend", "built": "build", "led": "lead", "sang": "sing", "sung": "sing", "chosen": "choose",
    "chose": "choose", "left": "leave", "got": "get", "went": "go", "gone": "go", "came": "come", "born": "born",
    "known": "know", "knew": "know", "grown": "grow", "shown": "show", "drove": "drive", "driven": "drive",
    "worn": "wear", "wore": "wear", "lent": "lend", "sent": "send", "met": "meet", "found": "find",
    "these": "these", "those": "those", "thus": "thus", "yes": "yes", "less": "less", "across": "across",
    "class": "class", "boss": "boss", "always": "always", "perhaps": "perhaps", "gender": "gender",
    "genders": "gender", "canvas": "canvas", "atlas": "atlas", "bias": "bias", "census": "census",
    "various": "various", "previous": "previous", "famous": "famous", "whose": "whose", "ms": "ms", "gps": "gps",
    "physics": "physics", "mathematics": "mathematics", "economics": "economics", "sports": "sport",
    "goods": "goods", "headquarters": "headquarter", "premises": "premise", "diagnoses": "diagnosis",
}  # fmt: skip

_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ANY_SCRIPT = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")
_VOWEL = re.compile(r"[aeiouy]")


@lru_cache(maxsize=50_000)
def lemma(word: str) -> str:
    """Return the singular of a noun; return other words unchanged, in lower case."""
    low = word.lower()
    if low in IRREGULAR:
        return IRREGULAR[low]
    if len(low) <= 3 or not low.endswith("s") or low.endswith(("ss", "us", "is", "ous")):
        return low
    if low.endswith("ies"):
        return low[:-3] + "y"
    if low.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")) and len(low) > 4:
        return low[:-2]
    if low.endswith("uses") and len(low) > 5:
        return low[:-1]
    return low[:-1]


_ENDINGS = (
    "ated", "ating", "ators", "ator", "ates", "ate",
    "ations", "ation", "itions", "ition", "ments", "ment", "ingly", "ings", "ing", "ances", "ance", "ences",
    "ence", "ities", "ity", "ively", "ive", "ically", "ical", "ors", "ers", "ions", "ion", "ies", "ied", "ed",
    "er", "or", "ly", "al", "es", "e", "y", "s", "ship", "ness", "ful",
)  # fmt: skip


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return an approximate common prefix of related words: enrolled, enrollment and enrolls share one."""
    low = lemma(word)
    for _ in range(2):
        for ending in _ENDINGS:
            if low.endswith(ending) and len(low) - len(ending) >= 3 and _VOWEL.search(low[: -len(ending)]):
                low = low[: -len(ending)]
                if len(low) > 3 and low[-1] == low[-2] and low[-1] not in "aeiou":
                    low = low[:-1]
                break
        else:
            break
    return low


@lru_cache(maxsize=50_000)
def parts(identifier: str) -> tuple[str, ...]:
    """Return the words of an identifier, split at snake case, camel case and digits."""
    if not identifier.isascii():
        return tuple(found.lower() for found in _ANY_SCRIPT.findall(_HUMP.sub("_", identifier)))
    return tuple(found.lower() for found in _CAMEL.findall(identifier))


def split_joined(word: str, vocabulary: frozenset[str]) -> tuple[str, ...]:
    """Split `firstname` into `first name`, if the vocabulary contains every piece of at least three letters."""
    if len(word) < 6 or word in vocabulary:
        return (word,)
    for cut in range(len(word) - 2, 2, -1):
        head, tail = word[:cut], word[cut:]
        if head in vocabulary and (tail in vocabulary or lemma(tail) in vocabulary):
            return (head, tail)
    return (word,)
