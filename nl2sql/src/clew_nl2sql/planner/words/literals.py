"""Literals of a question: what the user wrote verbatim, and the columns that hold such values.

A quoted string, a code, an e-mail address and a run of capitalized words may be values. `shape` describes a code by
its kinds of characters, so that "ORD-99999" belongs to the column of "ORD-10131", whether a row has it or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from clew_nl2sql.planner.words.tokens import Token

LOOKED_AT = 200  # values per column
_RUNS = re.compile(r"9+|a+")


class Literal(NamedTuple):
    """Tokens `start` to `end` (exclusive) that may be a value; `verbatim` if nothing else is possible."""

    start: int
    end: int
    text: str
    verbatim: bool


def literals(tokens: list[Token]) -> list[Literal]:
    """Return the literals of a question: verbatim ones first, then runs of capitalized words, longest first."""
    verbatim = [Literal(at, at + 1, t.text, True) for at, t in enumerate(tokens) if t.kind == "quoted"]
    runs: list[Literal] = []
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens) and _is_capital(tokens[end]):
            end += 1
        first = start + (start == 0)  # the first word of a sentence is always capitalized
        runs.extend(_run(tokens, one, end) for one in {start, first} if one < end and (one or end - one > 1))
        start = max(end, start + 1)
    return verbatim + sorted(runs, key=lambda run: (run.start - run.end, run.start))


def _run(tokens: list[Token], start: int, end: int) -> Literal:
    return Literal(start, end, " ".join(t.text for t in tokens[start:end]), False)


def _is_capital(token: Token) -> bool:
    return token.kind == "word" and token.text[:1].isupper()


def shape(text: str) -> str:
    """Return the kinds of characters of a code: "a-9" for "ORD-13107". An e-mail address is "@"."""
    if re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", text):
        return "@"
    return _RUNS.sub(
        lambda run: run[0][0], "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in text)
    )


def is_telling(text: str) -> bool:
    """Return whether a shape identifies a column: a code or an e-mail address, and not words or digits alone."""
    kinds = shape(text)
    return kinds == "@" or ("9" in kinds and "a" in kinds)


def has_shape(values: Iterable[object], text: str) -> bool:
    """Return whether most values have the shape of a text."""
    wanted, seen, alike = shape(text), 0, 0
    for value in values:
        if seen == LOOKED_AT:
            break
        seen += 1
        alike += isinstance(value, str) and shape(value) == wanted
    return seen > 1 and alike * 10 >= seen * 8
