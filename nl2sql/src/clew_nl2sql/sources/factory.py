"""Open sources by address: ``sqlite:///file``, ``duckdb:///file``, ``postgresql://user@host/database``, or a
file.

Three slashes start a path relative to the current folder; four start an absolute path. ``?timezone=Europe/Paris`` sets
the time zone of the source.
"""

from __future__ import annotations

from pathlib import Path

from clew_nl2sql.errors import UsageError
from clew_nl2sql.sources.protocol import Source
from clew_nl2sql.sources.query_processes import MEMORY
from clew_nl2sql.timezones import without_timezone

SUFFIXES = {".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb", ".ddb": "duckdb"}


def open_source(address: str | Path, *, timeout: float = 30.0, max_memory: int = MEMORY) -> Source:
    """Return the source at an address. It connects on first use, so a missing database is reported then."""
    text, timezone = without_timezone(str(address))
    kind, split, rest = text.partition("://")
    if not split:
        kind, rest = SUFFIXES.get(Path(text).suffix.lower(), ""), f"/{text}"
    if kind == "sqlite" and rest[1:]:
        from clew_nl2sql.sources.sqlite import SQLiteSource

        return SQLiteSource(rest[1:], timeout=timeout, max_memory=max_memory, timezone=timezone)
    if kind == "duckdb" and rest[1:]:
        from clew_nl2sql.sources.duckdb import DuckDBSource

        return DuckDBSource(rest[1:], timeout=timeout, max_memory=max_memory, timezone=timezone)
    if kind in ("postgresql", "postgres"):
        from clew_nl2sql.sources.postgres import PostgresSource

        return PostgresSource(text, timeout=timeout, max_memory=max_memory, timezone=timezone)
    raise UsageError(
        f"{text!r} is not the address of a source; use sqlite:///file.db, duckdb:///file.duckdb or postgresql://user@host/database"
    )
