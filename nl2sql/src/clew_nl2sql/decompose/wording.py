"""Say a question in the words that the planner knows best, without a change of meaning.

Analysts write notes ("bookings per channel", "Top 5 customers by revenue"), ask for events ("Which hotel opened
first?") and for people ("Who made booking 12?"), and speak of money ("How much did we take in cash?"). The planner
learned from full sentences about tables and columns. So each rule here turns one such wording into that sentence:

- A note becomes a question, "per" and "by" become "for each", and "highest first" an order.
- "Opened first" is the earliest `opened_on`, and "when was the last review?" the latest of its dates.
- "Who" is the only table of people that refers to, or is referred to by, what they did.
- "How much money", "revenue" and "the sum of all payments" add up the only amount of the table.
- "Not in any team" is "no team"; "paid after the due date" compares two dates.

A rule that needs a name applies only if exactly one table or column of the catalog can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from clew_nl2sql.decompose.events import first_or_last, last_done, late, number_of, overdue, when
from clew_nl2sql.decompose.money import amounts, figures
from clew_nl2sql.decompose.named_things import NamedThings
from clew_nl2sql.decompose.notes import completed, descending, grouped, highest
from clew_nl2sql.decompose.people import apart, assigned, nothing, owned, owner, who
from clew_nl2sql.planner.catalog import Catalog

_SILENT = (
    (re.compile(r"\b(?:right now|at the moment|at present|as of now|presently|as of today)\b", re.I), "currently"),
    (re.compile(r"\s+so far\b", re.I), ""),
    (re.compile(r"\s+(?:on (?:file|record)|in (?:our|the) (?:records|books|files|system|database))\b", re.I), ""),
    (re.compile(r"\b(?:took|takes|take) place\b", re.I), "happened"),
    (re.compile(r"\b(staff|crew|personnel) members?\b", re.I), r"\1"),
    (re.compile(r"\bwhich of (?:our|the|these) (?=\w)", re.I), "which "),
    (re.compile(r"\s+(?:that )?(?:we(?:'ve| have) )?ever (?:had|received|got|seen)\b", re.I), ""),
    (re.compile(r"\s+(?:registered |signed up |on board )?with us\b", re.I), ""),
    (re.compile(r"\b(left|quit|joined) (?:the |our )(?:company|firm|organi[sz]ation|business)\b", re.I), r"\1"),
    (re.compile(r"\bwithout (?:a|any) single\b", re.I), "without any"),
    (re.compile(r"\b(?:did|do|have) we (?:handled?|process(?:ed)?|signed?|treat(?:ed)?|served?)\b", re.I), "are there"),
    (re.compile(r"^(how many .+?) (?:did|do|have) we (?:do|done|have|had|make|made|get|got)\b", re.I), r"\1 are there"),
)  # fmt: skip

_RULES: tuple[Callable[[str, NamedThings], str], ...] = (
    apart, number_of, nothing, assigned, owned, late, figures, amounts, completed, grouped, descending, highest,
    first_or_last, when, last_done, owner, who,
)  # fmt: skip


def reworded(text: str, catalog: Catalog, today: date) -> str:
    """Return the question in the planner's words."""
    things = NamedThings(catalog)
    text = text.strip()
    for pattern, plain in _SILENT:
        text = pattern.sub(plain, text)
    for rule in _RULES:
        text = rule(text, things)
    return overdue(text, things, today)
