"""Acts: the effects of chosen options on the query.

Each act is a small frozen record. It has a `role` (the name used by weights, links and training), the columns
or the table that it refers to, and a method that adds to the query (`add_to`). Columns and tables are numbers
of the schema index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import msgspec

from clew_nl2sql.planner.catalog import Value
from clew_nl2sql.planner.query import Condition, PlacedCondition, Scalar, SelectItem

Values = Value | tuple[Value, ...]  # several for between, in and not in

COUNT = SelectItem(None, "count")


class Ranking(NamedTuple):
    """The first rows, by an item."""

    item: SelectItem
    descending: bool
    limit: int


@dataclass(slots=True)
class QueryParts:
    """The parts of a query, collected from the acts of an assignment; positions are those of words in the question."""

    items: list[tuple[int, SelectItem]] = field(default_factory=list)
    conditions: list[PlacedCondition] = field(default_factory=list)
    excluded: list[tuple[int, Condition]] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    group_tables: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    having: list[Condition] = field(default_factory=list)
    orders: list[tuple[SelectItem, int]] = field(default_factory=list)
    ranking: Ranking | None = None
    entities: list[int] = field(default_factory=list)
    shown: list[tuple[int, int]] = field(default_factory=list)
    negative: list[tuple[int, int]] = field(default_factory=list)
    limit: int | None = None

    def filter(self, start: int, end: int, column: int, op: str, value: Values | Scalar | SelectItem) -> None:
        """Add a condition on a column."""
        self.conditions.append(PlacedCondition(start, end, Condition(SelectItem(column), op, value)))

    @property
    def picks_by_aggregate(self) -> bool:
        """Return whether rows are picked or ordered by an aggregate."""
        ranked = self.ranking is not None and bool(self.ranking.item.agg)
        return bool(self.having) or ranked or any(item.agg for item, _ in self.orders)

    def count(self, table: int | None) -> None:
        """Note that rows of a table are counted, if the table is known."""
        if table is not None:
            self.counted.append(table)


class Act(msgspec.Struct, frozen=True):
    """The effect of an option. `start` and `end` are the position of its words."""

    role: ClassVar[str]

    @property
    def columns(self) -> tuple[int, ...]:
        """Return the columns that the act names."""
        return ()

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        """Add the act's parts to the query."""


# -- nothing ---------------------------------------------------------------------------------------------------


class Ignore(Act, frozen=True):
    """The piece has no effect."""

    role = "none"


class Consumed(Act, frozen=True):
    """The piece is part of another act."""

    role = "used"


# -- tables ----------------------------------------------------------------------------------------------------


class TableAct(Act, frozen=True):
    """An act about a table."""

    table: int


class JoinTable(TableAct, frozen=True):
    """Join the table."""

    role = "ent"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.entities.append(self.table)


class ShowTable(TableAct, frozen=True):
    """Show the rows of the table, by their display column."""

    role = "dsp"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.shown.append((start, self.table))


class GroupByTable(TableAct, frozen=True):
    """Return one row for each row of the table."""

    role = "grpt"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.group_tables.append(self.table)


class ExcludeTable(TableAct, frozen=True):
    """Exclude everything that has rows in the table."""

    role = "neg"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.negative.append((start, self.table))


# -- columns ---------------------------------------------------------------------------------------------------


class ColumnAct(Act, frozen=True):
    """An act about one column."""

    column: int

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column,)


class SelectColumn(ColumnAct, frozen=True):
    """Select the column."""

    role = "sel"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.items.append((start, SelectItem(self.column)))


class GroupByColumn(ColumnAct, frozen=True):
    """Return one row for each value of the column."""

    role = "grp"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.group.append(self.column)


class OrderByColumn(ColumnAct, frozen=True):
    """Order rows by the column."""

    role = "ord"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.orders.append((SelectItem(self.column), start))


class CountDistinct(ColumnAct, frozen=True):
    """Count the distinct values of the column."""

    role = "cntd"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.items.append((start, SelectItem(self.column, "count", True)))


class CountValues(ColumnAct, frozen=True):
    """Count the values of the column."""

    role = "cntc"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.items.append((start, SelectItem(self.column, "count")))


