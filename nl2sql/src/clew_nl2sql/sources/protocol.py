"""What the pipeline asks of a database.

A source is opened for each call and closed after it: a pipeline may live for weeks and run on many threads, and a
database that was away is simply there again. Whatever a driver raises becomes one of four errors of this package,
because the pipeline goes on differently after each: down (a part of the answer is missing), refused or failed
(another plan may do better), too slow (it would be again)."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.sql.guard import CheckedQuery


class QueryResult(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, at most as many as asked for; `truncated` says that there were more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False


@runtime_checkable
class Source(Protocol):
    """A database. Methods may be called from several threads at once."""

    @property
    def dialect(self) -> str:
        """The name of its SQL: sqlite, duckdb or postgres."""
        ...

    def catalog(self) -> Catalog:
        """Its tables, columns, keys and a sample of values. SourceDownError if it cannot be reached."""
        ...

    def explain(self, query: CheckedQuery) -> str:
        """Its own plan for a query, which is not executed. RefusedQueryError if it takes none such."""
        ...

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """The rows of a query. QueryFailedError, QueryTimeoutError."""
        ...


def distinct_names(names: list[str]) -> tuple[str, ...]:
    """Column names as they are, with a number where one repeats, and one where there is none: tables need names."""
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
