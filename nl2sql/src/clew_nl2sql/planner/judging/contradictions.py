"""Queries that contradict the words of their question. They are not candidates.

- "How many repairs cost more than 1000?" compares the costs, so it does not add them up, and it has no groups.
- "Which shipments weigh more than 50 kg?" asks for shipments, not for weights.
- "What is the highest salary?" asks for a salary, not for its owner.
- "Customers with their phone" asks for the phone, not for an order of customers.
- "The cheapest product in each category" is more than one product.
- "The most fuel" is a quantity, not a number of rows, and "the most bookings" are not the latest ones.
- "The highest donation" and "appointments in 2024" are about their own amounts and dates, not those of another table.
- "Hired in 2020" is about the day of hiring, and "each year" is not each day.
- "The town with most flats" has them in all its buildings, and "which tenants" have names.
- Two animals with one name are two animals.
- "Which owners have no animals?" denies once: the query does not exclude rows that lack something.
- "Who placed the most orders" does not ask for dates, and "the average rating" is not that of an hourly rate.
- "Employees who started in 2016" did so themselves, and not their visits.
"""

from __future__ import annotations

from clew_nl2sql.planner.building.render import needed_tables
from clew_nl2sql.planner.deciding.acts import (
    AggregateAct,
    ExcludeRows,
    Filter,
    GroupByColumn,
    RankByColumn,
    RankByCount,
    SelectColumn,
)
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.judging.asked_for import shows_something_else
from clew_nl2sql.planner.judging.figures import EACH, has_other_figures
from clew_nl2sql.planner.judging.misread import misreads_condition
from clew_nl2sql.planner.judging.moments import dates_an_entity, dates_other_moment
from clew_nl2sql.planner.judging.shapes import has_strange_shape
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion, head
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.linking.schema_linking import Mention
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.words.cues import Cue
from clew_nl2sql.planner.words.lexicon import UNITS, word_set

_GROUPS = EACH | word_set("by group grouped different distinct respective respectively")
_SORTS = word_set("""
    order ordered ordering sort sorted sorting arrange arranged rank ranked ranking alphabetical alphabetically
    alphabetic lexicographical lexicographically ascending descending increasing decreasing asc desc by from reverse
    chronological chronologically
""")
_SPANS = word_set("year month week quarter weekday hour years months")
_WHEN = word_set("in on at before after since between during from until or by the year")
_RANGES = (">", "<", ">=", "<=", "between")


def contradicts(parsed: ParsedQuestion, query: Query, assignment: Assignment) -> bool:
    """Return whether the words of a question exclude a query."""
    return (
        _counts_what_it_compares(parsed, assignment)
        or _groups_unasked(parsed, query)
        or _shows_no_entity(parsed, query)
        or _hides_measure(parsed, query)
        or _sorts_unasked(parsed, query)
        or _ranks_once(parsed, query)
        or _counts_quantity(parsed, assignment)
        or _ranks_dates_by_most(parsed, assignment)
        or _denies_twice(parsed, query)
        or _ranks_by_strange_table(parsed, query)
        or _dates_strange_table(parsed, query)
        or _dates_another_event(parsed, assignment)
        or _groups_by_days(parsed, query)
        or _loses_namesakes(parsed, query)
        or _splits_kinds(parsed, query)
        or _groups_by_another(parsed, query)
        or _shows_verb(parsed, assignment)
        or _prefers_weaker_name(parsed, assignment)
        or has_other_figures(parsed, query, assignment)
        or _dates_event_of_others(parsed, assignment)
        or dates_other_moment(parsed, assignment)
        or dates_an_entity(parsed, assignment, query)
        or shows_something_else(parsed, query)
        or has_strange_shape(parsed, query)
        or misreads_condition(parsed, assignment)
    )


