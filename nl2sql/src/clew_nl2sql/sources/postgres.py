"""PostgreSQL databases. Queries are executed by `clew_nl2sql.query_worker.postgres_queries`, in another process.

A database user without write privileges is the best protection; the documentation shows how to create one.
Every schema is read that the database user may use, except for those of PostgreSQL itself. Tables of ``public`` have
their own names; others are called ``schema.table``, so a table that is added later never changes the name of another,
or what a grant covers. Tables of an extension are left out.

The guard identifies functions by name, but a database can define another `lower`. Names therefore resolve to
PostgreSQL's functions first, and a query that could call a user-defined function is rejected. (Functions of
an extension do not count as user-defined.) String literals follow the SQL standard, independent of server
settings, as in the guard.
"""

from __future__ import annotations

from typing import Any

from clew_nl2sql.errors import SourceDownError
from clew_nl2sql.planner.catalog import Catalog, ForeignKey, Table
from clew_nl2sql.query_worker.messages import QueryProblem
from clew_nl2sql.query_worker.postgres_queries import connected, first_line
from clew_nl2sql.sources.limited_queries import LimitedQueries, QueryLimits
from clew_nl2sql.sources.protocol import QueryResult
from clew_nl2sql.sources.query_processes import MEMORY
from clew_nl2sql.sources.table_samples import SECONDS, ColumnDescription, sampled_table
from clew_nl2sql.sql.guard import CheckedQuery
from clew_nl2sql.timezones import known_timezone

_DEFAULT = "public"
_READABLE = """
n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND has_schema_privilege(n.oid, 'USAGE')
  AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND NOT c.relispartition AND has_table_privilege(c.oid, 'SELECT')
  AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e')
"""
_TABLES = f"""
SELECT n.nspname, c.relname, obj_description(c.oid, 'pg_class'), c.reltuples::bigint, c.relkind IN ('v', 'm')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE {_READABLE} ORDER BY n.nspname <> '{_DEFAULT}', n.nspname, c.relname
"""
_COLUMNS = f"""
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum),
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE {_READABLE} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY n.nspname, c.relname, a.attnum
"""
_KEYS = """
SELECT n.nspname, c.relname, a.attname, m.nspname, t.relname, b.attname
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_namespace m ON m.oid = t.relnamespace
CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS pair (here, there)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = pair.here
JOIN pg_attribute b ON b.attrelid = t.oid AND b.attnum = pair.there
WHERE k.contype = 'f' ORDER BY n.nspname <> 'public', n.nspname, c.relname, k.conname, pair.here
"""


class PostgresSource:
    """A PostgreSQL database."""

    dialect = "postgres"

    def __init__(
        self, address: str, *, timeout: float = 30.0, max_memory: int = MEMORY, timezone: str = ""
    ) -> None:
        self._address = address
        self._limits = QueryLimits(timeout, max_memory, timezone)

    def __repr__(self) -> str:
        return "PostgresSource(...)"  # the address may hold a password

    def within(self, seconds: float) -> PostgresSource:
        """Return this source with a shorter time limit."""
        return PostgresSource(
            self._address,
            timeout=min(seconds, self._limits.seconds),
            max_memory=self._limits.memory,
            timezone=self._limits.timezone,
        )

    def catalog(self) -> Catalog:
        """Return the tables, columns, keys and samples of values."""
        try:
            import psycopg

            with connected(self._address, self._limits.seconds, self._limits.timezone) as connection:
                return _catalog(connection)
        except ModuleNotFoundError as error:
            raise SourceDownError("PostgreSQL needs a driver; run pip install 'psycopg[binary]'") from error
        except QueryProblem as problem:
            raise SourceDownError(str(problem)) from problem
        except psycopg.Error as error:
            raise SourceDownError(f"the catalog cannot be read: {first_line(error)}") from error

    def explain(self, query: CheckedQuery) -> str:
        """Return PostgreSQL's plan for a query."""
        return self._queries().explain(query)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query."""
        return self._queries().run(query, max_rows)

    def _queries(self) -> LimitedQueries:
        return LimitedQueries("postgres", self._address, "", self._limits)


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
    columns: dict[tuple[str, str], list[ColumnDescription]] = {}
    for schema, table, column, declared, comment, key in ask(_COLUMNS):
        columns.setdefault((schema, table), []).append(
            ColumnDescription(column, declared, comment or "", key)
        )
    tables: dict[str, Table] = {}
    for schema, own_name, comment, size, view in ask(_TABLES):
        if _name(schema, own_name) in tables:  # "a.b" in public and b in a: one grant must not cover both
            continue
        tables[_name(schema, own_name)] = sampled_table(
            sample,
            "postgres",
            own_name,
            columns.get((schema, own_name), []),
            schema="" if schema == _DEFAULT else schema,
            comment=comment or "",
            estimate=size,
            view=view,
        )
    keys = tuple(
        ForeignKey(
            table=_name(schema, table),
            column=column,
            target_table=_name(target_schema, target),
            target_column=referred,
        )
        for schema, table, column, target_schema, target, referred in ask(_KEYS)
    )
    name = connection.info.dbname
    ((timezone,),) = ask("SELECT current_setting('TimeZone')")
    return Catalog(
        tables=tuple(tables.values()),
        foreign_keys=keys,
        dialect="postgres",
        name=name,
        timezone=known_timezone(timezone),
    )


def _name(schema: str, table: str) -> str:
    """Return the name of a table in the catalog."""
    return table if schema == _DEFAULT else f"{schema}.{table}"
