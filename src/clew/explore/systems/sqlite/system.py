"""`SQLiteSystem`: a SQLite database, restored to any of its checkpoints in any order.

By default the application keeps its own connections, in this process or others, and really commits: triggers
journal what changes (`sqlite_shared`). With `private=True` nobody else writes, the application works on the
system's own connection, and SQLite's session extension records what changes, without triggers in the database
(`sqlite_private`).
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

    An observation's `data` holds each watched table by its name: a list of rows, each a dict, in the order of the
    key; or, for a table of more than `rows_shown` rows, `{"rows": count, "digest": text}`. `digest` stands for all
    rows of all tables. AUTOINCREMENT's counters are rolled back, and are no part of what identifies a state.

    Args:
        path: The database file. With `private=True`, ":memory:" is fine too.
        tables: The tables to watch; all by default. Others are neither observed nor rolled back.
        ignore: Columns that do not count for the state, by table. They are rolled back all the same.
        private: Nobody else writes; use `connection` for all work.
        rows_shown: How many rows a table may have to be shown row by row in observations.
        timeout: Seconds to wait for a writer that holds the database.
        prepare: Called with the system's own connection, to register the functions and collations of the application's
            that its indexes, checks and generated columns use.
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
            raise SystemSetupError(f"SQLiteSystem: a path is needed, not {path!r}")
        if isinstance(tables, str):
            raise SystemSetupError(f"tables={tables!r} is one string; give a list of names")
        if any(isinstance(columns, str) for columns in ignore.values()):
            raise SystemSetupError(f"ignore={dict(ignore)!r}: give a list of columns for each table")
        if private:
            from clew.explore.systems.sqlite.embedded import EmbeddedSQLite

            self._engine: SharedSQLite | EmbeddedSQLite = EmbeddedSQLite(
                path, tables=tables, ignore=ignore, rows_shown=rows_shown
            )
            return
        if sqlite3.sqlite_version_info < _OLDEST:
            raise SystemSetupError(f"SQLite {sqlite3.sqlite_version} is too old; 3.37 is needed")
        if os.fspath(path) in ("", ":memory:"):
            raise SystemSetupError(
                "a database in memory cannot be shared with the application's connections; "
                'use a file, or SQLiteSystem(":memory:", private=True).connection'
            )
        self._engine = SharedSQLite(
            path, tables=tables, ignore=ignore, rows_shown=rows_shown, timeout=timeout, prepare=prepare
        )

    @property
    def connection(self) -> apsw.Connection:
        """The connection to work on; only with `private=True`."""
        if isinstance(self._engine, SharedSQLite):
            raise SystemSetupError("open connections of your own; only private=True has one to share")
        return self._engine.connection

    def observe(self) -> Observation:
        return self._engine.observe()

    def checkpoint(self, name: str) -> int:
        return self._engine.checkpoint(name)

    def rollback(self, token: int) -> None:
        self._engine.rollback(token)

    def is_valid(self, token: Any) -> bool:
        return self._engine.is_valid(token)

    def release(self, token: int) -> None:
        self._engine.release(token)

    def size(self, token: int) -> int:
        """The bytes that a checkpoint holds in this process: those of the rows that changed."""
        return self._engine.size(token)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        """Return the database at the latest checkpoint as byte strings for `restore_baseline` in another process."""
        return self._engine.save_baseline(token)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Hold what was kept; False if it is of another file, and nothing was done.

        Tables that are not watched stay as they are, unless the schema is another one now.
        """
        return self._engine.restore_baseline(pieces)

    def close(self) -> None:
        """Leave the database as it is, without our journal, and forget all checkpoints."""
        self._engine.close()

    def __enter__(self) -> SQLiteSystem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
