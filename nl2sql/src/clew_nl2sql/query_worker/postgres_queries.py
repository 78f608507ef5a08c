"""PostgreSQL, with a read-only transaction, a statement timeout, and one statement per message.

The transaction is read-only before the first statement, and is rolled back after the last one. Rows are fetched through
a cursor, so the server sends no more than is requested. Temporary files of the server are limited if the database user
may do that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from clew_nl2sql.query_worker.messages import QueryProblem, QueryReply, QueryRequest
from clew_nl2sql.query_worker.postgres_dates import return_odd_dates_as_text

CONNECT_SECONDS = 5
WORK_MEMORY = 64_000  # kilobytes for one sort or hash; larger ones use temporary files

# No parallel workers and no synchronized scans, so rows without ORDER BY arrive in a stable order. The plan is made for
# all rows, as it would be without a cursor.
_SETTINGS = (
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL search_path = pg_catalog, public",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL cursor_tuple_fraction = 1",
    f"SET LOCAL work_mem = {WORK_MEMORY}",
    "SET LOCAL hash_mem_multiplier = 1",
    "SET LOCAL jit = off",
)
_OWN_FUNCTIONS = """
SELECT DISTINCT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'public' AND p.proname = ANY (%s)
  AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e')
"""


def execute(request: QueryRequest, folder: str) -> QueryReply:
    """Execute a query, or explain it."""
    import psycopg

    try:
        with connected(request.address, request.seconds, request.timezone) as connection:
            _limit_files(connection, request.memory)
            own = connection.execute(_OWN_FUNCTIONS, (list(request.calls),)).fetchall()
            if own:  # planning may call functions
                raise QueryProblem("own functions", ", ".join(sorted(name for (name,) in own)))
            return _reply(connection, request)
    except psycopg.errors.QueryCanceled as error:
        raise QueryProblem("timeout", "") from error
    except (psycopg.errors.OutOfMemory, psycopg.errors.ConfigurationLimitExceeded) as error:
        raise QueryProblem("memory", first_line(error)) from error
    except psycopg.OperationalError as error:
        raise QueryProblem("down", f"the connection was lost: {first_line(error)}") from error
    except psycopg.Error as error:
        raise QueryProblem("failed", first_line(error)) from error


def _reply(connection: Any, request: QueryRequest) -> QueryReply:
    if request.explain:
        # prepare: the extended protocol allows only one statement per message
        rows = connection.execute(f"EXPLAIN {request.sql}", prepare=True).fetchall()
        return QueryReply(rows=tuple((row[0],) for row in rows))
    with connection.cursor(name="answer") as cursor:
        cursor.execute(request.sql)
        names = tuple(column.name for column in cursor.description or ())
        return QueryReply(names, tuple(cursor.fetchmany(request.max_rows + 1)))


@contextmanager
def connected(address: str, seconds: float, timezone: str = "") -> Iterator[Any]:
    """Yield a connection with a read-only transaction and a time limit for each statement."""
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise QueryProblem("down", "PostgreSQL needs a driver; run pip install 'psycopg[binary]'") from error
    try:
        connection = psycopg.connect(
            address,
            connect_timeout=CONNECT_SECONDS,
            options=f"-c default_transaction_read_only=on -c statement_timeout={int(seconds * 1000)}",
        )
    except psycopg.Error as error:
        raise QueryProblem("down", f"PostgreSQL cannot be reached: {first_line(error)}") from error
    try:
        connection.read_only = True
        return_odd_dates_as_text(connection)
        for setting in _SETTINGS:
            connection.execute(setting)
        if timezone:
            connection.execute("SELECT set_config('TimeZone', %s, true)", (timezone,))
        yield connection
    finally:
        connection.close()  # without a commit, so the transaction is rolled back


def _limit_files(connection: Any, memory: int) -> None:
    """Limit the temporary files of this session, if its user may; a lower limit of the server stays."""
    import psycopg

    (limit,) = connection.execute(
        "SELECT setting::bigint FROM pg_settings WHERE name = 'temp_file_limit'"
    ).fetchone()
    kilobytes = max(1, memory // 1000)
    if limit < 0 or limit > kilobytes:
        with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(f"SET LOCAL temp_file_limit = {kilobytes}")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]
