"""A SQLite file that the application writes through its own connections: checkpoints as a tree of row deltas.

- What changed is read from the journal that triggers keep (`sqlite_journal`). Whether anything changed at all is
  one look at `PRAGMA data_version`, so a checkpoint of an unchanged state costs the same at any size.
- A restore is one transaction, which keeps other writers out: read the journal's rest, take the way to the wanted
  state, delete all rows that must go, insert all that must come, set the AUTOINCREMENT counters, empty the journal.
  All deletes come before all inserts, so no order of rows matters. Foreign keys and checks are off on our
  connection, and the user's triggers do not fire (see `sqlite_restore`).
- Rows say nothing about DDL. A change of the schema begins a new *era*: a copy of the whole file is made, and
  states of that era are the copy and deltas. Restoring a state of another era first copies that era's file back.
- Shadow tables of virtual tables (full-text search, r-trees) get no triggers, which SQLite does not expect there
  and in some cases crashes on: they are compared as a whole whenever something changed, which costs their size.
- SQLite refuses ALTER TABLE … DROP COLUMN while triggers name the column, and ours name all. An application that
  does it while it is explored fails; so migrate before, or use `private=True`.
- An open transaction of the application is not seen until it commits. A restore waits for a writer, up to `timeout`
  seconds.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from clew.errors import CheckpointError, RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.observation import Observation
from clew.explore.process_mark import lives_elsewhere, mark
from clew.explore.systems.delta_tree import DeltaNode, DeltaTree, add
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.observation import TableObservation, observation, see, see_virtual
from clew.explore.systems.sqlite.recovery import packed, shape, unpacked, way_back
from clew.explore.systems.sqlite.restore import apply, read_sequences, switch_triggers_off, write_sequences
from clew.explore.systems.sqlite.schema import SQLiteTable, WatchedSchema, read_schema
from clew.explore.systems.sqlite.triggers import JOURNAL, OWNER, SUSPECTS, be_quiet, install, uninstall
from clew.explore.systems.temp_dirs import new_folder

Item = tuple[int, bytes]  # table number, image
Sequences = tuple[tuple[str, int], ...]


class SharedEpoch(msgspec.Struct, eq=False):
    """The time between two changes of the schema."""

    schema: WatchedSchema
    version: int  # PRAGMA schema_version, as we left it last
    copy: Path
    seq: int  # the journal's last entry that the copy holds already
    shadows: dict[Item, int]  # the rows of all shadow tables that the copy holds
    root: DeltaNode[Item, SharedStateInfo] | None = None  # the state that the copy holds


class SharedStateInfo(msgspec.Struct, eq=False):
    """What is known of a state besides its rows' delta."""

    era: SharedEpoch
    sums: tuple[images.Sum, ...]
    sequences: Sequences
    observation: Observation | None = None


