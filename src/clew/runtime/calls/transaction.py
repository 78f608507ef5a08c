"""Writes to the store's own database, committed together with the outcome of the item that made them.

They are collected while the node runs, tried out and taken back when its `with` block ends (so that what the database
refuses is raised there), and executed in the transaction that keeps the node's outcome. So a crash leaves both or
neither: they are executed exactly once. Until then nobody sees them, the node itself included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clew.stores import Statement

_NOT_HERE = frozenset(
    {"begin", "commit", "end", "rollback", "savepoint", "release", "start", "abort", "prepare"}
)


_QUOTED = r"'(?:[^']|'')*'|\"[^\"]*\"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"
# SQLite's comments end at the first end, PostgreSQL's at their own: a text must be harmless read either way.
_COMMENTS = (r"/\*.*?\*/", r"/\*(?:[^*/]|\*(?!/)|/(?!\*)|/\*.*?\*/)*\*/")
_READINGS = [re.compile(rf"(?P<quoted>{_QUOTED})|--[^\n]*|{comment}", re.DOTALL) for comment in _COMMENTS]


def _first_words(sql: str) -> set[str]:
    """The words that the statements in a text begin with; what is quoted, or a comment, is none."""
    found: set[str] = set()
    for reading in _READINGS:
        bare = reading.sub(lambda match: " ? " if match["quoted"] else " ", sql)
        words = [part.split(maxsplit=1)[0].lower() for part in bare.split(";") if part.split()]
        # a trigger has statements, and an end, of its own
        found.update(words[:1] if words[:1] == ["create"] else words)
    return found


class StoreTransaction:
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
        if not _NOT_HERE.isdisjoint(_first_words(statement.sql)):
            raise ValueError(f"{statement.sql!r}: the engine begins and ends the transaction itself")
        self.statements.append(statement)
