"""Decisions about values and numbers: the column that they filter, or whether they limit or count.

The options of a value are the columns that hold it. The options of a number are the columns named near it,
those that its comparison implies ("older than 30"), those that hold it as a year, a HAVING over a count, and
a LIMIT.
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding.acts import (
    ExcludeRows,
    Filter,
    FilterPair,
    HavingAggregate,
    HavingCount,
    Ignore,
    Limit,
)
from clew_nl2sql.planner.deciding.decisions import (
    Decision,
    Option,
    gap_words,
    near_columns,
    near_mentions,
    negated,
    target_features,
)
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaColumn
from clew_nl2sql.planner.linking.schema_linking import Target
from clew_nl2sql.planner.linking.value_linking import ValueMatch, ValueMention
from clew_nl2sql.planner.query import KNOWN, NULL
from clew_nl2sql.planner.words.cues import Amount
from clew_nl2sql.planner.words.lexicon import DEGREES, UNITS

_LIKE_WORDS = {
    "contain": "part", "contains": "part", "containing": "part", "contained": "part", "include": "part",
    "includes": "part", "including": "part", "substring": "part", "like": "part", "word": "part", "phrase": "part",
    "letter": "part", "string": "part", "start": "head", "starts": "head", "starting": "head", "begin": "head",
    "begins": "head", "beginning": "head", "prefix": "head", "end": "tail", "ends": "tail", "ending": "tail",
    "suffix": "tail", "initial": "head", "has": "weak", "have": "weak", "in": "weak",
}  # fmt: skip
_PATTERN = {"part": "%{}%", "weak": "%{}%", "head": "{}%", "tail": "%{}"}


def value_decision(parsed: ParsedQuestion, number: int) -> Decision:
    """Return the columns that a value may filter."""
    value = parsed.values[number]
    context = parsed.context(value.start, value.end)
    likeness = _like_kind(parsed, value)
    options: list[Option] = []
    for rank, holder in enumerate(value.holders):
        options.extend(_held(parsed, value, holder, rank, context, likeness))
    for first, one, second, two in value.pairs:
        table = parsed.schema.columns[first].table
        fit = [
            f"v2.tab={table in {t for _, t in parsed.table_mentions}}",
            f"v2.main={table == parsed.main_table}",
        ]
        options.append(Option("v.pair", FilterPair(first, one, second, two), (), ("v.pair", *fit)))
    if (value.quoted and all(h.way == "part" for h in value.holders)) or likeness not in ("", "weak"):
        options.extend(_patterned(parsed, value, context, likeness))
    blank: tuple[str, ...] = (
        f"v.none|way={value.holders[0].way if value.holders else '-'}",
        f"v.none|quoted={value.quoted}",
    )
    blank += tuple(f"v.none|{c}" for c in context[:8]) + (f"v.none|len={value.end - value.start}",)
    blank += (f"v.none|cap={parsed.tokens[value.start].text[:1].isupper()}{value.start == 0}",)
    options.append(Option("v.none", Ignore(), (), blank))
    return Decision(f"v{number}", "value", value.start, value.end, tuple(options))


def _like_kind(parsed: ParsedQuestion, value: ValueMention) -> str:
    first, last = parsed.tokens[value.start], parsed.tokens[value.end - 1]
    is_code = (
        value.quoted and parsed.question[first.start : last.end] == value.text
    )  # never a part of a value
    weak = ""
    for at in range(value.start - 1, max(-1, value.start - 7), -1):
        found = _LIKE_WORDS.get(parsed.word(at), "")
        if parsed.word(at) == "letter" and parsed.word(at - 1) in ("first", "last"):
            return "head" if parsed.word(at - 1) == "first" else "tail"
        if found and found != "weak":
            if found == "part" and (edge := _edge_before(parsed, at)):
                return edge  # "starts with the letter A"
            return found
        weak = weak or found
    return "" if is_code else weak


def _edge_before(parsed: ParsedQuestion, at: int) -> str:
    words = [parsed.word(n) for n in range(at - 1, max(-1, at - 4), -1)]
    return next((k for w in words if (k := _LIKE_WORDS.get(w, "")) in ("head", "tail")), "")


def _naming(
    parsed: ParsedQuestion, value: ValueMention, column: int
) -> tuple[int | None, Target | None, str]:
    """Return the nearest mention that names a value's column, if any."""
    near = near_columns(parsed, value.start, value.end, before=3, after=2, each=10)
    for number, target, its_column, place in near:
        best = parsed.mentions[number].best()
        exactly_another = best.way == "exact" and best.coverage == 1 and target.way != "exact"
        if its_column == column and target.quality >= best.quality - 0.25 and not exactly_another:
            return number, target, place
    return None, None, "-"


