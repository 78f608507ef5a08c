"""Name the people of "Who made booking 12?", and say "have no team" for "are not in any team"."""

from __future__ import annotations

import re

from clew_nl2sql.decompose.named_things import NamedThings

_DOES = frozenset(
    "has have had did done made makes gave gives given placed took holds wrote".split()  # noqa: SIM905
)


def who(text: str, things: NamedThings) -> str:
    """Name the people of "Who made booking 12?" and "Who has done the most visits?"."""
    found = re.match(
        r"who (?:(?:has|have) (?!the\b))?(\w+) (?:the )?(most |fewest |highest |lowest |largest )?(.+)$",
        text,
        re.I,
    )
    if not found:
        return text
    person = things.person_of(found[3])
    if person is None:
        return text
    if found[2] and (found[1].lower() in _DOES or things.is_agent(found[1], person)):
        return f"Which {person} has the {found[2]}{found[3]}"
    if re.search(r"\d", found[3]) and re.match(
        r"made|placed|did|wrote|has|had|got|opened|booked|ordered", found[1], re.I
    ):
        return f"Which {person} has the {found[3]}"
    return text


_OWNER = re.compile(
    r"who (?:currently |now )?(?:has|owns|holds|uses|rents|drives|owned|is using|is renting|is driving) "
    r"(?:the )?((\w+) .*\d.*)$",
    re.I,
)


def owner(text: str, things: NamedThings) -> str:
    """Name the people of "Who owns the vehicle with registration number KX-387-N?"."""
    found = _OWNER.match(text)
    person = things.person_of(found[1]) if found and things.table(found[2]) else None
    return f"Which {person} has the {found[1]}" if found and person else text


_ASSIGNED = re.compile(
    r"\bhave no (?P<what>\w+) (?:assigned|allocated|attached|linked)\b"
    r"|\b(?:is|are|was|were) (?:not|n't) (?:yet )?(?:assigned|allocated|given) to (?P<one>anyone|anybody|someone)\b"
    r"|\b(?:(?:is|are|was|were) )?(?P<to>assigned|allocated) to\b",
    re.I,
)


def assigned(text: str, things: NamedThings) -> str:
    """Say "of" for "assigned to", and "have no employee" for "are not assigned to anyone"."""
    found = _ASSIGNED.search(text)
    if not found or things.knows("assigned") or things.knows("allocated"):
        return text
    before, after = text[: found.start()], text[found.end() :]
    if found["to"]:
        return text if re.match(r"\s*(?:each|every|any|no)\b", after) else f"{before}of{after}"
    what = found["what"]
    if found["one"]:
        subject = re.search(r"(\w+)\s*$", before)
        what = things.person_of(subject[1]) if subject else None
    return f"{before}have no {what}{after}" if what else text


_NOTHING = re.compile(
    r"\b(?:are|is|were|was) (?:not|n't) (?:yet )?(?:in|on|at|assigned to|part of|linked to|attached to) "
    r"(?:any|a|an) (\w+)\b",
    re.I,
)


def nothing(text: str, things: NamedThings) -> str:
    """Say "have no team" for "are not in any team"."""
    found = _NOTHING.search(text)
    return (
        f"{text[: found.start()]}have no {found[1]}{text[found.end() :]}"
        if found and things.table(found[1])
        else text
    )


_NAME = r"(?:the )?(?:[A-Z][\w.'’-]*(?: (?:of|the|de|van|von|and) (?=[A-Z]))?(?: (?=[A-Z]))?)+"
_OWNED = re.compile(
    rf"([Hh]ow many .+?) (?:does|do|did|has|have) ({_NAME}) "
    r"(?:have|had|has|made|make|taken|take|done|do|placed|own)\b(.*)$"
)


def owned(text: str, things: NamedThings) -> str:
    """Say "how many rooms are there for the Old Mill" for "does the Old Mill have"."""
    found = _OWNED.match(text)
    return f"{found[1]} are there for {found[2]}{found[3]}" if found else text


def apart(text: str, things: NamedThings) -> str:
    """Say "check in" for "check-in", if a column has that name, and no value."""

    def said(match: re.Match[str]) -> str:
        apart = match[0].replace("-", " ")
        return apart if things.names_column(apart) and not things.is_value(match[0]) else match[0]

    return re.sub(r"\b[a-z]+-[a-z]+\b", said, text, flags=re.I)
