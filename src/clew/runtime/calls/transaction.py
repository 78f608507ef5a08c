"""Statements on the store's own database, committed in one transaction with the outcome of the item.

The statements are collected while the node runs. At the end of its `with` block they are executed and rolled back, so
that database errors are raised there. They are executed in the transaction that commits the outcome, so a crash leaves
both or neither. Before that commit they are not visible, not even to the node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.stores import Statement

_TRANSACTION_CONTROL = frozenset(
    {"begin", "commit", "end", "rollback", "savepoint", "release", "start", "abort", "prepare"}
)


_QUOTED = r"'(?:[^']|'')*'|\"[^\"]*\"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"
# Comments nest in PostgreSQL and do not nest in SQLite; the text must be valid either way.
_COMMENTS = (r"/\*.*?\*/", r"/\*(?:[^*/]|\*(?!/)|/(?!\*)|/\*.*?\*/)*\*/")
_PATTERNS = [re.compile(rf"(?P<quoted>{_QUOTED})|--[^\n]*|{comment}", re.DOTALL) for comment in _COMMENTS]


def _first_words(sql: str) -> set[str]:
    """Return the first word of each statement in a text; ignore quoted text and comments."""
    found: set[str] = set()
    for pattern in _PATTERNS:
        bare = pattern.sub(lambda match: " ? " if match["quoted"] else " ", sql)
        words = [part.split(maxsplit=1)[0].lower() for part in bare.split(";") if part.split()]
        # CREATE TRIGGER contains statements and END
        found.update(words[:1] if words[:1] == ["create"] else words)
    return found


class StoreTransaction:
    """Implements ``clew.graph.context.Transaction``."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> None:
        """Add a statement."""
        self._add(Statement(sql, values))

    def executemany(self, sql: str, values: Sequence[Any], /) -> None:
        """Add a statement that is executed once for each of `values`."""
        self._add(Statement(sql, list(values), many=True))

    def _add(self, statement: Statement) -> None:
        if not _TRANSACTION_CONTROL.isdisjoint(_first_words(statement.sql)):
            raise ValueError(f"{statement.sql!r} is not allowed; the engine controls the transaction")
        self.statements.append(statement)


class CollectedTransaction:
    """The `with` block of a transaction. ``contextlib`` would change an exception of the block, which may be frozen."""

    def __init__(self, transact: Callable[[list[Statement]], None]) -> None:
        self._transact = transact
        self._transaction = StoreTransaction()

    def __enter__(self) -> StoreTransaction:
        self._transact([])  # raises now if the store has no database
        return self._transaction

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if kind is None:
            self._transact(self._transaction.statements)
