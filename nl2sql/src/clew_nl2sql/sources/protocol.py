"""The interface between the pipeline and a database.

A source connects for each call and disconnects after it: a pipeline may run for weeks on many threads, and a
database that was restarted works again. Driver exceptions become errors of this package, because the pipeline
handles each differently: down (a part of the answer is missing), rejected or failed (another plan may
succeed), too slow or too large (a retry would be the same).
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.sql.guard import CheckedQuery


class QueryResult(msgspec.Struct, frozen=True, kw_only=True):
    """At most the requested number of rows; `truncated` is true if the query had more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False


@runtime_checkable
class Source(Protocol):
    """A database. Methods may be called from several threads concurrently."""

    @property
    def dialect(self) -> str:
        """Return the SQL dialect: sqlite, duckdb or postgres."""
        ...

    def catalog(self) -> Catalog:
        """Return the tables, columns, keys and samples of values; raise SourceDownError if it cannot be reached."""
        ...

    def explain(self, query: CheckedQuery) -> str:
        """Return the database's plan for a query, without executing it; raise RefusedQueryError if it is rejected."""
        ...

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query; raise QueryFailedError, QueryTimeoutError or QueryMemoryError."""
        ...


def distinct_names(names: list[str]) -> tuple[str, ...]:
    """Return unique column names: number repeated ones, and name those that are empty."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        free = name = name or "column"
        while free.lower() in seen:
            seen[name.lower()] += 1
            free = f"{name}_{seen[name.lower()]}"
        seen[free.lower()] = 1
        found.append(free)
    return tuple(found)
