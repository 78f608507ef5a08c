"""Build queries from an assignment; where English is ambiguous, build every alternative.

`assemble` names the choices of each query ("distinct", "group:key"); the names become features of the
ranking. If the question names no group, one rule applies: a count of another table's rows groups by the
requested entity, and a count of the same table's rows groups by the selected column.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from clew_nl2sql.planner.building.finishing import finished
from clew_nl2sql.planner.building.joins import join_tree, multiplies
from clew_nl2sql.planner.building.render import tree_of
from clew_nl2sql.planner.deciding.acts import COUNT, QueryParts
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion, head
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import Condition, PlacedCondition, Query, Scalar, SelectItem, rivals
from clew_nl2sql.planner.words.lexicon import word_set

_DESCENDING = word_set(
    "high highest large largest big biggest old oldest most latest newest greatest tallest longest"
)
_ORDERED = word_set(
    "ordered sort sorted alphabetical alphabetically alphabetic lexicographical lexicographically ascending "
    "descending arranged"
)
_DOWN = word_set("descending decreasing desc descendingly reverse")
_DIRECTIONS = _DOWN | word_set("ascending increasing asc ascendingly")
_NAME_PARTS = word_set("first last given family surname forename")
_EVERYTHING = word_set("information info detail details data everything record records attribute attributes")

T = TypeVar("T")
Names = tuple[str, ...]
Selection = tuple[tuple[SelectItem, ...], Names]
Variant = tuple[Query, Names]
Combination = tuple[tuple[Condition, ...], Names]


class Draft(NamedTuple):
    """A query and the names of the choices that led to it."""

    query: Query
    choices: tuple[str, ...]


def _parts_of(assignment: Assignment) -> QueryParts:
    """Return the parts that the acts of an assignment add, in word order."""
    parts = QueryParts()
    for decision, option in sorted(assignment.choices, key=lambda c: c[0].start):
        option.act.add_to(parts, decision.start, decision.end)
    said: list[Condition] = []  # "female (sex is F)" states one condition twice
    for place in list(parts.conditions):
        if place[2] in said:
            parts.conditions.remove(place)
        said.append(place[2])
    return parts


def assemble(parsed: ParsedQuestion, assignment: Assignment) -> list[Draft]:
    """Return every query that an assignment may mean."""
    parts = _parts_of(assignment)
    schema = parsed.schema
    drafts = []
    for items, named in _selections(parsed, parts):
        if not items:
            continue
        for query, choices in _grouped(schema, parts, items):
            for filtered, more in _filtered(parsed, parts, query):
                for ordered, order in _ordered(parsed, parts, filtered):
                    for final, last in _counted_once(schema, parts, ordered) or _distinct(parsed, ordered):
                        final = _with_owner(parsed, _by_full_name(parsed, _by_name(parsed, final)))
                        final = finished(parsed, _with_measure(parsed, final))
                        drafts.append(Draft(final, named + choices + more + order + last))
    return drafts


def _counted_once(schema: SchemaIndex, parts: QueryParts, query: Query) -> list[Variant]:
    """Count distinct rows where a join repeats them: customers who bought rope, or patients of each doctor."""
    key = _repeated_key(schema, parts, query)
    if key is None:
        return []
    once = SelectItem(key, "count", True)
    select = _swapped(query.select, COUNT, once)
    order = tuple((once if item == COUNT else item, desc) for item, desc in query.order)
    having = tuple(c._replace(item=once) if c.item == COUNT else c for c in query.having)
    return [(query._replace(select=select, order=order, having=having), ("count:once",))]


def _repeated_key(schema: SchemaIndex, parts: QueryParts, query: Query) -> int | None:
    """Return the key of the counted table, if the join repeats its rows and it is not grouped itself."""
    counts = [*query.select, *(item for item, _ in query.order), *(c.item for c in query.having)]
    if COUNT not in counts or not parts.counted or query.compound is not None:
        return None
    table, tree = parts.counted[0], tree_of(query, schema)
    repeats = tree is not None and multiplies(schema, tree, table)
    grouped = any(schema.columns[column].table == table for column in query.group)
    return schema.tables[table].key if repeats and not grouped else None


def _swapped(items: tuple[T, ...], old: T, *new: T) -> tuple[T, ...]:
    """Return the items, with others in the place of one."""
    return tuple(one for item in items for one in (new if item == old else (item,)))


def _selections(parsed: ParsedQuestion, parts: QueryParts) -> list[Selection]:
    """Return the possible selections: the selected items, or a table's display column, its key, or all columns."""
    schema = parsed.schema
    placed = parts.items + [(at, SelectItem(schema.tables[t].display)) for at, t in parts.shown]
    items = [item for _, item in sorted(placed, key=lambda p: p[0])]
    items = list(dict.fromkeys(items))
    for table in parts.group_tables:
        if not _shows(schema, items, table):
            entry, rest = schema.tables[table], tuple(items)
            return [
                ((SelectItem(entry.display), *rest), ("show:group",)),
                ((SelectItem(entry.key), *rest), ("show:groupkey",)),
                (rest, ("show:nogroup",)),
            ]
    for column in parts.group:
        if SelectItem(column) not in items:
            bare = tuple(items)
            items.insert(0, SelectItem(column))
            if bare:
                return [(tuple(items), ("grpcol",)), (bare, ("grpcol:hidden",))]
    return _said(parsed, parts, tuple(items)) if items else _by_default(parsed, parts)


