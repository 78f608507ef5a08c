"""Features of a whole query, which the options of single words cannot show.

They describe how likely its roles are, which pieces of the question are unused, the shape of the query
together with the words of the question, how its tables are joined, and the choices of its assembly.
"""

from __future__ import annotations

from itertools import chain, combinations, pairwise
from typing import NamedTuple

from clew_nl2sql.planner.building.assembly import Draft
from clew_nl2sql.planner.building.dry_run import DryRunResult
from clew_nl2sql.planner.building.render import needed_tables, tree_of
from clew_nl2sql.planner.deciding.acts import ColumnAct, Ignore, TableAct
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.deciding.decisions import Decision, chosen
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex
from clew_nl2sql.planner.query import Condition, Query, Scalar, SelectItem, columns_of
from clew_nl2sql.planner.words.lexicon import FILLER, word_set

Sparse = list[tuple[str, float]]

_DIFFERENT = word_set("different distinct unique")
_VERBS = word_set("is are was were has have does do")
_LIKE_ONE = {"in": "=", "not in": "!="}  # a list of values has the features of a single value


class CandidateFeatures(NamedTuple):
    """A candidate before it is scored."""

    query: Query
    features: Sparse
    assignment: Assignment


def band(value: float, limits: tuple[float, ...]) -> int:
    """Return the index of the first limit that a value does not exceed."""
    return next((n for n, limit in enumerate(limits) if value <= limit), len(limits))


def shape(query: Query) -> list[str]:
    """Return the structure of the query as a few names."""
    items = [item.agg or ("*" if item.column is None else "c") for item in query.select]
    ranked = "L" if query.limit else ""
    return [
        "sel:" + "+".join(sorted(set(items))),
        f"n:{min(len(items), 4)}",
        *chosen([(bool(query.where), f"where:{min(len(query.where), 3)}")]),
        *chain.from_iterable(map(_condition_shape, query.where)),
        *chosen([(bool(query.group), "group")]),
        *(f"having:{c.op}" for c in query.having),
        *(f"order:{item.agg or 'c'}{'-' if desc else '+'}{ranked}" for item, desc in query.order),
        *chosen([(query.distinct, "distinct")]),
        *(query.compound[:1] if query.compound else ()),
    ]


def _condition_shape(condition: Condition) -> list[str]:
    found = []
    if isinstance(condition.value, Scalar):
        found.append(f"cmp:{condition.value.agg}{condition.op}")
    elif isinstance(condition.value, Query):
        found.append(f"sub:{condition.op}")
    elif (op := _LIKE_ONE.get(condition.op, condition.op)) != "=":
        found.append(f"op:{op}")
    return [*found, "or"] if condition.either else found


def counts_single_rows(query: Query, schema: SchemaIndex) -> bool:
    """Return whether a query ranks or filters rows of one table by their own count, which is always one."""
    if not query.picks_by_count or len(query.group) != 1 or len(needed_tables(query, schema)) > 1:
        return False
    column = schema.columns[query.group[0]]
    return column.unique and (column.kind == "number" or _is_row_name(column, schema))


def _is_row_name(column: SchemaColumn, schema: SchemaIndex) -> bool:
    table = schema.tables[column.table]
    return column.id == table.key or (column.id == table.display and column.core[-1] in ("name", "title"))


