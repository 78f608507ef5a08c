"""Decisions about cues: what is counted, averaged or ranked.

A counting cue counts rows or distinct values. An aggregate applies to a nearby column, or is part of a
comparison ("above the average age"). A superlative orders by a column, a count or an aggregate, or is a MAX.
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding.acts import (
    ColumnAct,
    CompareColumns,
    CompareWithAggregate,
    Consumed,
    CountDistinct,
    CountRows,
    CountValues,
    Ignore,
    OrderByAggregate,
    OrderByCount,
    RankByAggregate,
    RankByColumn,
    RankByCount,
    SelectAggregate,
    SelectColumn,
    SumValues,
)
from clew_nl2sql.planner.deciding.decisions import (
    Decision,
    NearColumn,
    Option,
    gap_words,
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
from clew_nl2sql.planner.words.cues import Cue, comparative
from clew_nl2sql.planner.words.lexicon import word_set


def cue_decision(parsed: ParsedQuestion, number: int) -> Decision:
    """Return the decision about one cue."""
    cue = parsed.cues[number]
    context = parsed.context(cue.start, cue.end)
    flat = [f"what={cue.what}", f"deg={cue.degree}", f"lim={cue.limit > 1}"] + context[:9]
    flat.append(f"cue={' '.join(parsed.low[cue.start : cue.end])}")
    if cue.kind == "count":
        options = _count(parsed, cue, flat)
    elif cue.kind == "deg":
        options = _measured(parsed, cue, flat)
    elif cue.kind == "cmp":
        options = _comparison(parsed, cue, flat)
    elif cue.kind == "agg":
        options = _aggregate(parsed, number, cue, flat)
    else:
        options = _superlative(parsed, number, cue, flat)
    options.append(Option(f"{cue.kind}.none", Ignore(), (), tuple(f"{cue.kind}.none|{f}" for f in flat)))
    options.append(Option(f"{cue.kind}.used", Consumed(), (), tuple(f"{cue.kind}.used|{f}" for f in flat)))
    return Decision(f"c{number}", cue.kind, cue.start, cue.end, tuple(options))


def _different(parsed: ParsedQuestion, start: int, end: int) -> bool:
    return any(parsed.word(at) in ("different", "distinct", "unique") for at in range(start, end))


_COUNTS: tuple[type[ColumnAct], ...] = (
    CountDistinct,
    CountValues,
    SumValues,
)  # the last one only for numbers


def _count(parsed: ParsedQuestion, cue: Cue, flat: list[str]) -> list[Option]:
    made = []
    for number, rank in near_mentions(parsed, cue.end, 2):
        mention = parsed.mentions[number]
        between = gap_words(parsed, cue.end, mention.start)
        unlike = _different(parsed, cue.end, mention.start)
        base = [f"k.rank={rank}", f"k.gap={between}", f"k.diff={unlike}"]
        for target in mention.targets[:6]:
            shape = base + [f"k.{f}" for f in target_features(parsed, number, mention, target)]
            use = (f"m{number}",)
            if target.column is None:
                for act in (CountRows(target.table), OrderByCount(target.table)):
                    features = tuple(f"k.{act.role}|{f}" for f in flat + base) + tuple(shape) + ("k.tab",)
                    made.append(Option(f"k.{act.role}", act, use, features))
                continue
            column = parsed.schema.columns[target.column]
            extra = [
                f"k.kind={column.kind}",
                f"k.uniq={column.unique}",
                f"k.id={column.is_key or column.is_ref}",
            ]
            for count in _COUNTS if column.kind == "number" else _COUNTS[:2]:
                features = tuple(f"k.{count.role}|{f}" for f in flat + base + extra) + tuple(shape)
                made.append(Option(f"k.{count.role}", count(target.column), use, features))
        for target in [t for t in mention.targets if t.column is None][:2]:
            for key in _keys_to(parsed, target.table):
                extra = [
                    f"k.own={parsed.schema.columns[key].table == target.table}",
                    f"k.q={target.way}{target.coverage == 1}",
                ]
                features = tuple(f"k.key|{f}" for f in flat + base + extra)
                made.append(Option("k.key", CountDistinct(key), (f"m{number}",), features))
    for act in (CountRows(None), OrderByCount(None)):
        features = tuple(f"k.{act.role}|{f}" for f in flat) + (f"k.{act.role}|bare",)
        made.append(Option(f"k.{act.role}", act, (), features))
    return made


def _keys_to(parsed: ParsedQuestion, table: int) -> list[int]:
    """Return columns whose distinct values are rows of a table: its key, and foreign keys to it."""
    key = parsed.schema.tables[table].key
    if key is None:
        return []
    return [key] + [source for source, target in parsed.schema.edges if target == key][:3]


def _shape(role: str, parsed: ParsedQuestion, cue: Cue, near: NearColumn) -> list[str]:
    """Describe the positions of a cue and a nearby column, as features of a role."""
    column = parsed.schema.columns[near.column]
    where = parsed.mentions[near.mention]
    between = (
        gap_words(parsed, cue.end, where.start)
        if near.place[0] == "a"
        else "b:" + gap_words(parsed, where.end, cue.start)
    )
    names = [
        f"at={near.place}",
        f"gap={between}",
        f"kind={column.kind}",
        f"id={column.is_key or column.is_ref}",
        *target_features(parsed, near.mention, where, near.target),
    ]
    return [f"{role}.{each}" for each in names]


def _aggregate(parsed: ParsedQuestion, number: int, cue: Cue, flat: list[str]) -> list[Option]:
    made = []
    compared = _comparison_before(parsed, cue.start)
    for near in near_columns(parsed, cue.start, cue.end, before=2, after=3):
        column = parsed.schema.columns[near.column]
        shape = _shape("g", parsed, cue, near)
        use = (f"m{near.mention}",)
        features = tuple(shape) + tuple(f"g.sel|{f}" for f in flat + shape[:3] + [f"cmp={bool(compared)}"])
        made.append(Option("g.sel", SelectAggregate(cue.what, column.id), use, features))
        if cue.what in ("max", "min"):
            features = tuple(shape) + tuple(f"g.sup|{f}" for f in flat + shape[:3])
            made.append(Option("g.sup", RankByColumn(column.id, cue.what == "max", 1), use, features))
        if parsed.units[parsed.unit_at[cue.start]].zone == "order":
            features = tuple(shape) + tuple(f"g.ord|{f}" for f in flat + shape[:3])
            made.append(Option("g.ord", OrderByAggregate(cue.what, column.id), use, features))
        if compared and column.kind in ("number", "date"):
            features = tuple(shape) + tuple(f"g.cmp|{f}" for f in flat + shape[:3])
            made.append(
                Option("g.cmp", CompareWithAggregate(column.id, compared[0], cue.what), use, features)
            )
    if cue.what == "sum":
        for mention, _ in near_mentions(parsed, cue.end, 1):
            for target in [t for t in parsed.mentions[mention].targets if t.column is None][:1]:
                features = tuple(f"g.cnt|{f}" for f in flat) + (f"g.cnt={target.way}{target.coverage == 1}",)
                made.append(Option("g.cnt", CountRows(target.table), (f"m{mention}",), features))
    if compared:
        for column, minus, rank in implied_columns(parsed, compared[1]):
            op = _TURNED[compared[0]] if turned(compared[1], minus) else compared[0]
            shape = [f"g.impl={rank}"] + table_fit(parsed, column, "g")
            features = tuple(shape) + tuple(f"g.cmpi|{f}" for f in flat)
            made.append(Option("g.cmp", CompareWithAggregate(column.id, op, cue.what), (), features))
    return made


def _measured(parsed: ParsedQuestion, cue: Cue, flat: list[str]) -> list[Option]:
    """Return options for "How old is …": the column that the adjective measures, its average or its extreme."""
    functions = [c.what for c in parsed.cues if c.kind == "agg"]
    functions += ["max" if c.what == "desc" else "min" for c in parsed.cues if c.kind == "super"]
    others = tuple(f"c{n}" for n, c in enumerate(parsed.cues) if c.kind in ("agg", "super"))
    made = []
    for column, _, rank in implied_columns(parsed, cue.degree):
        shape = (f"d.impl={rank}", f"d.kind={column.kind}", *table_fit(parsed, column, "d"))
        made.append(Option("d.sel", SelectColumn(column.id), (), shape + tuple(f"d.sel|{f}" for f in flat)))
        for function in functions[:1]:
            features = shape + tuple(f"d.agg|{f}" for f in flat)
            made.append(Option("d.agg", SelectAggregate(function, column.id), others[:1], features))
    return made


_EXTREMES = {
    (">", "any"): "min", (">", "some"): "min", ("<", "any"): "max", ("<", "some"): "max", (">", "all"): "max",
    ("<", "all"): "min", (">", "every"): "max", ("<", "every"): "min", (">", "each"): "max", ("<", "each"): "min",
    (">", "other"): "min", ("<", "other"): "max",
}  # fmt: skip


def _comparison(parsed: ParsedQuestion, cue: Cue, flat: list[str]) -> list[Option]:
    """Compare two columns, or a column with the extreme of some rows ("than any", "than the largest")."""
    made = []
    near = near_columns(parsed, cue.start, cue.end, before=2, after=2, each=3)
    within = near_columns(parsed, cue.start, cue.start + 1, before=0, after=1, each=3)
    near += [
        found._replace(place="i")
        for found in within
        if cue.start < parsed.mentions[found.mention].start < cue.end
    ]
    said = next((w for w in parsed.low[cue.end : cue.end + 4] if (cue.what, w) in _EXTREMES), "")
    columns = [found for found in near if parsed.schema.columns[found.column].kind in ("number", "date")]
    for one in columns:
        for two in columns:
            if one.place[0] in "bi" and two.place[0] == "a" and one.column != two.column:
                shape = [
                    f"o.at={one.place}{two.place}",
                    f"o.q={one.target.way}{two.target.way}",
                    f"o.same={one.target.table == two.target.table}",
                ]
                features = tuple(shape) + tuple(f"o.col|{f}" for f in flat)
                pair = CompareColumns(one.column, cue.what, two.column)
                made.append(Option("o.col", pair, (f"m{one.mention}", f"m{two.mention}"), features))
        if said:
            shape = [f"o.sat={one.place}", f"o.said={said}"]
            features = tuple(shape) + tuple(f"o.sub|{f}" for f in flat)
            act = CompareWithAggregate(one.column, cue.what, _EXTREMES[cue.what, said])
            made.append(Option("o.sub", act, (f"m{one.mention}",), features))
    if said:
        for column, minus, rank in implied_columns(parsed, cue.degree):
            op = _TURNED[cue.what] if turned(cue.degree, minus) else cue.what
            features = (f"o.impl={rank}", *table_fit(parsed, column, "o"), *(f"o.subi|{f}" for f in flat))
            made.append(
                Option("o.sub", CompareWithAggregate(column.id, op, _EXTREMES[op, said]), (), features)
            )
    return made


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
    made = []
    inner = [n for n, c in enumerate(parsed.cues) if n > number and 0 <= c.start - cue.end <= 2]
    counts = tuple(f"c{n}" for n in inner if parsed.cues[n].kind == "count")
    sums = [n for n in inner if parsed.cues[n].kind == "agg"]
    flat = flat + [f"inner={'count' if counts else 'agg' if sums else '-'}"]
    desc = cue.what == "desc"
    if cue.degree in _NEVER_COUNTS and not counts:
        return [*_ranked(parsed, cue, flat, sums), *_implied(parsed, cue, flat)]
    for mention, rank in near_mentions(parsed, parsed.cues[inner[0]].end if inner else cue.end, 2):
        where = parsed.mentions[mention]
        between = gap_words(parsed, cue.end, where.start)
        for target in [t for t in where.targets if t.column is None][:2]:
            shape = [f"s.rank={rank}", f"s.gap={between}", f"s.q={target.way}{target.coverage == 1}"]
            features = tuple(shape) + tuple(f"s.cnt|{f}" for f in flat + shape)
            made.append(
                Option(
                    "s.cnt", RankByCount(desc, cue.limit, target.table), (f"m{mention}", *counts), features
                )
            )
        if rank == 0 and all(t.column is not None for t in where.targets):
            best = where.best()
            shape = ["s.ccol", f"s.cgap={between}", f"s.q={best.way}{best.coverage == 1}"]
            features = tuple(shape) + tuple(f"s.cnt|{f}" for f in flat + shape)
            made.append(
                Option("s.cnt", RankByCount(desc, cue.limit, best.table), (f"m{mention}", *counts), features)
            )
    features = tuple(f"s.cnt|{f}" for f in flat) + ("s.cnt|bare",)
    made.append(Option("s.cnt", RankByCount(desc, cue.limit, None), counts, features))
    if cue.degree == "common":
        return made
    return [*made, *_ranked(parsed, cue, flat, sums), *_implied(parsed, cue, flat)]


# What these measure is a property of one row, so the earliest is never the one with the fewest rows.
_NEVER_COUNTS = word_set("""
    oldest eldest youngest tallest heaviest lightest longest expensive costly pricey cheapest fastest slowest latest
    recent newest earliest farthest furthest nearest closest deepest widest hottest warmest coldest
