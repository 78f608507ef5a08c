"""Run candidates on a sample database in memory before the planner answers.

The database holds only the catalog's sampled rows, so a dry run does not access a source. Candidates with
equal rows count as one answer, and their probabilities are added; a candidate with no rows, or only NULL, is
suspicious. Without sampled rows there is no dry run.
"""

from __future__ import annotations

import hashlib
import sqlite3
import weakref
from itertools import count
from threading import Lock
from typing import NamedTuple

from sqlglot import exp

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.catalog_cache import CatalogCache

# Limit of SQLite virtual machine steps per candidate. Steps, not seconds, so the plan does not depend on the
# load.
STRIDE, STRIDES = 5000, 600
MOST_ROWS = 5000


class DryRunResult(NamedTuple):
    """The result of a candidate: its kind, and a fingerprint of the rows that ignores column order."""

    kind: str  # ok, empty, null, zero, failed, unknown
    fingerprint: str
    rows: int = 0
    repeated: bool = False  # some rows are equal


class SampleDatabase:
    """The sampled rows as a SQLite database in memory. Threads use it in turn; it closes with its last reference."""

    def __init__(self, catalog: Catalog):
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = Lock()
        weakref.finalize(self, self._connection.close)
        for table in catalog.tables:
            if not table.columns:
                continue
            columns = ", ".join(f"{_quoted(c.name)} {_affinity(c.type)}" for c in table.columns)
            self._connection.execute(f"CREATE TABLE {_quoted(table.name)} ({columns})")
            marks = ", ".join("?" * len(table.columns))
            self._connection.executemany(f"INSERT INTO {_quoted(table.name)} VALUES ({marks})", table.rows)
        self._connection.commit()
        self._connection.execute("PRAGMA query_only = ON")

    def outcome(self, sql: str, *, ordered: bool) -> DryRunResult:
        """Run one SELECT."""
        with self._lock:
            strides = count(1)  # must not refer to this object, because the connection would keep it alive
            self._connection.set_progress_handler(lambda: next(strides) > STRIDES, STRIDE)
            try:
                rows = self._connection.execute(sql).fetchmany(MOST_ROWS)
            except sqlite3.Error:
                return DryRunResult("failed", "")
        return outcome_of(rows, ordered=ordered)


def sample_sql(expression: exp.Expression) -> str:
    """Return a query for the sample database, which has no schemas: its tables have their names in the catalog."""
    if any(table.args.get("db") for table in expression.find_all(exp.Table)):
        expression = expression.copy()
        for table in expression.find_all(exp.Table):
            if table.args.get("db"):
                table.set("this", exp.to_identifier(f"{table.db}.{table.name}", quoted=True))
                table.set("db", None)
    return expression.sql("sqlite")


def outcome_of(rows: list[tuple[object, ...]], *, ordered: bool) -> DryRunResult:
    """Classify rows."""
    if not rows:
        return DryRunResult("empty", "empty")
    return DryRunResult(_kind(rows), _fingerprint(rows, ordered), len(rows), len(set(rows)) < len(rows))


def _kind(rows: list[tuple[object, ...]]) -> str:
    if all(value is None for row in rows for value in row):
        return "null"
    if len(rows) == 1 and all(value in (0, None) for value in rows[0]):
        return "zero"
    return "ok"


def _fingerprint(rows: list[tuple[object, ...]], ordered: bool) -> str:
    plain = [tuple(_plain(v) for v in row) for row in rows]
    contents = [(sorted(repr(v) for v in column), n) for n, column in enumerate(zip(*plain))]
    order = [n for _, n in sorted(contents)]
    rows = [tuple(row[n] for n in order) for row in plain]
    if not ordered or len(rows) == 1:
        rows.sort(key=repr)
    return hashlib.sha256(repr((len(order), rows)).encode("utf-8", "replace")).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.9g}")
    return value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _affinity(declared: str) -> str:
    """Return the part of the declared type that determines SQLite's affinity."""
    kept = "".join(c for c in declared if c.isalnum() or c in " _")
    return _quoted(kept) if kept else ""


def _build(catalog: Catalog) -> SampleDatabase | None:
    if not any(table.rows for table in catalog.tables):
        return None
    try:
        return SampleDatabase(catalog)
    except sqlite3.Error:
        return None


sample_database = CatalogCache(_build)