class FeatureExtractor:
    """Features of one question's candidates. Features that candidates share are computed once."""

    def __init__(self, parsed: ParsedQuestion, best: float):
        self._reading = parsed
        self._best = best
        self._words = context_words(parsed)
        self._crossed: dict[str, Sparse] = {}
        self._assigned: dict[int, Sparse] = {}
        self._different = "-" if _DIFFERENT.isdisjoint(parsed.low) else "diff"
        self._named, self._touched = parsed.named_tables, parsed.touched_tables
        tables = [m.best() for m in parsed.mentions if m.best().column is None]
        self._strong = {target.table for target in tables if target.quality > 0.95}
        self._likely = {target.table for target in tables if target.quality >= 0.6}

    def features(self, assignment: Assignment, draft: Draft) -> Sparse | None:
        """Return the features of one candidate; None if its tables do not join, or it selects nothing."""
        query = draft.query
        if counts_single_rows(query, self._reading.schema):
            return None
        tabled = self._tables(query, draft)
        if tabled is None:
            return None
        shaped = shape(query)
        found = list(self._of_assignment(assignment))
        for name in shaped:
            found += self._crossing(name)
        found.append((f"S|{' '.join(shaped)}", 1.0))
        found += [(f"c|{name}", 1.0) for name in draft.choices]
        found += tabled
        found += _selected(self._reading, query, self._different)
        return found

    def _crossing(self, name: str) -> Sparse:
        """Return a part of the shape, alone and combined with every word of the question."""
        known = self._crossed.get(name)
        if known is None:
            known = [(f"s|{name}", 1.0)] + [(f"{name}&{word}", 1.0) for word in self._words]
            self._crossed[name] = known
        return known

    def _of_assignment(self, assignment: Assignment) -> Sparse:
        known = self._assigned.get(id(assignment))
        if known is None:
            gap = self._best - assignment.score
            known = [
                ("score", assignment.score),
                ("gap", -gap),
                (f"gap={band(gap, (0.01, 0.5, 1, 2, 4))}", 1.0),
                (f"worst={band(-assignment.worst, (0.1, 0.5, 1, 2, 4))}", 1.0),
            ]
            known += _leftovers(self._reading, assignment) + _transitions(self._reading, assignment)
            self._assigned[id(assignment)] = known
        return known

    def _tables(self, query: Query, draft: Draft) -> Sparse | None:
        schema = self._reading.schema
        tree = tree_of(query, schema)
        if tree is None:
            return None
        joined, needed = set(tree.tables), set(needed_tables(query, schema))
        inside = joined | _tables_of_subqueries(query, schema)
        joins, lost = len(tree.on), len(self._strong - inside)
        idle = joined - {schema.columns[c].table for c in columns_of(query)}
        found = [
            (f"joins={min(joins, 4)}", 1.0),
            (f"bridges={min(len(joined - needed), 2)}", 1.0),
            ("unnamed", float(len(joined - self._named - self._touched))),
            ("unmentioned", float(len(needed - self._named))),
            ("lost", float(lost)),
            (f"lost={min(lost, 2)}", 1.0),
            (f"losing={min(len(self._likely - inside), 2)}", 1.0),
            (f"dist={query.distinct}{self._different}{min(joins, 2)}", 1.0),
            (f"jd={query.distinct}{min(joins, 2)}{bool(query.group)}{bool(query.where)}", 1.0),
            (f"idle={min(len(idle), 3)}/{min(len(idle - self._named), 2)}", 1.0),
        ]
        return found + [(f"j{min(joins, 2)}|{name}", 1.0) for name in draft.choices]


def _tables_of_subqueries(query: Query, schema: SchemaIndex) -> set[int]:
    inner = [c.value for c in query.where if isinstance(c.value, Query)]
    inner += [query.compound[1]] if query.compound else []
    return {table for one in inner for table in needed_tables(one, schema)}


def outcome_features(parsed: ParsedQuestion, query: Query, outcome: DryRunResult) -> Sparse:
    """Describe how the dry run's rows match the question: one row for "what is the name", several for "names"."""
    if outcome.kind == "unknown":
        return []
    rows = ("0", "1", "few", "many")[band(outcome.rows or 0, (0, 1, 3))]
    verb = next((w for w in parsed.low[:6] if w in _VERBS), "-")
    plural = "-"
    if parsed.mentions:
        head = parsed.tokens[parsed.mentions[0].end - 1]
        plural = "s" if head.low != head.lemma else "1"
    ranked = "L" if query.limit else "H" if query.having else "-"
    counted = "agg" if query.aggregates else "row"
    apart = not _DIFFERENT.isdisjoint(parsed.low)
    return [
        (f"x={outcome.kind}", 1.0),
        (f"xv={rows}|{verb}", 1.0),
        (f"xn={rows}|{plural}", 1.0),
        (f"xq={rows}|{parsed.word(0)} {verb} {plural}", 1.0),
        (f"xs={rows}|{counted}{bool(query.group)}{ranked}", 1.0),
        (f"xc={rows}|{counted}{bool(query.where)}{query.distinct}{plural}", 1.0),
        (f"xd={outcome.repeated}|{query.distinct}{apart}{bool(query.order)}", 1.0),
        (f"xj={outcome.repeated}|{counted}{parsed.word(0)}{plural}", 1.0),
    ]


def context_words(parsed: ParsedQuestion) -> list[str]:
    """Return words and word pairs of the question that are neither schema nor value."""
    marks = [u.mark for u in parsed.units]
    singles = [m for m in marks if m not in ("COL", "TAB", "VAL", "NUM", "the", "a")]
    pairs = [f"{a}_{b}" for a, b in pairwise(marks)]
    first = f"^{'_'.join(parsed.low[:2])}"
    return list(dict.fromkeys(singles + pairs + [first]))


