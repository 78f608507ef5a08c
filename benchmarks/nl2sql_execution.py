"""Running queries on benchmark databases, and whether two results are the same answer.

The rows must be equal as multisets, in order only where the gold query has an outermost ORDER BY. Neither names
nor the order of columns matter, the number of columns does. Databases may hold bytes that are no text,
and a query may never end: text is decoded leniently and every query has a time limit.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

Rows = list[tuple[Any, ...]]

TIME_LIMIT = 5.0
MOST_ROWS = 50_000
WIDEST_PERMUTED = 7


class Database:
    """A read-only copy in memory of one SQLite file."""

    def __init__(self, path: Path):
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        self._connection = sqlite3.connect(":memory:")
        source.backup(self._connection)
        source.close()
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._connection.execute("PRAGMA query_only = ON")
        self._until = 0.0
        self._connection.set_progress_handler(lambda: int(time.monotonic() > self._until), 10_000)

    def run(self, sql: str, limit: float = TIME_LIMIT) -> Rows | None:
        """The rows of a query, or None if it fails, takes too long or gives too many."""
        self._until = time.monotonic() + limit
        try:
            rows = self._connection.execute(sql).fetchmany(MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning):
            return None
        return rows if len(rows) <= MOST_ROWS else None

    def close(self) -> None:
        self._connection.close()


def is_ordered(sql: str) -> bool:
    """Whether the outermost query has an ORDER BY."""
    try:
        tree = sqlglot.parse_one(sql.strip().rstrip(";"), dialect="sqlite")
    except sqlglot.errors.SqlglotError:
        return "order by" in sql.lower().rsplit(")", 1)[-1]
    if isinstance(tree, exp.Subquery):
        tree = tree.this
    if tree.args.get("order") is not None:
        return True
    return isinstance(tree, exp.SetOperation) and tree.expression.args.get("order") is not None


def normal(rows: Rows) -> Rows:
    """Numbers that print alike are alike: 2.0 is 2, and sums differ in the last digits."""
    return [tuple(_plain(v) for v in row) for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.9g}")
    return value


def same_answer(gold: Rows, rows: Rows, *, ordered: bool) -> bool:
    """Whether two normal results agree under some order of columns."""
    if len(gold) != len(rows):
        return False
    if not gold:
        return True
    width = len(gold[0])
    if len(rows[0]) != width:
        return False
    if _equal(gold, rows, ordered):
        return True
    if width == 1 or width > WIDEST_PERMUTED:
        return False
    left = [Counter(map(repr, column)) for column in zip(*gold)]
    right = [Counter(map(repr, column)) for column in zip(*rows)]
    for order in permutations(range(width)):
        if all(left[n] == right[at] for n, at in enumerate(order)) and _equal(
            gold, [tuple(row[at] for at in order) for row in rows], ordered
        ):
            return True
    return False


def _equal(gold: Rows, rows: Rows, ordered: bool) -> bool:
    return gold == rows if ordered else Counter(gold) == Counter(rows)
