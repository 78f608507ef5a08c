"""Questions with several readings, of which the best query is only one. They are never answered; the user is asked
which reading is meant.

- "Which flats cost less than 600?" is not about the costs of repairs that the question does not name.
- "Which trainers are not boxers?": those without a specialty may count or not.
- "Who has a birthday today?" is about any year.
- "Which client has the highest budget?" may mean one project or all of them.
- "Who paid the most?" and "the biggest order" may mean a sum or a number of rows.
- "More than 5 tons" is not a number of kilograms.
- "How many people?" means a table of people.
- The date of a driver's shipments is the date of one of many, and so is a flat with the most rooms, if many have five.
- "The biggest order" is not the one with the highest key, and "owner 12" is not one with a cat of 12 kg.
- "Which couriers never delivered anything?": those with a parcel that is not delivered, or those without one that is.
- "How many panels does the project have?" may be the number in a column.
- A period without a name may belong to several dates (`moments.py`).
- "Is the studio open?" asks for yes or no.
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding.acts import Filter, RankByCount, SumValues
from clew_nl2sql.planner.judging.moments import has_several_moments
from clew_nl2sql.planner.judging.unread import tables_in_use
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion, head
from clew_nl2sql.planner.linking.schema_index import MANY, SchemaIndex
from clew_nl2sql.planner.linking.schema_linking import Mention
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.ranking.features import CandidateFeatures
from clew_nl2sql.planner.words.inflection import lemma, parts, stem
from clew_nl2sql.planner.words.lexicon import DEGREES, IDENTIFIERS, word_set

_BE = word_set("is are was were be been being have has had do does did not")
_YES_NO = word_set("is are was were does do did has have had can will")
_BIRTHS = word_set("birth born dob birthdate birthday")
_NUMBERS = word_set("number count quantity")
_PEOPLE = word_set("birth birthdate birthday gender sex surname first last")
_MEASURES = (
    "mg g gram kg kilogram ton tonne lb pound",
    "mm cm m meter metre km kilometer kilometre mile foot feet inch",
    "sec second min minute hour day week month year",
    "ml l liter litre",
)
_SAME = {
    "gram": "g", "kilogram": "kg", "tonne": "ton", "pound": "lb", "meter": "m", "metre": "m", "kilometer": "km",
    "kilometre": "km", "feet": "foot", "second": "sec", "minute": "min", "liter": "l", "litre": "l",
    "mins": "min", "hrs": "hour", "hr": "hour", "secs": "sec", "lbs": "lb", "kgs": "kg", "kms": "km",
}  # fmt: skip
_UNITS = {_SAME.get(unit, unit): family for family, units in enumerate(_MEASURES) for unit in units.split()}


def is_ambiguous(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the best candidate is one of several readings, and nothing says that it is meant."""
    return (
        _measures_strange_table(parsed, best)
        or _leaves_out_missing(parsed, best.query)
        or _asks_for_birthday(parsed, best.query)
        or _compares_kinds(parsed, best.query)
        or _counts_for_most(parsed, best)
        or _compares_units(parsed, best)
        or _divides_by_unit(parsed)
        or _counts_no_people(parsed, best.query)
        or _shows_any_row(best.query, parsed.schema)
        or _ranks_keys(parsed, best.query)
        or _ranks_ties(parsed, best.query)
        or _ranks_one_of_many(parsed, best)
        or _compares_keys(parsed, best.query)
        or _numbers_something_else(parsed, best)
        or _adds_up_something_else(parsed, best)
        or _denies_one_of_many(parsed, best.query)
        or _counts_counted(parsed, best.query)
        or _excludes_by_one_key(parsed, best.query)
        or has_several_moments(parsed, best.assignment)
        or parsed.word(0) in _YES_NO
    )


