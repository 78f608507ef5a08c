"""Decisions: the roles that each mention, value, number and cue may have in a query.

An `Option` is one role with its features. An option that consumes other pieces lists them in `uses` ("m3" is
mention 3, "c0" is cue 0); a consumed mention has no other role. This module only lists the options; the
choice is learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clew_nl2sql.planner.deciding import acts
from clew_nl2sql.planner.linking.parsed_question import NEGATIONS, ParsedQuestion
from clew_nl2sql.planner.linking.schema_linking import Mention, Target


class Option(NamedTuple):
    """A role: its name, its effect, the pieces that it consumes, and its features."""

    role: str
    act: acts.Act
    uses: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def mentions(self) -> list[int]:
        """Return the numbers of the mentions that it consumes."""
        return [int(use[1:]) for use in self.uses if use.startswith("m")]


class NearColumn(NamedTuple):
    """A column that a nearby mention may mean, and its distance ("b0" is the last mention before the position)."""

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

    @property
    def number(self) -> int:
        """Return the number of the piece among those of its kind."""
        return int(self.key[1:])


def quality_band(quality: float) -> str:
    """Return the name of the band of a quality."""
    for limit, name in ((0.99, "full"), (0.84, "high"), (0.7, "good"), (0.55, "half")):
        if quality >= limit:
            return name
    return "low"


def labelled(label: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return features that depend on a role."""
    return tuple(f"{label}|{name}" for name in names)


def chosen(flags: Iterable[tuple[bool, str]]) -> list[str]:
    """Return the names of the flags that are set."""
    return [name for is_set, name in flags if is_set]


def target_features(parsed: ParsedQuestion, number: int, mention: Mention, target: Target) -> list[str]:
    """Describe how well a mention matches a target, and how its table relates to the rest of the question."""
    later = next((t for m, t in parsed.table_mentions if m > number), None)
    earlier = next((t for m, t in reversed(parsed.table_mentions) if m < number), None)
    found = [
        f"t.q={quality_band(target.quality)}",
        f"t.way={target.way}",
        f"t.gap={quality_band(1 - (mention.best().quality - target.quality))}",
        f"t.tab={'own' if target.with_table else ''}{'named' if target.table in parsed.named_tables else ''}",
        *chosen(
            (
                (target.coverage == 1, "t.whole"),
                (target.table == later, "t.later"),
                (target.table == earlier, "t.earlier"),
                (target.table == parsed.main_table, "t.main"),
            )
        ),
    ]
    return (
        found if target.column is None else found + _column_features(parsed, mention, target, target.column)
    )


def _column_features(parsed: ParsedQuestion, mention: Mention, target: Target, number: int) -> list[str]:
    column = parsed.schema.columns[number]
    rivals = sum(t.column is not None and t.quality >= target.quality - 1e-9 for t in mention.targets)
    linked = _linked_tables(parsed, target.table)
    flags = (
        (column.is_ref, "t.ref"),
        (column.is_key, "t.key"),
        (column.name.lower() in ("name", "title"), "t.plainname"),
        (not parsed.named_tables.isdisjoint(linked), "t.neighbour"),
    )
    return [f"t.rivals={min(rivals, 3)}", *chosen(flags)]


def _linked_tables(parsed: ParsedQuestion, table: int) -> list[int]:
    columns = parsed.schema.columns
    pairs = [(columns[a].table, columns[b].table) for a, b in parsed.schema.edges]
    return [b if a == table else a for a, b in pairs if table in (a, b)]


AFFIRMATIVE: tuple[type[acts.TableAct], ...] = (acts.JoinTable, acts.ShowTable, acts.GroupByTable)
TABLE_ACTS: tuple[type[acts.TableAct], ...] = (*AFFIRMATIVE, acts.ExcludeTable)
COLUMN_ACTS: tuple[type[acts.ColumnAct], ...] = (acts.SelectColumn, acts.GroupByColumn, acts.OrderByColumn)


