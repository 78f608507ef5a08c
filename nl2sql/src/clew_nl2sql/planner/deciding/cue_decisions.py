"""Decisions about cues: what is counted, averaged or ranked.

A counting cue counts rows or distinct values. An aggregate applies to a nearby column, or is part of a
comparison ("above the average age"). A superlative orders by a column, a count or an aggregate, or is a MAX.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew_nl2sql.planner.deciding import acts
from clew_nl2sql.planner.deciding.decisions import (
    Decision,
    NearColumn,
    Option,
    gap_words,
    labelled,
    mention_decision,
    near_columns,
    near_mentions,
    target_features,
)
from clew_nl2sql.planner.deciding.value_decisions import (
    amount_decision,
    implied_columns,
    table_fit,
    turned,
    value_decision,
)
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.predicates import flag_words
from clew_nl2sql.planner.linking.schema_linking import Target
from clew_nl2sql.planner.words.cues import Cue, comparative
from clew_nl2sql.planner.words.lexicon import word_set


def cue_decision(parsed: ParsedQuestion, number: int) -> Decision:
    """Return the decision about one cue."""
    cue = parsed.cues[number]
    context = parsed.context(cue.start, cue.end)
    flat = [f"what={cue.what}", f"deg={cue.degree}", f"lim={cue.limit > 1}"] + context[:9]
    flat.append(f"cue={' '.join(parsed.low[cue.start : cue.end])}")
    options = _OPTIONS[cue.kind](parsed, number, cue, flat)
    for role, act in ((f"{cue.kind}.none", acts.Ignore()), (f"{cue.kind}.used", acts.Consumed())):
        options.append(Option(role, act, (), labelled(role, flat)))
    return Decision(f"c{number}", cue.kind, cue.start, cue.end, tuple(options))


def _different(parsed: ParsedQuestion, start: int, end: int) -> bool:
    return any(parsed.word(at) in ("different", "distinct", "unique") for at in range(start, end))


# The last one only for numbers.
_COUNTS: tuple[type[acts.ColumnAct], ...] = (acts.CountDistinct, acts.CountValues, acts.SumValues)


def _count(parsed: ParsedQuestion, number: int, cue: Cue, flat: list[str]) -> list[Option]:
    made = []
    for mention, rank in near_mentions(parsed, cue.end, 2):
        where = parsed.mentions[mention]
        unlike = _different(parsed, cue.end, where.start)
        base = [f"k.rank={rank}", f"k.gap={gap_words(parsed, cue.end, where.start)}", f"k.diff={unlike}"]
        for target in where.targets[:6]:
            fit = [f"k.{f}" for f in target_features(parsed, mention, where, target)]
            made += _counted(parsed, mention, target, flat + base, base + fit)
        for target in [t for t in where.targets if t.column is None][:2]:
            made += _counted_by_key(parsed, mention, target, flat + base)
    for act in (acts.CountRows(None), acts.OrderByCount(None)):
        role = f"k.{act.role}"
        made.append(Option(role, act, (), labelled(role, [*flat, "bare"])))
    return made


def _counted(
    parsed: ParsedQuestion, mention: int, target: Target, flat: list[str], shape: list[str]
) -> list[Option]:
    """Return options for what is counted: the rows of a table, or the values of a column."""
    use = (f"m{mention}",)
    if target.column is None:
        rows = (acts.CountRows(target.table), acts.OrderByCount(target.table))
        return [
            Option(f"k.{act.role}", act, use, (*labelled(f"k.{act.role}", flat), *shape, "k.tab"))
            for act in rows
        ]
    column = parsed.schema.columns[target.column]
    if flag_words(column, parsed.schema):
        return []  # a flag has two values, so they are never counted
    extra = [f"k.kind={column.kind}", f"k.uniq={column.unique}", f"k.id={column.is_id}"]
    made = []
    for count in _COUNTS if column.kind == "number" else _COUNTS[:2]:
        role = f"k.{count.role}"
        made.append(Option(role, count(column.id), use, (*labelled(role, flat + extra), *shape)))
    return made


def _counted_by_key(parsed: ParsedQuestion, mention: int, target: Target, flat: list[str]) -> list[Option]:
    made = []
    for key in _keys_to(parsed, target.table):
        own = parsed.schema.columns[key].table == target.table
        features = labelled("k.key", [*flat, f"k.own={own}", f"k.q={target.way}{target.coverage == 1}"])
        made.append(Option("k.key", acts.CountDistinct(key), (f"m{mention}",), features))
    return made


def _keys_to(parsed: ParsedQuestion, table: int) -> list[int]:
    """Return columns whose distinct values are rows of a table: its key, and foreign keys to it."""
    key = parsed.schema.tables[table].key
    if key is None:
        return []
    return [key] + [source for source, target in parsed.schema.edges if target == key][:3]


def _shape(role: str, parsed: ParsedQuestion, cue: Cue, near: NearColumn) -> list[str]:
    """Describe the positions of a cue and a nearby column, as features of a role."""
    column, where = parsed.schema.columns[near.column], parsed.mentions[near.mention]
    between = gap_words(parsed, cue.end, where.start)
    if near.place[0] != "a":
        between = "b:" + gap_words(parsed, where.end, cue.start)
    names = [f"at={near.place}", f"gap={between}", f"kind={column.kind}", f"id={column.is_id}"]
    names += target_features(parsed, near.mention, where, near.target)
    return [f"{role}.{each}" for each in names]


def _aggregate(parsed: ParsedQuestion, number: int, cue: Cue, flat: list[str]) -> list[Option]:
    made = []
    compared = _comparison_before(parsed, cue.start)
    for near in near_columns(parsed, cue.start, cue.end, before=2, after=3):
        shape = _shape("g", parsed, cue, near)
        for role, act in _aggregated(parsed, cue, near.column, compared):
            place = shape[:3] + [f"cmp={bool(compared)}"] if role == "g.sel" else shape[:3]
            made.append(Option(role, act, (f"m{near.mention}",), (*shape, *labelled(role, flat + place))))
    for mention, _ in near_mentions(parsed, cue.end, 1) if cue.what == "sum" else ():
        for target in [t for t in parsed.mentions[mention].targets if t.column is None][:1]:
            features = (*labelled("g.cnt", flat), f"g.cnt={target.way}{target.coverage == 1}")
            made.append(Option("g.cnt", acts.CountRows(target.table), (f"m{mention}",), features))
    than, degree = compared or ("", "")
    for column, minus, rank in implied_columns(parsed, degree):
        op = _TURNED[than] if turned(degree, minus) else than
        features = (f"g.impl={rank}", *table_fit(parsed, column, "g"), *labelled("g.cmpi", flat))
        made.append(Option("g.cmp", acts.CompareWithAggregate(column.id, op, cue.what), (), features))
    return made


def _aggregated(
    parsed: ParsedQuestion, cue: Cue, column: int, compared: tuple[str, str] | None
) -> list[tuple[str, acts.Act]]:
    """Return what an aggregate of a column may do, with the roles."""
    found: list[tuple[str, acts.Act]] = [("g.sel", acts.SelectAggregate(cue.what, column))]
    if cue.what in ("max", "min"):
        found.append(("g.sup", acts.RankByColumn(column, cue.what == "max", 1)))
    if parsed.units[parsed.unit_at[cue.start]].zone == "order":
        found.append(("g.ord", acts.OrderByAggregate(cue.what, column)))
    if compared and parsed.schema.columns[column].kind in ("number", "date"):
        found.append(("g.cmp", acts.CompareWithAggregate(column, compared[0], cue.what)))
    return found


def _measured(parsed: ParsedQuestion, number: int, cue: Cue, flat: list[str]) -> list[Option]:
    """Return options for "How old is …": the column that the adjective measures, its average or its extreme."""
    functions = [c.what for c in parsed.cues if c.kind == "agg"]
    functions += ["max" if c.what == "desc" else "min" for c in parsed.cues if c.kind == "super"]
    others = tuple(f"c{n}" for n, c in enumerate(parsed.cues) if c.kind in ("agg", "super"))
    made = []
    for column, _, rank in implied_columns(parsed, cue.degree):
        shape = (f"d.impl={rank}", f"d.kind={column.kind}", *table_fit(parsed, column, "d"))
        made.append(Option("d.sel", acts.SelectColumn(column.id), (), shape + labelled("d.sel", flat)))
        for function in functions[:1]:
            act = acts.SelectAggregate(function, column.id)
            made.append(Option("d.agg", act, others[:1], shape + labelled("d.agg", flat)))
    return made


_EXTREMES = {
    (">", "any"): "min", (">", "some"): "min", ("<", "any"): "max", ("<", "some"): "max", (">", "all"): "max",
    ("<", "all"): "min", (">", "every"): "max", ("<", "every"): "min", (">", "each"): "max", ("<", "each"): "min",
    (">", "other"): "min", ("<", "other"): "max",
}  # fmt: skip


def _comparison(parsed: ParsedQuestion, number: int, cue: Cue, flat: list[str]) -> list[Option]:
    """Compare two columns, or a column with the extreme of some rows ("than any", "than the largest")."""
    made = []
    said = next((w for w in parsed.low[cue.end : cue.end + 4] if (cue.what, w) in _EXTREMES), "")
    columns = _comparable(parsed, cue)
    later = [two for two in columns if two.place[0] == "a"]
    for one in columns:
        for two in later if one.place[0] in "bi" else ():
            if one.column != two.column:
                made.append(_compared_columns(cue, one, two, flat))
        if said:
            features = (f"o.sat={one.place}", f"o.said={said}", *labelled("o.sub", flat))
            act = acts.CompareWithAggregate(one.column, cue.what, _EXTREMES[cue.what, said])
            made.append(Option("o.sub", act, (f"m{one.mention}",), features))
    for column, minus, rank in implied_columns(parsed, cue.degree) if said else ():
        op = _TURNED[cue.what] if turned(cue.degree, minus) else cue.what
        features = (f"o.impl={rank}", *table_fit(parsed, column, "o"), *labelled("o.subi", flat))
        act = acts.CompareWithAggregate(column.id, op, _EXTREMES[op, said])
        made.append(Option("o.sub", act, (), features))
    return made


def _comparable(parsed: ParsedQuestion, cue: Cue) -> list[NearColumn]:
    """Return numbers and dates near a comparison, and inside it: "more seats than"."""
    near = near_columns(parsed, cue.start, cue.end, before=2, after=2, each=3)
    within = near_columns(parsed, cue.start, cue.start + 1, before=0, after=1, each=3)
    inside = [one for one in within if cue.start < parsed.mentions[one.mention].start < cue.end]
    near += [one._replace(place="i") for one in inside]
    return [one for one in near if parsed.schema.columns[one.column].kind in ("number", "date")]


def _compared_columns(cue: Cue, one: NearColumn, two: NearColumn, flat: list[str]) -> Option:
    shape = (
        f"o.at={one.place}{two.place}",
        f"o.q={one.target.way}{two.target.way}",
        f"o.same={one.target.table == two.target.table}",
    )
    act = acts.CompareColumns(one.column, cue.what, two.column)
    return Option("o.col", act, (f"m{one.mention}", f"m{two.mention}"), shape + labelled("o.col", flat))


_DENIED = {">": "<=", "<": ">="}
_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


def _comparison_before(parsed: ParsedQuestion, start: int) -> tuple[str, str] | None:
    for at in range(start - 1, max(-1, start - 5), -1):
        found = comparative(parsed.low, at)
        if found:
            denied = parsed.word(at - 1) in ("no", "not")  # no more than the average
            return (_DENIED[found[0]] if denied else found[0]), found[1]
    return None


def _superlative(parsed: ParsedQuestion, number: int, cue: Cue, flat: list[str]) -> list[Option]:
    inner = [n for n, c in enumerate(parsed.cues) if n > number and 0 <= c.start - cue.end <= 2]
    counts = tuple(f"c{n}" for n in inner if parsed.cues[n].kind == "count")
    sums = [n for n in inner if parsed.cues[n].kind == "agg"]
    flat = flat + [f"inner={'count' if counts else 'agg' if sums else '-'}"]
    measured = [*_ranked(parsed, cue, flat, sums), *_implied(parsed, cue, flat)]
    if cue.degree in _NEVER_COUNTS and not counts:
        return measured
    after = parsed.cues[inner[0]].end if inner else cue.end
    made = []
    for table, uses, shape in _counted_tables(parsed, cue, after):
        act = acts.RankByCount(cue.what == "desc", cue.limit, table)
        made.append(Option("s.cnt", act, (*uses, *counts), (*shape, *labelled("s.cnt", flat + shape))))
    act = acts.RankByCount(cue.what == "desc", cue.limit, None)
    made.append(Option("s.cnt", act, counts, labelled("s.cnt", [*flat, "bare"])))
    return made if cue.degree == "common" else made + measured


def _counted_tables(
    parsed: ParsedQuestion, cue: Cue, after: int
) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """Yield the tables whose rows a superlative may count, with the mention that names them, and features."""
    for mention, rank in near_mentions(parsed, after, 2):
        where, use = parsed.mentions[mention], (f"m{mention}",)
        between, best = gap_words(parsed, cue.end, where.start), where.best()
        tables = [t for t in where.targets if t.column is None]
        for target in tables[:2]:
            fit = f"s.q={target.way}{target.coverage == 1}"
            yield target.table, use, [f"s.rank={rank}", f"s.gap={between}", fit]
        if rank == 0 and not tables:
            yield best.table, use, ["s.ccol", f"s.cgap={between}", f"s.q={best.way}{best.coverage == 1}"]


# What these measure is a property of one row, so the earliest is never the one with the fewest rows.
_NEVER_COUNTS = word_set("""
    oldest eldest youngest tallest heaviest lightest longest expensive costly pricey cheapest fastest slowest latest
    recent newest earliest farthest furthest nearest closest deepest widest hottest warmest coldest
