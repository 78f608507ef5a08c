"""Look up the literals of a question in the database, where the sample of a column does not hold all values.

A probe is one SELECT with LIMIT 1. It looks in all columns of a table at once, passes the guard with the catalog that
the user may see, and runs on the read-only source. There are at most `MOST` probes for a question, and they take at
most `SECONDS` together. The start of the process that runs them does not count. The rows found become part of the
catalog that the planner receives, so they take part in its dry run.

A verbatim literal that could not be looked up everywhere is *unchecked*, and its answer is never complete. Probes are
part of the recorded call of the planner; a replay makes none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from sqlglot import exp

from clew_nl2sql.errors import Nl2sqlError, QueryTimeoutError
from clew_nl2sql.planner.catalog import Catalog, Column, Table, Value
from clew_nl2sql.planner.words.literals import Literal, has_shape, is_telling, literals
from clew_nl2sql.planner.words.tokens import tokenize
from clew_nl2sql.roles import plan_model
from clew_nl2sql.schemas import PlanModel
from clew_nl2sql.sources.protocol import Source
from clew_nl2sql.sources.table_samples import plain_value, table_expression
from clew_nl2sql.sql.guard import check

MOST = 20
SECONDS = 1.0
RELATED = 20  # rows of other tables that refer to a found row


Conditions = list[exp.Expression]  # all of which one row fulfils


class Probed(NamedTuple):
    """The catalog with the rows found, and the literals that could not be looked up everywhere."""

    catalog: Catalog
    unchecked: tuple[str, ...] = ()


class ProbingPlanner:
    """A planner that receives a catalog with the literals of the question."""

    def __init__(self, planner: Any, source: Source) -> None:
        self._planner = planner
        self._source = source

    def plan(self, question: str, catalog: Catalog) -> PlanModel:
        """Probe, and plan."""
        return self._planned("plan", question, catalog)

    def refine(self, question: str, catalog: Catalog, feedback: Any) -> PlanModel:
        """Probe, and plan again."""
        return self._planned("refine", question, catalog, feedback)

    def _planned(self, method: str, question: str, catalog: Catalog, *more: Any) -> PlanModel:
        found = probed(question, catalog, self._source)
        plan = plan_model(getattr(self._planner, method)(question, found.catalog, *more))
        unmapped = dict.fromkeys((*plan.unmapped, *found.unchecked))
        return msgspec.structs.replace(plan, unmapped=tuple(unmapped))


def probed(question: str, catalog: Catalog, source: Source) -> Probed:
    """Return the catalog with the rows that hold the literals of a question."""
    columns = [column for table in catalog.tables for column in table.columns]
    known = {value.casefold() for column in columns for value in column.values if isinstance(value, str)}
    wanted = [one for one in literals(tokenize(question)) if one.text.casefold() not in known]
    if not wanted or not any(map(_is_open, columns)):
        return Probed(catalog)
    lookup = _Lookup(catalog, source)
    unchecked = _unchecked(wanted, lookup)
    return Probed(lookup.catalog(), unchecked)


def _unchecked(wanted: list[Literal], lookup: _Lookup) -> tuple[str, ...]:
    """Look for each literal that no longer one covers; return those that could not be checked."""
    unchecked = []
    covered: set[int] = set()
    for literal in wanted:
        if covered.issuperset(range(literal.start, literal.end)):
            continue
        if lookup.find(literal):
            covered.update(range(literal.start, literal.end))
        elif literal.verbatim and lookup.exhausted:
            unchecked.append(literal.text)
    return tuple(unchecked)


def _is_open(column: Column) -> bool:
    """Return whether a column may hold a text that its sample lacks."""
    return column.kind == "text" and not column.complete


class _Lookup:
    """The probes of one question."""

    def __init__(self, catalog: Catalog, source: Source) -> None:
        self._catalog = catalog
        self._source = source
        self._left = MOST
        self._start_process()
        self._until = time.monotonic() + SECONDS
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self.exhausted = False

    def find(self, literal: Literal) -> bool:
        """Look up a literal in every open column, the likeliest first; return whether a row holds it."""
        for folded in (False, True):
            for table, places in self._places(literal):
                if row := self._ask_any(table, [[_folded(c) if folded else c for c in p] for p in places]):
                    self._relate(table, row[0])
                    return True
        return False

    def catalog(self) -> Catalog:
        """Return the catalog with the rows found."""
        if not self._rows:
            return self._catalog
        tables = [_with_rows(t, self._rows.get(t.name, [])) for t in self._catalog.tables]
        return msgspec.structs.replace(self._catalog, tables=tuple(tables))

    def _start_process(self) -> None:
        """Run a query that reads nothing, so that the time of the probes is spent in the database."""
        within = getattr(self._source, "within", None)
        if within is not None:
            try:
                within(SECONDS).run(check("SELECT 1", self._catalog), 1)
            except Nl2sqlError:
                pass

    def _places(self, literal: Literal) -> list[tuple[Table, list[Conditions]]]:
        """Return the places of each table that may hold a literal: first the columns whose values look like it."""
        columns = [(t, c) for t in self._catalog.tables for c in t.columns if _is_open(c)]
        telling = is_telling(literal.text)
        fitting = [(t, c) for t, c in columns if telling and has_shape(c.values, literal.text)]
        others = [pair for pair in columns if pair not in fitting]
        return [
            *_by_table(fitting, literal),
            *_full_names(self._catalog, literal),
            *_by_table(others, literal),
        ]

    def _ask_any(self, table: Table, places: list[Conditions]) -> list[tuple[Any, ...]]:
        """Look in several places at once; one by one, if the database cannot compare one of them with a text."""
        together = exp.or_(*(exp.and_(*conditions) for conditions in places))
        try:
            return self._rows_of(table, together, 1)
        except Nl2sqlError:
            alone = (self._ask(table, exp.and_(*conditions), 1) for conditions in places if len(places) > 1)
            return next(filter(None, alone), [])

    def _relate(self, table: Table, row: tuple[Any, ...]) -> None:
        """Add a row, the rows that it refers to, and some that refer to it."""
        self._rows.setdefault(table.name, []).append(row)
        tables = {t.name: t for t in self._catalog.tables}
        for key in self._catalog.foreign_keys:
            for own, other, target, most in (
                (key.table, key.column, (key.target_table, key.target_column), 1),
                (key.target_table, key.target_column, (key.table, key.column), RELATED),
            ):
                if own != table.name or target[0] not in tables:
                    continue
                value = plain_value(row[[c.name for c in table.columns].index(other)])
                if value is not None:
                    related = self._ask(tables[target[0]], _equal(target[1], value), most)
                    self._rows.setdefault(target[0], []).extend(related)

    def _ask(self, table: Table, condition: exp.Expr, most: int) -> list[tuple[Any, ...]]:
        try:
            return self._rows_of(table, condition, most)
        except Nl2sqlError:  # a column that cannot be compared with a text does not hold it
            return []

    def _rows_of(self, table: Table, condition: exp.Expr, most: int) -> list[tuple[Any, ...]]:
        seconds = self._until - time.monotonic()
        within = getattr(self._source, "within", None)
        if self._left <= 0 or seconds <= 0 or within is None:
            self.exhausted = True
            return []
        self._left -= 1
        chosen = [exp.column(column.name, quoted=True) for column in table.columns]
        query = exp.select(*chosen).from_(table_expression(table.schema, table.own_name))
        sql = query.where(condition).limit(most).sql(self._catalog.dialect)
        try:
            return list(within(seconds).run(check(sql, self._catalog), most).rows)
        except QueryTimeoutError:
            self.exhausted = True
            return []


def _by_table(columns: list[tuple[Table, Column]], literal: Literal) -> list[tuple[Table, list[Conditions]]]:
    """Return the columns of each table that may hold a literal, as conditions."""
    tables = list({table.name: table for table, _ in columns}.values())
    return [
        (t, [[_equal(c.name, literal.text)] for table, c in columns if table.name == t.name]) for t in tables
    ]


def _equal(column: str, value: Value) -> exp.Expression:
    literal = exp.Literal.string(value) if isinstance(value, str) else exp.convert(value)
    return exp.EQ(this=exp.column(column, quoted=True), expression=literal)


def _folded(condition: exp.Expression) -> exp.Expression:
    return exp.EQ(
        this=exp.Lower(this=condition.this.copy()), expression=exp.Lower(this=condition.expression.copy())
    )


def _full_names(catalog: Catalog, literal: Literal) -> Iterator[tuple[Table, list[Conditions]]]:
    """Yield the tables with a first and a last name, for a literal of two or more words."""
    words = literal.text.split()
    for table in catalog.tables if len(words) > 1 else ():
        names = {c.name.lower().replace("_", ""): c.name for c in table.columns if c.kind == "text"}
        first, last = names.get("firstname"), names.get("lastname")
        if first and last:
            yield table, [[_equal(first, " ".join(words[:-1])), _equal(last, words[-1])]]


def _with_rows(table: Table, rows: list[tuple[Any, ...]]) -> Table:
    plain = [tuple(plain_value(value) for value in row) for row in rows]
    added = [row for row in dict.fromkeys(plain) if row not in table.rows]
    if not added:
        return table
    columns = tuple(map(_with_values, table.columns, zip(*added)))
    return msgspec.structs.replace(table, columns=columns, rows=table.rows + tuple(added))


def _with_values(column: Column, values: Iterable[Value | None]) -> Column:
    new = dict.fromkeys(v for v in values if v is not None and v not in column.values)
    return msgspec.structs.replace(column, values=column.values + tuple(new))
