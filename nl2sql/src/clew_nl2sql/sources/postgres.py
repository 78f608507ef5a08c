"""PostgreSQL, with a read-only transaction, a statement timeout, and one statement per message.

The transaction is read-only before the first statement, and is rolled back after the last one. The guard
rejects functions that act outside transactions. A database user without write privileges is still the best
protection; the documentation shows how to create one. Only the schema ``public`` is read.

The guard identifies functions by name, but a database can define another `lower`. Names therefore resolve to
PostgreSQL's functions first, and a query that could call a user-defined function is rejected. (Functions of
an extension do not count as user-defined.) String literals follow the SQL standard, independent of server
settings, as in the guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clew_nl2sql.errors import QueryFailedError, QueryTimeoutError, RefusedQueryError, SourceDownError
from clew_nl2sql.planner.catalog import Catalog, ForeignKey
from clew_nl2sql.sources.postgres_dates import return_odd_dates_as_text
from clew_nl2sql.sources.protocol import QueryResult, distinct_names
from clew_nl2sql.sources.table_samples import SECONDS, ColumnDescription, sampled_table
from clew_nl2sql.sql.function_calls import called_names, refuse_defined
from clew_nl2sql.sql.guard import CheckedQuery

CONNECT_SECONDS = 5

# No parallel workers and no synchronized scans, so rows without ORDER BY arrive in a stable order.
_SETTINGS = (
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL search_path = pg_catalog, public",
    "SET LOCAL standard_conforming_strings = on",
)
_OWN_FUNCTIONS = """
SELECT DISTINCT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'public' AND p.proname = ANY (%s)
  AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e')
"""
_TABLES = """
SELECT c.relname, obj_description(c.oid, 'pg_class'), c.reltuples::bigint, c.relkind IN ('v', 'm')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND NOT c.relispartition
  AND has_table_privilege(c.oid, 'SELECT') ORDER BY c.relname
"""
_COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum),
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND NOT c.relispartition
  AND has_table_privilege(c.oid, 'SELECT') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum
"""
_KEYS = """
SELECT c.relname, a.attname, t.relname, b.attname
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS pair (here, there)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = pair.here
JOIN pg_attribute b ON b.attrelid = t.oid AND b.attnum = pair.there
WHERE k.contype = 'f' AND n.nspname = 'public' ORDER BY c.relname, k.conname, pair.here
"""


class PostgresSource:
    """A PostgreSQL database."""

    dialect = "postgres"

    def __init__(self, address: str, *, timeout: float = 30.0) -> None:
        self._address = address
        self._timeout = timeout

    def __repr__(self) -> str:
        return "PostgresSource(...)"  # the address may hold a password

    def within(self, seconds: float) -> PostgresSource:
        """Return this source with a shorter time limit."""
        return PostgresSource(self._address, timeout=min(seconds, self._timeout))

    def catalog(self) -> Catalog:
        """Return the tables, columns, keys and samples of values."""
        import psycopg

        try:
            with self._connection() as connection:
                return _catalog(connection)
        except psycopg.Error as error:
            raise SourceDownError(f"the catalog cannot be read: {_first_line(error)}") from error

    def explain(self, query: CheckedQuery) -> str:
        """Return PostgreSQL's plan for a query."""
        import psycopg

        try:
            with self._connection() as connection:
                _refuse_own_functions(connection, query.sql)  # planning may call functions
                rows = connection.execute(f"EXPLAIN {query.sql}", prepare=True).fetchall()
        except psycopg.OperationalError as error:
            raise self._lost(error) from error
        except psycopg.Error as error:
            raise RefusedQueryError(f"PostgreSQL rejects the query: {_first_line(error)}") from error
        return "\n".join(row[0] for row in rows)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query."""
        import psycopg

        try:
            with self._connection() as connection:
                _refuse_own_functions(connection, query.sql)
                # prepare: the extended protocol allows only one statement per message
                cursor = connection.execute(query.sql, prepare=True)
                names = distinct_names([column.name for column in cursor.description or ()])
                rows = cursor.fetchmany(max_rows + 1)
        except psycopg.OperationalError as error:
            raise self._lost(error) from error
        except psycopg.Error as error:
            raise QueryFailedError(f"PostgreSQL failed: {_first_line(error)}") from error
        return QueryResult(columns=names, rows=tuple(rows[:max_rows]), truncated=len(rows) > max_rows)

    def _lost(self, error: Exception) -> SourceDownError | QueryTimeoutError:
        import psycopg

        if isinstance(error, psycopg.errors.QueryCanceled):
            return QueryTimeoutError(
                f"the query exceeded its limit of {self._timeout:g} s; ask for less, or raise the timeout"
            )
        return SourceDownError(f"the connection was lost: {_first_line(error)}")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise SourceDownError("PostgreSQL needs a driver; run pip install 'psycopg[binary]'") from error
        try:
            connection = psycopg.connect(
                self._address,
                connect_timeout=CONNECT_SECONDS,
                options=f"-c default_transaction_read_only=on -c statement_timeout={int(self._timeout * 1000)}",
            )
        except psycopg.Error as error:
            raise SourceDownError(f"PostgreSQL cannot be reached: {_first_line(error)}") from error
        try:
            connection.read_only = True
            return_odd_dates_as_text(connection)
            for setting in _SETTINGS:
                connection.execute(setting)
            yield connection
        finally:
            connection.close()  # without a commit, so the transaction is rolled back


def _refuse_own_functions(connection: Any, sql: str) -> None:
    asked = connection.execute(_OWN_FUNCTIONS, (called_names(sql, "postgres"),))
    refuse_defined([name for (name,) in asked.fetchall()])


def _catalog(connection: Any) -> Catalog:
    import psycopg

    def ask(sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
        return found

    def sample(sql: str) -> list[tuple[Any, ...]]:
        try:
            with connection.transaction():  # a savepoint, so an error does not end the transaction
                return ask(sql)
        except psycopg.Error:  # values that do not compare, or a view that fails or is slow
            return []

    connection.execute(f"SET LOCAL statement_timeout = {int(SECONDS * 1000)}")
    columns: dict[str, list[ColumnDescription]] = {}
    for table, column, declared, comment, key in ask(_COLUMNS):
        columns.setdefault(table, []).append(ColumnDescription(column, declared, comment or "", key))
    tables = tuple(
        sampled_table(
            sample, "postgres", name, columns.get(name, []), comment=comment or "", estimate=size, view=view
        )
        for name, comment, size, view in ask(_TABLES)
    )
    keys = tuple(
        ForeignKey(table=table, column=column, target_table=target, target_column=referred)
        for table, column, target, referred in ask(_KEYS)
    )
    name = connection.info.dbname
    return Catalog(tables=tables, foreign_keys=keys, dialect="postgres", name=name)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
