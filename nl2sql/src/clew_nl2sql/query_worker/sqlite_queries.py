"""SQLite, read-only in two ways: the file is opened with ``mode=ro``, and an authorizer allows only reads.

SQLite calls the authorizer for every table, column and function while it prepares a statement, so the check
does not depend on how the text is parsed here.
"""

from __future__ import annotations

import sqlite3
import time

from clew_nl2sql.query_worker.messages import QueryProblem, QueryReply, QueryRequest

STEPS = 10_000  # virtual machine instructions between two checks of the clock
LONGEST = 16_000_000  # maximum size of one value in bytes, read or computed

_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_DANGEROUS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "randomblob", "zeroblob"}
_LIMITS = (7, 13, 778)  # out of memory, disk full, write error: a limit of the process


def execute(request: QueryRequest, folder: str) -> QueryReply:
    """Execute a query, or explain it."""
    try:
        connection = opened(request.address)
    except sqlite3.Error as error:
        raise QueryProblem("down", str(error)) from error
    try:
        connection.execute(f"PRAGMA hard_heap_limit = {request.memory}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(LONGEST, request.memory))
        connection.set_authorizer(_only_reading)
        limit_seconds(connection, request.seconds)
        if request.explain:
            rows = connection.execute(f"EXPLAIN QUERY PLAN {request.sql}").fetchall()
            return QueryReply(rows=tuple((row[3],) for row in rows))
        cursor = connection.execute(request.sql)
        names = tuple(column[0] for column in cursor.description)
        return QueryReply(names, tuple(cursor.fetchmany(request.max_rows + 1)))
    except sqlite3.Error as error:
        raise _problem(error) from error
    finally:
        connection.close()


def _problem(error: sqlite3.Error) -> QueryProblem:
    if "interrupted" in str(error):
        return QueryProblem("timeout", "")
    limit = getattr(error, "sqlite_errorcode", 0) in _LIMITS
    return QueryProblem("memory" if limit else "failed", str(error))


def opened(address: str) -> sqlite3.Connection:
    """Return a connection to a file, by its URI; raise an error if it is not a database."""
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True)
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def limit_seconds(connection: sqlite3.Connection, seconds: float) -> None:
    """Interrupt statements of a connection some seconds from now."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)


def _only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow or deny one action of a statement. The guard has checked the names; this checks the kind of action."""
    if action not in _READING:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _DANGEROUS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_READ and (first or "").lower().startswith("sqlite_"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