""")


def _implied(parsed: ParsedQuestion, cue: Cue, flat: list[str]) -> list[Option]:
    made = []
    for column, flip, rank in implied_columns(parsed, cue.degree):
        shape = (f"s.impl={rank}", f"s.kind={column.kind}", *table_fit(parsed, column, "s"))
        act = acts.RankByColumn(column.id, _direction(cue, flip), cue.limit)
        made.append(Option("s.imp", act, (), shape + labelled("s.imp", flat)))
    return made


def _direction(cue: Cue, flip: bool) -> bool:
    """Return whether the order is descending; the table of degrees already maps the youngest to the smallest
    age.
    """
    if cue.degree in ("common", "top", "first", "last") or not cue.degree:
        return cue.what == "desc"
    return not flip


def _ranked(parsed: ParsedQuestion, cue: Cue, flat: list[str], sums: list[int]) -> list[Option]:
    made = []
    for near in near_columns(parsed, cue.start, cue.end, before=1, after=3):
        shape = _shape("s", parsed, cue, near)
        for role, act, inner in _ranked_acts(parsed, cue, near, sums):
            features = (*shape, *labelled(role, flat + shape[:3]))
            made.append(Option(role, act, (f"m{near.mention}", *inner), features))
    return made


def _ranked_acts(
    parsed: ParsedQuestion, cue: Cue, near: NearColumn, sums: list[int]
) -> Iterator[tuple[str, acts.Act, tuple[str, ...]]]:
    """Yield what a superlative may do with a column, with the roles, and the cues that it consumes."""
    desc, column = cue.what == "desc", near.column
    kind, extreme = parsed.schema.columns[column].kind, "max" if desc else "min"
    compared = _comparison_before(parsed, cue.start)
    yield "s.col", acts.RankByColumn(column, desc, cue.limit), ()
    if kind in ("number", "date"):
        yield "s.agg", acts.SelectAggregate(extreme, column), ()
        if compared:
            yield "s.cmp", acts.CompareWithAggregate(column, compared[0], extreme), ()
    large = cue.degree in ("", "large", "high") and near.place[0] == "a"
    if not sums and kind == "number" and large:
        yield "s.tot", acts.RankByAggregate("sum", column, desc, cue.limit), ()
    for inner in sums:
        act = acts.RankByAggregate(parsed.cues[inner].what, column, desc, cue.limit)
        yield "s.sum", act, (f"c{inner}",)


_OPTIONS = {
    "count": _count, "deg": _measured, "cmp": _comparison, "agg": _aggregate, "super": _superlative,
}  # fmt: skip


def decisions(parsed: ParsedQuestion) -> list[Decision]:
    """Return every decision of a question; consumers come before the pieces that they may consume."""
    made = [amount_decision(parsed, n) for n in range(len(parsed.amounts))]
    made += [value_decision(parsed, n) for n in range(len(parsed.values))]
    first = ("deg", "super")
    supers = [n for kind in first for n, c in enumerate(parsed.cues) if c.kind == kind]
    others = [n for n, c in enumerate(parsed.cues) if c.kind not in first]
    made += [cue_decision(parsed, n) for n in supers + others]
    made += [mention_decision(parsed, n) for n in range(len(parsed.mentions))]
    return made
