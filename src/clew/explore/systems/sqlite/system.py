"""`SQLiteSystem`: a SQLite database that can be restored to any of its checkpoints in any order.

The application writes through its own connections, in any process, and commits.

- Triggers record changed rows in a journal (`triggers`). `PRAGMA data_version` shows whether anything changed, so a
  checkpoint of an unchanged state costs the same at any size.
- A restore is one transaction, which blocks other writers. It reads the rest of the journal, deletes all rows that must
  go, inserts all rows that must come, sets the AUTOINCREMENT counters, and empties the journal. All deletes come before
  all inserts, so the order of rows does not matter. Foreign keys and checks are off on the system's connection, and the
  user's triggers do not fire (`restore`).
- A schema change starts a new epoch (`epochs`). Restoring a state of another epoch first copies that epoch's file
  back.
- Shadow tables of virtual tables (full-text search, r-trees) get no triggers: SQLite does not expect them there, and
  can crash. They are compared as a whole whenever something changed, which costs their size.
- SQLite rejects ALTER TABLE ... DROP COLUMN while a trigger names the column, and the journal's triggers name all
  columns. Run such migrations before the exploration.
- An open transaction of the application is invisible until it commits. A restore waits for a writer for at most
  `timeout` seconds.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from clew.errors import CheckpointError, RollbackError, SystemSetupError
from clew.explore.model.system import Observation
from clew.explore.process_mark import lives_elsewhere, mark, new_folder
from clew.explore.systems.delta_tree import DeltaTree, add
from clew.explore.systems.interrupts import uninterrupted
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.connection import connect, in_memory, save_copy, transaction, writing
from clew.explore.systems.sqlite.epochs import (
    Delta,
    Item,
    SchemaEpoch,
    SQLiteStateInfo,
    StateNode,
    recorded,
)
from clew.explore.systems.sqlite.observation import DatabaseObserver
from clew.explore.systems.sqlite.recovery import packed, path_back, shape, unpacked
from clew.explore.systems.sqlite.restore import apply, read_numbers, switch_triggers_off, write_numbers
from clew.explore.systems.sqlite.schema import SQLiteTable, WatchedSchema, read_schema
from clew.explore.systems.sqlite.triggers import JOURNAL, OWNER, SUSPECTS, install, uninstall
from clew.explore.systems.tables import Ignore, TableSchema, sqlite_tables, table_choice
from clew.explore.systems.version_tokens import ClosableSystem

_OLDEST = (3, 37, 0)  # PRAGMA table_list
_IN_MEMORY = ("", ":memory:")


class SQLiteSystem(ClosableSystem):
    """A SQLite database.

    The `data` of an observation has each watched table by name: a list of rows as dicts, ordered by the key; or, for a
    table of more than `rows_shown` rows, `{"rows": count, "digest": text}`. The `digest` covers all rows of all tables.
    AUTOINCREMENT counters, `user_version` and `application_id` are rolled back, but are not part of the identity of a
    state.

    Args:
        path: The database file; or ":memory:" for a new database, which the application uses through `connection`.
        tables: The tables to roll back. Other tables are neither observed nor rolled back. [default: all]
        observe: The tables that are part of the state, by name or by pattern. [default: all that are rolled back]
        ignore: Columns that are not part of the state, by pattern: `["*.updated_at"]`, or by table. They are rolled
            back nevertheless.
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
        tables: Iterable[str] | None = None,
        observe: Iterable[str] | None = None,
        ignore: Ignore = (),
        rows_shown: int = 100,
        timeout: float = 5.0,
        prepare: Callable[[sqlite3.Connection], object] | None = None,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise SystemSetupError(f"path: expected a path, got {path!r}")
        if sqlite3.sqlite_version_info < _OLDEST:
            raise SystemSetupError(
                f"SQLite {sqlite3.sqlite_version} is too old; version 3.37 or later is required"
            )
        self._choice = table_choice(tables, observe, ignore)
        self._timeout = timeout
        self._prepare = prepare
        self._folder, self._remove_folder = new_folder(self, "sqlite")
        self._given = os.fspath(path)
        is_file = self._given not in _IN_MEMORY
        self._path = self._given if is_file else os.fspath(self._new_file())
        self._owner = f"{uuid.uuid4().hex}/{mark()}"
        with self._errors(SystemSetupError, "open the database"):
            self._connection = connect(self._path, timeout, prepare)
        self._application = None if is_file else in_memory(self._path)
        self._is_quiet = switch_triggers_off(self._connection)
        self._observer = DatabaseObserver(self._connection, self._given, rows_shown)
        self._tree: DeltaTree[Item, SQLiteStateInfo] = DeltaTree()
        self._now: SQLiteStateInfo | None = None  # about the current state; None before the first epoch
        self._version = -1  # PRAGMA data_version, at the last read
        self._seq = 0  # the last journal entry that was read
        self._is_midway = self.left_midway = False
        self._shadows: Delta = {}  # the rows of shadow tables, at the last read

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the connection of the application to a database in memory."""
        if self._application is None:
            raise SystemSetupError(
                'connection: available only with the path ":memory:"; otherwise open your own connections'
            )
        return self._application

    # ---------------------------------------------------------------- the system

    @uninterrupted
    def observe(self) -> Observation:
        with self._errors(CheckpointError, "observe"):
            self._read()
            while self._info.observation is None:
                with transaction(self._connection, "BEGIN"):
                    if self._schema_version() == self._info.epoch.version:
                        self._read_journal()
                        self._info.observation = self._observation(self._info)
                self._read()
            return self._info.observation

    @uninterrupted
    def checkpoint(self, name: str) -> int:
        with self._errors(CheckpointError, f"make the checkpoint {name!r}"):
            self._read()
        if self._has_changed(self._tree.here):
            self._tree.step(self._info)
        return self._tree.mark()

    def _has_changed(self, node: StateNode) -> bool:
        return bool(self._tree.pending) or self._info.numbers != node.info.numbers

    @uninterrupted
    def rollback(self, token: int) -> None:
        node = self._tree[token]
        with self._errors(RollbackError, f"restore the checkpoint {token}"):
            if not self._restore(node):
                self._restore_epoch(node.info.epoch)
                if not self._restore(node):
                    raise RollbackError(
                        f"{self._path}: the schema changed during the restore; try again when no migration runs"
                    )

    def is_valid(self, token: Any) -> bool:
        return token in self._tree

    @uninterrupted
    def release(self, token: int) -> None:
        self._tree.release(token)

    def size(self, token: int) -> int:
        """Return the number of bytes that a checkpoint holds in memory."""
        return images.size(self._tree[token].delta)

    def describe(self) -> dict[str, TableSchema]:
        """Return the columns, keys and foreign keys of each table by name."""
        with self._errors(SystemSetupError, "read the schema"):
            return sqlite_tables(self._connection.execute)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        """Return the database in pieces, from which another process can restore the last checkpoint."""
        with self._errors(CheckpointError, "save the baseline"):
            self._read()
            node = self._tree[token]
            if self._tree.here is not node or self._has_changed(node):
                raise CheckpointError(
                    f"{self._path}: the database has changed since the checkpoint; make a new checkpoint"
                )
            copy = node.info.epoch.copy
            if node is not node.info.epoch.root:
                copy = self._new_file()
                with transaction(self._connection, "BEGIN"):
                    save_copy(self._connection, copy)
        return packed(copy, self._given)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore the saved database; return False, and do nothing, if the pieces belong to another file.

        If the schema is the same, the rows that differ are restored, otherwise the whole file.
        """
        file = self._new_file()
        if not unpacked(pieces, file, self._given):
            return False
        with self._errors(RollbackError, "restore the baseline"), closing(sqlite3.connect(file)) as saved:
            if self._prepare is not None:
                self._prepare(saved)
            self._check_unowned(self._installed_by())
            while shape(saved) == shape(self._connection):
                self._read()
                if self._restore_rows(saved):
                    break
            else:
                self._overwrite(file)
            self._begin_epoch(takes_over=True)
        return True

    def _restore_rows(self, saved: sqlite3.Connection) -> bool:
        """Restore the saved rows in one transaction; return False if the schema has just changed."""
        connection, epoch = self._connection, self._info.epoch
        with writing(self._connection, self._timeout):
            if self._schema_version() != epoch.version:
                return False
            apply(connection, epoch.schema, path_back(connection, saved, epoch.schema), quiet=self._is_quiet)
            write_numbers(connection, epoch.schema, read_numbers(saved, epoch.schema))
        return True

    def mark_midway(self, is_midway: bool) -> None:
        """Store whether an exploration has left its initial state."""
        self._is_midway = is_midway
        with self._errors(CheckpointError, "mark the database"):
            self._read()
            self._write_midway()

    def _write_midway(self) -> None:
        with writing(self._connection, self._timeout):
            self._connection.execute(f"UPDATE {OWNER} SET midway = ?", (self._is_midway,))

    def _was_midway(self) -> bool:
        """Return the mark of the process that installed the journal before."""
        found = self._connection.execute(f"SELECT * FROM {OWNER}").fetchone()
        return bool(found[1]) if found is not None and len(found) > 1 else False

    def close(self) -> None:
        """Remove the triggers and the journal from the database, and close it."""
        try:
            if self._now is not None:
                with (
                    self._errors(CheckpointError, "remove the triggers"),
                    writing(self._connection, self._timeout),
                ):
                    if self._installed_by() == self._owner:
                        uninstall(self._connection)
        finally:
            self._tree, self._now = DeltaTree(), None
            self._connection.close()
            if self._application is not None:
                self._application.close()
            self._remove_folder()

    # ---------------------------------------------------------------- reading changes

    @property
    def _info(self) -> SQLiteStateInfo:
        assert self._now is not None  # every public method reads the database first
        return self._now

    def _read(self) -> None:
        """Record the changes that were committed since the last call."""
        if self._now is None:
            self._begin_epoch()
            return
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return
        with transaction(self._connection, "BEGIN"):
            changed = self._schema_version() != self._info.epoch.version
            if not changed:
                self._read_journal()
        if changed:
            self._begin_epoch()

    def _read_journal(self) -> None:
        """Record the new entries of the journal, inside a transaction."""
        connection, schema = self._connection, self._info.epoch.schema
        shadows = _shadow_rows(connection, schema)
        add(shadows, self._shadows, -1)
        numbers = read_numbers(connection, schema)
        delta, self._now = recorded(self._info, self._new_entries(schema), numbers, shadows)
        add(self._tree.pending, delta)
        add(self._shadows, shadows)
        (self._version,) = connection.execute("PRAGMA data_version").fetchone()

    def _new_entries(self, schema: WatchedSchema) -> Iterator[tuple[SQLiteTable, int, images.Row]]:
        sql = f"SELECT * FROM {JOURNAL} WHERE seq > ? ORDER BY seq"
        for seq, number, sign, *values in images.rows(self._connection, sql, (self._seq,)):
            table = schema.tables[number]
            yield table, sign, tuple(values[: len(table.fields)])
            self._seq = seq

    def _observation(self, info: SQLiteStateInfo) -> Observation:
        schema = info.epoch.schema
        if not schema.virtual:
            return self._observer.observe(schema, info.sums, self._connection)
        # A separate connection: virtual tables cache their content, which a restore on our own would not update.
        with closing(sqlite3.connect(self._path)) as reader:
            return self._observer.observe(schema, info.sums, reader)

    # ---------------------------------------------------------------- epochs

    def _begin_epoch(self, *, takes_over: bool = False) -> None:
        """Install the journal for the current schema, and copy the file."""
        info = None
        while info is None:  # the schema may change again between the two
            schema, version = self._install(takes_over or self._now is None)
            info = self._copy(schema, version)
        self._tree.new_root(info)
        info.epoch.root, self._now = self._tree.here, info

    def _install(self, takes_over: bool) -> tuple[WatchedSchema, int]:
        with writing(self._connection, self._timeout):
            owner = self._installed_by()
            if takes_over:
                self._check_unowned(owner)
                self.left_midway = owner is not None and self._was_midway()
            elif owner != self._owner:
                raise CheckpointError(
                    f"{self._path}: another SQLiteSystem now watches this file, or its {OWNER} table was dropped; "
                    "use one SQLiteSystem for a file, and close() it first"
                )
            uninstall(self._connection)
            # A watched table may be missing in a later epoch. That is a state, not an invalid option.
            complete = self._now is None
            schema = read_schema(self._connection, self._choice, complete=complete)
            install(self._connection, schema, self._owner, self._is_midway)
            return schema, self._schema_version()

    def _copy(self, schema: WatchedSchema, version: int) -> SQLiteStateInfo | None:
        """Copy the file and read all of it in one transaction; return None if the schema has changed."""
        connection = self._connection
        with transaction(self._connection, "BEGIN"):
            if self._schema_version() != version:
                return None
            seq = connection.execute(f"SELECT coalesce(max(seq), 0) FROM {JOURNAL}").fetchone()[0]
            epoch = SchemaEpoch(schema, version, self._new_file(), seq, _shadow_rows(connection, schema))
            save_copy(connection, epoch.copy)
            sums = tuple((0, 0) if t.shadow else images.total(connection, t) for t in schema.tables)
            info = SQLiteStateInfo(epoch, sums, read_numbers(connection, schema))
            (self._version,) = connection.execute("PRAGMA data_version").fetchone()
        self._seq, self._shadows = seq, dict(epoch.shadows)
        return info

    def _restore_epoch(self, epoch: SchemaEpoch) -> None:
        """Restore the file, including its journal, to the start of an epoch."""
        self._overwrite(epoch.copy)
        assert epoch.root is not None
        epoch.version = self._schema_version()
        self._move(epoch.root)
        self._seq, self._shadows = epoch.seq, dict(epoch.shadows)
        self._write_midway()

    def _overwrite(self, file: Path) -> None:
        """Replace the content of the database with a copy."""
        deadline = time.monotonic() + self._timeout

        def give_up(status: int, remaining: int, total: int) -> None:
            if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > deadline:
                raise TimeoutError

        with closing(sqlite3.connect(file)) as source:
            try:
                source.backup(self._connection, progress=give_up, sleep=0.005)
            except TimeoutError:
                raise RollbackError(
                    f"{self._path}: cannot restore the schema of the checkpoint, because a connection locked the "
                    f"database for {self._timeout} s; end the application's transactions before a rollback"
                ) from None

    # ---------------------------------------------------------------- restoring

    def _restore(self, node: StateNode) -> bool:
        """Restore a state in one transaction; return False if the database has the schema of another epoch."""
        connection, epoch = self._connection, node.info.epoch
        if self._info.epoch is not epoch:
            return False
        with writing(self._connection, self._timeout):
            if self._schema_version() != epoch.version:
                return False
            self._read_journal()
            path = self._tree.path_to(node)
            version = apply(connection, epoch.schema, path, quiet=self._is_quiet) or epoch.version
            if self._info.numbers != node.info.numbers or path:
                write_numbers(connection, epoch.schema, node.info.numbers)
            if self._seq:
                connection.execute(f"DELETE FROM {JOURNAL}")
            # an ignored write adds suspects and no journal entry
            connection.execute(f"DELETE FROM {SUSPECTS}")
        epoch.version, self._seq = version, 0
        tables = epoch.schema.tables
        add(self._shadows, {item: count for item, count in path.items() if tables[item[0]].shadow})
        self._move(node)
        return True

    def _move(self, node: StateNode) -> None:
        """Note that a state was restored."""
        self._tree.move(node)
        self._now = node.info

    # ---------------------------------------------------------------- the connection

    def _schema_version(self) -> int:
        version: int = self._connection.execute("PRAGMA schema_version").fetchone()[0]
        return version

    def _check_unowned(self, owner: str | None) -> None:
        if owner is not None and lives_elsewhere(owner):
            raise SystemSetupError(
                f"{self._path}: process {owner.split('/')[-2]} is exploring this file; wait until it ends"
            )

    def _installed_by(self) -> str | None:
        try:
            found = self._connection.execute(f"SELECT id FROM {OWNER}").fetchone()
        except sqlite3.OperationalError:
            return None
        return None if found is None else str(found[0])

    def _new_file(self) -> Path:
        return self._folder / uuid.uuid4().hex

    @contextmanager
    def _errors(self, kind: type[Exception], doing: str) -> Iterator[None]:
        """Raise errors of the driver as errors of this kind."""
        try:
            yield
        except sqlite3.Error as error:
            hint = "; end the open transaction of the application" if "locked" in str(error) else ""
            raise kind(f"{self._path}: cannot {doing}: {error}{hint}") from error


def _shadow_rows(connection: sqlite3.Connection, schema: WatchedSchema) -> Delta:
    """Return the rows of all shadow tables."""
    found: Delta = {}
    for table in schema.tables:
        if table.shadow:
            sql = f"SELECT {', '.join(table.fields)} FROM {table.quoted}"
            found.update(((table.number, images.encode(row)), 1) for row in images.rows(connection, sql))
    return found
