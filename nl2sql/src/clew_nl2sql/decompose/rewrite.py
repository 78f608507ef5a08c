"""Rewrite a part of a question so that any planner understands it.

Three things change: relative times ("last year") and years, if the source stores dates; spending, if the
source has amounts; and the entities that parts are joined on, which are asked for by name, because ids of one
source mean nothing in another. All other words stay unchanged.
"""

from __future__ import annotations

import re
from datetime import date

from clew_nl2sql.decompose.clauses import AUXILIARY, COUNT_WORDS, LEAD, POSSESSIVE, PRONOUN, TAIL
from clew_nl2sql.decompose.dates import in_birth_dates, in_days, open_ended
from clew_nl2sql.decompose.normalization import name_words, stem, words
from clew_nl2sql.planner.catalog import Catalog, Column, Table
from clew_nl2sql.planner.linking.schema_index import prepare

NAMES = ("name", "title", "label")
MONEY = ("amount", "total", "price", "cost", "payment", "value", "revenue")

_BIRTHS = {"birth", "born", "dob", "birthdate", "birthday"}
_TIMES = {stem(word) for word in ("time", "at", "on", "day", "timestamp", "date")}
_YEAR = re.compile(
    r"\b(?:in|during|of) (?:the year )?((?:19|20)\d\d)\b(?![-/.]\d)"
    r"(\s+(?:(?:or|and) (?:later|after|newer|onwards?|earlier|before|older)|onwards?)\b)?",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"\b(\w+)(?: who| that)? (?:are|is|were|was) (?:over|above|under|below) (\d{1,3})"
    r"(?=\s*(?:$|[?.!,]|and\b|or\b|in\b))",
    re.IGNORECASE,
)
_WITH_OBJECT = re.compile(r"\b(\w+ed) (?:the|a|an|any|most|fewest|more|fewer|at least|no)\b", re.IGNORECASE)
_SPENT = re.compile(
    r"\b(?:(?:that|who|which) )?(?:have |has )?spent (?:the )?(most|least)(?: money)?\b", re.IGNORECASE
)
_WHICH = re.compile(
    rf"^\s*(?:which|what)\s+((?:{COUNT_WORDS})\s+)?(\w+)\s+(?:that |who |which )?(?:have|has|had|with)\s+",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^\s*(?:what(?:'s| is| are| was| were)|how much (?:is|are|was|were)|show(?: me)?|give(?: me)?|find)\s+(?:the\s+)?",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"^\s*how many\s+", re.IGNORECASE)
_LIST = re.compile(r"^\s*list\s+(?:the\s+)?(.+)$", re.IGNORECASE)
_OF_WHICH = re.compile(r"^(?:of the\s+)?(\w+)\s+(?:are|is|were|was)\s+(\w+)$", re.IGNORECASE)
# Verbs that only say that something exists.
_THERE = re.compile(
    r"\s+(?:(?:are|were|is|was) there|(?:were|was|are|is|have been|has been) "
    r"(?:opened|made|placed|created|raised|filed|issued|received|submitted|recorded))\b",
    re.IGNORECASE,
)


def dated(text: str, catalog: Catalog, today: date) -> str:
    """Replace times and ages in words by ranges of days, if the source stores dates."""
    dates = [(t, c) for t in catalog.tables for c in t.columns if c.kind == "date"]
    if not dates:
        return text
    said = {stem(word) for word in words(text)}
    births = [(t, c) for t, c in dates if _is_birth(c)]
    if births and not _keeps_ages(catalog):
        years = _in_years(text, [table.own_name for table, _ in births])
        text = in_birth_dates(years, today, " ".join(name_words(births[0][1].name)))
    named = _date_of_verb(text, dates, said) or _unnamed_date(dates, said, catalog)

    def year(found: re.Match[str]) -> str:
        first, last = date(int(found[1]), 1, 1), date(int(found[1]), 12, 31)
        days = f"{named}between {first.isoformat()} and {last.isoformat()}"
        if found[2]:
            days = f"{named}{open_ended(found[2], first, last)}"
        of = found[0].lower().startswith("of")  # "the cars of 2020" are of that year
        return found[0] if _keeps_years(catalog, found[1], set() if of else said) else days

    return _YEAR.sub(year, in_days(text, today, named))


def _keeps_ages(catalog: Catalog) -> bool:
    return any("age" in name_words(column.name) for table in catalog.tables for column in table.columns)


def _is_birth(column: Column) -> bool:
    return not _BIRTHS.isdisjoint(name_words(column.name))


def _stems(name: str) -> set[str]:
    return {stem(word) for word in name_words(name)}


def _in_years(text: str, people: list[str]) -> str:
    """Complete "members are over 60", if members have birth dates: over 60 years old."""

    def said(match: re.Match[str]) -> str:
        named = any(stem(match[1]) == stem(name_words(table)[-1]) for table in people)
        return f"{match[0]} years old" if named and int(match[2]) <= 120 else match[0]

    return _OVER.sub(said, text)


def _date_of_verb(text: str, dates: list[tuple[Table, Column]], said: set[str]) -> str:
    """Return the words that name the date of a verb with an object: "opened the most tickets last year"."""
    verbs = {found[1].lower() for found in _WITH_OBJECT.finditer(text)}
    named = [c for table, c in dates if verbs & set(name_words(c.name)) and _stems(table.own_name) & said]
    return f"with {' '.join(name_words(named[0].name))} " if len(named) == 1 else ""


def _unnamed_date(dates: list[tuple[Table, Column]], said: set[str], catalog: Catalog) -> str:
    """Return the words that name the date column, if only one can be meant and the question does not name it."""
    if any(_telling(table, column) & said for table, column in dates):
        return ""
    about = _acted(said, catalog)
    mentioned = [column for table, column in dates if table.name in about]
    meant = [column for column in mentioned if not _is_birth(column)] or mentioned
    meant = meant or [column for _, column in dates]
    return f"with {' '.join(name_words(meant[0].name))} " if len(meant) == 1 else ""


def _is_about(table: Table, said: set[str]) -> bool:
    """Return whether a question names a table, or a figure of it: "the most hours"."""
    figures = [_stems(c.name) for c in table.columns if c.kind == "number" and not c.primary_key]
    return bool(_stems(table.own_name) & said) or any(name <= said for name in figures)


def _acted(said: set[str], catalog: Catalog) -> set[str]:
    """Return the tables that a period may belong to: those that a question is about, without the things that they
    refer to. "Volunteers who worked at a shop" are about the only table that refers to both.
    """
    schema = prepare(catalog)
    about = {t.name for t in catalog.tables if _is_about(t, said)}
    pairs = [(schema.columns[a].table, schema.columns[b].table) for a, b in schema.edges]
    refers = {(schema.tables[a].name, schema.tables[b].name) for a, b in pairs if a != b}
    both = [t.name for t in catalog.tables if len({b for a, b in refers if a == t.name} & about) > 1]
    apart = len(about) == 2 and not any({a, b} == about for a, b in refers)
    acted = about | set(both if apart and len(both) == 1 else ())
    dated = {t.name for t in catalog.tables if any(c.kind == "date" for c in t.columns)}
    things = {end for name in acted & dated for end in _referred(name, refers)}
    return acted - things


def _referred(name: str, refers: set[tuple[str, str]]) -> set[str]:
    """Return the tables that a table refers to, also through others, without itself."""
    found: set[str] = set()
    new = {name}
    while new:
        new = {b for a, b in refers if a in new} - found
        found |= new
    return found - {name}


def _telling(table: Table, column: Column) -> set[str]:
    own = _stems(column.name) - _stems(table.own_name)
    return own - _TIMES or own


def _keeps_years(catalog: Catalog, year: str, said: set[str]) -> bool:
    """Return whether a column holds years as numbers, so that the question may refer to it."""
    about = {
        t.name for t in catalog.tables if _is_about(t, said) and any(c.kind == "date" for c in t.columns)
    }
    return any(
        ("year" in name_words(c.name) and not (about - {table.name} and _is_another_year(table, c, said)))
        or (_has(c.values, year) and _holds_years(c) and "year" not in name_words(c.name))
        for table in catalog.tables
        for c in table.columns
        if c.kind != "date"
    )


def _is_another_year(table: Table, column: Column, said: set[str]) -> bool:
    """Return whether a question does not name what a year is of: the model of `model_year`."""
    of = _stems(column.name) - _stems(table.own_name) - {"year"}
    return bool(of) and of.isdisjoint(said)


def _holds_years(column: Column) -> bool:
    """Return whether a value may be a year; a key or an amount is 2024 by chance."""
    return column.kind == "text" or all(1900 <= float(value) <= 2100 for value in column.values)


def _has(values: tuple[object, ...], year: str) -> bool:
    return any(str(value) == year for value in values)


def spent(text: str, catalog: Catalog, entity: str) -> str:
    """Rewrite "who spent most" with the column that holds the amounts."""
    table = _table_of(catalog, entity)
    keys = {key.table for key in catalog.foreign_keys if table and key.target_table == table.name}
    found = [amount for other in catalog.tables if other.name in keys for amount in _amounts(other)]
    if not found:
        return text
    _, column_name, table_name = min(found)

    def said(match: re.Match[str]) -> str:
        order = "highest" if match[1].lower() == "most" else "lowest"
        return f"have the {order} total {column_name} of {table_name}".replace("_", " ")

    return _SPENT.sub(said, text)


def _amounts(table: Table) -> list[tuple[int, str, str]]:
    return [
        (MONEY.index(word), column.name, table.name)
        for column in table.columns
        for word in name_words(column.name)
        if column.kind == "number" and word in MONEY
    ]


def by_name(text: str, catalog: Catalog, entity: str) -> str:
    """Turn a question for entities into a question for their names."""
    if label(catalog, entity) == entity:
        return text

    def said(match: re.Match[str]) -> str:
        things = match[2] if stem(match[2]) == stem(entity) else ""
        return f"What are the names of the {match[1] or ''}{things} with " if things else match[0]

    return _WHICH.sub(said, text)


def for_each(text: str, catalog: Catalog, entity: str) -> str:
    """Turn a clause into a complete question for each of the entities that it refers to."""
    alone = POSSESSIVE.sub("the", PRONOUN.sub(" ", AUXILIARY.sub(" ", text)))
    alone = TAIL.sub("", LEAD.sub("", alone))
    alone = re.sub(r"\s+", " ", alone).strip(" ,.?!")
    each = f"for each {label(catalog, entity)}"
    if _HOW_MANY.match(alone):
        things = _OF_WHICH.sub(r"\2 \1", _THERE.sub("", _HOW_MANY.sub("", alone)))
        return f"How many {things} are there {each}" if not _has_verb(things) else f"How many {things} {each}"
    asked = _ASKS.sub("", alone)
    if listed := _LIST.match(alone):
        return f"List the {label(catalog, entity)} and {listed[1]}"
    return f"Show the {re.sub(r'^the ', '', asked, flags=re.IGNORECASE)} {each}"


def _has_verb(text: str) -> bool:
    return bool(re.search(r"\b(?:is|are|was|were|have|has|had)\b", text, re.IGNORECASE))


def label(catalog: Catalog, entity: str) -> str:
    """Return the label of an entity in a source: its name, if a table of such entities has names."""
    table = _table_of(catalog, entity)
    known = {word for column in table.columns for word in name_words(column.name)} if table else set()
    return next((f"{entity} {word}" for word in NAMES if word in known), entity)


def _table_of(catalog: Catalog, entity: str) -> Table | None:
    wanted = stem(entity)
    return next(
        (table for table in catalog.tables if [stem(w) for w in name_words(table.own_name)] == [wanted]), None
    )
