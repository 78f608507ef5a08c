"""Decisions: for every mention, value, number and cue, the roles that it may play in a query.

An `Option` is one role with its features. Options that consume another piece of the question say so in
`uses` ("m3" is mention 3, "c0" cue 0): a consumed mention can play no role of its own. Which option to take is
learned; this module only says which there are.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.acts import (
    Act,
    ColumnAct,
    Consumed,
    ExcludeTable,
    GroupByColumn,
    GroupByTable,
    Ignore,
    JoinTable,
    OrderByColumn,
    SelectAggregate,
    SelectColumn,
    SelectFullName,
    ShowTable,
    TableAct,
)
from clew_nl2sql.planner.parsed_question import NEGATIONS, ParsedQuestion
from clew_nl2sql.planner.schema_linking import Mention, Target


class Option(NamedTuple):
    """The name of a role, what it does, what it consumes, its features."""

    role: str
    act: Act
    uses: tuple[str, ...]
    features: tuple[str, ...]


class NearColumn(NamedTuple):
    """A column that a mention near some place may mean, and how far away it is ("b0" is the last before it)."""

    mention: int
    target: Target
    column: int
    place: str


class Decision(NamedTuple):
    """A piece of the question (`key` as in `uses`), its place, and its options."""

    key: str
    kind: str
    start: int
    end: int
    options: tuple[Option, ...]


def quality_band(quality: float) -> str:
    """A quality as one of a few names."""
    for limit, name in ((0.99, "full"), (0.84, "high"), (0.7, "good"), (0.55, "half")):
        if quality >= limit:
            return name
    return "low"


def target_features(reading: ParsedQuestion, number: int, mention: Mention, target: Target) -> list[str]:
    """How well a mention's words fit a target, and how its table fits the rest of the question."""
    named = {t for _, t in reading.table_mentions}
    later = next((t for m, t in reading.table_mentions if m > number), None)
    earlier = next((t for m, t in reversed(reading.table_mentions) if m < number), None)
    best = mention.best()
    found = [
        f"t.q={quality_band(target.quality)}",
        f"t.way={target.way}",
        f"t.gap={quality_band(1 - (best.quality - target.quality))}",
        f"t.tab={'own' if target.with_table else ''}{'named' if target.table in named else ''}",
    ]
    if target.coverage == 1:
        found.append("t.whole")
    if target.table == later:
        found.append("t.later")
    if target.table == earlier:
        found.append("t.earlier")
    if target.table == reading.main_table:
        found.append("t.main")
    if target.column is None:
        return found
    column = reading.schema.columns[target.column]
    rivals = sum(1 for t in mention.targets if t.column is not None and t.quality >= target.quality - 1e-9)
    found.append(f"t.rivals={min(rivals, 3)}")
    if column.is_ref:
        found.append("t.ref")
    if column.is_key:
        found.append("t.key")
    if column.name.lower() in ("name", "title"):
        found.append("t.plainname")
    if any(t in named for t in _linked_tables(reading, target.table)):
        found.append("t.neighbour")
    return found


def _linked_tables(reading: ParsedQuestion, table: int) -> list[int]:
    columns = reading.schema.columns
    pairs = [(columns[a].table, columns[b].table) for a, b in reading.schema.edges]
    return [b if a == table else a for a, b in pairs if table in (a, b)]


AFFIRMATIVE: tuple[type[TableAct], ...] = (JoinTable, ShowTable, GroupByTable)
TABLE_ACTS: tuple[type[TableAct], ...] = (*AFFIRMATIVE, ExcludeTable)
COLUMN_ACTS: tuple[type[ColumnAct], ...] = (SelectColumn, GroupByColumn, OrderByColumn)


def mention_decision(reading: ParsedQuestion, number: int) -> Decision:
    """The roles of one mention: select it, group or order by it, count it, list it, or nothing."""
    mention = reading.mentions[number]
    context = reading.context(mention.start, mention.end)
    options = []
    for rank, target in enumerate(mention.targets):
        shape = target_features(reading, number, mention, target)
        if target.column is None:
            for to_table in TABLE_ACTS if reading.negates else AFFIRMATIVE:
                role = to_table.role
                features = (
                    [f"{role}|{c}" for c in context]
                    + [f"tab|{s}" for s in shape]
                    + [f"{role}|{s}" for s in shape]
                )
                options.append(Option(role, to_table(target.table), (), tuple(features)))
            continue
        kind = reading.schema.columns[target.column].kind
        for to_column in COLUMN_ACTS:
            role = to_column.role
            features = (
                [f"{role}|{c}" for c in context]
                + [f"col|{s}" for s in shape]
                + [f"{role}|{s}" for s in shape]
            )
            features += [f"{role}|kind={kind}", f"{role}|rank={min(rank, 2)}", f"{role}|n={min(number, 3)}"]
            options.append(Option(role, to_column(target.column), (), tuple(features)))
        if kind == "number" and target.coverage == 1:
            options.extend(_added_up(reading, mention, target, context, shape))
        inherited = _inherited(reading, mention)
        if inherited and kind == "number":
            features = (
                [f"chain|{c}" for c in context] + [f"col|{s}" for s in shape] + [f"chain|fn={inherited}"]
            )
            options.append(Option("chain", SelectAggregate(inherited, target.column), (), tuple(features)))
    options.extend(_full_names(reading, number, context))
    options.extend(_names_by_display(reading, number, context))
    best = mention.best()
    blank = [
        f"t.q={quality_band(best.quality)}",
        f"t.way={best.way}",
        "tab" if best.column is None else "col",
    ]
    for act in (Ignore(), Consumed()):
        features = [f"{act.role}|{c}" for c in context] + [f"{act.role}|{s}" for s in blank]
        options.append(Option(act.role, act, (), tuple(features)))
    return Decision(f"m{number}", "mention", mention.start, mention.end, tuple(options))


