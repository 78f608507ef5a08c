"""Sources by address: ``sqlite:///file``, ``duckdb:///file``, ``postgresql://user@host/database``, or a plain file.

Three slashes and a name are a file of the current folder; four are an absolute path.
"""

from __future__ import annotations

from pathlib import Path

from clew_nl2sql.errors import UsageError
from clew_nl2sql.sources.protocol import Source

SUFFIXES = {".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb", ".ddb": "duckdb"}


def open_source(address: str | Path, *, timeout: float = 30.0) -> Source:
    """The source at an address. Nothing is opened yet; a database that is not there is noticed when it is asked."""
    text = str(address)
    kind, split, rest = text.partition("://")
    if not split:
        kind, rest = SUFFIXES.get(Path(text).suffix.lower(), ""), f"/{text}"
    if kind == "sqlite" and rest[1:]:
        from clew_nl2sql.sources.sqlite import SQLiteSource

        return SQLiteSource(rest[1:], timeout=timeout)
    if kind == "duckdb" and rest[1:]:
        from clew_nl2sql.sources.duckdb import DuckDBSource

        return DuckDBSource(rest[1:], timeout=timeout)
    if kind in ("postgresql", "postgres"):
        from clew_nl2sql.sources.postgres import PostgresSource

        return PostgresSource(text, timeout=timeout)
    raise UsageError(
        f"{text!r} is no source; give sqlite:///file.db, duckdb:///file.duckdb or postgresql://user@host/database"
    )
