"""A SQLite database that nobody else writes: checkpoints as a tree of row deltas, recorded by SQLite's session
extension.

The application works on our connection (an `apsw.Connection`). There are no triggers and no journal in the
database. A session says which rows were inserted, updated and deleted since the last look; their whole images are
made from that and from the rows as they are. Everything else is as for a shared file (`sqlite_shared`): trees,
eras, observations, restores.

- Rows are known by their primary key; a rowid that is no column is restored only for tables without one.
- A restore needs the connection outside of a transaction.
- SQLite's sessions leave out rows with NULL in their primary key, take −0.0 for 0.0, and compare keys byte by byte:
  a table whose key has another collation is refused.
"""

from __future__ import annotations

import os
import shutil
import uuid
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew.errors import CheckpointError, RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.observation import Observation
from clew.explore.systems.delta_tree import DeltaNode, DeltaTree, add
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.observation import observation, see, see_rows
from clew.explore.systems.sqlite.recovery import packed, unpacked
from clew.explore.systems.sqlite.restore import apply, read_sequences, write_sequences
from clew.explore.systems.sqlite.schema import SQLiteTable, WatchedSchema, quote, read_schema
from clew.explore.systems.temp_dirs import new_folder

try:
    import apsw
except ImportError:
    raise SystemSetupError("SQLiteSystem(private=True) needs the package apsw: pip install apsw") from None

Item = tuple[int, bytes]


class EmbeddedEpoch(msgspec.Struct, eq=False):
    """The time between two changes of the schema."""

    schema: WatchedSchema
    version: int
    copy: apsw.Connection
    root: Any = None


class EmbeddedStateInfo(msgspec.Struct, eq=False):
    """What is known of a state besides its rows' delta."""

    era: EmbeddedEpoch
    sums: tuple[images.Sum, ...]
    sequences: tuple[tuple[str, int], ...]
    observation: Observation | None = None


