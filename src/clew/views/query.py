"""The query language of the list of runs: words, and parts such as ``status:failed took:>30s -graph:test``.

A query is parsed into parts with their places in the text, so that a page can mark an invalid part; the others still
work. A part is a test of one row, or of something that is read only for rows which passed the cheaper tests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, get_args

import msgspec

from clew.engine.options import Status

STATUSES = (*get_args(Status), "lost", "damaged")
NEEDS_ME = ("waiting", "failed", "lost")
IS = ("retrying", "lost", "fork", "child", "queued")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r'(-?)(?:([A-Za-z]+):)?("(?:[^"\\]|\\.)*"?|\S+)')
_LONGEST = 1_000

Compare = Callable[[float, float], bool]
_SIGNS: Mapping[str, Compare] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
}


class QueryError(Exception):
    """A part of a query is invalid."""


class Part(msgspec.Struct, frozen=True):
    """One part of a query: its text and place, and what was understood."""

    text: str
    start: int
    end: int
    key: str  # "" for a word
    value: Any
    negated: bool = False
    error: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the part as JSON."""
        shown = {"text": self.text, "key": self.key or None, "negated": self.negated}
        return {**shown, "start": self.start, "end": self.end, "error": self.error or None}


class RunQuery(msgspec.Struct, frozen=True):
    """The parts of a query. Invalid ones are listed, and do not count."""

    parts: tuple[Part, ...]

    @property
    def valid(self) -> tuple[Part, ...]:
        """The parts that count."""
        return tuple(part for part in self.parts if not part.error)

    def only(self, key: str) -> Any:
        """Return the value of the only plain part of a key, or None: a store can select by it."""
        found = [part for part in self.valid if part.key == key]
        return found[0].value if len(found) == 1 and not found[0].negated else None

    def uses(self, key: str, value: Any = None) -> bool:
        """Return whether a part has this key, and this value if it is given."""
        return any(part.key == key and value in (None, part.value) for part in self.valid)


def parse(text: str, now: float) -> RunQuery:
    """Parse a query. It never raises: an invalid part has an error."""
    found = []
    for match in _PART.finditer(text[:_LONGEST]):
        sign, key, raw = match.groups()
        value = _unquoted(raw)
        known = key.lower() if key else ""
        made: Any = value
        error = ""
        if known and known not in READ:
            if raw.startswith("//"):  # an address is a word
                known, made = "", f"{key}:{value}"
            else:
                error = f"{known}: is not known; known are {', '.join(f'{name}:' for name in READ)}"
        elif known:
            try:
                made = READ[known](value, now)
            except QueryError as problem:
                error = str(problem)
        found.append(Part(match[0], *match.span(), known, made, bool(sign), error))
    return RunQuery(tuple(found))


def _unquoted(raw: str) -> str:
    if not raw.startswith('"'):
        return raw
    return re.sub(r"\\(.)", r"\1", raw[1:-1] if raw.endswith('"') and len(raw) > 1 else raw[1:])


def seconds_of(text: str) -> float:
    """Return a duration such as ``30s`` in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|w)?", text)
    if found is None:
        raise QueryError(f"{text!r} is not a duration; write 30s, 5m, 2h or 3d")
    return float(found[1]) * (0.001 if found[2] == "ms" else _UNITS[found[2] or "s"])


def _text(value: str, now: float) -> str:
    if not value:
        raise QueryError("a text is missing after the colon")
    return value.lower()


def _exact(value: str, now: float) -> str:
    if not value:
        raise QueryError("a name is missing after the colon")
    return value


def _status(value: str, now: float) -> tuple[str, ...]:
    if value in ("needs-me", "needs_me"):
        return NEEDS_ME
    if value not in STATUSES:
        raise QueryError(f"{value!r} is not a status; known are {', '.join(STATUSES)}")
    return (value,)


def _is(value: str, now: float) -> str:
    if value not in IS:
        raise QueryError(f"is:{value} is not known; known are {', '.join(f'is:{name}' for name in IS)}")
    return value


def _time(value: str, now: float) -> float:
    try:
        return now - seconds_of(value)
    except QueryError:
        pass
    try:
        moment = datetime.fromisoformat(value)
        seconds = (moment if moment.tzinfo else moment.astimezone()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise QueryError(f"{value!r} is not a time; write 3d, 2h or 2026-11-16T12:00") from None
    return seconds


def _compared(value: str, read: Callable[[str], float]) -> tuple[Compare, float]:
    sign = next((each for each in _SIGNS if value.startswith(each)), "")
    number = read(value[len(sign) :].strip())
    if not math.isfinite(number):
        raise QueryError(f"{value!r} is not a number")
    return _SIGNS[sign or ">="], number


def _number(text: str) -> float:
    if not re.fullmatch(r"\d{1,15}", text):
        raise QueryError(f"{text!r} is not a number; write steps:>1000")
    return float(text)


def _pair(value: str, now: float) -> tuple[str, str]:
    name, equals, text = value.partition("=")
    if not name or not equals:
        raise QueryError("write NAME=TEXT")
    return name, text


READ: Mapping[str, Callable[[str, float], Any]] = {
    "status": _status,
    "graph": _text,
    "error": _text,
    "label": _exact,
    "parent": _exact,
    "queue": _exact,
    "owner": _text,
    "node": _exact,
    "after": _time,
    "before": _time,
    "took": lambda value, now: _compared(value, seconds_of),
    "steps": lambda value, now: _compared(value, _number),
    "attr": _pair,
    "value": _pair,
    "is": _is,
}
"""How the value of each part is read."""
