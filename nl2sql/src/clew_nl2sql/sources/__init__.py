"""Databases that questions go to, all read-only: SQLite, DuckDB, PostgreSQL, and whatever has the same four
methods."""

from __future__ import annotations

from clew_nl2sql.sources.factory import open_source
from clew_nl2sql.sources.protocol import QueryResult, Source

__all__ = ["QueryResult", "Source", "open_source"]