def _holder_features(
    parsed: ParsedQuestion,
    value: ValueMention,
    holder: ValueMatch,
    rank: int,
    place: str,
    target: Target | None,
) -> list[str]:
    column = parsed.schema.columns[holder.column]
    named = {t for _, t in parsed.table_mentions}
    next_table = next((t for m, t in parsed.table_mentions if parsed.mentions[m].start >= value.end), None)
    last_table = next(
        (t for m, t in reversed(parsed.table_mentions) if parsed.mentions[m].end <= value.start), None
    )
    found = [
        f"v.way={holder.way}", f"v.named={place}", f"v.kind={column.kind}", f"v.holders={min(len(value.holders), 4)}",
        f"v.tab={'named' if column.table in named else '-'}", f"v.rank={min(rank, 2)}",
        f"v.quoted={value.quoted}",
    ]  # fmt: skip
    if target is not None:
        found.append(f"v.namedq={target.way}{target.coverage == 1}")
    if column.table == parsed.main_table:
        found.append("v.main")
    if column.table == next_table:
        found.append("v.nexttab")
    if column.table == last_table:
        found.append("v.lasttab")
    if column.is_key:
        found.append("v.key")
    if column.is_ref:
        found.append("v.ref")
    if column.id == parsed.schema.tables[column.table].display:
        found.append("v.display")
    if any(w in ("name", "title") for w in column.words):
        found.append("v.name")
    before = parsed.word(value.start - 1)
    found.append(f"v.prep={before}/{_sort_of(column)}")
    return found


def _sort_of(column: SchemaColumn) -> str:
    """Return the family of a column, for prepositions: people are from places, things happen in years."""
    for word in ("city", "country", "state", "nationality", "name", "year", "date", "type", "location", "code",
                 "gender", "sex", "status", "language", "month", "title", "position", "category"):  # fmt: skip
        if word in column.words:
            return word
    return column.kind


def _held(
    parsed: ParsedQuestion,
    value: ValueMention,
    holder: ValueMatch,
    rank: int,
    context: list[str],
    likeness: str,
) -> list[Option]:
    number, target, place = _naming(parsed, value, holder.column)
    uses = (f"m{number}",) if number is not None else ()
    shape = _holder_features(parsed, value, holder, rank, place, target)
    flat = [f"v.neg={negated(parsed, value.start)}", f"v.like={likeness}"] + context[:5]
    made = []
    if holder.way == "part":
        if value.quoted and likeness in ("", "weak"):
            return []  # a part of a value is a different value
        pattern = _PATTERN[likeness or "part"].format(holder.value)
        made.append(Option("v.like", Filter(holder.column, "like", pattern), uses, _v("like", shape, flat)))
        if uses:  # the searched column may also be the requested one: "publishers whose name contains"
            free = _v("free", shape, flat)
            made.append(Option("v.like", Filter(holder.column, "like", pattern), (), free))
        return made
    if holder.value == NULL:
        return [Option("v.eq", Filter(holder.column, "is", NULL), uses, _v("eq", shape, flat))]
    if holder.value == KNOWN:
        return [Option("v.eq", Filter(holder.column, "is not", NULL), uses, _v("eq", shape, flat))]
    equal, unequal = ("in", "not in") if isinstance(holder.value, tuple) else ("=", "!=")
    made.append(Option("v.eq", Filter(holder.column, equal, holder.value), uses, _v("eq", shape, flat)))
    if likeness and equal == "=":
        pattern = _PATTERN[likeness].format(value.text)
        made.append(Option("v.like", Filter(holder.column, "like", pattern), uses, _v("like", shape, flat)))
    if negated(parsed, value.start):
        made.append(Option("v.ne", Filter(holder.column, unequal, holder.value), uses, _v("ne", shape, flat)))
        made.append(
            Option("v.exc", ExcludeRows(holder.column, equal, holder.value), uses, _v("exc", shape, flat))
        )
    return made


def _v(role: str, shape: list[str], flat: list[str]) -> tuple[str, ...]:
    return tuple(shape) + tuple(f"v.{role}|{f}" for f in shape[:3] + flat)


