"""SQLite, read-only in two ways: the file is opened with ``mode=ro``, and an authorizer allows only reads.

SQLite calls the authorizer for every table, column and function while it prepares a statement, so the check
does not depend on how the text is parsed here.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from clew_nl2sql.errors import QueryFailedError, QueryTimeoutError, RefusedQueryError, SourceDownError
from clew_nl2sql.planner.catalog import Catalog, ForeignKey, Table
from clew_nl2sql.sources.protocol import QueryResult, distinct_names
from clew_nl2sql.sources.table_samples import SECONDS, ColumnDescription, sampled_table
from clew_nl2sql.sql.guard import CheckedQuery

_TABLES = """
SELECT name, type = 'view' FROM sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid
"""
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_DANGEROUS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "randomblob", "zeroblob"}
_STEPS = 10_000  # virtual machine instructions between two checks of the clock
_LONGEST = 16_000_000  # maximum size of one value in bytes, read or computed


class SQLiteSource:
    """A SQLite file."""

    dialect = "sqlite"

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        self.path = Path(path)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"SQLiteSource({str(self.path)!r})"

    def within(self, seconds: float) -> SQLiteSource:
        """Return this source with a shorter time limit."""
        return SQLiteSource(self.path, timeout=min(seconds, self._timeout))

    def catalog(self) -> Catalog:
        """Return the tables, columns, keys and samples of values."""
        try:
            with closing(self._opened()) as connection:
                return _catalog(connection, self.path.stem)
        except sqlite3.Error as error:
            raise self._down(error) from error

    def explain(self, query: CheckedQuery) -> str:
        """Return SQLite's plan for a query."""
        try:
            with self._connection() as connection:
                rows = connection.execute(f"EXPLAIN QUERY PLAN {query.sql}").fetchall()
        except sqlite3.Error as error:
            raise RefusedQueryError(f"SQLite rejects the query: {error}") from error
        return "\n".join(str(row[3]) for row in rows)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        """Return the rows of a query."""
        try:
            with self._connection() as connection:
                cursor = connection.execute(query.sql)
                names = distinct_names([column[0] for column in cursor.description])
                rows = cursor.fetchmany(max_rows + 1)
        except sqlite3.Error as error:
            if "interrupted" in str(error):
                raise QueryTimeoutError(
                    f"the query exceeded its limit of {self._timeout:g} s; ask for less, or raise the timeout"
                ) from error
            raise QueryFailedError(f"SQLite failed: {error}") from error
        return QueryResult(columns=names, rows=tuple(rows[:max_rows]), truncated=len(rows) > max_rows)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._opened()
        except sqlite3.Error as error:
            raise self._down(error) from error
        try:
            connection.set_authorizer(_only_reading)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            _limit(connection, self._timeout)
            yield connection
        finally:
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute(
                "SELECT count(*) FROM sqlite_master"
            ).fetchone()  # fails if the file is not a database
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _down(self, error: sqlite3.Error) -> SourceDownError:
        return SourceDownError(f"the SQLite file {self.path} cannot be read: {error}")


def _limit(connection: sqlite3.Connection, seconds: float) -> None:
    """Interrupt statements of a connection some seconds from now."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)


def _catalog(connection: sqlite3.Connection, name: str) -> Catalog:
    def sample(sql: str) -> list[tuple[object, ...]]:
        _limit(connection, SECONDS)
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.Error:  # a view of a missing table, or a slow view
            return []
        finally:
            connection.set_progress_handler(None, _STEPS)

    views = dict(connection.execute(_TABLES).fetchall())
    tables = {
        table.lower(): sampled_table(sample, "sqlite", table, _described(connection, table), view=bool(view))
        for table, view in views.items()
    }
    keys = []
    for table in views:
        rows = connection.execute("SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", (table,))
        for _, _, target, column, referred, *_ in rows.fetchall():
            key = _key(tables[table.lower()], column, tables.get(target.lower()), referred)
            if key is not None:
                keys.append(key)
    return Catalog(tables=tuple(tables.values()), foreign_keys=tuple(keys), dialect="sqlite", name=name)


def _described(connection: sqlite3.Connection, table: str) -> list[ColumnDescription]:
    try:
        rows = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()
    except sqlite3.Error:
        return []
    return [ColumnDescription(name, declared or "", primary_key=bool(key)) for name, declared, key in rows]


def _key(table: Table, column: str, target: Table | None, referred: str | None) -> ForeignKey | None:
    """Return a key with names as its tables spell them. Without a target column, it refers to the primary
    key.
    """
    if target is None or not target.columns:
        return None
    primary = next((c.name for c in target.columns if c.primary_key), target.columns[0].name)
    own, other = _spelled(table, column), _spelled(target, referred or primary)
    if own is None or other is None:
        return None
    return ForeignKey(table=table.name, column=own, target_table=target.name, target_column=other)


def _spelled(table: Table, name: str) -> str | None:
    return next((column.name for column in table.columns if column.name.lower() == name.lower()), None)


def _only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow or deny one action of a statement. The guard has checked the names; this checks the kind of
    action.
    """
    if action not in _READING:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _DANGEROUS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_READ and (first or "").lower().startswith("sqlite_"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