class EmbeddedSQLite:
    """The engine of `SQLiteSystem` for a database of our own."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tables: Collection[str] | None,
        ignore: Mapping[str, Collection[str]],
        rows_shown: int,
    ) -> None:
        self._path = os.fspath(path)
        self._tables = tables
        self._ignore = ignore
        self._rows_shown = rows_shown
        self.connection = apsw.Connection(self._path)
        self._plain: Any = _ConnectionAdapter(self.connection)
        self._folder = new_folder("sqlite")
        self._forget_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._session: apsw.Session | None = None
        self._tree: DeltaTree[Item, EmbeddedStateInfo] | None = None
        self._delta: dict[Item, int] = {}
        self._now: EmbeddedStateInfo | None = None
        self._changes = -1

    def observe(self) -> Observation:
        facts = self._look("observe")
        if facts.observation is None:
            schema = facts.era.schema
            sights = {
                table.name: see(self._plain, table, found, self._rows_shown)
                for table, found in zip(schema.tables, facts.sums)
                if not table.shadow
            }
            for name, sql in schema.virtual:
                found = list(self._plain.execute(f"SELECT * FROM {quote(name)}"))
                columns = [column[1] for column in self._plain.execute(f"PRAGMA table_info({quote(name)})")]
                sights[name] = see_rows(name, sql, columns, found, self._rows_shown)
            facts.observation = observation(sights, self._path)
        return facts.observation

    def checkpoint(self, name: str) -> int:
        facts = self._look(f"make the checkpoint {name!r}")
        tree = self._known
        if self._delta or facts.sequences != tree.here.facts.sequences:
            tree.step(self._delta, facts)
            self._delta = {}
        return tree.mark()

    def rollback(self, token: int) -> None:
        if self._tree is None:
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        node = self._tree[token]
        if self.connection.in_transaction:
            raise RollbackError(
                f"{self._path}: the connection is in a transaction; end it before restoring {token}"
            )
        try:
            self._look(f"restore the checkpoint {token}")
            self._restore(node)
        except (apsw.Error, CheckpointError) as error:
            raise RollbackError(f"{self._path}: cannot restore the checkpoint {token}: {error}") from error

    def is_valid(self, token: object) -> bool:
        return self._tree is not None and token in self._tree

    def release(self, token: int) -> None:
        if self._tree is not None:
            self._tree.release(token)

    def size(self, token: int) -> int:
        return images.size(self._known[token].delta)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        facts = self._look("keep what it holds")
        node = self._known[token]
        if self._delta or self._known.here is not node or facts.sequences != node.facts.sequences:
            raise CheckpointError(f"{self._path}: it was changed since the checkpoint that is to be kept")
        file = self._new_file()
        copy = apsw.Connection(str(file))
        copy.execute("PRAGMA synchronous = OFF")
        _copy(self.connection, copy)
        copy.close()
        return packed(file, self._path)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Hold what was kept, and nothing else."""
        if self.connection.in_transaction:
            raise RollbackError(f"{self._path}: the connection is in a transaction; end it first")
        file = self._new_file()
        if not unpacked(pieces, file, self._path):
            return False
        self._end_session()
        try:
            kept = apsw.Connection(str(file))
            _copy(kept, self.connection)
            kept.close()
            self._begin_era()
        except apsw.Error as error:
            raise RollbackError(f"{self._path}: cannot put it back: {error}") from error
        return True

    def _new_file(self) -> Path:
        return self._folder / uuid.uuid4().hex

    def close(self) -> None:
        """Forget all checkpoints, and close the connection."""
        self._end_session()
        if self._now is not None:
            self._now.era.copy.close()
        self._tree = self._now = None
        self.connection.close()
        self._forget_folder()

    # ---------------------------------------------------------------- looking

    @property
    def _known(self) -> DeltaTree[Item, EmbeddedStateInfo]:
        assert self._tree is not None  # every public method looks first
        return self._tree

    def _look(self, doing: str) -> EmbeddedStateInfo:
        """Take in what was changed since we looked last."""
        try:
            if self._now is None or self._version() != self._now.era.version:
                self._begin_era()
            elif self.connection.total_changes() != self._changes:
                self._read_session(self._now)
        except apsw.Error as error:
            raise CheckpointError(f"{self._path}: cannot {doing}: {error}") from error
        assert self._now is not None
        return self._now

    def _version(self) -> int:
        return int(self._plain.execute("PRAGMA schema_version").fetchone()[0])

    def _read_session(self, facts: EmbeddedStateInfo) -> None:
        assert self._session is not None
        schema = facts.era.schema
        sums: list[images.Sum] | None = None
        for table, side, row in _images(self._plain, schema, self._session.changeset()):
            image = images.encode(row)
            add(self._delta, {(table.number, image): side})
            sums = list(facts.sums) if sums is None else sums
            if not table.shadow:
                seen = images.observed(table, row, image)
                sums[table.number] = images.plus(sums[table.number], seen, side)
        sequences = read_sequences(self._plain, schema)
        if sums is not None or sequences != facts.sequences:
            same = facts.observation if sums is None else None
            self._now = EmbeddedStateInfo(facts.era, tuple(sums or facts.sums), sequences, same)
        self._begin_session(schema)

    def _begin_session(self, schema: WatchedSchema) -> None:
        self._end_session()
        self._session = apsw.Session(self.connection, "main")
        self._session.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, True)
        for table in schema.tables:
            self._session.attach(table.name)
        self._changes = self.connection.total_changes()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # ---------------------------------------------------------------- eras and restoring

    def _begin_era(self) -> None:
        schema = read_schema(
            self._plain, self._tables, self._ignore, by_rowid=False, complete=self._tree is None
        )
        for table in schema.tables:
            if any(order.strip('"').upper() != "BINARY" for order in table.orders):
                raise SystemSetupError(
                    f"table {table.name!r}: SQLite's sessions cannot record a key that collates as {table.orders}; "
                    "leave the table out (tables=[...]), or do without private=True"
                )
        copy = apsw.Connection(str(self._new_file()))
        copy.execute("PRAGMA synchronous = OFF")
        _copy(self.connection, copy)
        era = EmbeddedEpoch(schema, self._version(), copy)
        sums = tuple((0, 0) if t.shadow else images.total(self._plain, t) for t in schema.tables)
        facts = EmbeddedStateInfo(era, sums, read_sequences(self._plain, schema))
        if self._tree is None:
            self._tree = DeltaTree(facts)
        else:
            self._tree.begin_anew(facts)
        era.root = self._tree.here
        self._delta, self._now = {}, facts
        self._begin_session(schema)

    def _restore(self, node: DeltaNode[Item, EmbeddedStateInfo]) -> None:
        tree, era = self._known, node.facts.era
        assert self._now is not None
        self._end_session()
        if self._now.era is not era:
            _copy(era.copy, self.connection)
            era.version = self._version()
            tree.move(era.root)
            self._delta, self._now = {}, era.root.facts
        way = tree.between(tree.here, node)
        assert way is not None  # one era has one root
        add(way, self._delta, -1)
        try:
            with self._silence():
                apply(self._plain, era.schema, way, quiet=True)
                write_sequences(self._plain, era.schema, node.facts.sequences)
            tree.move(node)
            self._delta, self._now = {}, node.facts
        finally:
            self._begin_session(era.schema)

    def _silence(self) -> _TriggersDisabled:
        return _TriggersDisabled(self.connection)


class _TriggersDisabled:
    """A transaction in which neither triggers nor foreign keys take part."""

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
    """How many rows statements changed."""

    def __init__(self, rowcount: int) -> None:
        self.rowcount = rowcount


class _ConnectionAdapter:
    """As much of the standard library's connection as the other modules use."""

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


def _copy(source: apsw.Connection, target: apsw.Connection) -> None:
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(-1)


def _images(
    plain: _ConnectionAdapter, schema: WatchedSchema, changeset: bytes
) -> Iterator[tuple[SQLiteTable, int, images.Row]]:
    """The images of rows that came and went."""
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