def _patterned(
    parsed: ParsedQuestion, value: ValueMention, context: list[str], likeness: str
) -> list[Option]:
    """Return options for a value that no column is known to hold: nearby columns, by equality or pattern."""
    made = []
    for number, target, its_column, place in near_columns(parsed, value.start, value.end, before=2, after=1):
        column = parsed.schema.columns[its_column]
        if column.kind in ("number", "boolean"):
            continue
        shape = [f"v.far={place}"] + [
            f"v.{f}" for f in target_features(parsed, number, parsed.mentions[number], target)
        ]
        flat = [f"v.like={likeness}"] + context[:5]
        if likeness:
            pattern = _PATTERN[likeness].format(value.text)
            made.append(
                Option(
                    "v.like", Filter(column.id, "like", pattern), (f"m{number}",), _v("plike", shape, flat)
                )
            )
        made.append(
            Option("v.eq", Filter(column.id, "=", value.text), (f"m{number}",), _v("peq", shape, flat))
        )
    return made


def amount_decision(parsed: ParsedQuestion, number: int) -> Decision:
    """Return the decision about a number."""
    amount = parsed.amounts[number]
    context = parsed.context(amount.start, amount.start + 1)
    op = "=" if amount.op == "in" else amount.op
    flat = [f"op={op}", f"said={amount.explicit}", f"deg={amount.degree}"] + context[:8]
    flat += [f"cue={' '.join(parsed.low[amount.cue_start : amount.start])}", f"size={_size(amount)}"]
    uses = _inner_cues(parsed, amount)
    flat.append(f"cues={len(uses)}")
    options = (
        _compared(parsed, amount, flat) + _implied(parsed, amount, flat) + _held_numbers(parsed, amount, flat)
    )
    options += _having(parsed, amount, flat, uses)
    if amount.op == "=" and isinstance(amount.values[0], int) and 0 < amount.values[0] <= 50:
        options.append(Option("n.lim", Limit(amount.values[0]), (), tuple(f"n.lim|{f}" for f in flat)))
    if negated(parsed, amount.cue_start, 7):
        options += [
            _excluded(option, option.act, flat) for option in options if isinstance(option.act, Filter)
        ]
    options += _started(parsed, amount, flat)
    options.append(Option("n.none", Ignore(), (), tuple(f"n.none|{f}" for f in flat)))
    return Decision(f"n{number}", "amount", amount.start, amount.end, tuple(options))


def _excluded(option: Option, act: Filter, flat: list[str]) -> Option:
    """Return the same condition, on the rows that a negation excludes."""
    features = tuple(f for f in option.features if "|" not in f) + tuple(f"n.exc|{f}" for f in flat)
    return Option("n.exc", act.excluding(), option.uses, features)


def _started(parsed: ParsedQuestion, amount: Amount, flat: list[str]) -> list[Option]:
    """Return options for a code that starts with, ends with or contains a number."""
    words = parsed.low[max(0, amount.start - 4) : amount.start]
    likeness = next((k for w in reversed(words) if (k := _LIKE_WORDS.get(w, "weak")) != "weak"), "")
    if not likeness or amount.explicit:
        return []
    made = []
    for number, _, column, place in near_columns(parsed, amount.start, amount.end, before=2, after=0):
        pattern = _PATTERN[likeness].format(amount.values[0])
        features = (f"n.lat={place}", *(f"n.like|{f}" for f in flat))
        made.append(Option("n.like", Filter(column, "like", pattern), (f"m{number}",), features))
    return made


def _size(amount: Amount) -> str:
    first = amount.values[0]
    if isinstance(first, str):
        return "date"
    if 1500 <= first <= 2100 and float(first).is_integer():
        return "year"
    return "small" if first <= 10 else "mid" if first <= 100 else "big"


def _inner_cues(parsed: ParsedQuestion, amount: Amount) -> tuple[str, ...]:
    """Return counting cues that belong to the comparison: "the number of students is more than 5"."""
    return tuple(
        f"c{n}"
        for n, c in enumerate(parsed.cues)
        if c.kind == "count"
        and (0 <= amount.cue_start - c.end <= 5 or c.start in (amount.end, amount.cue_end))
    )


def _condition(amount: Amount, column: int, *, flip: bool = False) -> Filter:
    op = amount.op
    if flip:
        op = {">": "<", "<": ">", ">=": "<=", "<=": ">="}.get(op, op)
    return Filter(column, op, amount.values if op in ("between", "in") else amount.values[0])