def _leftovers(parsed: ParsedQuestion, assignment: Assignment) -> list[tuple[str, float]]:
    found = []
    for decision, option in assignment.choices:
        if isinstance(option.act, Ignore):
            found.append((f"none:{decision.kind}", 1.0))
            found.append((f"none:{decision.kind}:{_piece(parsed, decision)}", 1.0))
        else:
            found.append((f"r:{option.role}", 1.0))
            if decision.kind == "mention" and isinstance(option.act, TableAct | ColumnAct):
                found.append((f"rq:{option.role}:{_fit(parsed, decision, option.act)}", 1.0))
    plain = sum(1 for u in parsed.units if u.mark not in FILLER and u.mark.isalpha() and u.mark.islower())
    found.append(("unmapped", float(plain)))
    return found


def _fit(parsed: ParsedQuestion, decision: Decision, act: TableAct | ColumnAct) -> str:
    """Return how well a mention matches its table or column."""
    for target in parsed.mentions[decision.number].targets:
        if isinstance(act, TableAct):
            fits = target.column is None and target.table == act.table
        else:
            fits = target.column == act.column
        if fits:
            return f"{target.way}{target.coverage == 1}{target.with_table}"
    return "-"


def _piece(parsed: ParsedQuestion, decision: Decision) -> str:
    """Return the kind of a piece that a query does not use."""
    number = decision.number
    if decision.kind == "mention":
        best = parsed.mentions[number].best()
        sort = "tab" if best.column is None else "col"
        zone = parsed.units[parsed.unit_at[decision.start]].zone
        return f"{sort}{best.way}{best.coverage == 1}{min(len(parsed.mentions[number].targets), 3)}/{zone}"
    if decision.kind == "value":
        value = parsed.values[number]
        way = value.holders[0].way if value.holders else "-"
        capital = parsed.tokens[value.start].text[:1].isupper() and value.start > 0
        over = any(m.start < value.end and value.start < m.end for m in parsed.mentions)
        return f"{way}{value.quoted}{capital}{over}{min(value.end - value.start, 3)}"
    if decision.kind == "amount":
        amount = parsed.amounts[number]
        return f"{amount.op}{amount.explicit}{amount.end - amount.start > 1}"
    cue = parsed.cues[number]
    return f"{cue.what}{cue.degree}"


def _selected(parsed: ParsedQuestion, query: Query, different: str) -> Sparse:
    columns = parsed.schema.columns
    filtered = {c.item.column for c in query.where if not isinstance(c.value, Query)}
    items = [(item, columns[item.column]) for item in query.select if item.column is not None]
    tables = {column.table for _, column in items}
    ordered = {i.column for i, _ in query.order if not i.agg}
    shown = not ordered.isdisjoint([item.column for item in query.select])
    named = [
        *chosen([(not filtered.isdisjoint(query.group), "grpfilter")]),
        *(
            name
            for item, column in items
            for name in _item_features(query, item, column, filtered, different)
        ),
        f"ordsel={shown}{bool(ordered)}",
        f"seltabs={len(tables)}",
        *chosen([(parsed.main_table in tables, "selmain")]),
        f"clash={int(_clashes(query))}",
        *chosen([(len(set(query.select)) < len(query.select), "twice")]),
    ]
    return [(name, 1.0) for name in named]


def _item_features(
    query: Query, item: SelectItem, column: SchemaColumn, filtered: set[int | None], different: str
) -> list[str]:
    kind = "key" if column.is_key else "ref" if column.is_ref else column.kind
    found = [f"si={item.agg}:{kind}"]
    if column.id in filtered:
        found.append(f"selfilter={item.agg}{min(c.op for c in query.where if c.item.column == column.id)}")
    if item.agg == "count":
        found.append(f"cntd={item.distinct}{different}{column.unique}")
    return found


def _clashes(query: Query) -> bool:
    """Return whether one item must have two values."""
    equal = [c for c in query.where if c.op == "="]
    return any(one.item == other.item and not other.either for one, other in combinations(equal, 2))


def _transitions(parsed: ParsedQuestion, assignment: Assignment) -> list[tuple[str, float]]:
    """Return the roles of adjacent mentions, with the words between them."""
    found: list[tuple[str, float]] = []
    steps = sorted(
        ((d.start, d.end, o.role) for d, o in assignment.choices if d.kind == "mention"), key=lambda s: s[0]
    )
    before = "^"
    last_end = 0
    for start, end, role in steps:
        words = parsed.low[last_end:start]
        joint = " ".join(w for w in words if w not in ("the", "a")) if len(words) <= 3 else "…"
        found.append((f"x:{before}>{role}", 1.0))
        found.append((f"x:{before}>{role}/{joint}", 1.0))
        before, last_end = role, end
    found.append((f"x:{before}>$", 1.0))
    return found
