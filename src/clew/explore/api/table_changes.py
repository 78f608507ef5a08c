"""What changed between two observations of the systems: which tables, rows and columns.

Rows are matched by their key, if the system describes it. A change is named `table.column`, or `table (+1 row)` if rows
came or went. For systems that are not databases the changed parts are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clew.explore.model.system import Observation
from clew.explore.systems.tables import TableSchema

Snapshot = dict[str, Observation]
Column = tuple[str, str, str]  # system, table, column


class Change(msgspec.Struct, frozen=True):
    """A change of a column in existing rows, or of the number of rows."""

    system: str
    table: str
    column: str | None
    rows: int = 0

    @property
    def text(self) -> str:
        """Return the change for a message."""
        if self.column is not None:
            return f"{self.table}.{self.column}"
        many = "row" if abs(self.rows) == 1 else "rows"
        return f"{self.table} ({self.rows:+d} {many})" if self.rows else self.table


class Schemas:
    """The tables of all systems that describe theirs."""

    def __init__(self, systems: Mapping[str, Any]) -> None:
        self.tables: dict[str, dict[str, TableSchema]] = {}
        for name, system in systems.items():
            describe = getattr(system, "describe", None)
            if callable(describe):
                self.tables[name] = describe()

    def table(self, system: str, table: str) -> TableSchema | None:
        """Return the description of a table."""
        return self.tables.get(system, {}).get(table)

    def times(self) -> set[Column]:
        """Return all columns whose declared type is a date or a time."""
        return {
            (system, table, column)
            for system, tables in self.tables.items()
            for table, found in tables.items()
            for column in found.times
        }


def observe(systems: Mapping[str, Any], names: Iterable[str]) -> Snapshot:
    return {name: systems[name].observe() for name in names}


def same(one: Snapshot, two: Snapshot) -> bool:
    """Return whether two snapshots show the same."""
    return all(_same(one[name], two[name]) for name in one)


def _same(one: Observation, two: Observation) -> bool:
    if one is two or (one.digest is not None and one.digest == two.digest):
        return True
    return one.digest is None and bool(one.data == two.data)


def changes(one: Snapshot, two: Snapshot, schemas: Schemas) -> list[Change]:
    """Return what changed between two snapshots."""
    found: list[Change] = []
    for name, before in one.items():
        after = two[name]
        if _same(before, after):
            continue
        if not isinstance(before.data, Mapping) or not isinstance(after.data, Mapping):
            found.append(Change(name, name, None))
            continue
        for table in sorted({*before.data, *after.data}, key=str):
            old, new = before.data.get(table), after.data.get(table)
            if old != new:
                found += _table(name, str(table), old, new, schemas.table(name, str(table)))
    return found


def _table(system: str, table: str, old: Any, new: Any, schema: TableSchema | None) -> list[Change]:
    if not _is_rows(old) or not _is_rows(new):
        return [Change(system, table, None, _count(new) - _count(old))]
    before, after = _keyed(old, schema), _keyed(new, schema)
    found = []
    if set(before) != set(after):
        found.append(Change(system, table, None, len(after) - len(before)))
    columns = {
        column
        for key in before.keys() & after.keys()
        for column, value in after[key].items()
        if before[key].get(column) != value
    }
    return found + [Change(system, table, column) for column in sorted(columns)]


def _is_rows(part: Any) -> bool:
    return isinstance(part, list) and all(isinstance(row, Mapping) for row in part)


def _count(part: Any) -> int:
    if isinstance(part, list):
        return len(part)
    return int(part.get("rows", 0)) if isinstance(part, Mapping) else 0


def _keyed(rows: list[Mapping[str, Any]], schema: TableSchema | None) -> dict[Any, Mapping[str, Any]]:
    if schema is not None and schema.key:
        return {tuple(str(row.get(column)) for column in schema.key): row for row in rows}
    found: dict[Any, Mapping[str, Any]] = {}
    for row in rows:  # without a key a row is itself; equal ones are counted
        text, number = repr(sorted(row.items(), key=lambda pair: pair[0])), 0
        while (text, number) in found:
            number += 1
        found[text, number] = row
    return found


def values_of(snapshot: Snapshot, column: Column) -> list[str]:
    """Return the values of a column, as texts."""
    system, table, name = column
    data = snapshot[system].data if system in snapshot else None
    rows = data.get(table) if isinstance(data, Mapping) else None
    return [str(row.get(name)) for row in rows] if isinstance(rows, list) else []


def new_rows(one: Snapshot, two: Snapshot, schemas: Schemas) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return the rows that were added, with their system and table."""
    found = []
    for name, before in one.items():
        after = two[name]
        if _same(before, after) or not isinstance(after.data, Mapping):
            continue
        for table, rows in after.data.items():
            old = before.data.get(table) if isinstance(before.data, Mapping) else None
            if old == rows or not _is_rows(rows) or not _is_rows(old or []):
                continue
            schema = schemas.table(name, table)
            known = _keyed(old or [], schema)
            found += [(name, table, row) for key, row in _keyed(rows, schema).items() if key not in known]
    return found
