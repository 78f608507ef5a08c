"""Decisions about values and numbers: the column that they filter, or whether they limit or count.

The options of a value are the columns that hold it. The options of a number are the columns named near it,
those that its comparison implies ("older than 30"), those that hold it as a year, a HAVING over a count, and
a LIMIT.
"""

from __future__ import annotations

from clew_nl2sql.planner.deciding import acts
from clew_nl2sql.planner.deciding.decisions import (
    Decision,
    NearColumn,
    Option,
    chosen,
    gap_words,
    labelled,
    near_columns,
    near_mentions,
    negated,
    target_features,
)
from clew_nl2sql.planner.deciding.times import EARLY, may_be_ranged, moment_of
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.predicates import flag_words
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
_LETTERS = {"first": "head", "last": "tail"}  # "the first letter is A"
_PATTERN = {"part": "%{}%", "weak": "%{}%", "head": "{}%", "tail": "%{}"}


def value_decision(parsed: ParsedQuestion, number: int) -> Decision:
    """Return the columns that a value may filter."""
    value = parsed.values[number]
    context = parsed.context(value.start, value.end)
    likeness = _like_kind(parsed, value)
    options: list[Option] = []
    for rank, holder in enumerate(value.holders):
        options += _held(parsed, value, holder, rank, context, likeness)
    options += _paired(parsed, value)
    stated = any(flag_words(parsed.schema.columns[h.column], parsed.schema) for h in value.holders)
    searched = likeness not in ("", "weak") and not stated  # "include breakfast" states a flag
    if (value.quoted and all(h.way == "part" for h in value.holders)) or searched:
        options += _patterned(parsed, value, context, likeness)
    blank = [
        f"way={value.holders[0].way if value.holders else '-'}", f"quoted={value.quoted}", *context[:8],
        f"len={value.end - value.start}",
        f"cap={parsed.tokens[value.start].text[:1].isupper()}{value.start == 0}",
    ]  # fmt: skip
    options.append(Option("v.none", acts.Ignore(), (), labelled("v.none", blank)))
    return Decision(f"v{number}", "value", value.start, value.end, tuple(options))


def _paired(parsed: ParsedQuestion, value: ValueMention) -> list[Option]:
    """Return options for a full name, whose parts are in two columns."""
    made = []
    for pair in value.pairs:
        table = parsed.schema.columns[pair[0]].table
        features = (
            "v.pair",
            f"v2.tab={table in parsed.named_tables}",
            f"v2.main={table == parsed.main_table}",
        )
        made.append(Option("v.pair", acts.FilterPair(*pair), (), features))
    return made


def _like_kind(parsed: ParsedQuestion, value: ValueMention) -> str:
    weak = ""
    for at in range(value.start - 1, max(-1, value.start - 7), -1):
        if parsed.word(at) == "letter" and parsed.word(at - 1) in _LETTERS:
            return _LETTERS[parsed.word(at - 1)]
        found = _LIKE_WORDS.get(parsed.word(at), "")
        if found == "part":
            return _edge_before(parsed, at) or found  # "starts with the letter A"
        if found in ("head", "tail"):
            return found
        weak = weak or found
    first, last = parsed.tokens[value.start], parsed.tokens[value.end - 1]
    is_code = value.quoted and parsed.question[first.start : last.end] == value.text
    return "" if is_code else weak  # a code is never a part of a value


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
    tables = [(parsed.mentions[m], t) for m, t in parsed.table_mentions]
    next_table = next((t for m, t in tables if m.start >= value.end), None)
    last_table = next((t for m, t in reversed(tables) if m.end <= value.start), None)
    named = "named" if column.table in parsed.named_tables else "-"
    return [
        f"v.way={holder.way}", f"v.named={place}", f"v.kind={column.kind}", f"v.holders={min(len(value.holders), 4)}",
        f"v.tab={named}", f"v.rank={min(rank, 2)}", f"v.quoted={value.quoted}",
        *([f"v.namedq={target.way}{target.coverage == 1}"] if target is not None else []),
        *chosen((
            (column.table == parsed.main_table, "v.main"),
            (column.table == next_table, "v.nexttab"),
            (column.table == last_table, "v.lasttab"),
            (column.is_key, "v.key"),
            (column.is_ref, "v.ref"),
            (column.id == parsed.schema.tables[column.table].display, "v.display"),
            (not {"name", "title"}.isdisjoint(column.words), "v.name"),
        )),
        f"v.prep={parsed.word(value.start - 1)}/{_sort_of(column)}",
    ]  # fmt: skip