def _shows(schema: SchemaIndex, items: list[SelectItem], table: int) -> bool:
    """Return whether a plain column of a table is selected."""
    return any(schema.columns[column].table == table for column in Query(tuple(items)).plain)


def _asks_everything(parsed: ParsedQuestion) -> bool:
    return any(t.lemma in _EVERYTHING for t in parsed.tokens)


def _said(parsed: ParsedQuestion, parts: QueryParts, items: tuple[SelectItem, ...]) -> list[Selection]:
    """Return the named items; a table alone may also mean its key, all columns, or first and last name."""
    schema = parsed.schema
    found: list[Selection] = [(items, ("said",))]
    if not parts.shown or len(items) > 1:
        return found
    table = parts.shown[0][1]
    key = schema.tables[table].key
    if key is not None and key != schema.tables[table].display:
        found.append(((SelectItem(key),), ("show:key",)))
    if _asks_everything(parsed):
        found.append(((SelectItem(None),), ("show:all",)))
    names = _full_name(schema, table)
    return [*found, (names, ("show:fullname",))] if names else found


def _by_default(parsed: ParsedQuestion, parts: QueryParts) -> list[Selection]:
    """Return default selections: the display column of the tables, the key, or all columns."""
    schema = parsed.schema
    found: list[Selection] = []
    tables = list(
        dict.fromkeys(parts.entities + ([parsed.main_table] if parsed.main_table is not None else []))
    )
    for table in tables[:2]:
        entry = schema.tables[table]
        if entry.display is not None:
            found.append(((SelectItem(entry.display),), ("show:default",)))
        if entry.key is not None and entry.key != entry.display:
            found.append(((SelectItem(entry.key),), ("show:defaultkey",)))
        if _asks_everything(parsed) and table == tables[0]:
            found.append(((SelectItem(None),), ("show:all",)))
    return found


def _by_name(parsed: ParsedQuestion, query: Query) -> Query:
    """Show an entity by its own name and not by a reference to it, unless the question asks for an id or a code."""
    if len(query.plain) != 1 or query.compound or parsed.asks_for_ids:
        return query
    schema = parsed.schema
    own = schema.columns[query.plain[0]]
    display = schema.tables[own.table].display
    if own.is_key and display is not None and _is_name(schema.columns[display]):
        return query._replace(select=_swapped(query.select, SelectItem(own.id), SelectItem(display)))
    return _by_referred_name(schema, query, own) if query.group else query


def _by_referred_name(schema: SchemaIndex, query: Query, own: SchemaColumn) -> Query:
    """Show and group by the rows that a reference points to."""
    for source, target in schema.edges:
        entry = schema.tables[schema.columns[target].table]
        refers = source == own.id and entry.id != own.table and entry.key == target
        if refers and entry.display is not None and schema.columns[entry.display].kind == "text":
            select = _swapped(query.select, SelectItem(own.id), SelectItem(entry.display))
            return query._replace(
                select=select, group=_swapped(query.group, own.id, target), via=query.via | {own.id}
            )
    return query


def _is_name(column: SchemaColumn) -> bool:
    return column.kind == "text" and column.core[-1:] in (("name",), ("title",))


def _with_owner(parsed: ParsedQuestion, query: Query) -> Query:
    """Show whose properties are listed: "customers with their phone" have a name and a phone."""
    asked = head(parsed)
    if asked is None or asked.best().column is not None or not _says_their(parsed):
        return query
    schema, table = parsed.schema, asked.best().table
    display = schema.tables[table].display
    if display is None or query.compound or query.group or not _shows_properties(schema, query, table):
        return query
    names = _full_name(schema, table) or (SelectItem(display),)
    return query._replace(select=tuple(dict.fromkeys((*names, *query.select))), distinct=False)


