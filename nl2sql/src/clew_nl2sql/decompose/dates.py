"""Replace times in words by days: "last month" becomes "between 2025-05-01 and 2025-05-31".

Conventions, all relative to the recorded date of the run:

- A week is Monday to Sunday. A quarter starts in January, April, July or October.
- "last week" is the week before this one, and "last 3 months" the three whole months before this one. "last 30 days"
  are the 30 whole days before today, without today.
- "this week", "this month" and so on are the whole period, to its last day; "next week" is the one after it.
- "May 2025 or later" and "since May 2025" include May, "until May 2025" too; "before" and "after" do not.

A month without a year, and a date like 05/06/2025, have two readings, so they stay as they are. So
do times that do not exist: "31 February 2025", "the last 0 days". The planner does not read them, and the answer
says so.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta

from clew_nl2sql.planner.words.lexicon import MONTHS
from clew_nl2sql.planner.words.tokens import NUMBER_WORDS

Period = tuple[date, date]  # first and last day

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_NUMBER = rf"\d{{1,4}}|{'|'.join(NUMBER_WORDS)}"
_UNIT = r"day|week|month|quarter|year"
_EDGE = r"(?:\b(?P<edge>before|after|since|until|till|by)\s+)?"
_LEAD = rf"(?:{_EDGE}(?:\b(?:in|during|over|within|on|for|of|from)\s+)?(?:\bthe\s+)?)"
_TIMES = re.compile(
    rf"""{_LEAD}\b(?:
      (?P<day>today|yesterday|tomorrow)
    | (?:(?:last|past|previous)\s+(?P<count>{_NUMBER})\s+(?P<units>{_UNIT})s?)
    | (?P<which>last|previous|past|this|current|next)\s+(?P<unit>{_UNIT})
    | (?P<year_to_date>year\s+to\s+date|ytd)
    | (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m1>{_MONTH})\.?,?\s+(?P<y1>(?:19|20)\d\d)
    | (?P<m2>{_MONTH})\.?\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y2>(?:19|20)\d\d)
    | (?P<m3>{_MONTH})\.?,?\s+(?:of\s+)?(?P<y3>(?:19|20)\d\d)
    | (?:q(?P<q4>[1-4])|(?P<nth>first|second|third|fourth)\s+quarter)(?:\s+of)?,?\s+(?P<y4>(?:19|20)\d\d)
    )\b(?P<open>\s+(?:(?:or|and)\s+(?:later|after|newer|onwards?|earlier|before|older)|onwards?)\b)?""",
    re.IGNORECASE | re.VERBOSE,
)
_NTH = {"first": 1, "second": 2, "third": 3, "fourth": 4}


_SHARED_YEAR = re.compile(
    rf"\b(?:between|from)\s+(?P<one>(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTH})|(?:{_MONTH})(?:\s+\d{{1,2}}(?:st|nd|rd|th)?)?)"
    rf"\s+(?:and|to|until|till)\s+(?P<two>(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTH})|(?:{_MONTH})(?:\s+\d{{1,2}}(?:st|nd|rd|th)?)?),?"
    r"\s+(?P<year>(?:19|20)\d\d)\b",
    re.IGNORECASE,
)


def in_days(text: str, today: date, named: str = "") -> str:
    """Return the text with days for times in words; `named` is the column to mention before them."""

    def span(found: re.Match[str]) -> str:
        ends = [_TIMES.fullmatch(f"{found[end]} {found['year']}") for end in ("one", "two")]
        try:
            first, last = [_period(end, today) for end in ends if end]
        except (ValueError, OverflowError):
            return found[0]
        return f"{named}between {first[0].isoformat()} and {last[1].isoformat()}"

    def days(found: re.Match[str]) -> str:
        try:
            first, last = _period(found, today)
        except (ValueError, OverflowError):  # there is no such day
            return found[0]
        edge = (found["edge"] or "").lower()
        if found["open"]:
            return f"{named}{open_ended(found['open'], first, last)}"
        if edge in ("before", "since"):
            return f"{named}{edge} {first.isoformat()}"
        if edge == "after":
            return f"{named}after {last.isoformat()}"
        if edge:
            return f"{named}until {last.isoformat()}"
        return f"{named}between {first.isoformat()} and {last.isoformat()}"

    return _TIMES.sub(days, _SHARED_YEAR.sub(span, text))


def open_ended(said: str, first: date, last: date) -> str:
    """Return the days of "March 2025 or later" or "2022 or earlier", which include the period."""
    earlier = said.split()[-1].lower() in ("earlier", "before", "older")
    return f"until {last.isoformat()}" if earlier else f"since {first.isoformat()}"


def _period(found: re.Match[str], today: date) -> Period:
    if found["year_to_date"]:
        return today.replace(month=1, day=1), today
    if found["day"]:
        day = today + timedelta(days={"yesterday": -1, "tomorrow": 1}.get(found["day"].lower(), 0))
        return day, day
    if found["count"]:
        given = found["count"].lower()
        count = int(NUMBER_WORDS.get(given, given))
        if not count:
            raise ValueError("a period of no days")
        return _before(today, found["units"].lower(), count)
    if found["which"]:
        unit, which = found["unit"].lower(), found["which"].lower()
        if which not in ("this", "current", "next"):
            return _before(today, unit, 1)
        return _whole(_shifted(_start(today, unit), unit, int(which == "next")), unit)
    return _named_period(found)


def _named_period(found: re.Match[str]) -> Period:
    """Return a day, a month or a quarter with its year."""
    for number in ("1", "2"):
        if found[f"d{number}"]:
            year, month = int(found[f"y{number}"]), MONTHS[found[f"m{number}"].lower()]
            day = date(year, month, int(found[f"d{number}"]))
            return day, day
    if found["m3"]:
        return _whole(date(int(found["y3"]), MONTHS[found["m3"].lower()], 1), "month")
    quarter = int(found["q4"] or _NTH[found["nth"].lower()])
    return _whole(date(int(found["y4"]), 3 * quarter - 2, 1), "quarter")


def _whole(start: date, unit: str) -> Period:
    return start, _shifted(start, unit, 1) - timedelta(days=1)


def _start(day: date, unit: str) -> date:
    """Return the first day of the period that holds a day."""
    if unit == "day":
        return day
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    return day.replace(month=day.month - (day.month - 1) % 3 if unit == "quarter" else 1, day=1)


def _shifted(start: date, unit: str, by: int) -> date:
    """Return the start of the period that is `by` periods later."""
    if unit in ("day", "week"):
        return start + timedelta(days=by * (7 if unit == "week" else 1))
    months = by * {"month": 1, "quarter": 3, "year": 12}[unit]
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return date(year, month + 1, 1)


def _before(today: date, unit: str, count: int) -> Period:
    start = _start(today, unit)
    return _shifted(start, unit, -count), start - timedelta(days=1)


# -- ages ------------------------------------------------------------------------------------------------------

_YEARS = r"(?:\s+years?)?(?:\s+(?:old|of\s+age))?"
_AGES = (
    (re.compile(r"\b(?:aged\s+)?between\s+(\d{1,3})\s+and\s+(\d{1,3})\s+years?(?:\s+old|\s+of\s+age)?\b|"
                r"\baged\s+between\s+(\d{1,3})\s+and\s+(\d{1,3})\b", re.IGNORECASE), "between"),
    (re.compile(rf"\bolder\s+than\s+(\d{{1,3}}){_YEARS}\b", re.IGNORECASE), "older"),
    (re.compile(rf"\byounger\s+than\s+(\d{{1,3}}){_YEARS}\b", re.IGNORECASE), "younger"),
    (re.compile(r"\b(?:over|above|more\s+than)\s+(\d{1,3})\s+years?\s+(?:old|of\s+age)\b", re.IGNORECASE), "older"),
    (re.compile(r"\b(?:under|below|less\s+than)\s+(\d{1,3})\s+years?\s+(?:old|of\s+age)\b", re.IGNORECASE), "younger"),
    (re.compile(r"\bat\s+least\s+(\d{1,3})\s+years?\s+(?:old|of\s+age)\b|"
                rf"\b(?:aged\s+)?(\d{{1,3}}){_YEARS}\s+(?:or|and)\s+(?:older|over|above)\b", re.IGNORECASE), "least"),
    (re.compile(r"\bat\s+most\s+(\d{1,3})\s+years?\s+(?:old|of\s+age)\b|"
                rf"\b(?:aged\s+)?(\d{{1,3}}){_YEARS}\s+(?:or|and)\s+(?:younger|under|below)\b", re.IGNORECASE), "most"),
    (re.compile(r"\b(?:aged\s+(\d{1,3})|(\d{1,3})\s+years?\s+old)\b(?!\s+(?:or|and)\b)", re.IGNORECASE), "exactly"),
)  # fmt: skip


def in_birth_dates(text: str, today: date, column: str) -> str:
    """Return the text with birth dates for ages in whole years, as of `today`."""

    def born(found: re.Match[str], kind: str) -> str:
        ages = [int(group) for group in found.groups() if group is not None]
        # A person of age N was born after the day N + 1 years ago, and not after the day N years ago.
        after, until = _years_before(today, ages[-1] + 1), _years_before(today, ages[0])
        if kind == "older":
            return f"with {column} until {_years_before(today, ages[0] + 1).isoformat()}"
        if kind == "younger":
            return f"with {column} after {_years_before(today, ages[0]).isoformat()}"
        if kind == "least":
            return f"with {column} until {until.isoformat()}"
        if kind == "most":
            return f"with {column} after {after.isoformat()}"
        return f"with {column} between {(after + timedelta(days=1)).isoformat()} and {until.isoformat()}"

    for pattern, kind in _AGES:
        text = pattern.sub(lambda found, kind=kind: born(found, kind), text)  # type: ignore[misc]
    return text


def _years_before(today: date, years: int) -> date:
    year = max(today.year - years, 1)
    return date(year, today.month, min(today.day, monthrange(year, today.month)[1]))