def _measures_strange_table(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether the verb of "which flats cost" or "bookings were cancelled" is a column of a table that
    the question does not name.
    """
    columns = parsed.schema.columns
    return any(
        _says_verb(parsed, number, columns[option.act.column].table)
        for _, option in best.assignment.choices
        if isinstance(option.act, Filter) and columns[option.act.column].table not in parsed.named_tables
        for number in option.mentions
    )


def _says_verb(parsed: ParsedQuestion, number: int, table: int) -> bool:
    """Return whether a mention right after a named table is a verb, and not a word of its own table."""
    verb, before = parsed.mentions[number], parsed.mentions[number - 1]
    if not number or before.best().column is not None:
        return False
    stems = {stem(word) for word in parsed.schema.tables[table].words}
    between = parsed.low[before.end : verb.start]
    return all(word in _BE for word in between) and stem(parsed.low[verb.start]) not in stems


def _leaves_out_missing(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "not boxing" leaves out the rows without a value."""
    columns = parsed.schema.columns
    return any(
        c.op in ("!=", "not in")
        and not isinstance(c.value, Query)
        and c.item.column is not None
        and columns[c.item.column].nulls
        for c in query.where
    )


def _asks_for_birthday(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a birthday is compared with a date of one year."""
    if not {"birthday", "birthdays", "anniversary"} & set(parsed.low):
        return False
    columns = parsed.schema.columns
    return any(
        c.item.column is not None
        and columns[c.item.column].kind == "date"
        and not _BIRTHS.isdisjoint(columns[c.item.column].words)
        for c in query.where
    )


def _compares_kinds(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether one row decides for its kind: "Which trade is the most expensive?" by a single repair."""
    asked, shown = head(parsed), query.select[0].column
    if asked is None or shown is None or len(query.select) != 1 or not _ranks_rows(query):
        return False
    column = parsed.schema.columns[shown]
    if query.order[0][0].agg or not any(t.column == shown for t in asked.targets):
        return False
    if column.identifies or column.unique or shown == parsed.schema.tables[column.table].display:
        return False
    return parsed.schema.repeats(column, 2) or parsed.word(asked.end) in ("is", "are", "was", "were")


def _ranks_rows(query: Query) -> bool:
    """Return whether the first of single rows is the answer."""
    return query.limit is not None and not query.group and bool(query.order)


def _counts_for_most(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether rows are counted for "who paid the most" or "the biggest order", which may be a sum."""
    for decision, option, _ in best.assignment.acts("super", RankByCount):
        degree = parsed.cues[decision.number].degree
        if degree in DEGREES and not any(use.startswith("c") for use in option.uses):
            return degree != "popular"
        bare = parsed.word(decision.start - 1) == "the" and _ends_there(parsed, decision.end)
        if bare and any(_is_measured(parsed, t) for t in tables_in_use(best.query, parsed.schema)):
            return True
    return False


def _ends_there(parsed: ParsedQuestion, at: int) -> bool:
    """Return whether nothing is named at a position: the end, a date, or a preposition of time."""
    if at >= len(parsed.tokens) or parsed.tokens[at].kind in ("punct", "date"):
        return True
    return parsed.low[at] in ("in", "on", "during", "between")


def _is_measured(parsed: ParsedQuestion, table: int) -> bool:
    columns = [parsed.schema.columns[c] for c in parsed.schema.tables[table].columns]
    return any(c.kind == "number" and not (c.is_key or c.is_ref) for c in columns)


def _unit(word: str) -> str:
    single = lemma(word)
    unit = _SAME.get(word, _SAME.get(single, single))
    return unit if unit in _UNITS else ""


def _compares_units(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether a number has another unit than its column: tons, and `weight_kg`."""
    for decision, option, act in best.assignment.acts("amount", Filter):
        said, column = _unit(parsed.word(decision.end)), parsed.schema.columns[act.column]
        own = list(filter(None, map(_unit, parts(column.name))))
        if said and own and column.kind == "number" and said not in own:
            return True
        is_unit = any(parsed.mentions[number].start == decision.end for number in option.mentions)
        if said and is_unit and _unit(column.words[-1]) != said:  # "2 hours" is not about an hourly rate
            return True
    return False


def _divides_by_unit(parsed: ParsedQuestion) -> bool:
    """Return whether the question asks for "the cost per kg", and a column holds the weight in kg."""
    for at, word in enumerate(parsed.low):
        said = _unit(parsed.word(at + 1)) if word == "per" else ""
        for column in parsed.schema.columns if said else ():
            if column.kind == "number" and _unit(parts(column.name)[-1]) == said:
                return True
    return False


def _counts_no_people(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "how many people" counts rows that are not people, while another table has people."""
    if any(item.agg == "sum" for item in query.select):
        return False
    if parsed.low[:2] != ["how", "many"] or parsed.word(2) not in ("people", "persons", "individuals"):
        return False
    tables, columns = parsed.schema.tables, parsed.schema.columns
    people = {t.id for t in tables if any(not _PEOPLE.isdisjoint(columns[c].words) for c in t.columns)}
    return bool(people) and people.isdisjoint(tables_in_use(query, parsed.schema))


def _shows_any_row(query: Query, schema: SchemaIndex) -> bool:
    """Return whether a column is shown that differs within a group, or the groups are those of a measure."""
    columns = schema.columns
    if any(_is_fraction(value) for c in query.group for value in columns[c].source.values):
        return True
    shown = [columns[c] for c in query.plain if c not in query.group]
    if not query.group or not shown:
        return False
    known = _determined(schema, query.group)
    return any(column.table not in known for column in shown)


def _is_fraction(value: object) -> bool:
    return isinstance(value, float) and value % 1 != 0


def _determined(schema: SchemaIndex, group: tuple[int, ...]) -> set[int]:
    """Return the tables that have one row for each group: those that it names, and those that they refer to."""
    columns = schema.columns
    grouped = [columns[c] for c in group]
    known = {c.table for c in grouped if c.identifies or c.unique or schema.tables[c.table].display == c.id}
    known |= {columns[b].table for a, b in schema.edges if a in group}
    while more := {columns[b].table for a, b in schema.edges if columns[a].table in known} - known:
        known |= more
    return known


def _ranks_keys(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "the biggest order" is the one with the highest key."""
    items = [i for i in query.select if i.agg in ("max", "min")]
    items += [i for i, _ in query.order if query.limit is not None and not i.agg]
    keys = [parsed.schema.columns[i.column] for i in items if i.column is not None]
    return any(c.is_key or c.is_ref for c in keys) and not parsed.asks_for_ids


def _ranks_ties(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether one row is the answer, and many rows surely have the same value: a rating from 1 to 5."""
    if not _ranks_rows(query) or query.order[0][0].column is None:
        return False
    column = parsed.schema.columns[query.order[0][0].column]
    many = (parsed.schema.tables[column.table].rows or 0) >= MANY and parsed.schema.repeats(column, 10)
    return many and not all(item.column == column.id for item in query.select)


def _ranks_one_of_many(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether "the owner with the highest unpaid invoices" is the one with the highest single invoice."""
    query = best.query
    ranked, shown = query.order[0][0].column if query.order else None, query.select[0].column
    if ranked is None or shown is None or not _ranks_rows(query):
        return False
    table = parsed.schema.columns[ranked].table
    after = [c.end for c in parsed.cues if c.kind == "super"]
    said = [m for m in parsed.mentions if any(0 <= m.start - end <= 2 for end in after)]
    many = any(_is_plural(parsed, m) and any(t.table == table for t in m.targets) for m in said)
    return many and parsed.schema.columns[shown].table != table


def _is_plural(parsed: ParsedQuestion, mention: Mention) -> bool:
    last = parsed.tokens[mention.end - 1]
    return last.low != last.lemma


def _compares_keys(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "riders under 25" are those with a key below 25."""
    columns = parsed.schema.columns
    compared = [
        columns[c.item.column]
        for c in query.where
        if c.item.column is not None and not c.item.agg and c.op in (">", "<", ">=", "<=", "between")
    ]
    named = {m.best().column for m in parsed.mentions}
    return not parsed.asks_for_ids and any((c.is_key or c.is_ref) and c.id not in named for c in compared)


def _numbers_something_else(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether "owner 12" is read as something that is 12, and does not number the owners."""
    for decision, _, act in best.assignment.acts("amount", Filter):
        named = [m for m in parsed.mentions if m.end == decision.start and not _is_plural(parsed, m)]
        tables = [m.best().table for m in named if m.best().column is None and m.best().coverage == 1]
        if act.op == "=" and not all(_numbers(parsed, act.column, table) for table in tables):
            return True
    return False


def _numbers(parsed: ParsedQuestion, column: int, table: int) -> bool:
    """Return whether a column numbers the rows of a table, or refers to them."""
    own = parsed.schema.columns[column]
    numbers = own.is_id or own.unique or own.identifies or not IDENTIFIERS.isdisjoint(own.words)
    return parsed.schema.refers(column, table) or (own.table == table and numbers)


def _adds_up_something_else(parsed: ParsedQuestion, best: CandidateFeatures) -> bool:
    """Return whether "how many hours" adds up a rate per hour."""
    for _, option in best.assignment.choices:
        if not isinstance(option.act, SumValues):
            continue
        for use in option.uses:
            mention = parsed.mentions[int(use[1:])] if use.startswith("m") else None
            targets = [t for t in mention.targets if t.column == option.act.column] if mention else []
            weak = any(t.coverage < 1 or t.way not in ("exact", "synonym") for t in targets)
            noun = parsed.tokens[mention.end - 1].lemma if mention else ""
            if weak and parsed.schema.columns[option.act.column].words[-1] != noun:
                return True
    return False


def _denies_one_of_many(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "couriers who never delivered" are those with a parcel that lacks its date."""
    if {"never", "not"}.isdisjoint(parsed.low):
        return False
    columns = parsed.schema.columns
    shown = {columns[i.column].table for i in query.select if i.column is not None}
    lacking = {
        columns[c.item.column].table for c in query.where if c.op == "is" and c.item.column is not None
    }
    return any(
        columns[a].table in lacking - shown and columns[b].table in shown for a, b in parsed.schema.edges
    )


def _counts_counted(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether rows are counted for "how many panels", and a column has the number of panels."""
    if parsed.low[:2] != ["how", "many"] or query.select[0].agg != "count":
        return False
    asked = {stem(parsed.word(2)), stem(parsed.word(3))}
    return any(
        column.kind == "number"
        and not _NUMBERS.isdisjoint(column.words)
        and stem(column.words[-1]) in asked
        and not (column.is_key or column.is_ref)
        for table in tables_in_use(query, parsed.schema)
        for column in (parsed.schema.columns[c] for c in parsed.schema.tables[table].columns)
    )


def _excludes_by_one_key(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "stations without rides" are those where no ride starts, although rides may end there."""
    columns = parsed.schema.columns
    for condition in query.where:
        if condition.op != "not in" or not isinstance(condition.value, Query):
            continue
        inner = condition.value.select[0].column
        keys = {a for a, b in parsed.schema.edges if b == condition.item.column}
        others = {
            k for k in keys if inner is not None and k != inner and columns[k].table == columns[inner].table
        }
        shared = {part for key in others for part in parts(columns[key].name)}
        if (
            others
            and inner is not None
            and set(parts(columns[inner].name)).isdisjoint(set(parsed.low) - shared)
        ):
            return True
    return False