def _says_their(parsed: ParsedQuestion) -> bool:
    pairs = zip(parsed.low, parsed.low[1:])
    return any(word in ("with", "and") and after in ("their", "its") for word, after in pairs)


def _shows_properties(schema: SchemaIndex, query: Query, table: int) -> bool:
    """Return whether only columns of a table are shown that do not say which row they belong to."""
    shown = [schema.columns[column] for column in query.plain]
    display = schema.tables[table].display
    own = all(c.table == table and not c.is_key and c.id != display for c in shown)
    return own and len(shown) == len(query.select)


def _with_measure(parsed: ParsedQuestion, query: Query) -> Query:
    """Show what was compared next to a mere code: "the largest payment" has a reference and an amount."""
    if query.limit != 1 or not len(query.select) == len(query.plain) == len(query.order) == 1:
        return query
    measure = query.order[0][0]
    if query.compound or query.group or not measure.is_plain or measure.column in query.plain:
        return query
    return query._replace(select=(*query.select, measure)) if _is_code(parsed, query.plain[0]) else query


def _is_code(parsed: ParsedQuestion, column: int) -> bool:
    """Return whether a column that the question does not name is shown only to tell rows apart."""
    entry = parsed.schema.columns[column]
    named = any(t.column == column for m in parsed.mentions for t in m.targets)
    is_code = entry.is_key or column == parsed.schema.tables[entry.table].display
    return is_code and not named and {"name", "title"}.isdisjoint(entry.words)


def _by_full_name(parsed: ParsedQuestion, query: Query) -> Query:
    """Show people by first and last name, and group by person, unless the question names only one of the two."""
    if query.compound or not _NAME_PARTS.isdisjoint(parsed.low):
        return query
    schema = parsed.schema
    full = {column: _full_name(schema, schema.columns[column].table) for column in query.plain}
    halves = [
        c for c, names in full.items() if names and c == names[0].column and names[1].column not in full
    ]
    if len(halves) != 1:
        return query
    half, names = halves[0], full[halves[0]]
    key = schema.tables[schema.columns[half].table].key
    people = (key,) if key is not None else Query(names).plain
    group = tuple(dict.fromkeys(_swapped(query.group, half, *people)))
    return query._replace(select=_swapped(query.select, SelectItem(half), *names), group=group)


def _full_name(schema: SchemaIndex, table: int) -> tuple[SelectItem, ...]:
    return tuple(SelectItem(column) for column in schema.full_name(table) or ())


def _grouped(schema: SchemaIndex, parts: QueryParts, items: tuple[SelectItem, ...]) -> list[Variant]:
    tables = frozenset(parts.entities + parts.counted + parts.group_tables)
    if items == (SelectItem(None),) and not tables:
        return []
    query = Query(items, tables, having=tuple(parts.having))
    keys = [schema.tables[t].key for t in parts.group_tables]
    said = tuple(dict.fromkeys(parts.group + [k for k in keys if k is not None]))
    return _said_groups(parts, query, said) if said else _unsaid_groups(schema, parts, query)


def _said_groups(parts: QueryParts, query: Query, said: tuple[int, ...]) -> list[Variant]:
    found: list[Variant] = [(query._replace(group=said), ("group:said",))]
    if parts.group_tables and query.plain:
        found.append((query._replace(group=query.plain[:1]), ("group:shown",)))
    if not query.aggregates and not parts.picks_by_aggregate:
        found.append((query, ("group:dropped",)))
    return found


def _unsaid_groups(schema: SchemaIndex, parts: QueryParts, query: Query) -> list[Variant]:
    if not parts.picks_by_aggregate and not (query.aggregates and query.plain):
        return [(query, ())]
    if not query.plain:
        return []
    found = _groups(schema, parts, query)
    return found if parts.picks_by_aggregate else [*found, (query, ("group:none",))]


def _groups(schema: SchemaIndex, parts: QueryParts, query: Query) -> list[Variant]:
    """Return default groups: the key of the requested entity, the selected column, or all selected columns."""
    plain = query.plain
    first = schema.columns[plain[0]]
    key = schema.tables[first.table].key
    found: list[Variant] = []
    if key is not None and first.table not in parts.counted:
        found.append((query._replace(group=(key,)), ("group:key",)))
    if key != plain[0] or not found:
        found.append((query._replace(group=plain[:1]), ("group:selected",)))
    one_table = all(schema.columns[c].table == first.table for c in plain)
    if len(plain) > 1 and one_table and query.aggregates:
        found.append((query._replace(group=plain), ("group:all",)))
    return found


