"""Turn the notes of an analyst into questions: "bookings per channel, highest first", "top 5 customers by revenue"."""

from __future__ import annotations

import re

from clew_nl2sql.decompose.named_things import NamedThings
from clew_nl2sql.planner.words.tokens import NUMBER_WORDS

_FIGURE = r"(?:total|sum|number|count|average|mean|avg|minimum|maximum|highest|lowest)"
_SPAN = (
    r"(?:hour|day|night|week|weekend|month|quarter|year|minute|unit|person|head|kg|km|mile|litre|liter|seat)"
)
_COUNT = rf"(?:\d{{1,3}}|{'|'.join(NUMBER_WORDS)})"


_THING = re.compile(
    r"(?!(?:how|which|what|who|show|list|give|find|get|count|top)\b)((?:\w+ ){0,3}?\w+) (?:per|by|for each) ",
    re.I,
)


def completed(text: str, things: NamedThings) -> str:
    """Complete "number of projects per status", "names of all guests" and "bookings per channel"."""
    text = re.sub(rf"^the (?={_FIGURE}\b)", "", text, flags=re.I)
    if re.match(rf"{_FIGURE}\b", text, re.I) and not re.match(r"count\b(?! of)", text, re.I):
        return f"What is the {text[:1].lower()}{text[1:]}"
    if re.match(r"(?:names|list) of\b", text, re.I):
        return f"What are the {text[:1].lower()}{text[1:]}"
    found = _THING.match(text)
    thing = found[1].lower().split() if found else []
    if found and len(thing) > 1 and thing[-1].endswith("ed") and things.table(thing[-2]):
        counted = " ".join(thing[:-1]) if things.is_plural(thing[-2]) else ""
        return f"How many {counted} were {thing[-1]} for each {text[found.end() :]}" if counted else text
    table = any(things.table(" ".join(thing[-length:])) for length in (1, 2) if len(thing) >= length)
    if found and table and things.is_plural(thing[-1]):
        return f"How many {' '.join(thing)} are there for each {text[found.end() :]}"
    return text


def grouped(text: str, things: NamedThings) -> str:
    """Say "for each" for "per" and "by", if a figure comes before it, and a table or column after it."""
    text = re.sub(r"\bper (?=[a-z])(?!" + _SPAN + r"\b)", "for each ", text, flags=re.I)
    figure = re.search(rf"\b(?:{_FIGURE}|how many)\b", text, re.I)
    by = re.search(
        r"(?<!sorted )(?<!ordered )(?<!sort )(?<!order )(?<!ranked )(?<!arranged )\bby (?:the )?((?:\w+ ){0,3}?\w+)"
        r"(?=\s*(?:$|[?.!,]|in\b|for\b|between\b|since\b|last\b|this\b))",
        text,
        re.I,
    )
    if figure is None or by is None or by.start() < figure.end() or _TOP.match(text):
        return text
    name = things.column_or_table(by[1])
    return f"{text[: by.start()]}for each {name}{text[by.end() :]}" if name else text


_FIRST = re.compile(
    r"[,;]?\s*(?:from )?(?:the )?(highest|largest|biggest|greatest|most|lowest|smallest|fewest|least)"
    r"(?: ones?)? first\s*[?.!]*$",
    re.I,
)


_EACH = re.compile(
    rf"(?:what is the (?P<figure>{_FIGURE}\b.+?)|how many (?P<counted>.+?) are there) for each (?P<each>\w+(?: \w+)?)$",
    re.I,
)


def descending(text: str, things: NamedThings) -> str:
    """Say "in descending order of" for "highest first"."""
    found = _FIRST.search(text)
    asked = _EACH.match(text[: found.start()]) if found else None
    if not found or not asked:
        return text
    down = "ascending" if found[1].lower() in ("lowest", "smallest", "fewest", "least") else "descending"
    what, each = asked["figure"] or f"number of {asked['counted']}", asked["each"]
    label = f"{each} name" if things.has_name(each) else each
    return f"Show the {label} and the {what} for each {each} in {down} order of the {what}."


_TOP = re.compile(
    rf"(?:show |list |give |what are |who are )?(?:me )?(?:the |our )?top ({_COUNT}) (.+?) "
    r"by (?:the |their )?(.+?)\s*[?.!]*$",
    re.I,
)


def highest(text: str, things: NamedThings) -> str:
    """Turn "Top 5 customers by number of orders" into a question for those with the most orders."""
    found = _TOP.match(text)
    if not found or not things.table(found[2]):
        return text
    counted = re.match(r"(?:number|count|amount) of (.+)", found[3], re.I)
    if counted:
        return f"Which {found[1]} {found[2]} have the most {counted[1]}?"
    return f"Which {found[1]} {found[2]} have the highest {found[3]}?"