def _fits(column: SchemaColumn, amount: Amount) -> str:
    """Return whether the column's known values make the comparison plausible."""
    numbers = [v for v in column.source.values if isinstance(v, int | float)]
    first = amount.values[0]
    if isinstance(first, str):
        return "date" if column.kind in ("date", "text") else "no"
    if not numbers:
        return "text" if column.source.values else "empty"
    if amount.op in ("=", "!=", "in"):
        return "held" if first in numbers else "absent"
    return "within" if min(numbers) <= first <= max(numbers) else "outside"


def _comparable(column: SchemaColumn, amount: Amount) -> bool:
    """Return whether a number can be compared with the column; it cannot with a column of words."""
    first = amount.values[0]
    if column.kind == "date" and not _is_time(first):
        return False
    if isinstance(first, str) or not column.source.values:
        return True
    if amount.op in ("=", "!=", "in"):
        return any(str(first) in str(v) for v in column.source.values)
    return any(not isinstance(v, str) or v[:1].isdigit() for v in column.source.values)


def _is_time(value: float | int | str) -> bool:
    """Return whether a date can be compared with a value: a day with the year first, or a year."""
    if isinstance(value, str):
        return value[:4].isdigit()
    return 1000 <= value <= 2200


def _compared(parsed: ParsedQuestion, amount: Amount, flat: list[str]) -> list[Option]:
    made = []
    for number, target, its_column, place in near_columns(
        parsed, amount.start, amount.end, before=3, after=2
    ):
        column = parsed.schema.columns[its_column]
        mention = parsed.mentions[number]
        if not _comparable(column, amount):
            continue
        between = (
            gap_words(parsed, mention.end, amount.cue_start)
            if place[0] == "b"
            else "a:" + gap_words(parsed, amount.end, mention.start)
        )
        fit, zone = _fits(column, amount), parsed.units[parsed.unit_at[mention.start]].zone
        shape = [f"n.at={place}", f"n.fit={fit}", f"n.kind={column.kind}", f"n.gap={between}"]
        shape += [f"n.atfit={place}{fit}{amount.explicit}", f"n.zone={zone}"]
        shape += [f"n.{f}" for f in target_features(parsed, number, mention, target)]
        if column.is_key or column.is_ref:
            shape.append("n.id")
        features = (
            tuple(shape) + tuple(f"n.cnd|{f}" for f in flat) + tuple(f"n.cnd{place}|{f}" for f in flat[:3])
        )
        made.append(Option("n.cnd", _condition(amount, column.id), (f"m{number}",), features))
        for inner, cue in enumerate(parsed.cues):
            near = cue.kind == "agg" and 0 <= mention.start - cue.end <= 3
            if near and column.kind == "number" and amount.op != "in":
                value = amount.values if amount.op == "between" else amount.values[0]
                features = tuple(shape) + tuple(f"n.hva|{f}" for f in flat) + (f"n.hva={cue.what}",)
                act = HavingAggregate(cue.what, column.id, amount.op, value)
                made.append(Option("n.hva", act, (f"m{number}", f"c{inner}"), features))
    return made


def _implied(parsed: ParsedQuestion, amount: Amount, flat: list[str]) -> list[Option]:
    """Return options for columns that the adjective measures, in any table that may be meant."""
    made = []
    degree = amount.degree
    if not degree and amount.explicit and amount.op != "=" and _size(amount) in ("small", "mid"):
        degree = "old"  # people are "over 40" without a word for age
    for column, minus, rank in implied_columns(parsed, degree):
        flip = turned(degree, minus)
        if (not amount.degree and (flip or rank)) or (
            column.kind == "date" and not _is_time(amount.values[0])
        ):
            continue
        shape = [
            f"n.impl={rank}{bool(amount.degree)}",
            f"n.fit={_fits(column, amount)}",
            f"n.ikind={column.kind}",
        ]
        shape += table_fit(parsed, column, "n")
        features = tuple(shape) + tuple(f"n.imp|{f}" for f in flat)
        made.append(Option("n.imp", _condition(amount, column.id, flip=flip), (), features))
    return made


def implied_columns(parsed: ParsedQuestion, degree: str) -> list[tuple[SchemaColumn, bool, int]]:
    """Return number and date columns with a word that the adjective measures in their names; best words
    first.
    """
    made: list[tuple[SchemaColumn, bool, int]] = []
    for rank, (word, flip) in enumerate(DEGREES.get(degree, ())):
        for column in parsed.schema.columns:
            measures = column.kind in ("number", "date", "text") and not (column.is_ref or column.identifies)
            if word in column.words and measures and all(column.id != c.id for c, _, _ in made):
                made.append((column, flip, min(rank, 3)))
    return made[:8]


