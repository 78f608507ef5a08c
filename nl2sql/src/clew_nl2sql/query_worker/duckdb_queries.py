"""DuckDB, read-only, with external access disabled: no file, network or extension; a query cannot enable it.

Each query uses one DuckDB thread, so rows without ORDER BY arrive in a stable order. A query that could call a macro of
the database is rejected, because macros take precedence over functions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clew_nl2sql.query_worker.messages import QueryProblem, QueryReply, QueryRequest

SETTINGS = {"enable_external_access": "false", "autoload_known_extensions": "false", "threads": "1"}

_ZONED = "TIMESTAMP WITH TIME ZONE"
_MACROS = "SELECT function_name FROM duckdb_functions() WHERE NOT internal"


def execute(request: QueryRequest, folder: str) -> QueryReply:
    """Execute a query, or explain it."""
    import duckdb

    megabytes = max(1, request.memory // 1_000_000)
    limits = {
        "memory_limit": f"{megabytes}MB",
        "temp_directory": folder,
        "max_temp_directory_size": f"{megabytes}MB",
    }
    try:
        connection = duckdb.connect(request.address, read_only=True, config={**SETTINGS, **limits})
    except duckdb.Error as error:
        raise QueryProblem("down", first_line(error)) from error
    try:
        with interrupted_after(connection, request.seconds):
            set_zone(connection, request.timezone)
            return _reply(connection, request)
    except duckdb.InterruptException as error:
        raise QueryProblem("timeout", "") from error
    except duckdb.OutOfMemoryException as error:
        raise QueryProblem("memory", first_line(error)) from error
    except duckdb.Error as error:
        if isinstance(error, duckdb.IOException) and folder in str(error):  # only temporary files are written
            raise QueryProblem("memory", "its temporary files are too large") from error
        raise QueryProblem("failed", first_line(error)) from error
    finally:
        connection.close()


def _reply(connection: Any, request: QueryRequest) -> QueryReply:
    macros = {name.lower() for (name,) in connection.execute(_MACROS).fetchall()}
    if called := [name for name in request.calls if name in macros]:
        raise QueryProblem("own functions", ", ".join(called))
    if request.explain:
        rows = connection.execute(f"EXPLAIN {request.sql}").fetchall()
        return QueryReply(rows=tuple((row[-1],) for row in rows))
    names, rows = fetched(connection, request.sql, request.max_rows + 1)
    return QueryReply(tuple(names), tuple(rows))


@contextmanager
def interrupted_after(connection: Any, seconds: float) -> Iterator[None]:
    """Interrupt a connection after some seconds."""
    limit = threading.Timer(seconds, connection.interrupt)
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def fetched(connection: Any, sql: str, count: int | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return names and rows, at most `count`. Timestamps with a time zone are returned in that of the session, without
    it, because DuckDB needs another package to return them unchanged.
    """
    described = connection.sql(sql)  # does not execute it
    kinds = [str(kind) for kind in described.types]
    if _ZONED in kinds:
        chosen = [
            f"CAST(#{n} AS TIMESTAMP)" if kind == _ZONED else f"#{n}" for n, kind in enumerate(kinds, 1)
        ]
        sql = f"SELECT {', '.join(chosen)} FROM ({sql}) AS zoned"
    cursor = connection.execute(sql)
    return list(described.columns), cursor.fetchall() if count is None else cursor.fetchmany(count)


def set_zone(connection: Any, timezone: str) -> None:
    """Set the time zone of a connection, unless the name is empty."""
    if timezone:
        connection.execute("SET TimeZone = '{}'".format(timezone.replace("'", "''")))


def zone_of(connection: Any) -> str:
    """Return the time zone of a connection."""
    return str(connection.execute("SELECT current_setting('TimeZone')").fetchone()[0])


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).partition("\n")[0]
