"""Name the dates of events: "opened first", "the last review", "paid after the due date", "overdue"."""

from __future__ import annotations

import re
from datetime import date

from clew_nl2sql.decompose.named_things import NamedThings

_EARLIEST = ("first", "earliest", "the earliest", "the first")
_ENDS = r"(first|last|most recently|the earliest|the latest|earliest|latest|the longest ago)"
_EVENT = re.compile(
    rf"(?:which|what) (\w+(?: \w+)??) (?:was |were |has been |had |did |got )?(\w+) {_ENDS}\s*[?.!]*$", re.I
)
_WHEN = re.compile(
    r"when (?:was|did|were|is) (?:the |our )?(last|latest|most recent|newest|first|earliest) "
    r"(\w+(?: \w+)?)(?: (\w+))?\s*[?.!]*$",
    re.I,
)


def first_or_last(text: str, things: NamedThings) -> str:
    """Name the date of "Which hotel opened first?"."""
    if someone := re.match(rf"who (?:was |has been |got )?(\w+) {_ENDS}\s*[?.!]*$", text, re.I):
        person = things.person_with(someone[1])
        text = f"Which {person} was {someone[1]} {someone[2]}?" if person else text
    found = _EVENT.match(text)
    table = things.table(found[1]) if found else None
    column = things.date_of(table, found[2]) if found and table else None
    if found is None or column is None:
        return text
    edge = "earliest" if found[3].lower() in (*_EARLIEST, "the longest ago") else "latest"
    return f"Which {found[1]} has the {edge} {column}?"


def when(text: str, things: NamedThings) -> str:
    """Name the date of "When was the last review posted?"."""
    found = _WHEN.match(text)
    noun = found[2] if found else ""
    verb = found[3] if found and found[3] else ""
    table = things.table(noun)
    if table is None and " " in noun and not verb:
        noun, _, verb = noun.rpartition(" ")
        table = things.table(noun)
    column = things.date_of(table, verb) if table else None
    if found is None or column is None:
        return text
    edge = "earliest" if found[1].lower() in _EARLIEST else "latest"
    return f"What is the {edge} {column} of {noun}?"


_NUMBER_OF = re.compile(
    r"(what (?:is|was) the )(number|code|reference|id) of "
    r"(the (?:most recent|latest|newest|last|oldest|earliest|first) (\w+)\b.*)$",
    re.I,
)


def number_of(text: str, things: NamedThings) -> str:
    """Name the number of "What is the number of the latest invoice?", which does not count."""
    found = _NUMBER_OF.match(text)
    number = things.number_of(found[4], found[2]) if found else None
    return f"{found[1]}{number} of {found[3]}" if found and number else text


_PERSON_DID = re.compile(
    r"when did (?P<who>[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)*) (?P<edge>last|first|most recently) (?P<verb>[a-z]+)"
    r"(?: (?:a|an) (?P<noun>\w+(?: \w+)?))?\s*[?.!]*$"
)


def last_done(text: str, things: NamedThings) -> str:
    """Name the date of "When did Ann Berg last rent a car?"."""
    found = _PERSON_DID.match(text[:1].lower() + text[1:])
    meant = things.moment_of(found["verb"], found["noun"] or "") if found else None
    if found is None or meant is None:
        return text
    edge = "earliest" if found["edge"] == "first" else "latest"
    return f"What is the {edge} {meant[0]} of {meant[1]} of {found['who']}?"


_LATE = re.compile(
    r"\b(?:(?:was|were|been|is|are) )?(\w+) (after|before|later than|earlier than) "
    r"(?:its|their|the|they were) (\w+)(?: (?:date|day|time|on))?\b",
    re.I,
)


def late(text: str, things: NamedThings) -> str:
    """Compare two dates of "paid after the due date"."""
    found = _LATE.search(text)
    dates = things.two_dates(found[1], found[3]) if found else None
    if not found or not dates:
        return text
    than = "later" if found[2].lower() in ("after", "later than") else "earlier"
    return f"{text[: found.start()]}have a {dates[0]} {than} than {dates[1]}{text[found.end() :]}"


def overdue(text: str, things: NamedThings, today: date) -> str:
    """Say which date of "overdue" has passed, and which one is missing."""
    found = re.search(r"\s*\b(?:(?:is|are|was|were) )?(?:currently |still |now )?overdue\b", text, re.I)
    dates = things.due_dates(text) if found else None
    if not found or not dates:
        return text
    due, done = dates
    attributive = re.match(r"\s+\w+", text[found.end() :])
    rest = attributive[0] if attributive else ""
    there = " are there" if text.lower().startswith("how many") else ""
    said = f"{text[: found.start()]}{rest}{there} with {due} before {today.isoformat()} and without {done}"
    return f"{said}{text[found.end() + len(rest) :]}"