def turned(degree: str, minus: bool) -> bool:
    """Return whether a column reverses a comparison by an adjective: an older person was born earlier."""
    usual = DEGREES[degree][0][1]
    return minus != usual


def table_fit(parsed: ParsedQuestion, column: SchemaColumn, prefix: str) -> list[str]:
    """Describe how a column that the question does not name relates to the named tables."""
    named = {t for _, t in parsed.table_mentions}
    touched = {t.table for m in parsed.mentions for t in m.targets if t.quality >= m.best().quality - 1e-9}
    fit = "main" if column.table == parsed.main_table else "named" if column.table in named else ""
    return [f"{prefix}.tfit={fit or ('touched' if column.table in touched else 'none')}"]


def _held_numbers(parsed: ParsedQuestion, amount: Amount, flat: list[str]) -> list[Option]:
    """Return options for unnamed columns that hold the number, or hold years if it looks like one."""
    made: list[Option] = []
    first = amount.values[0]
    for column in parsed.schema.columns:
        if column.is_key:
            continue
        year = "year" in column.words or "date" in column.words or column.kind == "date"
        if column.kind == "date" and not _is_time(first):
            continue
        held = first in column.source.values or str(first) in column.source.values
        if not ((year and _size(amount) in ("year", "date")) or (held and amount.op in ("=", "!=", "in"))):
            continue
        shape = [f"n.hold={held}{year}", f"n.fit={_fits(column, amount)}"] + table_fit(parsed, column, "n")
        shape.append(f"n.hsize={_size(amount)}{_sort_of(column)}")
        features = tuple(shape) + tuple(f"n.hld|{f}" for f in flat)
        made.append(Option("n.hld", _held_condition(amount, column), (), features))
    return made[:10]


def _held_condition(amount: Amount, column: SchemaColumn) -> Filter:
    """Return the condition; a year matches the prefix of dates that are text."""
    first = amount.values[0]
    texts = column.source.values and all(isinstance(v, str) for v in column.source.values[:20])
    if amount.op == "=" and texts and isinstance(first, int) and str(first) not in column.source.values:
        return Filter(column.id, "like", f"%{first}%")
    if texts and isinstance(first, int):
        values = tuple(str(v) for v in amount.values)
        return Filter(column.id, amount.op, values if amount.op in ("between", "in") else values[0])
    return _condition(amount, column.id)


def _having(parsed: ParsedQuestion, amount: Amount, flat: list[str], cues: tuple[str, ...]) -> list[Option]:
    if amount.op in ("!=", "in") or not isinstance(amount.values[0], int):
        return []
    if parsed.word(amount.end) in UNITS:
        return []  # "more than 60 kg" is not a number of rows
    made = []
    value = amount.values if amount.op == "between" else amount.values[0]
    for number, rank in near_mentions(parsed, amount.end, 2):
        mention = parsed.mentions[number]
        tables = [t for t in mention.targets if t.column is None][:2]
        between = gap_words(parsed, amount.end, mention.start)
        for target in tables:
            shape = [f"h.rank={rank}", f"h.gap={between}", f"h.q={target.way}{target.coverage == 1}", "h.tab"]
            features = tuple(shape) + tuple(f"n.hav|{f}" for f in flat)
            made.append(
                Option("n.hav", HavingCount(amount.op, value, target.table), (f"m{number}", *cues), features)
            )
        if not tables and rank == 0:
            best = mention.best()
            shape = ["h.col", f"h.cgap={between}", f"h.q={best.way}{best.coverage == 1}"]
            features = tuple(shape) + tuple(f"n.hav|{f}" for f in flat)
            made.append(
                Option("n.hav", HavingCount(amount.op, value, best.table), (f"m{number}", *cues), features)
            )
    earlier = [n for n, m in enumerate(parsed.mentions) if m.end <= amount.cue_start]
    if cues and earlier:
        for target in [t for t in parsed.mentions[earlier[-1]].targets if t.column is None][:1]:
            features = ("h.before",) + tuple(f"n.hav|{f}" for f in flat)
            made.append(
                Option(
                    "n.hav", HavingCount(amount.op, value, target.table), (f"m{earlier[-1]}", *cues), features
                )
            )
    features = ("h.bare",) + tuple(f"n.hav|{f}" for f in flat)
    made.append(Option("n.hav", HavingCount(amount.op, value, None), cues, features))
    return made
