"""DuckDB files. Queries are executed by `clew_nl2sql.query_worker.duckdb_queries`, in another process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clew_nl2sql.errors import SourceDownError
from clew_nl2sql.planner.catalog import Catalog, ForeignKey
from clew_nl2sql.query_worker.duckdb_queries import (
    SETTINGS,
    fetched,
    first_line,
    interrupted_after,
    set_zone,
    zone_of,
)
from clew_nl2sql.sources.limited_queries import LimitedQueries, QueryLimits
from clew_nl2sql.sources.protocol import QueryResult
from clew_nl2sql.sources.query_processes import MEMORY
from clew_nl2sql.sources.table_samples import SECONDS, ColumnDescription, sampled_table
from clew_nl2sql.sql.guard import CheckedQuery
from clew_nl2sql.timezones import known_timezone

_TABLES = """
SELECT table_name, comment, estimated_size, false FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal
UNION ALL SELECT view_name, comment, NULL, true FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal
ORDER BY 1
"""
_COLUMNS = """
SELECT table_name, column_name, data_type, comment FROM duckdb_columns()
WHERE schema_name = 'main' AND NOT internal ORDER BY table_name, column_index
"""
_KEYS = """
SELECT constraint_type, table_name, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE schema_name = 'main' AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') ORDER BY ALL
"""


class DuckDBSource:
    """A DuckDB file."""

    dialect = "duckdb"

    def __init__(
        self, path: str | Path, *, timeout: float = 30.0, max_memory: int = MEMORY, timezone: str = ""
    ) -> None:
        self.path = Path(path)
        self._limits = QueryLimits(timeout, max_memory, timezone)

    def __repr__(self) -> str:
        return f"DuckDBSource({str(self.path)!r})"

    def within(self, seconds: float) -> DuckDBSource:
        """Return this source with a shorter time limit."""
        return DuckDBSource(
            self.path,
            timeout=min(seconds, self._limits.seconds),
            max_memory=self._limits.memory,
            timezone=self._limits.timezone,
        )

    def catalog(self) -> Catalog:
        """Return the tables, columns, keys and samples of values."""
        import duckdb

        try:
            with self._connection() as connection:
                return _catalog(connection, self.path.stem)
        except duckdb.Error as error:
            raise SourceDownError(
                f"the catalog of {self.path} cannot be read: {first_line(error)}"
            ) from error

    def explain(self, query: CheckedQuery) -> str:
        """Return DuckDB's plan for a query."""
        return self._queries().explain(query)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query."""
        return self._queries().run(query, max_rows)

    def _queries(self) -> LimitedQueries:
        self._check_exists()
        return LimitedQueries("duckdb", str(self.path.absolute()), str(self.path), self._limits)

    def _check_exists(self) -> None:
        if not self.path.is_file():  # DuckDB's own message is less clear
            raise SourceDownError(f"the DuckDB file {self.path} does not exist")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        import duckdb

        self._check_exists()
        try:
            connection = duckdb.connect(str(self.path), read_only=True, config=dict(SETTINGS))
        except duckdb.Error as error:
            raise SourceDownError(f"{self.path} cannot be opened: {first_line(error)}") from error
        try:
            with interrupted_after(connection, self._limits.seconds):
                set_zone(connection, self._limits.timezone)
                yield connection
        finally:
            connection.close()


def _catalog(connection: Any, name: str) -> Catalog:
    import duckdb

    def ask(sql: str) -> list[tuple[Any, ...]]:
        return fetched(connection, sql)[1]

    def sample(sql: str) -> list[tuple[Any, ...]]:
        try:
            with interrupted_after(connection, SECONDS):
                return ask(sql)
        except duckdb.Error:  # a view of a file, which may not be read, or a slow view
            return []

    primary: set[tuple[str, str]] = set()
    foreign: list[ForeignKey] = []
    for kind, table, own, target, targets in ask(_KEYS):
        if kind == "PRIMARY KEY":
            primary.update((table, column) for column in own)
        else:
            foreign += [
                ForeignKey(table=table, column=column, target_table=target, target_column=referred)
                for column, referred in zip(own, targets)
            ]
    columns: dict[str, list[ColumnDescription]] = {}
    for table, column, declared, comment in ask(_COLUMNS):
        described = ColumnDescription(column, declared, comment or "", (table, column) in primary)
        columns.setdefault(table, []).append(described)
    tables = tuple(
        sampled_table(
            sample, "duckdb", name, columns.get(name, []), comment=comment or "", estimate=size, view=view
        )
        for name, comment, size, view in ask(_TABLES)
    )
    return Catalog(
        tables=tables,
        foreign_keys=tuple(foreign),
        dialect="duckdb",
        name=name,
        timezone=known_timezone(zone_of(connection)),
    )
