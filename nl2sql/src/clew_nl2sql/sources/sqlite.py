"""SQLite files. Queries are executed by `clew_nl2sql.query_worker.sqlite_queries`, in another process."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from clew_nl2sql.errors import SourceDownError
from clew_nl2sql.planner.catalog import Catalog, ForeignKey, Table
from clew_nl2sql.query_worker.sqlite_queries import STEPS, limit_seconds, opened
from clew_nl2sql.sources.limited_queries import LimitedQueries, QueryLimits
from clew_nl2sql.sources.protocol import QueryResult
from clew_nl2sql.sources.query_processes import MEMORY
from clew_nl2sql.sources.table_samples import SECONDS, ColumnDescription, sampled_table
from clew_nl2sql.sql.guard import CheckedQuery

_TABLES = """
SELECT name, type = 'view' FROM sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid
"""


class SQLiteSource:
    """A SQLite file."""

    dialect = "sqlite"

    def __init__(
        self, path: str | Path, *, timeout: float = 30.0, max_memory: int = MEMORY, timezone: str = ""
    ) -> None:
        self.path = Path(path)
        self._limits = QueryLimits(timeout, max_memory, timezone)

    def __repr__(self) -> str:
        return f"SQLiteSource({str(self.path)!r})"

    def within(self, seconds: float) -> SQLiteSource:
        """Return this source with a shorter time limit."""
        return SQLiteSource(
            self.path,
            timeout=min(seconds, self._limits.seconds),
            max_memory=self._limits.memory,
            timezone=self._limits.timezone,
        )

    def catalog(self) -> Catalog:
        """Return the tables, columns, keys and samples of values."""
        try:
            with closing(opened(self._uri())) as connection:
                return _catalog(connection, self.path.stem, self._limits.timezone)
        except sqlite3.Error as error:
            raise self._down(error) from error

    def explain(self, query: CheckedQuery) -> str:
        """Return SQLite's plan for a query."""
        return self._queries().explain(query)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query."""
        return self._queries().run(query, max_rows)

    def _queries(self) -> LimitedQueries:
        return LimitedQueries("sqlite", self._uri(), f"the SQLite file {self.path}", self._limits)

    def _uri(self) -> str:
        return self.path.absolute().as_uri()

    def _down(self, error: sqlite3.Error) -> SourceDownError:
        return SourceDownError(f"the SQLite file {self.path} cannot be read: {error}")


def _catalog(connection: sqlite3.Connection, name: str, timezone: str) -> Catalog:
    def sample(sql: str) -> list[tuple[object, ...]]:
        limit_seconds(connection, SECONDS)
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.Error:  # a view of a missing table, or a slow view
            return []
        finally:
            connection.set_progress_handler(None, STEPS)

    views = dict(connection.execute(_TABLES).fetchall())
    tables = {
        table.lower(): sampled_table(sample, "sqlite", table, _described(connection, table), view=bool(view))
        for table, view in views.items()
    }
    keys = []
    for table in views:
        rows = connection.execute("SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", (table,))
        for _, _, target, column, referred, *_ in rows.fetchall():
            key = _key(tables[table.lower()], column, tables.get(target.lower()), referred)
            if key is not None:
                keys.append(key)
    return Catalog(
        tables=tuple(tables.values()),
        foreign_keys=tuple(keys),
        dialect="sqlite",
        name=name,
        timezone=timezone,
    )


def _described(connection: sqlite3.Connection, table: str) -> list[ColumnDescription]:
    try:
        rows = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()
    except sqlite3.Error:
        return []
    return [ColumnDescription(name, declared or "", primary_key=bool(key)) for name, declared, key in rows]


def _key(table: Table, column: str, target: Table | None, referred: str | None) -> ForeignKey | None:
    """Return a key with names as its tables spell them. Without a target column, it refers to the primary key."""
    if target is None or not target.columns:
        return None
    primary = next((c.name for c in target.columns if c.primary_key), target.columns[0].name)
    own, other = _spelled(table, column), _spelled(target, referred or primary)
    if own is None or other is None:
        return None
    return ForeignKey(table=table.name, column=own, target_table=target.name, target_column=other)


def _spelled(table: Table, name: str) -> str | None:
    return next((column.name for column in table.columns if column.name.lower() == name.lower()), None)
