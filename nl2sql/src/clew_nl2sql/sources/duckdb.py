"""DuckDB, read-only, with external access disabled: no file, network or extension; a query cannot enable it.

Each query uses one DuckDB thread, so rows without ORDER BY arrive in a stable order; several scans can still
run concurrently. A query that could call a macro of the database is rejected, because macros take precedence
over functions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clew_nl2sql.errors import QueryFailedError, QueryTimeoutError, RefusedQueryError, SourceDownError
from clew_nl2sql.planner.catalog import Catalog, ForeignKey
from clew_nl2sql.sources.protocol import QueryResult, distinct_names
from clew_nl2sql.sources.table_samples import SECONDS, ColumnDescription, sampled_table
from clew_nl2sql.sql.function_calls import called_names, refuse_defined
from clew_nl2sql.sql.guard import CheckedQuery

SETTINGS = {"enable_external_access": "false", "autoload_known_extensions": "false", "threads": "1"}

_ZONED = "TIMESTAMP WITH TIME ZONE"

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
_MACROS = "SELECT function_name FROM duckdb_functions() WHERE NOT internal"


class DuckDBSource:
    """A DuckDB file."""

    dialect = "duckdb"

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        self.path = Path(path)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"DuckDBSource({str(self.path)!r})"

    def within(self, seconds: float) -> DuckDBSource:
        """Return this source with a shorter time limit."""
        return DuckDBSource(self.path, timeout=min(seconds, self._timeout))

    def catalog(self) -> Catalog:
        """Return the tables, columns, keys and samples of values."""
        import duckdb

        try:
            with self._connection() as connection:
                return _catalog(connection, self.path.stem)
        except duckdb.Error as error:
            raise SourceDownError(
                f"the catalog of {self.path} cannot be read: {_first_line(error)}"
            ) from error

    def explain(self, query: CheckedQuery) -> str:
        """Return DuckDB's plan for a query."""
        import duckdb

        try:
            with self._connection() as connection:
                _refuse_macros(connection, query.sql)
                rows = connection.execute(f"EXPLAIN {query.sql}").fetchall()
        except duckdb.Error as error:
            raise RefusedQueryError(f"DuckDB rejects the query: {_first_line(error)}") from error
        return "\n".join(str(row[-1]) for row in rows)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query."""
        import duckdb

        try:
            with self._connection() as connection:
                _refuse_macros(connection, query.sql)
                names, rows = _fetched(connection, query.sql, max_rows + 1)
        except duckdb.InterruptException as error:
            raise QueryTimeoutError(
                f"the query exceeded its limit of {self._timeout:g} s; ask for less, or raise the timeout"
            ) from error
        except duckdb.Error as error:
            raise QueryFailedError(f"DuckDB failed: {_first_line(error)}") from error
        return QueryResult(
            columns=distinct_names(names), rows=tuple(rows[:max_rows]), truncated=len(rows) > max_rows
        )

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        import duckdb

        if not self.path.is_file():  # DuckDB's own message is less clear
            raise SourceDownError(f"the DuckDB file {self.path} does not exist")
        try:
            connection = duckdb.connect(str(self.path), read_only=True, config=dict(SETTINGS))
        except duckdb.Error as error:
            raise SourceDownError(f"{self.path} cannot be opened: {_first_line(error)}") from error
        try:
            with _limited(connection, self._timeout):
                yield connection
        finally:
            connection.close()


@contextmanager
def _limited(connection: Any, seconds: float) -> Iterator[None]:
    """Interrupt a connection after some seconds."""
    limit = threading.Timer(seconds, connection.interrupt)
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def _refuse_macros(connection: Any, sql: str) -> None:
    defined = {name.lower() for (name,) in connection.execute(_MACROS).fetchall()}
    refuse_defined([name for name in called_names(sql, "duckdb") if name in defined])


def _fetched(connection: Any, sql: str, count: int | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return names and rows, at most `count`. Timestamps with a time zone are converted to UTC, because
    DuckDB needs another package to return them unchanged.
    """
    described = connection.sql(sql)  # does not execute it
    kinds = [str(kind) for kind in described.types]
    if _ZONED in kinds:
        connection.execute("SET TimeZone = 'UTC'")
        chosen = [
            f"CAST(#{n} AS TIMESTAMP)" if kind == _ZONED else f"#{n}" for n, kind in enumerate(kinds, 1)
        ]
        sql = f"SELECT {', '.join(chosen)} FROM ({sql}) AS zoned"
    cursor = connection.execute(sql)
    return list(described.columns), cursor.fetchall() if count is None else cursor.fetchmany(count)


def _catalog(connection: Any, name: str) -> Catalog:
    import duckdb

    def ask(sql: str) -> list[tuple[Any, ...]]:
        return _fetched(connection, sql)[1]

    def sample(sql: str) -> list[tuple[Any, ...]]:
        try:
            with _limited(connection, SECONDS):
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
    return Catalog(tables=tables, foreign_keys=tuple(foreign), dialect="duckdb", name=name)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
