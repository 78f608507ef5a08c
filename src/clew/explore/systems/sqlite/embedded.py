"""A SQLite database that only this process writes, through the system's own connection (an `apsw.Connection`).

SQLite's session extension records which rows were inserted, updated and deleted, so the database needs no triggers and
no journal. Everything else works as for a shared file: `checkpoints`, `observation`, `restore`.

- Rows are identified by their primary key. A rowid that is not a column is restored only for tables without one.
- A restore needs the connection outside of a transaction.
- SQLite's sessions skip rows with NULL in the primary key, treat -0.0 as 0.0, and compare keys byte by byte. A table
  whose key has another collation is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from clew.errors import CheckpointError, RollbackError, SystemSetupError
from clew.explore.model.observation import Observation
from clew.explore.systems.interrupts import uninterrupted
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.checkpoints import SchemaEpoch, SQLiteStateInfo, StateNode
from clew.explore.systems.sqlite.observation import DatabaseObserver
from clew.explore.systems.sqlite.recovery import unpacked
from clew.explore.systems.sqlite.restore import apply, read_numbers, write_numbers
from clew.explore.systems.sqlite.schema import SQLiteTable, WatchedSchema, read_schema
from clew.explore.systems.sqlite.system import SQLiteSystem

try:
    import apsw
except ImportError:
    raise SystemSetupError("SQLiteSystem(private=True) needs the package apsw: pip install apsw") from None


class EmbeddedSQLite(SQLiteSystem):
    """A private database."""

    _driver_error = apsw.Error

    def _open(self) -> None:
        self._connection = apsw.Connection(self._path)
        self._plain: Any = _ConnectionAdapter(self._connection)
        self._observer = DatabaseObserver(cast(Any, self._plain), self._path, self._rows_shown)
        self._session: apsw.Session | None = None
        self._changes = -1  # of the connection, when the session started

    @property
    def connection(self) -> apsw.Connection:
        connection: apsw.Connection = self._connection
        return connection

    @uninterrupted
    def observe(self) -> Observation:
        with self._errors(CheckpointError, "observe"):
            self._read()
            info = self._checkpoints.current
            if info.observation is None:
                info.observation = self._observer.observe(info.epoch.schema, info.sums, self._plain)
            return info.observation

    @uninterrupted
    def rollback(self, token: int) -> None:
        node = self._checkpoints[token]
        self._check_no_transaction()
        with self._errors(RollbackError, f"restore the checkpoint {token}"):
            self._read()
            self._restore(node)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        self._check_no_transaction()
        file = self._new_file()
        if not unpacked(pieces, file, self._path):
            return False
        self._end_session()
        with self._errors(RollbackError, "restore the baseline"):
            _load_copy(file, self._connection)
            self._begin_epoch()
        return True

    def _check_no_transaction(self) -> None:
        if self._connection.in_transaction:
            raise RollbackError(f"{self._path}: the connection is in a transaction; end it before a rollback")

    def close(self) -> None:
        self._end_session()
        self._checkpoints.clear()
        self._connection.close()
        self._remove_folder()

    # ---------------------------------------------------------------- reading changes

    def _read(self) -> None:
        now = self._checkpoints.now
        if now is None or self._version() != now.epoch.version:
            self._begin_epoch()
            return
        schema = now.epoch.schema
        numbers = read_numbers(self._plain, schema)  # a PRAGMA changes no row
        if self._connection.total_changes() != self._changes or numbers != now.numbers:
            assert self._session is not None
            changes = _images(self._plain, schema, self._session.changeset())
            self._checkpoints.record(changes, numbers)
            self._begin_session(schema)

    def _version(self) -> int:
        return int(self._plain.execute("PRAGMA schema_version").fetchone()[0])

    def _begin_session(self, schema: WatchedSchema) -> None:
        self._end_session()
        self._session = apsw.Session(self._connection, "main")
        self._session.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, True)
        for table in schema.tables:
            self._session.attach(table.name)
        self._changes = self._connection.total_changes()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # ---------------------------------------------------------------- epochs and restoring

    def _begin_epoch(self) -> None:
        complete = self._checkpoints.now is None
        schema = read_schema(self._plain, self._choice, by_rowid=False, complete=complete)
        for table in schema.tables:
            if any(order.strip('"').upper() != "BINARY" for order in table.orders):
                raise SystemSetupError(
                    f"table {table.name!r}: SQLite's sessions cannot record a key with the collation {table.orders}; "
                    "leave the table out (tables=[...]), or do not use private=True"
                )
        epoch = SchemaEpoch(schema, self._version(), self._new_file())
        self._save_copy(epoch.copy)
        sums = tuple((0, 0) if t.shadow else images.total(self._plain, t) for t in schema.tables)
        self._checkpoints.begin_epoch(SQLiteStateInfo(epoch, sums, read_numbers(self._plain, schema)))
        self._begin_session(schema)

    def _restore(self, node: StateNode) -> None:
        epoch = node.info.epoch
        self._end_session()
        if self._checkpoints.current.epoch is not epoch:
            assert epoch.root is not None
            _load_copy(epoch.copy, self._connection)
            epoch.version = self._version()
            self._checkpoints.move(epoch.root)
        try:
            with _TriggersDisabled(self._connection):
                apply(self._plain, epoch.schema, self._checkpoints.path_to(node), quiet=True)
                write_numbers(self._plain, epoch.schema, node.info.numbers)
            self._checkpoints.move(node)
        finally:
            self._begin_session(epoch.schema)

    def _save_copy(self, file: Path) -> None:
        with closing(apsw.Connection(str(file))) as target:
            target.execute("PRAGMA synchronous = OFF")
            _copy(self._connection, target)


class _TriggersDisabled:
    """A transaction in which triggers and foreign keys are disabled."""

    _SETTINGS = (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_FKEY)

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before = [self._connection.config(setting, -1) for setting in self._SETTINGS]
        for setting in self._SETTINGS:
            self._connection.config(setting, 0)
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._connection.execute("COMMIT" if error is None else "ROLLBACK")
        finally:
            for setting, value in zip(self._SETTINGS, self._before):
                self._connection.config(setting, value)


class _ChangeCounter:
    """The number of rows that statements changed."""

    def __init__(self, rowcount: int) -> None:
        self.rowcount = rowcount


class _ConnectionAdapter:
    """The part of the sqlite3.Connection interface that the other modules use."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.text_factory: Any = str

    def execute(self, sql: str, arguments: Any = ()) -> Any:
        return self._connection.execute(sql, arguments)

    def executemany(self, sql: str, rows: Iterable[Any]) -> _ChangeCounter:
        changed = 0
        for row in rows:
            self._connection.execute(sql, row)
            changed += self._connection.changes()
        return _ChangeCounter(changed)


def _load_copy(file: Path, target: apsw.Connection) -> None:
    with closing(apsw.Connection(str(file))) as source:
        _copy(source, target)


def _copy(source: apsw.Connection, target: apsw.Connection) -> None:
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(-1)


def _images(
    plain: _ConnectionAdapter, schema: WatchedSchema, changeset: bytes
) -> Iterator[tuple[SQLiteTable, int, images.Row]]:
    """Return the rows of a changeset: the table, +1 for an inserted row or -1 for a removed one, and the row."""
    tables = {table.name: table for table in schema.tables}
    for change in apsw.Changeset.iter(changeset):
        table = tables[change.name]
        old, new = change.old or (), change.new or ()
        if change.op == "INSERT":
            yield table, 1, tuple(new)
        elif change.op == "DELETE":
            yield table, -1, tuple(old)
        else:
            key = [old[at] for at in table.key]
            where = " AND ".join(f"{table.fields[at]} = ?" for at in table.key)
            sql = f"SELECT {', '.join(table.fields)} FROM {table.quoted} WHERE {where}"
            (now,) = plain.execute(sql, key).fetchall()
            before = tuple(now[at] if value is apsw.no_change else value for at, value in enumerate(old))
            yield table, -1, before
            yield table, 1, tuple(now)