_SORTS = ("city", "country", "state", "nationality", "name", "year", "date", "type", "location", "code", "gender",
          "sex", "status", "language", "month", "title", "position", "category")  # fmt: skip


def _sort_of(column: SchemaColumn) -> str:
    """Return the family of a column, for prepositions: people are from places, things happen in years."""
    return next((word for word in _SORTS if word in column.words), column.kind)


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
    denied = negated(parsed, value.start)
    flat = [f"v.neg={denied}", f"v.like={likeness}"] + context[:5]
    if holder.way == "part":
        if value.quoted and likeness in ("", "weak"):
            return []  # a part of a value is a different value
        act = acts.Filter(holder.column, "like", _PATTERN[likeness or "part"].format(holder.value))
        found = [Option("v.like", act, uses, _v("like", shape, flat))]
        # The searched column may also be the requested one: "publishers whose name contains".
        return [*found, Option("v.like", act, (), _v("free", shape, flat))] if uses else found
    made = [Option(f"v.{role}", act, uses, _v(role, shape, flat)) for role, act in _held_acts(holder, denied)]
    is_text = parsed.schema.columns[holder.column].kind not in ("number", "boolean")
    if likeness and is_text and not isinstance(holder.value, tuple) and holder.value not in (NULL, KNOWN):
        act = acts.Filter(holder.column, "like", _PATTERN[likeness].format(value.text))
        made.insert(1, Option("v.like", act, uses, _v("like", shape, flat)))
    return made


def _held_acts(holder: ValueMatch, denied: bool) -> list[tuple[str, acts.Act]]:
    """Return what a whole value may do, with the roles."""
    column, value = holder.column, holder.value
    if value in (NULL, KNOWN):
        return [("eq", acts.Filter(column, "is" if value == NULL else "is not", NULL))]
    equal, unequal = ("in", "not in") if isinstance(value, tuple) else ("=", "!=")
    found: list[tuple[str, acts.Act]] = [("eq", acts.Filter(column, equal, value))]
    if denied:
        found += [
            ("ne", acts.Filter(column, unequal, value)),
            ("exc", acts.ExcludeRows(column, equal, value)),
        ]
    return found


def _v(role: str, shape: list[str], flat: list[str]) -> tuple[str, ...]:
    return (*shape, *labelled(f"v.{role}", shape[:3] + flat))


def _patterned(
    parsed: ParsedQuestion, value: ValueMention, context: list[str], likeness: str
) -> list[Option]:
    """Return options for a value that no column is known to hold: nearby columns, by equality or pattern."""
    made = []
    flat = [f"v.like={likeness}"] + context[:5]
    for number, target, column, place in near_columns(parsed, value.start, value.end, before=2, after=1):
        if parsed.schema.columns[column].kind in ("number", "boolean", "date"):
            continue
        fit = target_features(parsed, number, parsed.mentions[number], target)
        shape, use = [f"v.far={place}", *(f"v.{f}" for f in fit)], (f"m{number}",)
        if likeness:
            act = acts.Filter(column, "like", _PATTERN[likeness].format(value.text))
            made.append(Option("v.like", act, use, _v("plike", shape, flat)))
        made.append(Option("v.eq", acts.Filter(column, "=", value.text), use, _v("peq", shape, flat)))
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
        options.append(Option("n.lim", acts.Limit(amount.values[0]), (), labelled("n.lim", flat)))
    if negated(parsed, amount.cue_start, 7):
        options += [
            _excluded(option, option.act, flat) for option in options if isinstance(option.act, acts.Filter)
        ]
    options += _started(parsed, amount, flat)
    options.append(Option("n.none", acts.Ignore(), (), labelled("n.none", flat)))
    return Decision(f"n{number}", "amount", amount.start, amount.end, tuple(options))


def _excluded(option: Option, act: acts.Filter, flat: list[str]) -> Option:
    """Return the same condition, on the rows that a negation excludes."""
    features = (*(f for f in option.features if "|" not in f), *labelled("n.exc", flat))
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
        features = (f"n.lat={place}", *labelled("n.like", flat))
        made.append(Option("n.like", acts.Filter(column, "like", pattern), (f"m{number}",), features))
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


