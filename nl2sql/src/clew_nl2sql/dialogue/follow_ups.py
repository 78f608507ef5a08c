"""Resolve a question that continues the one before it: "And in Paris?", "How many of them are female?".

The result is a complete question, which is asked like any other, so a question about some rows is never answered for
all rows. There are two kinds:

- *Another value or time.* "And in Paris?" replaces the value of the same column ("in Lyon"), or the time if it is a
  time. If the question has none, it is added.
- *Some of them.* "Of them" stands for what the last question asked about, with its conditions.

Anything else is not resolved, and reaches the planner as it is, which does not read such words. Values are those of the
catalogs that the user may see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clew_nl2sql.planner.catalog import Catalog

_LEAD = re.compile(r"^\s*(?:and\s+)?(?:what\s+about|how\s+about|and)\s+(.+?)\s*\??\s*$", re.IGNORECASE)
_QUESTION = re.compile(
    r"^(?:how|what|which|who|when|where|why|is|are|do|does|did|show|list|give|find|count|name)\b",
    re.IGNORECASE,
)
# Nothing is named before it: in "which customers have orders, and how many of them", the words mean the orders.
_THEM = re.compile(
    r"^(\s*(?:(?:and|how|many|much|which|what|who|list|show|give|find|count|me|all|the|number|names?)\s+)*)"
    r"(?:of|among)\s+(?:them|those|these)\b",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    r"^(in|from|for|of|at|on|with|by|before|after|since|until|during)\s+(.+)$", re.IGNORECASE
)
_TIME = re.compile(
    r"\b(?:(?:in|during|since|before|after|until|on)\s+)?"
    r"(?:(?:the\s+)?(?:last|this|past|previous)\s+(?:\d+\s+)?(?:day|week|month|quarter|year)s?|yesterday|today"
    r"|(?:(?:january|february|march|april|may|june|july|august|september|october|november|december)\s+)?(?:19|20)\d\d"
    r"(?:-\d\d(?:-\d\d)?)?)\b",
    re.IGNORECASE,
)
_ABOUT = (
    re.compile(r"^\s*how\s+many\s+(?:of\s+the\s+)?(\w+)\s*(.*)$", re.IGNORECASE),
    re.compile(r"^\s*(?:which|what)\s+(\w+)\s+(.*)$", re.IGNORECASE),
    re.compile(r"^\s*(?:list|show|give|find)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(\w+)\s*(.*)$", re.IGNORECASE),
)
_THERE = re.compile(r"\b(?:are|were|is|was|do|did)\s+(?:there|we have)\b", re.IGNORECASE)
_JOINED = ("that", "who", "which", "with", "without", "in", "from", "of", "on", "at", "whose", "by")


def is_follow_up(question: str) -> bool:
    """Return whether a question continues another one."""
    lead = _LEAD.match(question)
    return bool(_THEM.search(question)) or (lead is not None and not _QUESTION.match(lead[1]))


def resolved(question: str, last: str | None, catalogs: Iterable[Catalog]) -> str | None:
    """Return the complete question, the question itself if it is complete, or None if it cannot be resolved."""
    if not is_follow_up(question):
        return question
    if not last:
        return None
    last = last.strip().rstrip("?. ")
    if _THEM.search(question):
        return _some_of_them(question, last)
    lead = _LEAD.match(question)
    return _with_another(lead[1], last, list(catalogs)) if lead else None


def _some_of_them(question: str, last: str) -> str | None:
    for form in _ABOUT:
        asked = form.match(last)
        if asked:
            conditions = " ".join(_THERE.sub(" ", asked[2]).split())
            first = conditions.partition(" ")[0].lower()
            if conditions and first not in _JOINED:
                conditions = f"that {conditions}"
            whole = f"{asked[1]} {conditions}".strip()
            them = _THEM.match(question)
            return f"{them[1]}{whole}{question[them.end() :]}" if them else None
    return None


def _with_another(said: str, last: str, catalogs: list[Catalog]) -> str | None:
    if _TIME.fullmatch(said):
        return _with_another_time(said, last)
    phrase = _PHRASE.match(said)
    value = phrase[2] if phrase else said
    columns = _columns_of(value, catalogs)
    places = _values_in(last, catalogs)
    same = [place for place in places if columns & places[place]]
    if len(same) == 1:
        return f"{_replaced(last, same[0], value)}?"
    if phrase is None or same:
        return None
    if columns:
        return f"{last} {said}?"
    # A value that no sample has replaces the only one, after the same preposition.
    begins = [
        place for place in places if re.search(rf"\b{phrase[1]}\s+['\"]?$", last[: place[0]], re.IGNORECASE)
    ]
    return f"{_replaced(last, begins[0], value)}?" if begins and len(places) == 1 else None


def _with_another_time(said: str, last: str) -> str | None:
    given = said if _PHRASE.match(said) or not re.match(r"\w*\s*\d", said) else f"in {said}"
    times = list(_TIME.finditer(last))
    if len(times) > 1:
        return None
    return f"{_replaced(last, times[0].span(), given)}?" if times else f"{last} {given}?"


def _replaced(text: str, place: tuple[int, int], by: str) -> str:
    return text[: place[0]] + by + text[place[1] :]


def _columns_of(value: str, catalogs: list[Catalog]) -> set[tuple[str, str, str]]:
    wanted = value.strip("'\"").casefold()
    return {place for place, text in _values(catalogs) if text == wanted}


def _values_in(question: str, catalogs: list[Catalog]) -> dict[tuple[int, int], set[tuple[str, str, str]]]:
    """Return the columns of each value in a question, by its position; a longer value hides a shorter one in it."""
    low = question.casefold()
    found: dict[tuple[int, int], set[tuple[str, str, str]]] = {}
    for place, text in _values(catalogs):
        if len(text) > 1 and text in low:
            for match in re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", low):
                found.setdefault(match.span(), set()).add(place)
    return {
        span: places
        for span, places in found.items()
        if not any(o[0] <= span[0] and span[1] <= o[1] and o != span for o in found)
    }


def _values(catalogs: list[Catalog]) -> Iterable[tuple[tuple[str, str, str], str]]:
    for catalog in catalogs:
        for table in catalog.tables:
            for column in table.columns:
                if column.kind == "text":
                    for value in column.values:
                        yield (catalog.name, table.name, column.name), str(value).casefold()