class SumValues(ColumnAct, frozen=True):
    """Sum a column that already holds counts."""

    role = "sumc"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.items.append((start, SelectItem(self.column, "sum")))


class SelectFullName(Act, frozen=True):
    """Select first and last name."""

    first: int
    last: int
    role = "full"

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.first, self.last)

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.items.append((start, SelectItem(self.first)))
        parts.items.append((start, SelectItem(self.last)))


# -- aggregates ------------------------------------------------------------------------------------------------


class AggregateAct(Act, frozen=True):
    """An act about an aggregate of a column."""

    function: str
    column: int

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column,)

    @property
    def item(self) -> SelectItem:
        """Return the aggregate."""
        return SelectItem(self.column, self.function)


class SelectAggregate(AggregateAct, frozen=True):
    """Select the aggregate."""

    role = "agg"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.items.append((start, self.item))


class OrderByAggregate(AggregateAct, frozen=True):
    """Order rows by the aggregate."""

    role = "ordagg"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.orders.append((self.item, start))


class RankByAggregate(AggregateAct, frozen=True):
    """Return the first rows by the aggregate."""

    descending: bool
    limit: int
    role = "supagg"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.ranking = Ranking(self.item, self.descending, self.limit)


class HavingAggregate(AggregateAct, frozen=True):
    """Filter groups by the aggregate."""

    op: str
    value: Values
    role = "hva"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.having.append(Condition(self.item, self.op, self.value))


# -- counts ----------------------------------------------------------------------------------------------------


class CountRows(Act, frozen=True):
    """Count rows, of a certain table if the question names it."""

    table: int | None
    role = "cnt"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.items.append((start, COUNT))
        parts.count(self.table)


class OrderByCount(Act, frozen=True):
    """Order rows by a count."""

    table: int | None
    role = "ordc"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.orders.append((COUNT, start))
        parts.count(self.table)


class HavingCount(Act, frozen=True):
    """Filter groups by a count."""

    op: str
    value: Values
    table: int | None
    role = "hav"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.having.append(Condition(COUNT, self.op, self.value))
        parts.count(self.table)


class RankByCount(Act, frozen=True):
    """Return the first rows by a count."""

    descending: bool
    limit: int
    table: int | None
    role = "supc"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.ranking = Ranking(COUNT, self.descending, self.limit)
        parts.count(self.table)


class RankByColumn(ColumnAct, frozen=True):
    """Return the first rows by a column."""

    descending: bool
    limit: int
    role = "supcol"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.ranking = Ranking(SelectItem(self.column), self.descending, self.limit)


class Limit(Act, frozen=True):
    """Limit the number of rows."""

    rows: int
    role = "lim"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.limit = self.rows


# -- conditions ------------------------------------------------------------------------------------------------


class Filter(ColumnAct, frozen=True):
    """Filter rows by comparing a column with a value."""

    op: str
    value: Values
    role = "cnd"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.filter(start, end, self.column, self.op, self.value)

    def excluding(self) -> ExcludeRows:
        """Return the same condition, on the rows to exclude."""
        return ExcludeRows(self.column, self.op, self.value)


class ExcludeRows(ColumnAct, frozen=True):
    """Exclude everything that has such rows."""

    op: str
    value: Values
    role = "exc"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.excluded.append((start, Condition(SelectItem(self.column), self.op, self.value)))


class FilterPair(Act, frozen=True):
    """Filter by two columns of one row that together hold a value."""

    first: int
    first_value: Value
    second: int
    second_value: Value
    role = "cnd2"

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.first, self.second)

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.filter(start, end, self.first, "=", self.first_value)
        parts.filter(start, end, self.second, "=", self.second_value)


class CompareColumns(Act, frozen=True):
    """Filter rows by comparing two columns."""

    column: int
    op: str
    other: int
    role = "cmpcol"

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column, self.other)

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.filter(start, end, self.column, self.op, SelectItem(self.other))


class CompareWithAggregate(ColumnAct, frozen=True):
    """Filter rows by comparing a column with an aggregate of it over all rows."""

    op: str
    function: str
    role = "cmpagg"

    def add_to(self, parts: QueryParts, start: int, end: int) -> None:
        parts.filter(start, end, self.column, self.op, Scalar(self.function, self.column))
