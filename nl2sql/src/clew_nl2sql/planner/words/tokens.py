"""Split a question into tokens: words, numbers, dates, quoted strings and punctuation, with their positions.

A quoted string, an e-mail address, a code ("ORD-13107", "A320") and a number with leading zeros are one token
of the kind "quoted": the words of the user, verbatim. Contractions are expanded ("don't" is "do not") and
possessives removed, so later modules see plain words. Number words are numbers ("three"), except "one", which
is often a pronoun: its token has the kind "word" and a value.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

from clew_nl2sql.planner.words.inflection import lemma

TokenKind = Literal["word", "number", "date", "quoted", "punct"]

NUMBER_WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100,
    "thousand": 1000, "once": 1, "twice": 2,
}  # fmt: skip

_PATTERN = re.compile(
    r"""
    (?P<quoted>"[^"]+"|“[^”]+”|(?<![\w])'[^']+(?:'s\s[^']+)?'(?![\w])|‘[^’]+’|``[^`']+''|(?<![\w])`[^`']+['`])
  | (?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
  | (?P<date>\d{4}-\d{1,2}-\d{1,2}(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?|\d{1,2}/\d{1,2}/\d{2,4})
  | (?P<code>(?<![\w.])(?:[^\W_]+(?:[-_/.][^\W_]+)+|[^\W\d_]+\d[^\W_]*|\d+[A-Z][^\W_]*|0\d+(?![:/.]))(?![\w]))
  | (?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|(?<![\w.])\d+(?![\w])
      |(?<![\w.])\d+(?=(?:k|m|kg|km|cm|ft|st|nd|rd|th)\b))
  | (?P<word>[^\W_]+(?:['’][a-z]+)?|_)
  | (?P<punct>[^\s\w])
    """,
    re.VERBOSE,
)

_WITHOUT_CODES = re.compile(
    "\n".join(line for line in _PATTERN.pattern.splitlines() if "(?P<code>" not in line), re.VERBOSE
)

_KINDS: dict[str, TokenKind] = {kind: kind for kind in get_args(TokenKind)}  # the groups of the pattern
_QUARTER = re.compile(r"[QH][1-4]", re.IGNORECASE)
_NOT_IN_CODES = frozenset(["mid", "pre", "post", "top", "non", "sub", "the", "early", "late", "since"])

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2}:\d{2})?")


class Token(msgspec.Struct, frozen=True):
    """A token, the position of its characters in the question, and its number, if any."""

    text: str
    low: str
    lemma: str
    start: int
    end: int
    kind: TokenKind
    value: float | int | None = None

    @property
    def is_capital(self) -> bool:
        """Return whether the first letter is a capital."""
        return self.text[:1].isupper()


def tokenize(question: str) -> list[Token]:
    """Return the tokens of a question, in order."""
    tokens: list[Token] = []
    at = 0
    while found := _PATTERN.search(question, at):
        if found.lastgroup == "code" and not _is_code(found.group()):
            found = _WITHOUT_CODES.search(question, found.start()) or found
        at = found.end()
        if found.lastgroup in ("code", "email"):
            text = found.group()
            tokens.append(Token(text, text.lower(), text.lower(), found.start(), at, "quoted"))
            continue
        tokens.extend(_tokens(_KINDS[str(found.lastgroup)], found.group(), found.start(), found.end()))
    return tokens


def _is_code(text: str) -> bool:
    """Return whether a word with digits is a code, and not "18-year-old", "mid-2010" or "Q3"."""
    letters, digits = list(filter(str.isalpha, text)), list(filter(str.isdigit, text))
    if not digits or _QUARTER.fullmatch(text):
        return False
    if not letters:
        return text[0] == "0" and len(text) == len(digits)
    first = re.split(r"[-_/.]", text)[0].lower()
    if first in _NOT_IN_CODES or re.match(r"\d+(?:st|nd|rd|th|s|k|m|kg|km|cm|ft)?(?:-|$)", text.lower()):
        return first.isdigit() and letters[0].isupper() and len(digits) > 3
    return any(map(str.isupper, letters)) or len(digits) >= 3


def _tokens(kind: TokenKind, text: str, start: int, end: int) -> list[Token]:
    if kind == "quoted":
        inside = text.strip("\"'“”‘’`").strip()
        if _DATE.fullmatch(inside):
            return [Token(inside, inside, inside, start, end, "date")]
        return [Token(inside, inside.lower(), inside.lower(), start, end, "quoted")]
    if kind == "number":
        plain = text.replace(",", "")
        number = float(plain) if "." in plain else int(plain)
        return [Token(text, text, text, start, end, "number", number)]
    if kind == "word":
        return _words(text.replace("’", "'"), start, end)
    return [Token(text, text.lower(), text.lower(), start, end, kind)]


def _words(text: str, start: int, end: int) -> list[Token]:
    low = text.lower()
    if low.endswith("n't"):
        first = {"wo": "will", "ca": "can"}.get(low[:-3], low[:-3])
        return [_word(first, start, end - 3), _word("not", end - 3, end)]
    head, mark, tail = text.partition("'")
    if mark and tail.lower() in ("s", "re", "ve", "ll", "d", ""):
        return [_word(head, start, start + len(head))]
    return [_word(text, start, end)]


def _word(text: str, start: int, end: int) -> Token:
    low = text.lower()
    value = NUMBER_WORDS.get(low)
    if low == "cannot":
        return Token("cannot", "not", "not", start, end, "word")
    kind: TokenKind = "word" if value is None or low in ("one", "once", "twice") else "number"
    return Token(text, low, lemma(low), start, end, kind, value)