def _counts_what_it_compares(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether one column is both counted or added up, and compared, by one mention or with its unit."""
    compared: set[tuple[str, int]] = set()
    counted: set[tuple[str, int]] = set()
    for decision, option in assignment.choices:
        uses = [(use, column) for use in option.uses for column in option.act.columns]
        if decision.kind == "amount":
            compared.update(uses)
            if parsed.word(decision.end) in UNITS:
                compared.update(("unit", column) for column in option.act.columns)
        elif decision.kind == "count":
            counted.update(uses)
            counted.update(("unit", column) for column in option.act.columns)
    return bool(compared & counted)


def _groups_unasked(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a count is grouped, and the question names no groups."""
    counts = any(item.agg for item in query.select)
    if not counts or not query.group or not _GROUPS.isdisjoint(parsed.low):
        return False
    ranges = {c.item.column for c in query.where if c.op in _RANGES}
    ranges_said = {at for a in parsed.amounts for at in range(a.cue_start, a.end)}  # "between 1 and 5"
    several = any(word == "and" and at not in ranges_said for at, word in enumerate(parsed.low))
    how_many = parsed.low[:2] == ["how", "many"] and len(parsed.cues) == 1 and not several
    figure = parsed.word(0) == "what" and parsed.word(1) in ("is", "was") and not several
    one_figure = figure and bool(parsed.cues) and parsed.cues[0].kind in ("agg", "count")
    return how_many or one_figure or not ranges.isdisjoint(query.group)


def _shows_no_entity(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "which shipments" is answered only with dates and measures of theirs.

    "Which employee salaries" are salaries; in "which driver delivered" the second word is a verb.
    """
    if len(query.plain) != len(query.select):
        return False
    asked, shown = head(parsed), [parsed.schema.columns[column] for column in query.plain]
    measures = all(_is_measure(column) for column in shown)
    if asked is None or asked.best().column is not None or asked.best().coverage < 1:
        return measures and _asks_for_value(parsed)
    ranges = {c.item.column for c in query.where if c.op in _RANGES}
    if ranges.issuperset(query.plain) or _shows_references(parsed, shown, asked):
        return True
    if parsed.word(0) != "which":
        return False
    said = any(m.start == asked.end and not parsed.low[m.start].endswith("ed") for m in parsed.mentions)
    return (measures and not said) or not any(_is_about(parsed, column, asked) for column in shown)


def _shows_references(parsed: ParsedQuestion, shown: list[SchemaColumn], asked: Mention) -> bool:
    """Return whether entities that have names are shown by references, and the question asks for no id or code."""
    display = parsed.schema.tables[asked.best().table].display
    has_name = display is not None and parsed.schema.columns[display].core[-1:] in (("name",), ("title",))
    return has_name and not parsed.asks_for_ids and all(column.is_ref for column in shown)


def _asks_for_value(parsed: ParsedQuestion) -> bool:
    """Return whether the question asks for entities by their kind: "which dogs are"."""
    return parsed.word(0) == "which" and any(
        v.start == 1 and parsed.word(v.end) in ("is", "are", "was", "were", "have", "had")
        for v in parsed.values
    )


def _is_about(parsed: ParsedQuestion, column: SchemaColumn, asked: Mention) -> bool:
    """Return whether a column is one of a table that a mention may name, or a reference to it."""
    columns = parsed.schema.columns
    tables = {t.table for t in asked.near(0.2) if t.column is None or not columns[t.column].is_ref}
    return column.table in tables or any(parsed.schema.refers(column.id, table) for table in tables)


def _is_measure(column: SchemaColumn) -> bool:
    return column.kind in ("number", "date", "boolean") and not (column.is_key or column.is_ref)


def _hides_measure(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "what is the highest salary" is answered without a salary."""
    if parsed.word(0) not in ("what", "whats") or parsed.word(2) != "the":
        return False
    ranked = [_superlative_of(parsed, cue) for cue in parsed.cues if cue.start == 3]
    asked = next(filter(None, ranked), None)
    if asked is None or any(target.column is None for target in asked.near(0.2)):
        return False
    return {item.column for item in query.select}.isdisjoint(target.column for target in asked.targets)


def _superlative_of(parsed: ParsedQuestion, cue: Cue) -> Mention | None:
    """Return the mention right after a superlative."""
    if cue.kind != "super":
        return None
    return next((m for m in parsed.mentions if m.start == cue.end), None)


def _sorts_unasked(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether all rows are sorted by a column, and no word asks for an order."""
    asks = _SORTS & set(parsed.low) - (set() if "to" in parsed.low else {"from"})  # "from first to last"
    return bool(query.order) and query.limit is None and not parsed.cues and not asks


def _ranks_once(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a single row answers a superlative for each of several things."""
    if query.limit != 1:
        return False
    named = {at for m in parsed.mentions for at in range(m.start, m.end)}
    cues = [c for c in parsed.cues if c.kind == "super"]
    return any(
        word in EACH and at not in named and any(c.end <= at for c in cues)
        for at, word in enumerate(parsed.low)
    )


def _ranks_dates_by_most(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether "the most bookings" are the latest ones, because a date has a similar name."""
    return any(
        decision.kind == "super"
        and isinstance(option.act, RankByColumn)
        and parsed.schema.columns[option.act.column].kind == "date"
        and parsed.word(decision.start) in ("most", "fewest", "least")
        and not parsed.cues[int(decision.key[1:])].degree
        for decision, option in assignment.choices
    )


def _counts_quantity(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether rows are counted for "the most fuel", one word of a longer name, or for "the most hours"."""
    return any(
        mention.start == decision.end and _is_quantity(parsed, mention, act.table)
        for decision, _, act in assignment.acts("super", RankByCount)
        for mention in parsed.mentions
    )


def _is_quantity(parsed: ParsedQuestion, mention: Mention, table: int | None) -> bool:
    last, best = parsed.tokens[mention.end - 1], mention.best()
    column = parsed.schema.columns[best.column] if best.column is not None else None
    if column is not None and best.way == "exact" and column.kind == "number" and not column.is_id:
        return all(t.column is not None for t in mention.targets)
    counted = [t.coverage for t in mention.targets if t.column is None and t.table == table]
    is_plural = last.low != last.lemma or last.low.endswith("s")
    return not is_plural and [*counted, best.coverage][0] < 1


def _denies_twice(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether a query excludes rows that lack a value, for a question with a single negation."""
    inner = [c.value for c in query.where if c.op == "not in" and isinstance(c.value, Query)]
    if query.compound is not None and query.compound[0] == "except":
        inner.append(query.compound[1])
    lacks = any(c.op == "is" for one in inner for c in one.where)
    return lacks and len(parsed.denials) < 2


def _ranks_by_strange_table(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "the highest donation" is one of a person with an expensive booking."""
    if query.limit is None or query.group or query.order[0][0].agg or query.order[0][0].column is None:
        return False
    table = parsed.schema.columns[query.order[0][0].column].table
    shown = {parsed.schema.columns[i.column].table for i in query.select if i.column is not None}
    return table not in shown and table not in _named_tables(parsed)


def _dates_strange_table(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "the most appointments in 2024" are those with an invoice of 2024."""
    columns = parsed.schema.columns
    dated = [columns[c.item.column] for c in query.where if c.item.column is not None and c.op != "is"]
    named = _named_tables(parsed)
    strange = any(column.kind == "date" and column.table not in named for column in dated)
    return strange and any(c.kind == "date" and c.table in named for c in columns)


def _dates_another_event(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether "hired in 2020" is about the date of another event."""
    columns = parsed.schema.columns
    amounts = [*assignment.acts("amount", Filter), *assignment.acts("amount", ExcludeRows)]
    for decision, _, act in amounts:
        start = min(decision.start, parsed.amounts[decision.number].cue_start)
        for mention in parsed.mentions if columns[act.column].kind == "date" else ():
            events = _events(parsed, mention) if _is_just_before(parsed, mention, start) else set()
            if events and act.column not in events:
                return True
    return False


def _is_just_before(parsed: ParsedQuestion, mention: Mention, start: int) -> bool:
    between = parsed.low[mention.end : start]
    return mention.end <= start and len(between) <= 3 and _WHEN.issuperset(between)


def _events(parsed: ParsedQuestion, mention: Mention) -> set[int]:
    near = [t.column for t in mention.near(0.1)]
    return {c for c in near if c is not None and parsed.schema.columns[c].kind == "date"}


def _groups_by_days(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "each year" or "per month" has a group for every day, or for every monthly salary."""
    after = [parsed.word(at + 1) for at, word in enumerate(parsed.low) if word in EACH or word == "by"]
    spans = [word for word in after if word in _SPANS]
    cut = query.period[0] if query.period is not None else None
    groups = [parsed.schema.columns[column] for column in query.group if column != cut]
    return bool(spans) and any(c.kind == "date" or spans[0] not in c.words for c in groups)


def _dates_event_of_others(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether "employees who started in 2016" are those with a visit that started then."""
    columns, named = parsed.schema.columns, {t for _, t in parsed.table_mentions}
    for decision, option in assignment.choices:
        if decision.kind != "amount" or not isinstance(option.act, Filter | ExcludeRows):
            continue
        column = columns[option.act.column]
        if column.kind != "date" or column.table in named:
            continue
        for mention in parsed.mentions:
            meant = [columns[t.column] for t in mention.targets if t.column is not None]
            own = any(c.kind == "date" and c.table in named for c in meant)
            if own and any(c.id == column.id for c in meant):
                return True
    return False


def _loses_namesakes(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether rows of two entities with one name are counted together."""
    schema = parsed.schema
    counts = any(i.agg for i, _ in query.order) or bool(query.having)
    if not counts or len(query.group) != 1 or len(needed_tables(query, schema)) < 2:
        return False
    column = schema.columns[query.group[0]]
    table = schema.tables[column.table]
    named = any(t.column is None and t.table == table.id for m in parsed.mentions for t in m.targets[:1])
    return named and column.id == table.display and table.key not in (None, column.id)


def _splits_kinds(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "the town with most flats" is the town of the building with most flats."""
    asked, columns = head(parsed), parsed.schema.columns
    if asked is None or len(query.group) != 1 or not (query.order or query.having):
        return False
    table = parsed.schema.tables[columns[query.group[0]].table]
    said = {t.column for t in asked.targets} & {item.column for item in query.select}
    kinds = [columns[c] for c in said if c is not None and columns[c].table == table.id]
    return query.group[0] == table.key and any(_is_kind(parsed, column) for column in kinds)


def _is_kind(parsed: ParsedQuestion, column: SchemaColumn) -> bool:
    """Return whether a column has its values many times, or does not name a row, as far as is known."""
    if column.unique or column.identifies:
        return False
    return column.id != parsed.schema.tables[column.table].display or parsed.schema.repeats(column, 10)


def _groups_by_another(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether "which customers have the highest total" compares single orders."""
    asked = head(parsed)
    if asked is None or asked.best().column is not None or len(query.group) != 1 or not query.order:
        return False
    columns = parsed.schema.columns
    group, shown = (
        columns[query.group[0]],
        {columns[i.column].table for i in query.select if i.column is not None},
    )
    refers = any(
        columns[a].table == group.table and columns[b].table in shown for a, b in parsed.schema.edges
    )
    return group.is_key and shown == {asked.best().table} and group.table not in shown and refers


def _shows_verb(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether "who placed the most orders" shows, or groups by, the dates of placing."""
    return any(
        decision.kind == "mention"
        and isinstance(option.act, SelectColumn | GroupByColumn)
        and parsed.schema.columns[option.act.column].kind == "date"
        and parsed.word(decision.end) == "the"
        and parsed.word(decision.end + 1) in ("most", "fewest", "least")
        for decision, option in assignment.choices
    )


def _prefers_weaker_name(parsed: ParsedQuestion, assignment: Assignment) -> bool:
    """Return whether "the average rating" is that of an hourly rate, and a column is named rating."""
    for _, option in assignment.choices:
        if not isinstance(option.act, AggregateAct):
            continue
        for use in option.uses:
            targets = parsed.mentions[int(use[1:])].targets if use.startswith("m") else ()
            exact = [t for t in targets if t.column is not None and t.way == "exact" and t.coverage == 1]
            weak = [t for t in targets if t.column == option.act.column and t.way not in ("exact", "prefix")]
            if exact and weak:
                return True
    return False


def _repeats(parsed: ParsedQuestion, column: int) -> bool:
    """Return whether a column has each of its values many times, so that it does not name one row."""
    entry = parsed.schema.columns[column]
    rows, different = parsed.schema.tables[entry.table].rows, entry.source.n_distinct
    return bool(rows and different and different * 10 <= rows)


def _tells(parsed: ParsedQuestion, column: int) -> bool:
    entry = parsed.schema.columns[column]
    return entry.unique or entry.identifies or entry.is_key


def _named_tables(parsed: ParsedQuestion) -> set[int]:
    """Return the tables that a mention or a value may belong to; a reference names another table."""
    columns = parsed.schema.columns
    targets = [t for m in parsed.mentions for t in m.targets if t.quality >= m.best().quality - 0.2]
    named = {t.table for t in targets if t.column is None or not columns[t.column].is_ref}
    return named | {columns[h.column].table for v in parsed.values for h in v.holders}
