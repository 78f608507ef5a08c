"""Build queries from an assignment; where English is ambiguous, build every alternative.

`assemble` names the choices of each query ("distinct", "group:key"); the names become features of the
ranking. If the question names no group, one rule applies: a count of another table's rows groups by the
requested entity, and a count of the same table's rows groups by the selected column.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.building.joins import join_tree, multiplies
from clew_nl2sql.planner.building.render import tree_of
from clew_nl2sql.planner.deciding.acts import COUNT, QueryParts
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion, head
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import Condition, Query, Scalar, SelectItem, rivals
from clew_nl2sql.planner.words.lexicon import IDENTIFIERS, word_set

_DESCENDING = word_set(
    "high highest large largest big biggest old oldest most latest newest greatest tallest longest"
)
_ORDERED = word_set(
    "ordered sort sorted alphabetical alphabetically alphabetic lexicographical lexicographically ascending "
    "descending arranged"
)
_DOWN = word_set("descending decreasing desc descendingly reverse")
_UP = word_set("ascending increasing asc ascendingly")
_EVERYTHING = word_set("information info detail details data everything record records attribute attributes")


Names = tuple[str, ...]
Selection = tuple[tuple[SelectItem, ...], Names]
Variant = tuple[Query, Names]


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
                        final = _with_keys(_with_measure(parsed, final), parsed.via)
                        drafts.append(Draft(final, named + choices + more + order + last))
    return drafts


def _counted_once(schema: SchemaIndex, parts: QueryParts, query: Query) -> list[Variant]:
    """Count distinct rows where a join repeats them: customers who bought rope, or patients of each doctor."""
    counts = [*query.select, *(item for item, _ in query.order), *(c.item for c in query.having)]
    if COUNT not in counts or not parts.counted or query.compound is not None:
        return []
    table = parts.counted[0]
    key, tree = schema.tables[table].key, tree_of(query, schema)
    if key is None or tree is None or not multiplies(schema, tree, table):
        return []
    once = SelectItem(key, "count", True)
    if query.group and any(schema.columns[column].table == table for column in query.group):
        return []
    return [
        (
            query._replace(
                select=tuple(once if item == COUNT else item for item in query.select),
                order=tuple((once if item == COUNT else item, desc) for item, desc in query.order),
                having=tuple(c._replace(item=once) if c.item == COUNT else c for c in query.having),
            ),
            ("count:once",),
        )
    ]


def _with_keys(query: Query, via: frozenset[int]) -> Query:
    """Make every join of the query prefer the keys that the question names."""
    if not via:
        return query
    where = tuple(
        c._replace(value=_with_keys(c.value, via)) if isinstance(c.value, Query) else c for c in query.where
    )
    compound = (query.compound[0], _with_keys(query.compound[1], via)) if query.compound else None
    return query._replace(via=query.via | via, where=where, compound=compound)


def _selections(parsed: ParsedQuestion, parts: QueryParts) -> list[Selection]:
    """Return the possible selections: the selected items, or a table's display column, its key, or all
    columns.
    """
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
    return any(i.column is not None and not i.agg and schema.columns[i.column].table == table for i in items)


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
    return found + _first_and_last(schema, table)


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
    plain = [item.column for item in query.select if not item.agg and item.column is not None]
    if len(plain) != 1 or not IDENTIFIERS.isdisjoint(parsed.low):
        return query
    schema = parsed.schema
    own = schema.columns[plain[0]]
    display = schema.tables[own.table].display
    if own.is_key and display is not None and _is_name(schema.columns[display]) and not query.compound:
        return query._replace(
            select=tuple(SelectItem(display) if i == SelectItem(own.id) else i for i in query.select)
        )
    if query.compound or not query.group:
        return query
    for source, target in schema.edges:
        entry = schema.tables[schema.columns[target].table]
        named = entry.display is not None and schema.columns[entry.display].kind == "text"
        if source == own.id and entry.id != own.table and entry.key == target and named:
            shown = SelectItem(entry.display)
            select = tuple(shown if item == SelectItem(own.id) else item for item in query.select)
            group = tuple(target if column == own.id else column for column in query.group)
            return query._replace(select=select, group=group, via=query.via | {own.id})
    return query


def _is_name(column: SchemaColumn) -> bool:
    return column.kind == "text" and column.core[-1:] in (("name",), ("title",))


def _with_owner(parsed: ParsedQuestion, query: Query) -> Query:
    """Show whose properties are listed: "customers with their phone" have a name and a phone."""
    asked = head(parsed)
    said = any(
        word in ("with", "and") and parsed.word(at + 1) in ("their", "its")
        for at, word in enumerate(parsed.low)
    )
    if asked is None or not said or query.compound or query.group or asked.best().column is not None:
        return query
    schema, table = parsed.schema, asked.best().table
    shown = [schema.columns[i.column] for i in query.select if i.column is not None and not i.agg]
    display = schema.tables[table].display
    if len(shown) != len(query.select) or display is None or any(c.id == display for c in shown):
        return query
    if any(c.table != table or c.is_key for c in shown):
        return query
    both = _first_and_last(schema, table)
    names = both[0][0] if both else (SelectItem(display),)
    return query._replace(select=tuple(dict.fromkeys((*names, *query.select))), distinct=False)


def _with_measure(parsed: ParsedQuestion, query: Query) -> Query:
    """Show what was compared next to a mere code: "the largest payment" has a reference and an amount."""
    if query.compound or query.group or query.limit != 1 or len(query.select) != 1 or len(query.order) != 1:
        return query
    column, measure, schema = query.select[0].column, query.order[0][0], parsed.schema
    if column is None or query.select[0].agg or measure.agg or measure.column in (None, column):
        return query
    entry = schema.columns[column]
    named = any(t.column == column for m in parsed.mentions for t in m.targets)
    is_code = entry.is_key or column == schema.tables[entry.table].display
    if named or not is_code or {"name", "title"} & set(entry.words):
        return query
    return query._replace(select=(query.select[0], measure))


def _by_full_name(parsed: ParsedQuestion, query: Query) -> Query:
    """Show people by first and last name, and group by person, unless the question names only one of the two."""
    if query.compound or {"first", "last", "given", "family", "surname", "forename"} & set(parsed.low):
        return query
    schema = parsed.schema
    plain = {
        i.column: schema.columns[i.column].table for i in query.select if i.column is not None and not i.agg
    }
    pairs = {
        column: both[0][0] for column, table in plain.items() if (both := _first_and_last(schema, table))
    }
    halves = [c for c, (first, last) in pairs.items() if c == first.column and last.column not in plain]
    if len(halves) != 1:
        return query
    names, key = pairs[halves[0]], schema.tables[plain[halves[0]]].key
    select = tuple(
        one for item in query.select for one in (names if item == SelectItem(halves[0]) else (item,))
    )
    people = (key,) if key is not None else tuple(n.column for n in names if n.column is not None)
    group = tuple(one for c in query.group for one in (people if c == halves[0] else (c,)))
    return query._replace(select=select, group=tuple(dict.fromkeys(group)))


def _first_and_last(schema: SchemaIndex, table: int) -> list[Selection]:
    columns = {schema.columns[c].core: c for c in schema.tables[table].columns}
    first, last = columns.get(("first", "name")), columns.get(("last", "name"))
    if first is None or last is None:
        return []
    return [((SelectItem(first), SelectItem(last)), ("show:fullname",))]


def _grouped(schema: SchemaIndex, parts: QueryParts, items: tuple[SelectItem, ...]) -> list[Variant]:
    tables = frozenset(parts.entities + parts.counted + parts.group_tables)
    if items == (SelectItem(None),) and not tables:
        return []
    query = Query(items, tables)
    plain = [i.column for i in items if not i.agg and i.column is not None]
    aggregated = any(i.agg for i in items)
    counting = _counts(parts)
    keys = [schema.tables[t].key for t in parts.group_tables]
    said = list(dict.fromkeys(parts.group + [k for k in keys if k is not None]))
    query = query._replace(having=tuple(parts.having))
    if said:
        found: list[Variant] = [(query._replace(group=tuple(said)), ("group:said",))]
        if parts.group_tables and plain:
            found.append((query._replace(group=(plain[0],)), ("group:shown",)))
        if not aggregated and not counting:
            found.append((query, ("group:dropped",)))
        return found
    if not counting and not (aggregated and plain):
        return [(query, ())]
    if not plain:
        return [(query, ("group:none",))] if not counting else []
    found = _groups(schema, parts, query, plain)
    if aggregated and not counting:
        found.append((query, ("group:none",)))
    return found


def _counts(parts: QueryParts) -> bool:
    """Return whether rows are picked or ordered by an aggregate."""
    ranked = parts.ranking is not None and bool(parts.ranking[0].agg)
    return bool(parts.having) or ranked or any(i.agg for i, _ in parts.orders)


def _groups(schema: SchemaIndex, parts: QueryParts, query: Query, plain: list[int]) -> list[Variant]:
    """Return default groups: the key of the requested entity, the selected column, or all selected columns."""
    first = schema.columns[plain[0]]
    key = schema.tables[first.table].key
    found: list[Variant] = []
    if key is not None and first.table not in parts.counted:
        found.append((query._replace(group=(key,)), ("group:key",)))
    if key != plain[0] or not found:
        found.append((query._replace(group=(plain[0],)), ("group:selected",)))
    aggregated = any(i.agg for i in query.select)
    if len(plain) > 1 and all(schema.columns[c].table == first.table for c in plain) and aggregated:
        found.append((query._replace(group=tuple(plain)), ("group:all",)))
    return found


def _filtered(parsed: ParsedQuestion, parts: QueryParts, query: Query) -> list[Variant]:
    conditions = _alternatives(parsed, parts.conditions)
    if parts.negative or parts.excluded:
        return _negated(parsed, parts, query)
    found: list[Variant] = []
    plain = tuple(c for _, _, c in parts.conditions)
    rival = None if any(i.agg for i in query.select) else rivals(parts.conditions)
    for some, name in conditions:
        found.append((query._replace(where=some), name))
    nested = _nested(parsed, parts.conditions)
    if nested is not None:
        found.append((query._replace(where=nested), ("cmp:inner",)))
    if rival is not None:
        first, second = rival
        rest = tuple(c for c in plain if c not in (first, second))
        left = query._replace(where=(*rest, first))
        right = query._replace(where=(*rest, second), order=(), limit=None)
        if not any(c.either for c in _either_said(parsed, parts.conditions)):  # "or" never means both
            found.append((left._replace(compound=("intersect", right)), ("both:intersect",)))
        found.append((left._replace(compound=("union", right)), ("both:union",)))
    return found


def _nested(
    parsed: ParsedQuestion, conditions: list[tuple[int, int, Condition]]
) -> tuple[Condition, ...] | None:
    """Return conditions after a compared aggregate, as conditions on the aggregated rows."""
    schema = parsed.schema
    for at, _, compared in conditions:
        if not isinstance(compared.value, Scalar):
            continue
        inner = tuple(c for start, _, c in conditions if start > at and not isinstance(c.value, Scalar))
        if inner:
            table = schema.columns[compared.value.column].table
            if any(c.item.column is None or schema.columns[c.item.column].table != table for c in inner):
                return None
            moved = compared._replace(value=compared.value._replace(where=inner))
            return tuple(moved if c is compared else c for _, _, c in conditions if c not in inner)
    return None


def _alternatives(
    parsed: ParsedQuestion, conditions: list[tuple[int, int, Condition]]
) -> list[tuple[tuple[Condition, ...], tuple[str, ...]]]:
    """Combine conditions with AND; with OR where the question says so, and between two values of one column."""
    together = tuple(c for _, _, c in conditions)
    found: list[tuple[tuple[Condition, ...], tuple[str, ...]]] = []
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


def _either_said(
    parsed: ParsedQuestion, conditions: list[tuple[int, int, Condition]]
) -> tuple[Condition, ...]:
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
    where = tuple(c for _, _, c in parts.conditions)
    entity = next((schema.columns[i.column].table for i in query.select if i.column is not None), None)
    if entity is None:
        entity = next(iter(parts.counted + parts.entities), None)
    if entity is None:
        return []
    start = min([at for at, _ in parts.negative] + [at for at, _ in parts.excluded])
    inner = [
        c
        for at, _, c in parts.conditions
        if at > start and schema.columns[c.item.column or 0].table != entity
    ]
    outer = tuple(c for c in where if c not in inner)
    inner += [c for _, c in parts.excluded]
    far = [t for _, t in parts.negative] + [schema.columns[c.item.column or 0].table for c in inner]
    far = [t for t in dict.fromkeys(far) if t != entity]
    kept = frozenset(t for t in query.tables if t not in far)
    base = query._replace(where=outer, tables=kept)
    found: list[Variant] = []
    if far:
        tree = join_tree(schema, [entity, *far])
        if tree is not None and tree.on:
            left, right = tree.on[0]
            sub = Query((SelectItem(right),), frozenset(far), tuple(inner))
            kept = frozenset(t for t in base.tables if t == entity or t not in tree.tables)
            absent = Condition(SelectItem(left), "not in", sub)
            found.append((base._replace(where=(*outer, absent), tables=kept), ("not:in",)))
    columns = [schema.columns[i.column] for i in query.select if i.column is not None]
    is_exact = not found or any(column.is_key or column.identifies for column in columns)
    if is_exact and not any(i.agg for i in query.select) and not query.group:
        second = Query(query.select, frozenset(far), tuple(inner))
        if inner or far:
            found.append((base._replace(compound=("except", second)), ("not:except",)))
    return found


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
    said = [(at, word in _DOWN) for at, word in enumerate(parsed.low) if word in _DOWN or word in _UP]
    if len({down for _, down in said}) < 2 or len(orders) < 2:
        return tuple(dict.fromkeys((item, desc) for item, _ in orders))
    found: dict[SelectItem, bool] = {}
    ends = [start for _, start in orders[1:]] + [len(parsed.low)]
    before = orders[0][1] > said[0][0]  # "in descending order of price", not "by price descending"
    for (item, start), end in zip(orders, ends):
        own = [d for at, d in said if start < at < end]
        earlier = [d for at, d in said if at < start]
        chosen = (earlier[-1:] or own[:1]) if before else (own[:1] or earlier[-1:])
        found.setdefault(item, chosen[0] if chosen else desc)
    return tuple(found.items())


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
    if any(i.agg for i in query.select) or query.compound is not None or query.select == (SelectItem(None),):
        return [(query, ())]
    return [(query, ("all",)), (query._replace(distinct=True), ("distinct",))]
