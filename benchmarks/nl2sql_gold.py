"""What a gold query does, as sets, and whether an option of the planner agrees with it.

Used only for training: the planner itself never sees a gold query.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlglot
from sqlglot import exp

from clew_nl2sql.planner.deciding.acts import Consumed, Ignore
from clew_nl2sql.planner.deciding.decisions import Decision, Option
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaIndex

_AGG = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_OPS = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.LT: "<",
    exp.GTE: ">=",
    exp.LTE: "<=",
    exp.Like: "like",
    exp.Between: "between",
    exp.In: "in",
}


@dataclass
class Gold:
    """Sets of (aggregate, column) and the like; columns are representatives of joined ones and exact ones."""

    select: set[tuple[str, int | None]] = field(default_factory=set)
    where: set[tuple[int | None, str, str]] = field(default_factory=set)
    excluded: set[tuple[int | None, str, str]] = field(default_factory=set)
    group: set[int] = field(default_factory=set)
    having: set[tuple[str, int | None, str, str]] = field(default_factory=set)
    order: set[tuple[str, int | None, bool, bool]] = field(default_factory=set)  # agg, column, desc, limited
    compared: set[tuple[int | None, str, str]] = field(default_factory=set)  # column op agg
    limits: set[int] = field(default_factory=set)
    tables: set[int] = field(default_factory=set)
    negative: set[int] = field(default_factory=set)
    set_op: str = ""
    count_distinct: set[int] = field(default_factory=set)


class Unresolved(Exception):
    pass


def analyse(sql: str, schema: SchemaIndex) -> Gold:
    tree = sqlglot.parse_one(sql.strip().rstrip(";"), dialect="sqlite")
    gold = Gold()
    _query(tree, schema, gold, negative=False, top=True)
    gold.negative -= gold.tables
    return gold


def _query(node: Any, schema: SchemaIndex, gold: Gold, *, negative: bool, top: bool) -> None:
    if isinstance(node, exp.Subquery):
        return _query(node.this, schema, gold, negative=negative, top=top)
    if isinstance(node, exp.Except):
        gold.set_op = "except"
        _query(node.this, schema, gold, negative=negative, top=top)
        _query(node.expression, schema, gold, negative=True, top=False)
        return None
    if isinstance(node, exp.Union | exp.Intersect):
        gold.set_op = type(node).__name__.lower()
        _query(node.this, schema, gold, negative=negative, top=top)
        _query(node.expression, schema, gold, negative=negative, top=False)
        return None
    return _select(node, schema, gold, negative=negative, top=top)


def _select(node: exp.Select, schema: SchemaIndex, gold: Gold, *, negative: bool, top: bool) -> None:
    sources: dict[str, int] = {}
    own_tables = []
    by_name = {t.name.lower(): t.id for t in schema.tables}
    froms = [node.args.get("from_") or node.args.get("from")] + list(node.args.get("joins") or [])
    for source in froms:
        if source is None:
            continue
        table = source.this
        if isinstance(table, exp.Subquery):
            _query(table, schema, gold, negative=negative, top=False)
            continue
        if isinstance(table, exp.Table) and table.name.lower() in by_name:
            number = by_name[table.name.lower()]
            sources[(table.alias or table.name).lower()] = number
            sources.setdefault(table.name.lower(), number)
            own_tables.append(number)
    (gold.negative if negative else gold.tables).update(own_tables)

    def column(item: Any) -> int | None:
        if isinstance(item, exp.Star):
            return None
        if isinstance(item, exp.Literal) and item.is_string:
            item = exp.column(item.this)
        if not isinstance(item, exp.Column):
            raise Unresolved
        name, qualifier = item.name.lower(), item.table.lower()
        pool = [sources[qualifier]] if qualifier in sources else own_tables
        for table in pool:
            found = schema.column_id(schema.tables[table].name, name)
            if found is not None:
                return found
        raise Unresolved

    def item(node: Any) -> tuple[str, int | None, bool]:
        node = node.unalias()
        for kind, name in _AGG.items():
            if isinstance(node, kind):
                inside = node.this
                distinct = isinstance(inside, exp.Distinct)
                if distinct:
                    inside = inside.expressions[0]
                return name, column(inside), distinct
        return "", column(node), False

    if top:
        for part in node.expressions:
            try:
                agg, number, distinct = item(part)
            except Unresolved:
                continue
            gold.select.add((agg, number))
            if distinct and number is not None:
                gold.count_distinct.add(number)
    for clause in ("where", "having"):
        for condition in (node.args.get(clause) or exp.Where()).find_all(*_OPS):
            if condition.find_ancestor(exp.Select) is not node:
                continue
            try:
                agg, number, _ = item(condition.this)
            except Unresolved:
                continue
            op = _OPS[type(condition)]
            right = condition.args.get("expression")
            inner = condition.args.get("query") or (
                right if isinstance(right, exp.Subquery | exp.Select) else None
            )
            if inner is not None:
                flipped = isinstance(condition.parent, exp.Not)
                select = inner.find(exp.Select)
                if op in ("in",) or (op == "!="):
                    _query(inner, schema, gold, negative=negative ^ flipped, top=False)
                else:
                    func = select.expressions[0] if select is not None else None
                    name = next((n for k, n in _AGG.items() if isinstance(func, k)), "")
                    gold.compared.add((number, op, name))
                    _query(inner, schema, gold, negative=negative, top=False)
                continue
            if op == "between":
                value = f"{_text(condition.args['low'])}..{_text(condition.args['high'])}"
            else:
                value = _text(right)
            if isinstance(condition.parent, exp.Not) and op == "like":
                op = "not like"
            if agg:
                gold.having.add((agg, number, op, value))
            else:
                (gold.excluded if negative else gold.where).add((number, op, value))
    group = node.args.get("group")
    for part in group.expressions if group else ():
        try:
            number = column(part)
        except Unresolved:
            continue
        if number is not None:
            gold.group.add(number)
    limit = node.args.get("limit")
    if limit is not None:
        gold.limits.add(int(limit.expression.name))
    order = node.args.get("order")
    for part in order.expressions if order else ():
        try:
            agg, number, _ = item(part.this)
        except Unresolved:
            continue
        gold.order.add((agg, number, bool(part.args.get("desc")), limit is not None))


def _text(node: Any) -> str:
    if node is None:
        return ""
    if isinstance(node, exp.Neg):
        return "-" + _text(node.this)
    return str(
        node.name if isinstance(node, exp.Literal | exp.Column | exp.Identifier) else node.sql()
    ).lower()


def same_value(gold: str, value: object) -> bool:
    if isinstance(value, tuple):
        low, _, high = gold.partition("..")
        return same_value(low, value[0]) and same_value(high, value[1])
    text = str(value).lower()
    if gold == text or (gold.strip("%") == text.strip("%") and "%" in gold):
        return True
    try:
        return float(gold) == float(text)
    except ValueError:
        return False


def _same_columns(schema: SchemaIndex) -> dict[int, int]:
    """Map columns that are joined by keys to one representative, the smallest of them."""
    leader = {c.id: c.id for c in schema.columns}

    def find(item: int) -> int:
        while leader[item] != item:
            item = leader[item]
        return item

    for source, target in schema.edges:
        first, second = find(source), find(target)
        leader[max(first, second)] = min(first, second)
    return {c.id: find(c.id) for c in schema.columns}


class Judge:
    """Says which options of a decision agree with the gold query."""

    def __init__(self, gold: Gold, schema: SchemaIndex, parsed: ParsedQuestion):
        self.gold, self.schema, self.parsed = gold, schema, parsed
        self.lead = _same_columns(schema)

    def _same(self, first: int | None, second: int | None) -> bool:
        if first is None or second is None:
            return first is second
        return self.lead[first] == self.lead[second]

    def right(self, decisions: list[Decision]) -> list[set[int]]:
        result: list[set[int]] = []
        used: set[str] = set()
        for decision in decisions:
            good = {n for n, option in enumerate(decision.options) if self.agrees(option, decision)}
            if decision.key in used:
                good = {n for n, option in enumerate(decision.options) if isinstance(option.act, Consumed)}
            elif not good:
                good = {n for n, option in enumerate(decision.options) if isinstance(option.act, Ignore)}
            if decision.kind == "mention":
                good = self._one_role(decision, good)
            else:
                good = self._nearest(decision, good)
                used.update(use for n in good for use in decision.options[n].uses)
            result.append(good)
        return result

    def _one_role(self, decision: Decision, good: set[int]) -> set[int]:
        """A column that is selected and ordered by plays the role that its place suggests."""
        roles = {decision.options[n].role for n in good}
        if {"sel", "ord"} <= roles:
            zone = self.parsed.units[self.parsed.unit_at[decision.start]].zone
            drop = "sel" if zone == "order" else "ord"
            good = {n for n in good if decision.options[n].role != drop}
        if "dsp" in roles or "grpt" in roles or "sel" in roles:
            good = {n for n in good if decision.options[n].role != "ent"} or good
        return good

    def _nearest(self, decision: Decision, good: set[int]) -> set[int]:
        """Of options that agree, those that consume what is nearest."""

        def place(n: int) -> int:
            option = decision.options[n]
            mentions = [int(u[1:]) for u in option.uses if u[0] == "m"]
            if not mentions:
                bare_count = option.act.role in ("supc", "cnt", "hav", "ordc")
                common = any("deg=common" in f for f in option.features)
                return 30 if bare_count and not common else 0 if common else 8
            mention = self.parsed.mentions[mentions[0]]
            return min(abs(mention.start - decision.end), abs(decision.start - mention.end))

        if not good:
            return good
        best = min(place(n) for n in good)
        return {n for n in good if place(n) == best}

    def agrees(self, option: Option, decision: Decision) -> bool:
        return bool(getattr(self, f"_{option.act.role}")(*msgspec.structs.astuple(option.act)))

    def _none(self) -> bool:
        return False

    _used = _none

    def _sel(self, column: int) -> bool:
        return (
            ("", column) in self.gold.select and not (self._aggregated() and column in self.gold.group)
        ) or (
            (self.schema.columns[column].is_ref or self.schema.columns[column].is_key)
            and any(a == "" and self._same(c, column) for a, c in self.gold.select)
            and not self._aggregated()
        )

    def _aggregated(self) -> bool:
        return any(a for a, _ in self.gold.select)

    def _grp(self, column: int) -> bool:
        return (
            any(self._same(c, column) for c in self.gold.group)
            and (
                self._aggregated()
                or not any(c is not None and self._same(c, column) for _, c in self.gold.select)
            )
            and not self._sel(column)
        )

    def _ord(self, column: int) -> bool:
        return any(a == "" and c == column and not limited for a, c, _, limited in self.gold.order)

    def _ent(self, table: int) -> bool:
        return table in self.gold.tables and not self._dsp(table) and not self._grpt(table)

    def _shown(self, table: int) -> set[int]:
        entry = self.schema.tables[table]
        return {c for c in (entry.display, entry.key) if c is not None}

    def _mentioned(self, column: int) -> bool:
        return any(
            t.column == column and t.quality >= m.best().quality - 0.1
            for m in self.parsed.mentions
            for t in m.targets
        )

    def _dsp(self, table: int) -> bool:
        return (
            any(("", c) in self.gold.select and not self._mentioned(c) for c in self._shown(table))
            and not self._aggregated()
        )

    def _grpt(self, table: int) -> bool:
        return self._aggregated() and any(
            self._same(c, g) and not self._mentioned(c) for c in self._shown(table) for g in self.gold.group
        )

    def _neg(self, table: int) -> bool:
        return table in self.gold.negative

    def _cnd(self, column: int, op: str, value: object) -> bool:
        if op in ("in", "not in") and isinstance(value, tuple):
            return all(self._cnd(column, "=" if op == "in" else "!=", one) for one in value)
        return any(
            (c == column or self._same(c, column)) and o == op and same_value(v, value)
            for c, o, v in self.gold.where
        )

    def _exc(self, column: int, op: str, value: object) -> bool:
        return any(
            (c == column or self._same(c, column)) and o == op and same_value(v, value)
            for c, o, v in self.gold.excluded
        )

    def _hav(self, op: str, value: object, table: int | None) -> bool:
        found = any(a == "count" and o == op and same_value(v, value) for a, _, o, v in self.gold.having)
        return found and (table is None or table in self.gold.tables)

    def _hva(self, agg: str, column: int, op: str, value: object) -> bool:
        return any(
            a == agg and c == column and o[0] == op[0] and same_value(v, value)
            for a, c, o, v in self.gold.having
        )

    def _cnd2(self, first: int, one: object, second: int, two: object) -> bool:
        return self._cnd(first, "=", one) and self._cnd(second, "=", two)

    def _cmpcol(self, first: int, op: str, second: int) -> bool:
        return any(
            c == first and o == op and v == self.schema.columns[second].name.lower()
            for c, o, v in self.gold.where
        )

    def _full(self, first: int, last: int) -> bool:
        return ("", first) in self.gold.select and ("", last) in self.gold.select

    def _lim(self, number: int) -> bool:
        return number in self.gold.limits

    def _supc(self, desc: bool, limit: int, table: int | None) -> bool:
        found = any(a == "count" and d == desc and limited for a, _, d, limited in self.gold.order)
        return found and (table is None or table in self.gold.tables)

    def _supcol(self, column: int, desc: bool, limit: int) -> bool:
        extreme = "max" if desc else "min"
        return any(
            a == "" and c == column and d == desc and limited for a, c, d, limited in self.gold.order
        ) or any(c == column and a == extreme for c, _, a in self.gold.compared)

    def _supagg(self, agg: str, column: int, desc: bool, limit: int) -> bool:
        return any(a == agg and c == column and d == desc and limited for a, c, d, limited in self.gold.order)

    def _agg(self, agg: str, column: int) -> bool:
        return (agg, column) in self.gold.select

    def _ordagg(self, agg: str, column: int) -> bool:
        return any(a == agg and c == column and not limited for a, c, _, limited in self.gold.order)

    def _cmpagg(self, column: int, op: str, agg: str) -> bool:
        return any(c == column and a == agg and o[0] == op[0] for c, o, a in self.gold.compared)

    def _cnt(self, table: int | None) -> bool:
        found = any(a == "count" and c is None for a, c in self.gold.select)
        return found and (table is None or table in self.gold.tables)

    def _ordc(self, table: int | None) -> bool:
        found = any(a == "count" and not limited for a, _, _, limited in self.gold.order)
        return found and (table is None or table in self.gold.tables)

    def _cntd(self, column: int) -> bool:
        return ("count", column) in self.gold.select and column in self.gold.count_distinct

    def _cntc(self, column: int) -> bool:
        return ("count", column) in self.gold.select and column not in self.gold.count_distinct

    def _sumc(self, column: int) -> bool:
        return ("sum", column) in self.gold.select
