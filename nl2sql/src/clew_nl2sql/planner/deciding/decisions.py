"""Decisions: the roles that each mention, value, number and cue may have in a query.

An `Option` is one role with its features. An option that consumes other pieces lists them in `uses` ("m3" is
mention 3, "c0" is cue 0); a consumed mention has no other role. This module only lists the options; the
choice is learned.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.deciding.acts import (
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
from clew_nl2sql.planner.linking.parsed_question import NEGATIONS, ParsedQuestion
from clew_nl2sql.planner.linking.schema_linking import Mention, Target


class Option(NamedTuple):
    """A role: its name, its effect, the pieces that it consumes, and its features."""

    role: str
    act: Act
    uses: tuple[str, ...]
    features: tuple[str, ...]


class NearColumn(NamedTuple):
    """A column that a nearby mention may mean, and its distance ("b0" is the last mention before the
    position).
    """

    mention: int
    target: Target
    column: int
    place: str


class Decision(NamedTuple):
    """A piece of the question (`key` as in `uses`), its position, and its options."""

    key: str
    kind: str
    start: int
    end: int
    options: tuple[Option, ...]


def quality_band(quality: float) -> str:
    """Return the name of the band of a quality."""
    for limit, name in ((0.99, "full"), (0.84, "high"), (0.7, "good"), (0.55, "half")):
        if quality >= limit:
            return name
    return "low"


def target_features(parsed: ParsedQuestion, number: int, mention: Mention, target: Target) -> list[str]:
    """Describe how well a mention matches a target, and how its table relates to the rest of the question."""
    named = {t for _, t in parsed.table_mentions}
    later = next((t for m, t in parsed.table_mentions if m > number), None)
    earlier = next((t for m, t in reversed(parsed.table_mentions) if m < number), None)
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
    if target.table == parsed.main_table:
        found.append("t.main")
    if target.column is None:
        return found
    column = parsed.schema.columns[target.column]
    rivals = sum(1 for t in mention.targets if t.column is not None and t.quality >= target.quality - 1e-9)
    found.append(f"t.rivals={min(rivals, 3)}")
    if column.is_ref:
        found.append("t.ref")
    if column.is_key:
        found.append("t.key")
    if column.name.lower() in ("name", "title"):
        found.append("t.plainname")
    if any(t in named for t in _linked_tables(parsed, target.table)):
        found.append("t.neighbour")
    return found


def _linked_tables(parsed: ParsedQuestion, table: int) -> list[int]:
    columns = parsed.schema.columns
    pairs = [(columns[a].table, columns[b].table) for a, b in parsed.schema.edges]
    return [b if a == table else a for a, b in pairs if table in (a, b)]


AFFIRMATIVE: tuple[type[TableAct], ...] = (JoinTable, ShowTable, GroupByTable)
TABLE_ACTS: tuple[type[TableAct], ...] = (*AFFIRMATIVE, ExcludeTable)
COLUMN_ACTS: tuple[type[ColumnAct], ...] = (SelectColumn, GroupByColumn, OrderByColumn)


def mention_decision(parsed: ParsedQuestion, number: int) -> Decision:
    """Return the roles of one mention: select, group by, order by, count, list, or ignore."""
    mention = parsed.mentions[number]
    context = parsed.context(mention.start, mention.end)
    options = []
    for rank, target in enumerate(mention.targets):
        shape = target_features(parsed, number, mention, target)
        if target.column is None:
            for to_table in TABLE_ACTS if parsed.negates else AFFIRMATIVE:
                role = to_table.role
                features = (
                    [f"{role}|{c}" for c in context]
                    + [f"tab|{s}" for s in shape]
                    + [f"{role}|{s}" for s in shape]
                )
                options.append(Option(role, to_table(target.table), (), tuple(features)))
            continue
        kind = parsed.schema.columns[target.column].kind
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
            options.extend(_added_up(parsed, mention, target, context, shape))
        inherited = _inherited(parsed, mention)
        if inherited and kind == "number":
            features = (
                [f"chain|{c}" for c in context] + [f"col|{s}" for s in shape] + [f"chain|fn={inherited}"]
            )
            options.append(Option("chain", SelectAggregate(inherited, target.column), (), tuple(features)))
    options.extend(_full_names(parsed, number, context))
    options.extend(_names_by_display(parsed, number, context))
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


def _full_names(parsed: ParsedQuestion, number: int, context: list[str]) -> list[Option]:
    """Return both columns for "full name", or for "name" if a table has only first and last names."""
    mention = parsed.mentions[number]
    if parsed.word(mention.end - 1) not in ("name", "names"):
        return []
    full = parsed.word(mention.end - 2) == "full"
    made = []
    for table in parsed.schema.tables:
        columns = {parsed.schema.columns[c].core: c for c in table.columns}
        first, last = columns.get(("first", "name")), columns.get(("last", "name"))
        if first is None or last is None or not any(t.column in (first, last) for t in mention.targets):
            continue
        whole = Target(table.id, first, 1.0, 1.0, "exact", False)
        shape = target_features(parsed, number, mention._replace(targets=(whole,)), whole)
        if not full:
            shape.append(f"full|{('name',) in columns}")
        features = [f"sel|{c}" for c in context] + [f"col|{s}" for s in shape] + [f"sel|{s}" for s in shape]
        made.append(Option("full", SelectFullName(first, last), (), tuple(features)))
    return made


def _names_by_display(parsed: ParsedQuestion, number: int, context: list[str]) -> list[Option]:
    """Return the display column for "the name of the party", if the party table has no column "name"."""
    mention = parsed.mentions[number]
    if (
        parsed.word(mention.start) not in ("name", "names", "title", "titles")
        or mention.end - mention.start > 1
    ):
        return []
    later = next((t for m, t in parsed.table_mentions if m > number), None)
    earlier = next((t for m, t in parsed.table_mentions if m < number), None)
    made = []
    for table in sorted({t for _, t in parsed.table_mentions}):
        display = parsed.schema.tables[table].display
        if display is None or any(t.table == table and t.column is not None for t in mention.targets):
            continue
        place = f"{table == later}{table == earlier}{table == parsed.main_table}"
        features = (f"named|{place}", *(f"named|{c}" for c in context[:4]))
        made.append(Option("named", SelectColumn(display), (), features))
    return made


def _added_up(
    parsed: ParsedQuestion, mention: Mention, target: Target, context: list[str], shape: list[str]
) -> list[Option]:
    """Return options for "the total amount" if a column has that name: the column of one row, or the sum of
    many.
    """
    what = next((w for at, w in parsed.within_names.items() if mention.start <= at < mention.end), "")
    if not what or target.column is None:
        return []
    features = [f"within|{c}" for c in context] + [f"col|{s}" for s in shape] + [f"within|fn={what}"]
    return [Option("within", SelectAggregate(what, target.column), (), tuple(features))]


def _inherited(parsed: ParsedQuestion, mention: Mention) -> str:
    """Return the aggregate of an enumeration: "the average age and weight" also averages the weight."""
    if parsed.word(mention.start - 1) not in ("and", ","):
        return ""
    earlier = [c for c in parsed.cues if c.kind == "agg" and c.end <= mention.start]
    if not earlier or mention.start - earlier[-1].end > 8:
        return ""
    return earlier[-1].what


def near_columns(
    parsed: ParsedQuestion, start: int, end: int, *, before: int, after: int, each: int = 4
) -> list[NearColumn]:
    """Return column targets of mentions near a position."""
    found: list[NearColumn] = []
    earlier = [n for n, m in enumerate(parsed.mentions) if m.end <= start][::-1]
    later = [n for n, m in enumerate(parsed.mentions) if m.start >= end]
    for side, numbers, count in (("b", earlier, before), ("a", later, after)):
        for rank, number in enumerate(numbers[:count]):
            targets = [(t, t.column) for t in parsed.mentions[number].targets if t.column is not None]
            found.extend(NearColumn(number, t, column, f"{side}{rank}") for t, column in targets[:each])
    return found


def near_mentions(parsed: ParsedQuestion, end: int, count: int) -> list[tuple[int, int]]:
    """Return the next mentions after a position, with their rank."""
    later = [n for n, m in enumerate(parsed.mentions) if m.start >= end]
    return [(number, rank) for rank, number in enumerate(later[:count])]


def negated(parsed: ParsedQuestion, start: int, reach: int = 6) -> bool:
    """Return whether a negation occurs shortly before a position, and does not belong to another predicate."""
    spent = {v.start for v in parsed.values if not v.quoted and v.end - v.start > 1}
    near = range(max(0, start - reach), start)
    return any(parsed.word(at) in NEGATIONS and at not in spent for at in near) or (
        parsed.word(start - 2) == "other" and parsed.word(start - 1) == "than"
    )


def gap_words(parsed: ParsedQuestion, first_end: int, second_start: int) -> str:
    """Return the words between two pieces, shortened, as a feature."""
    if second_start - first_end > 3 or second_start < first_end:
        return "far" if second_start - first_end > 6 else "some"
    return " ".join(parsed.low[first_end:second_start]) or "-"