def _filtered(parsed: ParsedQuestion, parts: QueryParts, query: Query) -> list[Variant]:
    if parts.negative or parts.excluded:
        return _negated(parsed, parts, query)
    found = [(query._replace(where=some), name) for some, name in _alternatives(parsed, parts.conditions)]
    nested = _nested(parsed, parts.conditions)
    if nested is not None:
        found.append((query._replace(where=nested), ("cmp:inner",)))
    rival = None if query.aggregates else rivals(parts.conditions)
    return found if rival is None else found + _both(parsed, parts, query, *rival)


def _both(
    parsed: ParsedQuestion, parts: QueryParts, query: Query, first: Condition, second: Condition
) -> list[Variant]:
    """Return set operations for two conditions that no row satisfies: rows of both kinds, or of either."""
    rest = tuple(c for _, _, c in parts.conditions if c not in (first, second))
    left = query._replace(where=(*rest, first))
    right = query._replace(where=(*rest, second), order=(), limit=None)
    union: Variant = (left._replace(compound=("union", right)), ("both:union",))
    if any(c.either for c in _either_said(parsed, parts.conditions)):  # "or" never means both
        return [union]
    return [(left._replace(compound=("intersect", right)), ("both:intersect",)), union]


def _nested(parsed: ParsedQuestion, conditions: list[PlacedCondition]) -> tuple[Condition, ...] | None:
    """Return conditions after a compared aggregate, as conditions on the aggregated rows."""
    plain = [(start, c) for start, _, c in conditions if not isinstance(c.value, Scalar)]
    for at, _, compared in conditions:
        inner = tuple(c for start, c in plain if start > at)
        if isinstance(compared.value, Scalar) and inner:
            table = parsed.schema.columns[compared.value.column].table
            if any(_table_of(parsed.schema, c) != table for c in inner):
                return None
            moved = compared._replace(value=compared.value._replace(where=inner))
            outer = tuple(c for _, _, c in conditions if c not in inner)
            return _swapped(outer, compared, moved)
    return None


def _table_of(schema: SchemaIndex, condition: Condition) -> int | None:
    column = condition.item.column
    return schema.columns[column].table if column is not None else None


def _alternatives(parsed: ParsedQuestion, conditions: list[PlacedCondition]) -> list[Combination]:
    """Combine conditions with AND; with OR where the question says so, and between two values of one column."""
    together = tuple(c for _, _, c in conditions)
    found: list[Combination] = []
    said = _either_said(parsed, conditions)
    if said != together:
        found.append((said, ("or:said",)))
    joined = tuple(
        c._replace(either=n > 0 and together[n - 1].item == c.item and c.op == together[n - 1].op == "=")
        for n, c in enumerate(together)
    )
    if joined not in (together, said):
        found.append((joined, ("or:same",)))
    found.append((together, ("and",) if len(together) > 1 else ()))
    return found


def _either_said(parsed: ParsedQuestion, conditions: list[PlacedCondition]) -> tuple[Condition, ...]:
    made: list[Condition] = []
    last_end = 0
    for start, end, condition in conditions:
        either = bool(made) and "or" in parsed.low[last_end:start]
        made.append(condition._replace(either=either))
        last_end = end
    return tuple(made)


def _negated(parsed: ParsedQuestion, parts: QueryParts, query: Query) -> list[Variant]:
    """Return a NOT IN over the key path, or an EXCEPT of the same selection.

    Of two customers with the same name, one may have orders: an EXCEPT of names would lose the other one. So where
    there is a NOT IN, an EXCEPT is a variant only if a selected column identifies its rows, as far as the sample says.
    """
    schema = parsed.schema
    columns = [schema.columns[item.column] for item in query.select if item.column is not None]
    entity = next(iter([c.table for c in columns] + parts.counted + parts.entities), None)
    if entity is None:
        return []
    outer, inner, far = _exclusion(schema, parts, entity)
    base = query._replace(where=outer, tables=query.tables.difference(far))
    excluded = Query((), frozenset(far), inner)
    found = _not_in(schema, base, excluded, [entity, *far])
    is_exact = not found or any(column.identifies for column in columns)
    if is_exact and (inner or far) and not query.aggregates and not query.group:
        second = excluded._replace(select=query.select)
        found.append((base._replace(compound=("except", second)), ("not:except",)))
    return found