def _condition(amount: Amount, column: int, *, flip: bool = False) -> acts.Filter:
    op = amount.op
    if flip:
        op = {">": "<", "<": ">", ">=": "<=", "<=": ">="}.get(op, op)
    return acts.Filter(column, op, amount.values if op in ("between", "in") else amount.values[0])


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
    if isinstance(first, str):
        return column.kind != "text" or any(str(v)[:4].isdigit() for v in column.source.values)
    if not column.source.values:
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
    for near in near_columns(parsed, amount.start, amount.end, before=3, after=2):
        column = parsed.schema.columns[near.column]
        if _comparable(column, amount) and may_be_ranged(parsed, column, amount, near.mention):
            shape = _compared_features(parsed, amount, near)
            role = f"n.cnd{near.place}"
            features = (*shape, *labelled("n.cnd", flat), *labelled(role, flat[:3]))
            made.append(Option("n.cnd", _condition(amount, column.id), (f"m{near.mention}",), features))
            if column.kind == "number" and amount.op != "in":
                made += _having_aggregate(parsed, amount, near, shape, flat)
    return made


def _compared_features(parsed: ParsedQuestion, amount: Amount, near: NearColumn) -> list[str]:
    column, mention = parsed.schema.columns[near.column], parsed.mentions[near.mention]
    between = gap_words(parsed, mention.end, amount.cue_start)
    if near.place[0] == "a":
        between = "a:" + gap_words(parsed, amount.end, mention.start)
    fit, zone = _fits(column, amount), parsed.units[parsed.unit_at[mention.start]].zone
    return [
        f"n.at={near.place}", f"n.fit={fit}", f"n.kind={column.kind}", f"n.gap={between}",
        f"n.atfit={near.place}{fit}{amount.explicit}", f"n.zone={zone}",
        *(f"n.{f}" for f in target_features(parsed, near.mention, mention, near.target)),
        *chosen([(column.is_id, "n.id")]),
    ]  # fmt: skip


def _having_aggregate(
    parsed: ParsedQuestion, amount: Amount, near: NearColumn, shape: list[str], flat: list[str]
) -> list[Option]:
    """Return options for "an average price of more than 5"."""
    made = []
    value = amount.values if amount.op == "between" else amount.values[0]
    for number, cue in enumerate(parsed.cues):
        if cue.kind == "agg" and 0 <= parsed.mentions[near.mention].start - cue.end <= 3:
            act = acts.HavingAggregate(cue.what, near.column, amount.op, value)
            features = (*shape, *labelled("n.hva", flat), f"n.hva={cue.what}")
            made.append(Option("n.hva", act, (f"m{near.mention}", f"c{number}"), features))
    return made


def _implied(parsed: ParsedQuestion, amount: Amount, flat: list[str]) -> list[Option]:
    """Return options for columns that the adjective measures, in any table that may be meant."""
    made = []
    # People are "over 40" without a word for age.
    aged = amount.explicit and amount.op != "=" and _size(amount) in ("small", "mid")
    degree = amount.degree or ("old" if aged else "")
    for column, minus, rank in implied_columns(parsed, degree):
        flip = turned(degree, minus)
        may_mean = amount.degree or not (flip or rank)
        if may_mean and (column.kind != "date" or _is_time(amount.values[0])):
            shape = [
                f"n.impl={rank}{bool(amount.degree)}",
                f"n.fit={_fits(column, amount)}",
                f"n.ikind={column.kind}",
            ]
            features = (*shape, *table_fit(parsed, column, "n"), *labelled("n.imp", flat))
            made.append(Option("n.imp", _condition(amount, column.id, flip=flip), (), features))
    return made


def implied_columns(parsed: ParsedQuestion, degree: str) -> list[tuple[SchemaColumn, bool, int]]:
    """Return number and date columns with a word that the adjective measures in their names; best words first."""
    if (moment := moment_of(parsed, degree)) is not None:
        return [(moment, degree in EARLY, 0)]
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
    if column.table == parsed.main_table:
        return [f"{prefix}.tfit=main"]
    fit = "touched" if column.table in parsed.touched_tables else "none"
    return [f"{prefix}.tfit={'named' if column.table in parsed.named_tables else fit}"]