def _full_names(reading: ParsedQuestion, number: int, context: list[str]) -> list[Option]:
    """ "Full name", or "name" where a table has only a first and a last one: both columns."""
    mention = reading.mentions[number]
    if reading.word(mention.end - 1) not in ("name", "names"):
        return []
    full = reading.word(mention.end - 2) == "full"
    made = []
    for table in reading.schema.tables:
        columns = {reading.schema.columns[c].core: c for c in table.columns}
        first, last = columns.get(("first", "name")), columns.get(("last", "name"))
        if first is None or last is None or not any(t.column in (first, last) for t in mention.targets):
            continue
        whole = Target(table.id, first, 1.0, 1.0, "exact", False)
        shape = target_features(reading, number, mention._replace(targets=(whole,)), whole)
        if not full:
            shape.append(f"full|{('name',) in columns}")
        features = [f"sel|{c}" for c in context] + [f"col|{s}" for s in shape] + [f"sel|{s}" for s in shape]
        made.append(Option("full", SelectFullName(first, last), (), tuple(features)))
    return made


def _names_by_display(reading: ParsedQuestion, number: int, context: list[str]) -> list[Option]:
    """ "The name of the party" where the party table calls it something else: the column that names a row."""
    mention = reading.mentions[number]
    if (
        reading.word(mention.start) not in ("name", "names", "title", "titles")
        or mention.end - mention.start > 1
    ):
        return []
    later = next((t for m, t in reading.table_mentions if m > number), None)
    earlier = next((t for m, t in reading.table_mentions if m < number), None)
    made = []
    for table in sorted({t for _, t in reading.table_mentions}):
        display = reading.schema.tables[table].display
        if display is None or any(t.table == table and t.column is not None for t in mention.targets):
            continue
        place = f"{table == later}{table == earlier}{table == reading.main_table}"
        features = (f"named|{place}", *(f"named|{c}" for c in context[:4]))
        made.append(Option("named", SelectColumn(display), (), features))
    return made


def _added_up(
    reading: ParsedQuestion, mention: Mention, target: Target, context: list[str], shape: list[str]
) -> list[Option]:
    """ "The total amount" where a column is called that: of one row it is the column, of many the sum."""
    what = next((w for at, w in reading.within_names.items() if mention.start <= at < mention.end), "")
    if not what or target.column is None:
        return []
    features = [f"within|{c}" for c in context] + [f"col|{s}" for s in shape] + [f"within|fn={what}"]
    return [Option("within", SelectAggregate(what, target.column), (), tuple(features))]


def _inherited(reading: ParsedQuestion, mention: Mention) -> str:
    """The aggregate of an enumeration: in "the average age and weight" the weight is averaged too."""
    if reading.word(mention.start - 1) not in ("and", ","):
        return ""
    earlier = [c for c in reading.cues if c.kind == "agg" and c.end <= mention.start]
    if not earlier or mention.start - earlier[-1].end > 8:
        return ""
    return earlier[-1].what


def near_columns(
    reading: ParsedQuestion, start: int, end: int, *, before: int, after: int, each: int = 4
) -> list[NearColumn]:
    """Column targets of mentions near a place."""
    found: list[NearColumn] = []
    earlier = [n for n, m in enumerate(reading.mentions) if m.end <= start][::-1]
    later = [n for n, m in enumerate(reading.mentions) if m.start >= end]
    for side, numbers, count in (("b", earlier, before), ("a", later, after)):
        for rank, number in enumerate(numbers[:count]):
            targets = [(t, t.column) for t in reading.mentions[number].targets if t.column is not None]
            found.extend(NearColumn(number, t, column, f"{side}{rank}") for t, column in targets[:each])
    return found


def near_mentions(reading: ParsedQuestion, end: int, count: int) -> list[tuple[int, int]]:
    """The next mentions after a place, with their rank."""
    later = [n for n, m in enumerate(reading.mentions) if m.start >= end]
    return [(number, rank) for rank, number in enumerate(later[:count])]


def negated(reading: ParsedQuestion, start: int, reach: int = 6) -> bool:
    """Whether a negation stands shortly before a place."""
    return any(reading.word(at) in NEGATIONS for at in range(max(0, start - reach), start)) or (
        reading.word(start - 2) == "other" and reading.word(start - 1) == "than"
    )


def gap_words(reading: ParsedQuestion, first_end: int, second_start: int) -> str:
    """The words between two pieces, shortened: a feature."""
    if second_start - first_end > 3 or second_start < first_end:
        return "far" if second_start - first_end > 6 else "some"
    return " ".join(reading.low[first_end:second_start]) or "-"
