"""What the planner knows about a database: its tables, columns, keys and a sample of its values.

A `Catalog` is plain, frozen data. The owner of a connection builds it (the benchmark uses
`catalog_from_sqlite`). The planner reads nothing else, so the same catalog and question always give the same
plan.

Words of the question are linked to columns by their values. `values` holds distinct values, most frequent
first, and `complete` says that there are no others. With the `rows` of tables, the planner can test its
candidates on a sample database in memory, which increases its certainty considerably. Provide up to about a
thousand rows of each table that the user may read.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal["text", "number", "date", "boolean", "other"]
Value = str | int | float

SAMPLE = 2000
SAMPLE_ROWS = 1000
LONGEST_VALUE = 200
DATES_LOOKED_AT = 50
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?![\d-])")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column; `type` is the declared type, `kind` classifies its content."""

    name: str
    type: str = ""
    kind: Kind = "other"
    comment: str = ""
    values: tuple[Value, ...] = ()
    complete: bool = False
    primary_key: bool = False
    n_distinct: int | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table or view. `name` is unique in the catalog; it begins with the schema, if that is not the default one."""

    name: str
    columns: tuple[Column, ...]
    comment: str = ""
    row_count: int | None = None
    view: bool = False  # a named query over rows of other tables
    schema: str = ""  # empty for the default schema
    rows: tuple[tuple[Value | None, ...], ...] = ()  # a sample, in the order of `columns`

    @property
    def own_name(self) -> str:
        """Return the name without the schema."""
        return self.name.removeprefix(f"{self.schema}.") if self.schema else self.name


class ForeignKey(msgspec.Struct, frozen=True, kw_only=True):
    """A column that refers to a column of another table. A composite key is several of these."""

    table: str
    column: str
    target_table: str
    target_column: str


class Catalog(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One database, or the part of it that the user may see."""

    tables: tuple[Table, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    dialect: str = "sqlite"
    name: str = ""
    timezone: str = ""  # of the source; empty for that of this machine


_TYPES: dict[Kind, re.Pattern[str]] = {
    "boolean": re.compile("bool|^bit$"),
    "date": re.compile("date|time"),
    "number": re.compile("int|real|num|dec|float|double|money|serial"),
    "text": re.compile("char|text|clob|string|uuid|enum"),
}


def kind_of(declared: str, values: tuple[Value, ...] = ()) -> Kind:
    """Return the kind of a column, by its declared type and, if that is not specific, by its values."""
    count, numbers = len(values), sum(isinstance(v, int | float) for v in values)
    kind: Kind = next((kind for kind, names in _TYPES.items() if names.search(declared.lower())), "other")
    if kind == "boolean" or not values or (kind == "date" and numbers < count):
        return kind
    is_number = kind == "number" and numbers * 2 >= count
    if is_number or numbers * 10 >= count * 9:
        return "number"
    return "date" if are_dates(values) else "text"


def are_dates(values: tuple[Value, ...]) -> bool:
    """Return whether values are dates or timestamps as text, with the year first, so that they sort by time."""
    return bool(values) and all(isinstance(v, str) and _ISO_DATE.match(v) for v in values[:DATES_LOOKED_AT])


def catalog_from_sqlite(path: str | Path, *, sample: int = SAMPLE) -> Catalog:
    """Read the catalog of a SQLite file. It is opened read-only and may hold bytes that are not UTF-8."""
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        kinds = dict(
            connection.execute(
                "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
            ).fetchall()
        )
        tables = tuple(_table(connection, name, sample, view=kind == "view") for name, kind in kinds.items())
        keys = tuple(key for name in kinds for key in _foreign_keys(connection, name, tables))
    finally:
        connection.close()
    return Catalog(tables=tables, foreign_keys=keys, dialect="sqlite", name=Path(path).stem)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table(connection: sqlite3.Connection, name: str, sample: int, *, view: bool) -> Table:
    try:
        described = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
        rows = connection.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0]
    except sqlite3.Error:  # a view of a missing table
        return Table(name=name, columns=(), view=view)
    columns = tuple(_column(connection, name, row, sample) for row in described)
    sampled = connection.execute(f"SELECT * FROM {_quoted(name)} LIMIT ?", (SAMPLE_ROWS,)).fetchall()
    kept = tuple(tuple(v if isinstance(v, str | int | float) else None for v in row) for row in sampled)
    return Table(name=name, columns=columns, row_count=rows, view=view, rows=kept)


def _column(connection: sqlite3.Connection, table: str, described: tuple[object, ...], sample: int) -> Column:
    name, declared, key = str(described[1]), str(described[2] or ""), bool(described[5])
    column = _quoted(name)
    try:
        found = connection.execute(
            f"SELECT {column} FROM {_quoted(table)} WHERE {column} IS NOT NULL "
            f"GROUP BY {column} ORDER BY count(*) DESC, {column} LIMIT ?",
            (sample + 1,),
        ).fetchall()
    except sqlite3.Error:
        found = []
    kept = [row[0] for row in found if isinstance(row[0], str | int | float)][:sample]
    values = tuple(v for v in kept if not isinstance(v, str) or len(v) <= LONGEST_VALUE)
    return Column(
        name=name,
        type=declared,
        kind=kind_of(declared, values),
        values=values,
        complete=len(found) <= sample and len(values) == len(found),
        primary_key=key,
        n_distinct=len(found) if len(found) <= sample else None,
    )


def _foreign_keys(connection: sqlite3.Connection, name: str, tables: tuple[Table, ...]) -> list[ForeignKey]:
    by_name = {table.name.lower(): table for table in tables}
    own = by_name[name.lower()]
    keys = []
    for row in sorted(connection.execute(f"PRAGMA foreign_key_list({_quoted(name)})").fetchall()):
        target = by_name.get(str(row[2]).lower())
        if target is None or not target.columns:
            continue
        primary = next((c.name for c in target.columns if c.primary_key), target.columns[0].name)
        source, referred = _spelled(own, str(row[3])), _spelled(target, str(row[4] or primary))
        if source and referred:
            keys.append(
                ForeignKey(table=own.name, column=source, target_table=target.name, target_column=referred)
            )
    return keys


def _spelled(table: Table, column: str) -> str | None:
    return next((c.name for c in table.columns if c.name.lower() == column.lower()), None)