def mention_decision(parsed: ParsedQuestion, number: int) -> Decision:
    """Return the roles of one mention: select, group by, order by, count, list, or ignore."""
    mention = parsed.mentions[number]
    context = parsed.context(mention.start, mention.end)
    options: list[Option] = []
    for rank, target in enumerate(mention.targets):
        shape = target_features(parsed, number, mention, target)
        if target.column is None:
            options += _table_options(parsed, target, context, shape)
        else:
            options += _column_options(parsed, number, rank, target.column, context, shape)
    options += _full_names(parsed, number, context)
    options += _names_by_display(parsed, number, context)
    best = mention.best()
    sort = "tab" if best.column is None else "col"
    blank = [*context, f"t.q={quality_band(best.quality)}", f"t.way={best.way}", sort]
    options += [
        Option(act.role, act, (), labelled(act.role, blank)) for act in (acts.Ignore(), acts.Consumed())
    ]
    return Decision(f"m{number}", "mention", mention.start, mention.end, tuple(options))


def _table_options(
    parsed: ParsedQuestion, target: Target, context: list[str], shape: list[str]
) -> list[Option]:
    made = []
    for to_table in TABLE_ACTS if parsed.negates else AFFIRMATIVE:
        role = to_table.role
        features = (*labelled(role, context), *labelled("tab", shape), *labelled(role, shape))
        made.append(Option(role, to_table(target.table), (), features))
    return made


def _column_options(
    parsed: ParsedQuestion, number: int, rank: int, column: int, context: list[str], shape: list[str]
) -> list[Option]:
    mention, kind = parsed.mentions[number], parsed.schema.columns[column].kind
    place = [f"kind={kind}", f"rank={min(rank, 2)}", f"n={min(number, 3)}"]
    made = []
    for to_column in COLUMN_ACTS:
        role = to_column.role
        features = (*labelled(role, context), *labelled("col", shape), *labelled(role, shape + place))
        made.append(Option(role, to_column(column), (), features))
    within = _within(parsed, mention) if mention.targets[rank].coverage == 1 else ""
    for role, function in (("within", within), ("chain", _inherited(parsed, mention))):
        if function and kind == "number":
            features = (*labelled(role, context), *labelled("col", shape), f"{role}|fn={function}")
            made.append(Option(role, acts.SelectAggregate(function, column), (), features))
    return made


def _full_names(parsed: ParsedQuestion, number: int, context: list[str]) -> list[Option]:
    """Return both columns for "full name", or for "name" if a table has only first and last names."""
    mention, schema = parsed.mentions[number], parsed.schema
    if parsed.word(mention.end - 1) not in ("name", "names"):
        return []
    full = parsed.word(mention.end - 2) == "full"
    made = []
    for table in schema.tables:
        both = schema.full_name(table.id)
        if both is None or not any(t.column in both for t in mention.targets):
            continue
        whole = Target(table.id, both[0], 1.0, 1.0, "exact", False)
        shape = target_features(parsed, number, mention._replace(targets=(whole,)), whole)
        if not full:
            shape.append(f"full|{('name',) in [schema.columns[c].core for c in table.columns]}")
        features = (*labelled("sel", context), *labelled("col", shape), *labelled("sel", shape))
        made.append(Option("full", acts.SelectFullName(*both), (), features))
    return made


def _names_by_display(parsed: ParsedQuestion, number: int, context: list[str]) -> list[Option]:
    """Return the display column for "the name of the party", if the party table has no column "name"."""
    mention = parsed.mentions[number]
    if mention.end - mention.start > 1 or parsed.word(mention.start) not in (
        "name",
        "names",
        "title",
        "titles",
    ):
        return []
    later = next((t for m, t in parsed.table_mentions if m > number), None)
    earlier = next((t for m, t in parsed.table_mentions if m < number), None)
    named = {t.table for t in mention.targets if t.column is not None}
    made = []
    for table in sorted(parsed.named_tables - named):
        display = parsed.schema.tables[table].display
        if display is not None:
            place = f"{table == later}{table == earlier}{table == parsed.main_table}"
            features = labelled("named", [place, *context[:4]])
            made.append(Option("named", acts.SelectColumn(display), (), features))
    return made


def _within(parsed: ParsedQuestion, mention: Mention) -> str:
    """Return the aggregate in the name of a column: "the total amount" is one of a row, or the sum of many."""
    return next((w for at, w in parsed.within_names.items() if mention.start <= at < mention.end), "")


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
