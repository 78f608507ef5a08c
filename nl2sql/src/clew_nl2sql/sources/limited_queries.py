"""Explain and run checked queries within limits, for the sources of this package.

Exceeding a limit is a QueryTimeoutError or a QueryMemoryError. This holds for EXPLAIN too, because planning a query may
compute parts of it.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.errors import QueryFailedError, RefusedQueryError, SourceDownError
from clew_nl2sql.query_worker.messages import Engine, QueryReply, QueryRequest
from clew_nl2sql.sources.protocol import QueryResult, distinct_names
from clew_nl2sql.sources.query_processes import executed
from clew_nl2sql.sql.function_calls import called_names, refuse_defined
from clew_nl2sql.sql.guard import CheckedQuery

_LABELS = {"sqlite": "SQLite", "duckdb": "DuckDB", "postgres": "PostgreSQL"}


class QueryLimits(NamedTuple):
    """What one query may use: seconds, and bytes of memory and of temporary files. `timezone` is its session's."""

    seconds: float
    memory: int
    timezone: str = ""


class LimitedQueries(NamedTuple):
    """The queries to one database. `shown` is its name in errors."""

    engine: Engine
    address: str
    shown: str
    limits: QueryLimits

    def explain(self, query: CheckedQuery) -> str:
        """Return the database's plan for a query; raise RefusedQueryError if it is rejected."""
        reply = self._executed(query, explain=True, max_rows=0)
        if reply.problem:
            raise RefusedQueryError(f"{_LABELS[self.engine]} rejects the query: {reply.message}")
        return "\n".join(str(row[0]) for row in reply.rows)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query; raise QueryFailedError if the database fails."""
        reply = self._executed(query, explain=False, max_rows=max_rows)
        if reply.problem:
            raise QueryFailedError(f"{_LABELS[self.engine]} failed: {reply.message}")
        return QueryResult(
            columns=distinct_names(list(reply.columns)),
            rows=reply.rows[:max_rows],
            truncated=len(reply.rows) > max_rows,
        )

    def _executed(self, query: CheckedQuery, *, explain: bool, max_rows: int) -> QueryReply:
        reply = executed(
            QueryRequest(
                engine=self.engine,
                address=self.address,
                sql=query.sql,
                explain=explain,
                max_rows=max_rows,
                calls=() if self.engine == "sqlite" else tuple(called_names(query.sql, self.engine)),
                seconds=self.limits.seconds,
                memory=self.limits.memory,
                timezone=self.limits.timezone,
            )
        )
        if reply.problem == "own functions":
            refuse_defined(reply.message.split(", "))
        if reply.problem == "down":
            where = f"{self.shown} cannot be read: " if self.shown else ""
            raise SourceDownError(f"{where}{reply.message}")
        return reply