def _held_numbers(parsed: ParsedQuestion, amount: Amount, flat: list[str]) -> list[Option]:
    """Return options for unnamed columns that hold the number, or hold years if it looks like one."""
    made: list[Option] = []
    for column in parsed.schema.columns:
        holds = None if column.is_key else _holds(column, amount)
        if holds is not None:
            shape = [f"n.hold={holds}", f"n.fit={_fits(column, amount)}", *table_fit(parsed, column, "n")]
            shape.append(f"n.hsize={_size(amount)}{_sort_of(column)}")
            features = (*shape, *labelled("n.hld", flat))
            made.append(Option("n.hld", _held_condition(amount, column), (), features))
    return made[:10]


def _holds(column: SchemaColumn, amount: Amount) -> str | None:
    """Return whether a column holds a number, and whether it holds years; None if it cannot be meant."""
    first = amount.values[0]
    if column.kind == "date" and not _is_time(first):
        return None
    held = first in column.source.values or str(first) in column.source.values
    year = column.kind == "date" or not {"year", "date"}.isdisjoint(column.words)
    dated = year and _size(amount) in ("year", "date")
    return f"{held}{year}" if dated or (held and amount.op in ("=", "!=", "in")) else None


def _held_condition(amount: Amount, column: SchemaColumn) -> acts.Filter:
    """Return the condition; a year matches the prefix of dates that are text."""
    first, known = amount.values[0], column.source.values
    if not known or not isinstance(first, int) or not all(isinstance(v, str) for v in known[:20]):
        return _condition(amount, column.id)
    if amount.op == "=" and str(first) not in known:
        return acts.Filter(column.id, "like", f"%{first}%")
    values = tuple(str(v) for v in amount.values)
    return acts.Filter(column.id, amount.op, values if amount.op in ("between", "in") else values[0])


def _having(parsed: ParsedQuestion, amount: Amount, flat: list[str], cues: tuple[str, ...]) -> list[Option]:
    """Return options for a number of rows: of a table near it, or of the rows themselves."""
    if amount.op in ("!=", "in") or not isinstance(amount.values[0], int):
        return []
    if parsed.word(amount.end) in UNITS:
        return []  # "more than 60 kg" is not a number of rows
    value = amount.values if amount.op == "between" else amount.values[0]
    made = []
    for table, uses, shape in _counted_tables(parsed, amount, cues):
        features = (*shape, *labelled("n.hav", flat))
        made.append(Option("n.hav", acts.HavingCount(amount.op, value, table), (*uses, *cues), features))
    return made


def _counted_tables(
    parsed: ParsedQuestion, amount: Amount, cues: tuple[str, ...]
) -> list[tuple[int | None, tuple[str, ...], list[str]]]:
    """Return the tables whose rows may be counted, with the mentions that name them, and features."""
    found: list[tuple[int | None, tuple[str, ...], list[str]]] = []
    for number, rank in near_mentions(parsed, amount.end, 2):
        found += [(table, (f"m{number}",), shape) for table, shape in _counted(parsed, amount, number, rank)]
    earlier = [n for n, m in enumerate(parsed.mentions) if m.end <= amount.cue_start][-1:]
    for number in earlier if cues else ():
        tables = [t.table for t in parsed.mentions[number].targets if t.column is None]
        found += [(table, (f"m{number}",), ["h.before"]) for table in tables[:1]]
    return [*found, (None, (), ["h.bare"])]


def _counted(parsed: ParsedQuestion, amount: Amount, number: int, rank: int) -> list[tuple[int, list[str]]]:
    """Return the tables that a mention may count, with features: those that it names, or that of its column."""
    mention = parsed.mentions[number]
    between, best = gap_words(parsed, amount.end, mention.start), mention.best()
    tables = [t for t in mention.targets if t.column is None][:2]
    if not tables and rank == 0:
        return [(best.table, ["h.col", f"h.cgap={between}", f"h.q={best.way}{best.coverage == 1}"])]
    place = [f"h.rank={rank}", f"h.gap={between}"]
    return [(t.table, [*place, f"h.q={t.way}{t.coverage == 1}", "h.tab"]) for t in tables]
