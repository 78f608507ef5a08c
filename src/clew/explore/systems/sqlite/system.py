"""`SQLiteSystem`: a SQLite database that can be restored to any of its checkpoints in any order.

By default the application uses its own connections, in any process, and commits; triggers journal the changes
(`shared_file`). With `private=True` the application uses the system's connection, and SQLite's session extension
records the changes without triggers (`embedded`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import SystemSetupError
from clew.explore.model.observation import Observation
from clew.explore.systems.sqlite.shared_file import SharedSQLite

if TYPE_CHECKING:
    import apsw

_OLDEST = (3, 37, 0)  # PRAGMA table_list


class SQLiteSystem:
    """A SQLite database.

    The `data` of an observation has each watched table by name: a list of rows as dicts, ordered by the key; or, for a
    table of more than `rows_shown` rows, `{"rows": count, "digest": text}`. The `digest` covers all rows of all tables.
    AUTOINCREMENT counters are rolled back, but are not part of the identity of a state.

    Args:
        path: The database file. With `private=True` it can be ":memory:".
        tables: The tables to watch. Other tables are neither observed nor rolled back. [default: all]
        ignore: Columns that are not part of the state, by table. They are rolled back nevertheless.
        private: Only the system's `connection` writes to the database.
        rows_shown: The maximum number of rows of a table that observations show row by row.
        timeout: Seconds to wait for a writer that locks the database.
        prepare: Called with the system's own connection, to register the functions and collations that the indexes,
            checks and generated columns of the application use.
    """

    ordering: Literal["any"] = "any"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tables: Collection[str] | None = None,
        ignore: Mapping[str, Collection[str]] = {},
        private: bool = False,
        rows_shown: int = 100,
        timeout: float = 5.0,
        prepare: Callable[[sqlite3.Connection], object] | None = None,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise SystemSetupError(f"path: expected a path, got {path!r}")
        if isinstance(tables, str):
            raise SystemSetupError(f"tables: expected a list of names, got {tables!r}; write [{tables!r}]")
        if any(isinstance(columns, str) for columns in ignore.values()):
            raise SystemSetupError(f"ignore: expected a list of columns for each table, got {dict(ignore)!r}")
        if private:
            from clew.explore.systems.sqlite.embedded import EmbeddedSQLite

            self._engine: SharedSQLite | EmbeddedSQLite = EmbeddedSQLite(
                path, tables=tables, ignore=ignore, rows_shown=rows_shown
            )
            return
        if sqlite3.sqlite_version_info < _OLDEST:
            raise SystemSetupError(
                f"SQLite {sqlite3.sqlite_version} is too old; version 3.37 or later is required"
            )
        if os.fspath(path) in ("", ":memory:"):
            raise SystemSetupError(
                "path: other connections cannot open a database in memory; "
                'use a file, or SQLiteSystem(":memory:", private=True).connection'
            )
        self._engine = SharedSQLite(
            path, tables=tables, ignore=ignore, rows_shown=rows_shown, timeout=timeout, prepare=prepare
        )

    @property
    def connection(self) -> apsw.Connection:
        """Return the connection that the application must use; only with `private=True`."""
        if isinstance(self._engine, SharedSQLite):
            raise SystemSetupError(
                "connection: available only with private=True; otherwise open your own connections"
            )
        return self._engine.connection

    def observe(self) -> Observation:
        return self._engine.observe()

    def checkpoint(self, name: str) -> int:
        return self._engine.checkpoint(name)

    def rollback(self, token: int) -> None:
        self._engine.rollback(token)

    def is_valid(self, token: Any) -> bool:
        return token in self._engine.checkpoints

    def release(self, token: int) -> None:
        self._engine.checkpoints.release(token)

    def size(self, token: int) -> int:
        """Return the number of bytes that a checkpoint holds in memory."""
        return self._engine.checkpoints.size(token)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        """Return the database in pieces, from which another process can restore the last checkpoint."""
        return self._engine.save_baseline(token)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore the saved database; return False, and do nothing, if the pieces belong to another file.

        Tables that are not watched stay unchanged, unless the schema has changed.
        """
        return self._engine.restore_baseline(pieces)

    def close(self) -> None:
        """Remove the journal, and discard all checkpoints. The rows stay as they are."""
        self._engine.close()

    def __enter__(self) -> SQLiteSystem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
