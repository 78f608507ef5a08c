"""Writes to the store's own database, committed together with the outcome of the item that made them.

They are collected while the node runs, tried out and taken back when its `with` block ends (so that what the database
refuses is raised there), and executed in the transaction that keeps the node's outcome. So a crash leaves both or
neither: they are executed exactly once. Until then nobody sees them, the node itself included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.stores import Statement

_NOT_HERE = frozenset(
    {"begin", "commit", "end", "rollback", "savepoint", "release", "start", "abort", "prepare"}
)


class Transaction:
    """Implements ``clew.graph.context.Transaction``."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> None:
        """Execute a statement."""
        self._add(Statement(sql, values))

    def executemany(self, sql: str, values: Sequence[Any], /) -> None:
        """Execute a statement once for each of `values`."""
        self._add(Statement(sql, list(values), many=True))

    def _add(self, statement: Statement) -> None:
        words = statement.sql.split(maxsplit=1)
        if words and words[0].lower().rstrip(";") in _NOT_HERE:
            raise ValueError(f"{statement.sql!r}: the engine begins and ends the transaction itself")
        self.statements.append(statement)
