"""Statements with the name of the schema: every table is written as ``@.table``.

The cursors of a store replace ``@.`` when they execute a statement, so no statement depends on the search path of the
session. Behind a pooler, another client may have changed it. The statements of users are executed unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.stores import messages, sql_rows

if TYPE_CHECKING:
    import psycopg

RECENT = messages.RECENT.replace("FROM runs", "FROM @.runs")
ROW = sql_rows.ROW.replace("FROM runs", "FROM @.runs").replace("JOIN origins", "JOIN @.origins")

_MOST = 1_000  # statements that are remembered


def connect(schema: str, options: dict[str, Any]) -> psycopg.Connection[Any]:
    """Open a connection whose cursors insert the name of a schema."""
    import psycopg
    from psycopg.cursor import Cursor
    from psycopg.sql import Identifier

    name = f"{Identifier(schema).as_string(None)}."
    known: dict[tuple[str, bool], str] = {}

    def qualified(statement: str, has_values: bool) -> str:
        found = known.get((statement, has_values))
        if found is None:
            prefix = name.replace("%", "%%") if has_values else name
            found = statement.replace("'@.", "'" + prefix.replace("'", "''")).replace("@.", prefix)
            if len(known) < _MOST:
                known[statement, has_values] = found
        return found

    class SchemaCursor(Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
            if isinstance(query, str):
                query = qualified(query, params is not None)
            return super().execute(query, params, **more)

    return psycopg.connect(autocommit=True, cursor_factory=SchemaCursor, **options)