""")


def _implied(parsed: ParsedQuestion, cue: Cue, flat: list[str]) -> list[Option]:
    made = []
    for column, flip, rank in implied_columns(parsed, cue.degree):
        shape = [f"s.impl={rank}", f"s.kind={column.kind}"] + table_fit(parsed, column, "s")
        features = tuple(shape) + tuple(f"s.imp|{f}" for f in flat)
        made.append(Option("s.imp", RankByColumn(column.id, _direction(cue, flip), cue.limit), (), features))
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
    desc = cue.what == "desc"
    for near in near_columns(parsed, cue.start, cue.end, before=1, after=3):
        column = parsed.schema.columns[near.column]
        shape = _shape("s", parsed, cue, near)
        use = (f"m{near.mention}",)
        features = tuple(shape) + tuple(f"s.col|{f}" for f in flat + shape[:3])
        made.append(Option("s.col", RankByColumn(column.id, desc, cue.limit), use, features))
        if column.kind in ("number", "date"):
            features = tuple(shape) + tuple(f"s.agg|{f}" for f in flat + shape[:3])
            made.append(Option("s.agg", SelectAggregate("max" if desc else "min", column.id), use, features))
        compared = _comparison_before(parsed, cue.start)
        if compared and column.kind in ("number", "date"):
            features = tuple(shape) + tuple(f"s.cmp|{f}" for f in flat + shape[:3])
            extreme = CompareWithAggregate(column.id, compared[0], "max" if desc else "min")
            made.append(Option("s.cmp", extreme, use, features))
        if (
            not sums
            and column.kind == "number"
            and cue.degree in ("", "large", "high")
            and near.place[0] == "a"
        ):
            features = tuple(shape) + tuple(f"s.tot|{f}" for f in flat + shape[:3])
            made.append(Option("s.tot", RankByAggregate("sum", column.id, desc, cue.limit), use, features))
        for inner in sums:
            act = RankByAggregate(parsed.cues[inner].what, column.id, desc, cue.limit)
            features = tuple(shape) + tuple(f"s.sum|{f}" for f in flat + shape[:3])
            made.append(Option("s.sum", act, (*use, f"c{inner}"), features))
    return made


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