def _exclusion(
    schema: SchemaIndex, parts: QueryParts, entity: int
) -> tuple[tuple[Condition, ...], tuple[Condition, ...], list[int]]:
    """Return the conditions on the entity, those on what is excluded, and the tables of the latter."""
    start = min(at for at, _ in (*parts.negative, *parts.excluded))
    inner = [c for at, _, c in parts.conditions if at > start and _table_of(schema, c) != entity]
    outer = tuple(c for _, _, c in parts.conditions if c not in inner)
    inner += [c for _, c in parts.excluded]
    far = dict.fromkeys([t for _, t in parts.negative] + [_table_of(schema, c) for c in inner])
    return outer, tuple(inner), [table for table in far if table not in (entity, None)]


def _not_in(schema: SchemaIndex, query: Query, excluded: Query, tables: list[int]) -> list[Variant]:
    """Return the query without the rows that a subquery joins to its first table."""
    tree = join_tree(schema, tables)
    if tree is None or not tree.on:
        return []
    left, right = tree.on[0]
    kept = frozenset(t for t in query.tables if t == tables[0] or t not in tree.tables)
    absent = Condition(SelectItem(left), "not in", excluded._replace(select=(SelectItem(right),)))
    return [(query._replace(where=(*query.where, absent), tables=kept), ("not:in",))]


def _ordered(parsed: ParsedQuestion, parts: QueryParts, query: Query) -> list[Variant]:
    if parts.ranking is not None:
        item, desc, limit = parts.ranking
        best = query._replace(order=((item, desc),), limit=parts.limit or limit)
        if _asks_order(parsed) and parts.limit is None:
            return [(best, ()), (best._replace(limit=None), ("rank:all",))]
        return [(best, ())]
    desc = _descends(parsed)
    if parts.orders:
        order = _directed(parsed, parts.orders, desc)
        return [(query._replace(order=order, limit=parts.limit), ())]
    first = query.select[0]
    if _asks_order(parsed) and first.column is not None and not first.agg and query.compound is None:
        return [(query._replace(order=((first, desc),), limit=parts.limit), ("order:first",))]
    return [(query, ())]


def _directed(
    parsed: ParsedQuestion, orders: list[tuple[SelectItem, int]], desc: bool
) -> tuple[tuple[SelectItem, bool], ...]:
    """Return each item with its own direction, as in "by price descending, then by name ascending"."""
    said = [(at, word in _DOWN) for at, word in enumerate(parsed.low) if word in _DIRECTIONS]
    if len({down for _, down in said}) < 2 or len(orders) < 2:
        return tuple(dict.fromkeys((item, desc) for item, _ in orders))
    found: dict[SelectItem, bool] = {}
    ends = [start for _, start in orders[1:]] + [len(parsed.low)]
    before = orders[0][1] > said[0][0]  # "in descending order of price", not "by price descending"
    for (item, start), end in zip(orders, ends):
        found.setdefault(item, next(iter(_directions(said, start, end, before)), desc))
    return tuple(found.items())


def _directions(said: list[tuple[int, bool]], start: int, end: int, before: bool) -> list[bool]:
    """Return the directions that are said of an item, the most likely one first."""
    own = [down for at, down in said if start < at < end][:1]
    earlier = [down for at, down in said if at < start][-1:]
    return earlier + own if before else own + earlier


def _asks_order(parsed: ParsedQuestion) -> bool:
    """Return whether the question asks for an order of rows, and not for orders of customers."""
    for at, word in enumerate(parsed.low):
        if word in _ORDERED and at not in parsed.verbs:
            return True
        if word == "order" and (parsed.word(at + 1) in ("by", "them", "the", "these", "of") or at == 0):
            return not any(m.start <= at < m.end for m in parsed.mentions)
    return False


def _descends(parsed: ParsedQuestion) -> bool:
    for at, word in enumerate(parsed.low):
        if word in _DOWN:
            return True
        near = parsed.low[at + 1 : at + 4]
        if word == "from" and "to" in parsed.low[at : at + 7] and any(w in _DESCENDING for w in near):
            return True
    return False


def _distinct(parsed: ParsedQuestion, query: Query) -> list[Variant]:
    if query.aggregates or query.compound is not None or query.select == (SelectItem(None),):
        return [(query, ())]
    return [(query, ("all",)), (query._replace(distinct=True), ("distinct",))]
