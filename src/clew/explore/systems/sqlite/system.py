"""`SQLiteSystem`: a SQLite database that can be restored to any of its checkpoints in any order.

By default the application uses its own connections, in any process, and commits; triggers journal the changes
(`shared_file`). With `private=True` the application uses the system's connection, and SQLite's session extension
records the changes without triggers (`embedded`). Both find out which rows changed in their own way; everything that
follows from the changed rows is common (`checkpoints`, `observation`, `restore`, `recovery`).
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from clew.errors import CheckpointError, SystemSetupError
from clew.explore.model.observation import Observation
from clew.explore.systems.interrupts import uninterrupted
from clew.explore.systems.sqlite.checkpoints import SQLiteCheckpoints
from clew.explore.systems.sqlite.recovery import packed
from clew.explore.systems.table_choice import Ignore, table_choice
from clew.explore.systems.table_schema import TableSchema, sqlite_tables
from clew.explore.systems.temp_dirs import new_folder


class SQLiteSystem:
    """A SQLite database.

    The `data` of an observation has each watched table by name: a list of rows as dicts, ordered by the key; or, for a
    table of more than `rows_shown` rows, `{"rows": count, "digest": text}`. The `digest` covers all rows of all tables.
    AUTOINCREMENT counters, `user_version` and `application_id` are rolled back, but are not part of the identity of a
    state.

    Args:
        path: The database file. With `private=True` it can be ":memory:".
        tables: The tables to roll back. Other tables are neither observed nor rolled back. [default: all]
        observe: The tables that are part of the state, by name or by pattern. [default: all that are rolled back]
        ignore: Columns that are not part of the state, by pattern: `["*.updated_at"]`, or by table. They are rolled
            back nevertheless.
        private: Only the system's `connection` writes to the database.
        rows_shown: The maximum number of rows of a table that observations show row by row.
        timeout: Seconds to wait for a writer that locks the database.
        prepare: Called with the system's own connection, to register the functions and collations that the indexes,
            checks and generated columns of the application use.
    """

    ordering: Literal["any"] = "any"
    _driver_error: type[Exception] = sqlite3.Error
    _connection: Any

    def __new__(cls, *arguments: Any, private: bool = False, **options: Any) -> SQLiteSystem:
        """Choose the class for shared files or for private databases."""
        if cls is not SQLiteSystem:
            return super().__new__(cls)
        if private:
            from clew.explore.systems.sqlite.embedded import EmbeddedSQLite

            return super().__new__(EmbeddedSQLite)
        from clew.explore.systems.sqlite.shared_file import SharedSQLite

        return super().__new__(SharedSQLite)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tables: Iterable[str] | None = None,
        observe: Iterable[str] | None = None,
        ignore: Ignore = (),
        private: bool = False,
        rows_shown: int = 100,
        timeout: float = 5.0,
        prepare: Callable[[sqlite3.Connection], object] | None = None,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise SystemSetupError(f"path: expected a path, got {path!r}")
        self._path = os.fspath(path)
        self._choice = table_choice(tables, observe, ignore)
        self._rows_shown = rows_shown
        self._timeout = timeout
        self._prepare = prepare
        self._checkpoints = SQLiteCheckpoints(self._path)
        self._open()
        self._folder, self._remove_folder = new_folder(self, "sqlite")

    @property
    def connection(self) -> Any:
        """Return the connection that the application must use, an `apsw.Connection`; only with `private=True`."""
        raise SystemSetupError(
            "connection: available only with private=True; otherwise open your own connections"
        )

    def observe(self) -> Observation:
        raise NotImplementedError

    @uninterrupted
    def checkpoint(self, name: str) -> int:
        with self._errors(CheckpointError, f"make the checkpoint {name!r}"):
            self._read()
        return self._checkpoints.checkpoint()

    def rollback(self, token: int) -> None:
        raise NotImplementedError

    def is_valid(self, token: Any) -> bool:
        return token in self._checkpoints

    @uninterrupted
    def release(self, token: int) -> None:
        self._checkpoints.release(token)

    def size(self, token: int) -> int:
        """Return the number of bytes that a checkpoint holds in memory."""
        return self._checkpoints.size(token)

    def describe(self) -> dict[str, TableSchema]:
        """Return the columns, keys and foreign keys of each table by name."""
        with self._errors(SystemSetupError, "read the schema"):
            return sqlite_tables(self._connection.execute)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        """Return the database in pieces, from which another process can restore the last checkpoint."""
        with self._errors(CheckpointError, "save the baseline"):
            self._read()
            self._checkpoints.check_current(token)
            epoch = self._checkpoints.current.epoch
            copy = epoch.copy
            if self._checkpoints[token] is not epoch.root:
                copy = self._new_file()
                self._save_copy(copy)
        return packed(copy, self._path)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore the saved database; return False, and do nothing, if the pieces belong to another file.

        Tables that are not watched stay unchanged, unless the schema has changed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Remove the journal, and discard all checkpoints. The rows stay as they are."""
        raise NotImplementedError

    def __enter__(self) -> SQLiteSystem:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        """Open the database."""
        raise NotImplementedError

    def _read(self) -> None:
        """Record the changes since the last call."""
        raise NotImplementedError

    def _save_copy(self, file: Path) -> None:
        """Copy the database to a file."""
        raise NotImplementedError

    def _new_file(self) -> Path:
        return self._folder / uuid.uuid4().hex

    @contextmanager
    def _errors(self, kind: type[Exception], doing: str) -> Iterator[None]:
        """Raise errors of the driver as errors of this kind."""
        try:
            yield
        except self._driver_error as error:
            hint = "; end the open transaction of the application" if "locked" in str(error) else ""
            raise kind(f"{self._path}: cannot {doing}: {error}{hint}") from error
