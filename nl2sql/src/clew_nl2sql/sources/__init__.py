"""Read-only access to databases: SQLite, DuckDB, PostgreSQL, and any object with the same four methods."""

from __future__ import annotations

from clew_nl2sql.sources.factory import open_source
from clew_nl2sql.sources.protocol import QueryResult, Source

__all__ = ["QueryResult", "Source", "open_source"]
