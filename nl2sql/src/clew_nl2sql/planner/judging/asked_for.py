"""Queries that show or count something other than what the question asks for. They are not candidates.

- "Which trainers never gave a class?" asks for trainers by name, not by key.
- "Which members have the last name Jones?" asks for the first and the last name.
- "Drivers with their license number" asks for the drivers too.
- "The average fee of plans with a sauna" has no groups with and without.
- "How many male members are on the Basic plan?" counts members, not plans.
- "How many people work here?" does not count days.
- "Which drugs were prescribed?" lists each drug once.
- "Customers in Paris" are customers, and not the dates of `customer_since`.
"""

from __future__ import annotations

from clew_nl2sql.planner.building.render import needed_tables
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion, head
from clew_nl2sql.planner.linking.predicates import flag_words
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.linking.schema_linking import Mention
from clew_nl2sql.planner.query import Query, SelectItem
from clew_nl2sql.planner.words.lexicon import word_set

_GROUPS = word_set(
    "each every per by group grouped whether if different distinct respectively flag indicator"
)
_DAYS = word_set("day days date dates time times different distinct unique")
_DATED = word_set("date time day year timestamp datetime")
_FIRST = word_set("first given forename forenames")
_LAST = word_set("last family surname surnames")


def shows_something_else(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a query shows or counts what the question does not ask for."""
    return (
        _shows_keys(parsed, query)
        or _shows_half_names(parsed, query)
        or _hides_entity(parsed, query)
        or _splits_by_flag(parsed, query)
        or _counts_another_table(parsed, query)
        or _counts_days(parsed, query)
        or _repeats_kinds(parsed, query)
        or _dates_entities(parsed, query)
    )


def _entity(parsed: ParsedQuestion) -> int | None:
    """Return the table that the question asks for, if it names one in full."""
    asked = head(parsed)
    named = asked is not None and asked.best().column is None and asked.best().coverage == 1
    return asked.best().table if named and asked is not None else None


def _shown(parsed: ParsedQuestion, query: Query) -> list[SchemaColumn]:
    """Return the columns that a query shows; none if it computes something."""
    if any(item.agg or item.column is None for item in query.select):
        return []
    return [parsed.schema.columns[item.column] for item in query.select if item.column is not None]


def _names(parsed: ParsedQuestion, table: int) -> list[SchemaColumn]:
    """Return the columns with the name or title of a row."""
    columns = [parsed.schema.columns[c] for c in parsed.schema.tables[table].columns]
    return [
        c for c in columns if c.core[-1:] in (("name",), ("title",)) and c.kind == "text" and not c.is_ref
    ]


def _shows_keys(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether entities that have names are shown only by keys, dates and numbers."""
    entity, shown = _entity(parsed), _shown(parsed, query)
    if entity is None or not shown or parsed.asks_for_ids or not _names(parsed, entity):
        return False
    columns = parsed.schema.columns
    refers = {a for a, b in parsed.schema.edges if columns[b].table == entity}
    own = [c for c in shown if c.table == entity or c.id in refers]
    telling = [c for c in own if not (c.is_key or c.is_ref or c.kind in ("number", "date", "boolean"))]
    return not telling and any(c.is_key or c.is_ref for c in own)


def _shows_half_names(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether people are shown by one of their two names, and the question does not ask for that one."""
    entity = _entity(parsed)
    shown = {c.core for c in _shown(parsed, query) if c.table == entity}
    if entity is None or shown not in ({("first", "name")}, {("last", "name")}):
        return False
    cores = {c.core for c in _names(parsed, entity)}
    said = _FIRST if ("first", "name") in shown else _LAST
    return {("first", "name"), ("last", "name")} <= cores and said.isdisjoint(parsed.low)


def _hides_entity(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "drivers with their phone" shows only phones, or "members and their plans" only members."""
    entity, shown = _entity(parsed), _shown(parsed, query)
    if entity is None or not shown:
        return False
    words = zip(parsed.low, parsed.low[1:])
    pairs = [at for at, (word, after) in enumerate(words, 2) if after == "their" and word in ("with", "and")]
    table = parsed.schema.tables[entity]
    known: list[int | None] = [c.id for c in _names(parsed, entity)]
    known = known or [table.display, table.key]
    others = {m.best().table for m in parsed.mentions if m.start in pairs and m.best().column is None}
    hides = set(known).isdisjoint(c.id for c in shown) or not others <= {c.table for c in shown}
    return bool(pairs) and hides


def _splits_by_flag(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a flag is shown or makes groups, and no word asks for that; "rate per word" is a name."""
    named = {at for m in parsed.mentions if m.best().is_exact for at in range(m.start, m.end)}
    asked = {word for at, word in enumerate(parsed.low) if at not in named}
    figure = any(c.kind == "agg" and c.start < 2 for c in parsed.cues)
    if not _GROUPS.isdisjoint(asked) or not (figure or parsed.word(0) in ("which", "who", "how", "what")):
        return False
    if not query.group and (figure or parsed.word(0) == "what" or not query.plain):
        return False
    columns = [parsed.schema.columns[c] for c in (*query.plain, *query.group)]
    return any(flag_words(column, parsed.schema) for column in columns)


def _counts_another_table(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "how many members" counts rows of another table."""
    if parsed.low[:2] != ["how", "many"] or len(query.select) != 1 or query.group:
        return False
    item, counted = query.select[0], _counted(parsed)
    if item == SelectItem(None, "count"):
        return counted is not None and counted not in needed_tables(query, parsed.schema)
    if item.agg != "count" or item.column is None:
        return False
    column = parsed.schema.columns[item.column]
    if counted is None or not (column.is_key or column.is_ref):
        return False
    targets = {parsed.schema.columns[b].table for a, b in parsed.schema.edges if a == column.id}
    return column.table != counted and counted not in targets


def _counted(parsed: ParsedQuestion) -> int | None:
    """Return the table after "how many"; the last of "plan members"."""
    found: Mention | None = None
    for mention in parsed.mentions:
        best = mention.best()
        is_table = best.column is None and best.coverage == 1 and best.way == "exact"
        if not is_table or (found is not None and mention.start != found.end):
            break
        found = mention
    return found.best().table if found is not None else None


def _counts_days(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether different days are counted, and the question does not ask for days."""
    counted = [
        parsed.schema.columns[i.column] for i in query.select if i.agg == "count" and i.column is not None
    ]
    return any(c.kind == "date" for c in counted) and _DAYS.isdisjoint(parsed.low)


def _repeats_kinds(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "which drugs" lists one drug many times."""
    asked, shown = head(parsed), _shown(parsed, query)
    if asked is None or len(shown) != 1 or parsed.word(0) != "which" or asked.best().column != shown[0].id:
        return False
    lists = not (query.distinct or query.group or query.compound) and query.limit is None
    return lists and parsed.schema.repeats(shown[0], 2)


def _dates_entities(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether entities are answered with a date that is named after them, and says more than a date."""
    asked, shown = head(parsed), _shown(parsed, query)
    if asked is None or len(shown) != 1 or asked.best().column != shown[0].id or shown[0].kind != "date":
        return False
    noun = parsed.tokens[asked.end - 1]
    rest = set(shown[0].words) - {noun.lemma, noun.low}
    return noun.low != noun.lemma and asked.best().coverage < 1 and not rest <= _DATED


def merges_namesakes(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether two members with one name are shown as one, although no join repeats them."""
    entity, shown = _entity(parsed), _shown(parsed, query)
    if entity is None or not query.distinct or not _DAYS.isdisjoint(parsed.low):
        return False
    names = {c.core for c in shown}
    people = names == {("first", "name"), ("last", "name")} and all(c.table == entity for c in shown)
    return people and needed_tables(query, parsed.schema) == [entity]