class SharedSQLite:
    """The engine of `SQLiteSystem` for a file that others write."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tables: Collection[str] | None,
        ignore: Mapping[str, Collection[str]],
        rows_shown: int,
        timeout: float,
        prepare: Callable[[sqlite3.Connection], object] | None,
    ) -> None:
        self._path = os.fspath(path)
        self._tables = tables
        self._ignore = ignore
        self._rows_shown = rows_shown
        self._timeout = timeout
        self._prepare = prepare
        self._owner = f"{uuid.uuid4().hex}/{mark()}"
        try:
            self._connection = self._connect()
        except sqlite3.Error as error:
            raise SystemSetupError(f"{self._path}: it cannot be opened: {error}") from error
        self._folder = new_folder("sqlite")
        self._forget_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._is_quiet = switch_triggers_off(self._connection)
        self._tree: DeltaTree[Item, SharedStateInfo] | None = None
        self._delta: dict[Item, int] = {}  # what changed since the state where the tree is
        self._now: SharedStateInfo | None = None  # facts of the present moment
        self._seen = -1  # PRAGMA data_version, when we looked last
        self._seq = 0  # the last journal entry that we have read
        self._sights: dict[
            int, tuple[SQLiteTable, images.Sum, TableObservation]
        ] = {}  # the latest of each table
        self._shadows: dict[Item, int] = {}  # the rows of shadow tables, when we looked last

    # ---------------------------------------------------------------- the system

    def observe(self) -> Observation:
        with self._errors(CheckpointError, "observe"):
            self._look()
            while self._facts.observation is None:
                with self._transaction("BEGIN"):
                    if self._schema_version() == self._facts.era.version:
                        self._read_journal()
                        self._facts.observation = self._observation(self._facts)
                self._look()
            return self._facts.observation

    def checkpoint(self, name: str) -> int:
        with self._errors(CheckpointError, f"make the checkpoint {name!r}"):
            self._look()
        tree, facts = self._known, self._facts
        if self._delta or facts.sequences != tree.here.facts.sequences:
            tree.step(self._delta, facts)
            self._delta = {}
        return tree.mark()

    def rollback(self, token: int) -> None:
        if self._tree is None:
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        node = self._tree[token]
        with self._errors(RollbackError, f"restore the checkpoint {token}"):
            if not self._restore(node):
                self._bring_back(node.facts.era)
                if not self._restore(node):
                    raise RollbackError(f"{self._path}: its schema is being changed while it is restored")

    def is_valid(self, token: object) -> bool:
        return self._tree is not None and token in self._tree

    def release(self, token: int) -> None:
        if self._tree is not None:
            self._tree.release(token)

    def size(self, token: int) -> int:
        return images.size(self._known[token].delta)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        with self._errors(CheckpointError, "keep what it holds"):
            self._look()
            node, era = self._known[token], self._facts.era
            if self._delta or self._known.here is not node or self._facts.sequences != node.facts.sequences:
                raise CheckpointError(f"{self._path}: it was changed since the checkpoint that is to be kept")
            copy = era.copy
            if node is not era.root:
                copy = self._folder / uuid.uuid4().hex
                with self._transaction("BEGIN"):
                    _back_up(self._connection, copy)
        return packed(copy, self._path)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Hold what was kept: the watched rows if the schema is the same, and else the whole file."""
        file = self._folder / uuid.uuid4().hex
        if not unpacked(pieces, file, self._path):
            return False
        with self._errors(RollbackError, "put it back"), closing(sqlite3.connect(file)) as kept:
            if self._prepare is not None:
                self._prepare(kept)
            self._refuse_if_explored(self._installed_by())
            while shape(kept) == shape(self._connection):
                self._look()
                if self._put_rows_back(kept):
                    break
            else:
                self._overwrite(file)
            self._begin_era(takes_over=True)
        return True

    def _put_rows_back(self, kept: sqlite3.Connection) -> bool:
        """In one transaction; False if the schema has just been changed."""
        connection, era = self._connection, self._facts.era
        with self._writing():
            if self._schema_version() != era.version:
                return False
            way = way_back(connection, kept, era.schema)
            apply(connection, era.schema, way, quiet=self._is_quiet)
            write_sequences(connection, era.schema, read_sequences(kept, era.schema))
        return True

    def close(self) -> None:
        """Take the triggers and the journal out of the database, and close it."""
        try:
            if self._tree is not None:
                with self._errors(CheckpointError, "take our triggers out"), self._writing():
                    if self._installed_by() == self._owner:
                        uninstall(self._connection)
        finally:
            self._tree = None
            self._connection.close()
            self._forget_folder()

    # ---------------------------------------------------------------- looking

    @property
    def _known(self) -> DeltaTree[Item, SharedStateInfo]:
        assert self._tree is not None  # every public method looks first
        return self._tree

    @property
    def _facts(self) -> SharedStateInfo:
        assert self._now is not None
        return self._now

    def _look(self) -> None:
        """Take in what was committed since we looked last."""
        if self._tree is None:
            self._begin_era()
            return
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version == self._seen:
            return
        with self._transaction("BEGIN"):
            changed = self._schema_version() != self._facts.era.version
            if not changed:
                self._read_journal()
        if changed:
            self._begin_era()

    def _read_journal(self) -> None:
        """Take in the journal's new entries, inside a transaction."""
        facts = self._facts
        tables = facts.era.schema.tables
        sums: list[images.Sum] | None = None
        sql = f"SELECT * FROM {JOURNAL} WHERE seq > ? ORDER BY seq"
        for seq, number, side, *values in images.rows(self._connection, sql, (self._seq,)):
            table = tables[number]
            row = tuple(values[: len(table.fields)])
            image = images.encode(row)
            add(self._delta, {(number, image): side})
            sums = list(facts.sums) if sums is None else sums
            sums[number] = images.plus(sums[number], images.observed(table, row, image), side)
            self._seq = seq
            self._now = None
        if shadows := self._changed_shadows(facts.era.schema):
            add(self._delta, shadows)
            add(self._shadows, shadows)
            self._now = None
        sequences = read_sequences(self._connection, facts.era.schema)
        if self._now is None or sequences != facts.sequences:
            # A sequence does not count for the state, so what was observed stays true if only that changed.
            same = self._now is not None
            self._now = SharedStateInfo(
                facts.era, tuple(sums or facts.sums), sequences, facts.observation if same else None
            )
        (self._seen,) = self._connection.execute("PRAGMA data_version").fetchone()

    def _changed_shadows(self, schema: WatchedSchema) -> dict[Item, int]:
        changed = _shadow_rows(self._connection, schema)
        add(changed, self._shadows, -1)
        return changed

    def _observation(self, facts: SharedStateInfo) -> Observation:
        """What the tables hold; inside the transaction that the facts are of."""
        sights = {
            table.name: self._sight(table, found)
            for table, found in zip(facts.era.schema.tables, facts.sums)
            if not table.shadow
        }
        sights |= {
            name: see_virtual(self._path, name, sql, self._rows_shown)
            for name, sql in facts.era.schema.virtual
        }
        return observation(sights, self._path)

    def _sight(self, table: SQLiteTable, found: images.Sum) -> TableObservation:
        known = self._sights.get(table.number)
        if known is None or known[0] is not table or known[1] != found:
            known = (table, found, see(self._connection, table, found, self._rows_shown))
            self._sights[table.number] = known
        return known[2]

    # ---------------------------------------------------------------- eras

    def _begin_era(self, *, takes_over: bool = False) -> None:
        """Install the journal for the schema as it is now, and copy the file: a new root of the tree."""
        facts = None
        while facts is None:  # somebody may change the schema again between the two
            schema, version = self._install(takes_over or self._tree is None)
            facts = self._copy(schema, version)
        if self._tree is None:
            self._tree = DeltaTree(facts)
        else:
            self._tree.begin_anew(facts)
        facts.era.root = self._tree.here

    def _install(self, takes_over: bool) -> tuple[WatchedSchema, int]:
        with self._writing():
            owner = self._installed_by()
            if takes_over:
                self._refuse_if_explored(owner)
            if not takes_over and owner != self._owner:
                raise CheckpointError(
                    f"{self._path}: another SQLiteSystem watches this file now, or its {OWNER} table was dropped; "
                    "use one SQLiteSystem for a file, and close() it first"
                )
            uninstall(self._connection)
            # Later a watched table may be gone: that is a state, and no wrong option.
            schema = read_schema(self._connection, self._tables, self._ignore, complete=self._tree is None)
            install(self._connection, schema, self._owner)
            return schema, self._schema_version()

    def _copy(self, schema: WatchedSchema, version: int) -> SharedStateInfo | None:
        """Copy the file and read all of it, at one moment; None if it has another schema by now."""
        connection, copy = self._connection, self._folder / uuid.uuid4().hex
        with self._transaction("BEGIN"):
            if self._schema_version() != version:
                return None
            seq = connection.execute(f"SELECT coalesce(max(seq), 0) FROM {JOURNAL}").fetchone()[0]
            era = SharedEpoch(schema, version, copy, seq, _shadow_rows(connection, schema))
            _back_up(connection, copy)
            sums = tuple((0, 0) if t.shadow else images.total(connection, t) for t in schema.tables)
            facts = SharedStateInfo(era, sums, read_sequences(connection, schema))
            (self._seen,) = connection.execute("PRAGMA data_version").fetchone()
        self._seq, self._delta, self._now, self._shadows = seq, {}, facts, dict(era.shadows)
        return facts

    def _bring_back(self, era: SharedEpoch) -> None:
        """Make the file what it was when an era began; the journal comes with it."""
        self._overwrite(era.copy)
        assert era.root is not None
        era.version = self._schema_version()
        self._known.move(era.root)
        self._seq, self._delta, self._now = era.seq, {}, era.root.facts
        self._shadows = dict(era.shadows)

    def _overwrite(self, file: Path) -> None:
        """Make the database what a copy of it holds."""
        deadline = time.monotonic() + self._timeout

        def give_up(status: int, remaining: int, total: int) -> None:
            if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > deadline:
                raise TimeoutError

        with closing(sqlite3.connect(file)) as source:
            try:
                source.backup(self._connection, progress=give_up, sleep=0.005)
            except TimeoutError:
                raise RollbackError(
                    f"{self._path}: a connection held it for {self._timeout} s, so the schema of the checkpoint "
                    "could not be brought back; end the application's transactions before a rollback"
                ) from None

    # ---------------------------------------------------------------- restoring

    def _restore(self, node: DeltaNode[Item, SharedStateInfo]) -> bool:
        """Be at a state of this era, in one transaction; False if the schema is not that of the state."""
        tree, connection = self._known, self._connection
        era = node.facts.era
        if self._facts.era is not era:
            return False
        with self._writing():
            if self._schema_version() != era.version:
                return False
            self._read_journal()
            way = tree.between(tree.here, node)
            assert way is not None  # one era has one root
            add(way, self._delta, -1)
            version = apply(connection, era.schema, way, quiet=self._is_quiet) or era.version
            if self._facts.sequences != node.facts.sequences or way:
                write_sequences(connection, era.schema, node.facts.sequences)
            if self._seq:
                connection.execute(f"DELETE FROM {JOURNAL}")
            connection.execute(f"DELETE FROM {SUSPECTS}")  # an ignored write notes some, and journals nothing
        era.version, self._seq, self._delta, self._now = version, 0, {}, node.facts
        tables = era.schema.tables
        add(self._shadows, {item: count for item, count in way.items() if tables[item[0]].shadow})
        tree.move(node)
        return True

    # ---------------------------------------------------------------- the connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        try:
            connection.execute("PRAGMA synchronous = OFF")  # nobody needs a test's database after a power cut
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA ignore_check_constraints = ON")
            be_quiet(connection)
            if self._prepare is not None:
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _schema_version(self) -> int:
        version: int = self._connection.execute("PRAGMA schema_version").fetchone()[0]
        return version

    def _refuse_if_explored(self, owner: str | None) -> None:
        if owner is not None and lives_elsewhere(owner):
            raise SystemSetupError(
                f"{self._path}: process {owner.split('/')[-2]} explores this file; wait for its end"
            )

    def _installed_by(self) -> str | None:
        try:
            found = self._connection.execute(f"SELECT id FROM {OWNER}").fetchone()
        except sqlite3.OperationalError:
            return None
        return None if found is None else str(found[0])

    @contextmanager
    def _transaction(self, begin: str | None) -> Iterator[None]:
        if begin is not None:
            self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that keeps other writers out. SQLite's own waiting loses against writers that never pause."""
        deadline = time.monotonic() + self._timeout
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                    break
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.0002)
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
        with self._transaction(None):
            yield

    @contextmanager
    def _errors(self, kind: type[Exception], doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            hint = (
                "; a connection of the application holds a transaction open" if "locked" in str(error) else ""
            )
            raise kind(f"{self._path}: cannot {doing}: {error}{hint}") from error


def _back_up(connection: sqlite3.Connection, file: Path) -> None:
    with closing(sqlite3.connect(file)) as target:
        target.execute("PRAGMA synchronous = OFF")
        connection.backup(target)


def _shadow_rows(connection: sqlite3.Connection, schema: WatchedSchema) -> dict[Item, int]:
    """The rows of all shadow tables."""
    found: dict[Item, int] = {}
    for table in schema.tables:
        if table.shadow:
            sql = f"SELECT {', '.join(table.fields)} FROM {table.quoted}"
            found.update(((table.number, images.encode(row)), 1) for row in images.rows(connection, sql))
    return found
