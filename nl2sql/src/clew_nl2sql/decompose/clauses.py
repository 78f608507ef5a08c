"""Split a question into clauses, by a few rules of English.

The question is cut at commas, semicolons and "and". Then each clause receives what the clauses share: the
entity ("for each customer", "which five customers ... they"), the subject ("which customers have more than 3
orders and more than 2 tickets"), the kind of number ("the number of orders and tickets").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CUT = re.compile(r"\s*;\s*|\s*,\s*(?:and\s+|but\s+)?|\s+(?:and|but|as well as|plus)\s+", re.IGNORECASE)
COMPARED = re.compile(f"{CUT.pattern}|\\s+(?:with|to|versus|vs\\.?|compared (?:to|with))\\s+", re.IGNORECASE)
LEAD = re.compile(r"^\s*(?:for|per)\s+(?:each|every)?\s*((?:\w+ )?\w+)\s*[,:]\s*", re.IGNORECASE)
TAIL = re.compile(r"\s+(?:(?:for|of|by|from)\s+(?:each|every)|per|by)\s+(\w+)\s*[?.!]*\s*$", re.IGNORECASE)
COUNT_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|\\d+"
SUBJECT = re.compile(
    rf"\b(?:which|what|whose|top|show(?: me)?(?: the)?|list(?: the)?|find(?: the)?|name(?: the)?)"
    rf"(?:\s+(?:the|top|best|{COUNT_WORDS}))*\s+(\w+)",
    re.IGNORECASE,
)
PRONOUN = re.compile(
    r"\b(?:each of them|of them|about them|from them|for them|to them|them|they|these|those)\b", re.IGNORECASE
)
POSSESSIVE = re.compile(r"\b(?:their|its|his|her)\b", re.IGNORECASE)
AUXILIARY = re.compile(
    r"\b(?:did|do|does|have|has|had|are|were|was|is)\s+(?:they|these|those)(?:\s+\w+)?\b", re.IGNORECASE
)
SPOKEN_OF = re.compile(
    r"\bwhat\s+(?:did|does|do|has|have)\s+(?:the\s+)?(\w+)\s+(?:say|said|write|report|note)\b", re.IGNORECASE
)
MEASURE = re.compile(
    r"\b(?:the\s+)?(?:(?:total|average|mean|maximum|minimum|highest|lowest)\s+)?(?:number|count|sum|total|average|amount)\s+of\s+|"
    r"\bhow\s+many\s+|\b(?:the\s+)?(?:total|average|maximum|minimum)\s+",
    re.IGNORECASE,
)
HAVING = re.compile(r"^(.*?\b(?:have|has|had|with|made|placed|opened|spent|got)\s+)(?=\S)", re.IGNORECASE)
CONDITION = re.compile(
    r"^(?:(?:more|less|fewer|greater|at)\s+(?:than|least|most)|over|under|no|exactly)\b", re.IGNORECASE
)
ASKING = re.compile(r"\b(?:how|what|which|who|whose|show|list|give|find|count|compare)\b", re.IGNORECASE)
COMPARING = re.compile(
    r"^\s*compare\s+|\bversus\b|\bvs\.?\b|\bdifference between\b|\bcompared (?:to|with)\b", re.IGNORECASE
)
COUNTING = re.compile(r"\bhow many\b|\bnumber of\b", re.IGNORECASE)
EVERYWHERE = re.compile(
    r"\s*\b(?:(?:in total |altogether |combined )?(?:in|across|over|from|over) (?:all|every|both)"
    r"(?: of)?(?: the| our)? (?:sources?|databases?|systems?)(?: combined)?|everywhere)\b",
    re.IGNORECASE,
)
ADDED_UP = re.compile(r"\b(?:in total|altogether|combined|together|sum)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Clause:
    """A piece of the question, with its original wording."""

    text: str
    start: int
    end: int


def clauses(question: str) -> list[Clause]:
    """Return the pieces between the cuts; together with the cuts they are the whole question."""
    text = question.rstrip(" ?.!")
    found, start = [], 0
    cuts = COMPARED if COMPARING.search(question) else CUT
    for cut in cuts.finditer(text):
        if cut.start() > start:
            found.append(Clause(text[start : cut.start()], start, cut.start()))
        start = cut.end()
    if start < len(text):
        found.append(Clause(text[start:], start, len(text)))
    return found


def entity_of(question: str) -> tuple[str, str]:
    """Return the shared entity and its form: ("customer", "each" | "which"), or two empty strings."""
    if lead := LEAD.match(question):
        return lead[1].split()[-1], "each"
    if tail := TAIL.search(question):
        return tail[1], "each"
    if subject := SUBJECT.search(question):
        return subject[1], "which"
    return "", ""


def refers_back(text: str) -> bool:
    """Return whether a clause refers to something that an earlier one named."""
    return bool(PRONOUN.search(text) or POSSESSIVE.search(text))


def completed(text: str, before: str) -> str:
    """Return a clause together with the words of the previous clause that it depends on."""
    if ASKING.search(text) or MEASURE.match(text):
        return text
    if CONDITION.match(text) and (subject := HAVING.match(before)):
        return f"{subject[1]}{text}"
    found = list(MEASURE.finditer(before))
    return f"{found[-1][0].strip()} {text}" if found else text
