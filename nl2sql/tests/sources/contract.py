"""What every source must do, whatever the database."""

from __future__ import annotations

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.sources import Source
from clew_nl2sql.sql.guard import CheckedQuery, check


def query(source: Source, sql: str) -> CheckedQuery:
    """A query that the guard has passed."""
    return check(sql, source.catalog())


def unchecked(source: Source, sql: str) -> CheckedQuery:
    """A query that nobody has looked at: the source is on its own."""
    import sqlglot

    return CheckedQuery(sql=sql, dialect=source.dialect, tables=(), tree=sqlglot.parse_one("SELECT 1"))


def columns(catalog: Catalog, table: str) -> dict[str, str]:
    found = next(t for t in catalog.tables if t.name == table)
    return {column.name: column.kind for column in found.columns}
