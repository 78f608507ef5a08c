"""Runs in a SQLite file: the embedded default.

- A step is one statement and one commit. The file uses WAL, so other processes can read while this one writes.
  ``synchronous="full"`` keeps the last step after a power failure, and costs an fsync per step.
- An owner holds a lock on a file next to the database as long as it lives (`clew.stores.sqlite.owner_lock`), so a dead
  owner is detected at once, also after ``kill -9``. Without file locks, only the lease decides.
- Leases use the clock since boot; an owner from an earlier boot is dead (`clew.stores.lease_clock`).
- A fence contains the number of the run in the file, which is never reused, and the number of its claims. So the
  insert of a step needs no key other than the fence.
- Creating, claiming and updating a run and renewing a lease detect that the file was removed or replaced. SQLite itself
  would continue to write to the removed file.
- Reads detect damage, and the error names the run and the entry.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, cast
from weakref import WeakSet

from msgspec.structs import replace

from clew.errors import CommitConflictError, RunExistsError, RunOwnedError, StoreCorruptError, StoreError
from clew.stores.inherited_docs import with_docs
from clew.stores.lease_clock import BOOT_CLOCK, LeaseClock
from clew.stores.messages import RECENT, conflict, exists, lost_content, taken_over, unknown
from clew.stores.protocol import (
    OWN_STEP,
    LogEntry,
    QueueEntry,
    RunRow,
    Statement,
    Store,
    ThreadMove,
    WouldWait,
)
from clew.stores.queue import FINAL
from clew.stores.sql_rows import (
    ORIGIN,
    ROW,
    checked,
    checksum,
    needed_by,
    problems,
    read_row,
    row_values,
    selection,
)
from clew.stores.sqlite import inbox, lineage, ownership, queue, reading, results
from clew.stores.sqlite.blobs import BlobFolder, put_blobs, read_blob
from clew.stores.sqlite.data_version import DataVersion
from clew.stores.sqlite.entries import (
    MOST,
    SPAN,
    census,
    differing,
    has,
    named,
    newest,
    others,
    own_steps,
    put,
    remove,
    within,
)
from clew.stores.sqlite.file import (
    APPLICATION_ID,
    ForkedConnection,
    check_options,
    check_place,
    closed,
    execute,
    explained,
    open_file,
    rehearse,
)
from clew.stores.sqlite.fork_safety import guard
from clew.stores.sqlite.kv import SQLiteKeyValueTable
from clew.stores.sqlite.lineage import delete_run, detach_run
from clew.stores.sqlite.ownership import ADD_ROW, RELEASED, add_owned
from clew.stores.sqlite.queue import put as put_entry
from clew.stores.sqlite.transactions import SQLiteTransaction, Translated, clean
from clew.stores.sqlite.workers import Workers

__all__ = ["SQLiteStore"]

_ADD_STEP = (
    "INSERT INTO steps (id, body, digest, crc) SELECT ?, ?, ?, ? FROM runs "
    "WHERE id = ? AND fence = ? AND run_id = ?"
)
_ADD_ENTRY = (
    "INSERT INTO log (run, kind, path, n, body, digest, crc) SELECT id, ?, ?, ?, ?, ?, ? FROM runs "
    "WHERE id = ? AND fence = ? AND run_id = ?"
)
_UPDATE = "UPDATE runs SET status = ?, updated = ?, error = ? WHERE run_id = ? AND fence = ?"
_END = f"UPDATE runs SET status = ?, updated = ?, error = ?, census = ?, {RELEASED} WHERE id = ?"
_HELD = "SELECT id, fence FROM runs WHERE run_id = ?"
_HELD_AND_QUEUED = (
    "SELECT id, fence, EXISTS (SELECT 1 FROM queue WHERE run = runs.id) FROM runs WHERE run_id = ?"
)
_ADD_ORIGIN = f"INSERT INTO origins (run, {ORIGIN}) VALUES (?, ?, ?, ?, ?, ?)"
_by_name = attrgetter("kind", "path", "n")

_stores: WeakSet[SQLiteStore] = WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store._forked()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@with_docs
class SQLiteStore(Store):
    """A store in a SQLite file."""

    encodes = True
    mark_interval = 0.25
    _never_waits = False  # an operation that would have to wait raises WouldWait

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["normal", "full", "off"] = "normal",
        timeout: float = 10.0,
        clock: LeaseClock = BOOT_CLOCK,
    ) -> None:
        check_options(path, synchronous, timeout)
        self._given = os.fspath(path)
        self.path = Path(path).absolute()  # the working directory may change
        self._options = (synchronous, timeout)
        self.defers = synchronous == "full"  # otherwise no commit waits for the disk
        self._lock = threading.RLock()
        self._clock = clock
        self._workers = Workers(self.path, clock)
        self._folder = BlobFolder(self.path, syncs=synchronous != "off")
        self._hasty: SQLiteStore | None = None
        self._data_version = DataVersion(self.path, timeout)
        self._is_open = False  # a transaction is open, perhaps left by an interrupt
        self._is_closed = False
        with self._translated("the file"):
            self._open()
        _stores.add(self)
        guard(self)

    def _open(self) -> sqlite3.Connection:
        if self._is_closed:  # a forked process reopens the file of its parent
            raise StoreError(closed(self.path))
        self._db = open_file(self.path, *self._options)
        self._file = os.stat(self.path)
        return self._db

    def _forked(self) -> None:
        """Prepare the store in a forked child, which needs its own connection."""
        self._lock = threading.RLock()
        self._workers.leave_to_parent()
        self._is_open = False
        self._db = cast(sqlite3.Connection, ForkedConnection(self._db, self._open))

    def at_once(self) -> SQLiteStore:
        """Return access to the same file that never waits.

        It has its own connection. The two stores share no lock, because a waiting thread may hold it.
        """
        if self._never_waits:
            return self
        if self._hasty is None and not self._is_closed:
            try:
                hasty = SQLiteStore(self.path, synchronous=self._options[0], timeout=0.0, clock=self._clock)
            except StoreError as error:
                raise WouldWait(str(error)) from error
            hasty._never_waits = True
            self._hasty = hasty
        if self._hasty is None or self._is_closed:
            self.close()  # another thread may have closed it concurrently
            raise StoreError(closed(self.path))
        return self._hasty

    def __repr__(self) -> str:
        return f"SQLiteStore({self._given!r})"

    # -- runs --------------------------------------------------------------------------------------------

    def create(
        self,
        row: RunRow,
        blobs: Mapping[str, bytes] = {},
        *,
        owner: str = "",
        lease: float = 0.0,
        token: str = "",
        wait: bool = True,
        entries: Sequence[LogEntry] = (),
        thread: ThreadMove | None = None,
        queue: QueueEntry | None = None,
    ) -> int:
        check_place(self.path, self._file, what := f"run {row.run_id!r}")
        with self._lock, self._writing(what, wait=wait) as db:
            values, origin = row_values(
                row if queue is None else replace(row, status="queued", queue=queue.queue)
            )
            for other in needed_by(row):
                self._number(db, other)
            fence = 0
            try:
                if owner:
                    number, fence = add_owned(db, self._workers, values, owner, token, lease)
                else:
                    number = db.execute(ADD_ROW, values).lastrowid or 0
            except sqlite3.IntegrityError:
                raise RunExistsError(exists(row.run_id)) from None
            if thread is not None:
                lineage.move(db, thread, row.run_id)
            db.execute(_ADD_ORIGIN, (number, *origin))
            if row.attributes:
                named = [(name, value, row.created, number) for name, value in row.attributes.items()]
                db.executemany("INSERT INTO attributes VALUES (?, ?, ?, ?)", named)
            put_blobs(db, self._folder, number, blobs)
            if entries:
                put(db, number, row.run_id, entries)
            if queue is not None:
                put_entry(db, number, queue, self._clock.time())
            return fence

    def row(self, run_id: str) -> RunRow:
        with self._lock, self._reading(f"run {run_id!r}") as db:
            found = db.execute(f"{ROW} WHERE run_id = ?", (run_id,)).fetchone()
            if found is None:
                raise unknown(run_id, db.execute(RECENT))
        row = read_row(found)
        if row.damage:
            raise StoreCorruptError(row.damage)
        return row

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        where, values = selection(status, of)
        with self._lock, self._reading("the list of runs") as db:
            return [read_row(found) for found in db.execute(f"{ROW} {where} ORDER BY runs.id", values)]

    page, tally = reading.page, reading.tally
    head, threads = lineage.head, lineage.threads

    def update(
        self,
        run_id: str,
        *,
        status: str,
        updated: float,
        error: Any,
        fence: int,
        release: bool = False,
        due: float | None = None,
    ) -> None:
        check_place(self.path, self._file, what := f"run {run_id!r}")
        if not release and status not in FINAL:  # no entry of the queue changes
            with self._translated(what), self._lock:
                if not clean(self).execute(_UPDATE, (status, updated, error, run_id, fence)).rowcount:
                    self._owned(self._db, run_id, fence)
            return
        with self._lock, self._writing(what) as db:
            number, _, is_queued = self._held(db, run_id, fence, _HELD_AND_QUEUED)
            if release:
                db.execute(_END, (status, updated, error, census(db, number), number))
            else:
                db.execute(_UPDATE, (status, updated, error, run_id, fence))
            if is_queued or due is not None:
                queue.settle(db, number, status, due, self._clock.time(), release=release)

    def delete(self, run_id: str) -> None:
        with self._lock, self._writing(f"run {run_id!r}") as db:
            number = self._number(db, run_id)
            has_files = delete_run(db, number, run_id)
        if has_files and not self._db.in_transaction:  # committed: this was not a nested use
            with self._lock, self._writing("the large values") as db:
                self._folder.sweep(db)

    def detach(self, row: RunRow, blobs: Mapping[str, bytes], fence: int) -> None:
        with self._lock, self._writing(f"run {row.run_id!r}") as db:
            number = self._owned(db, row.run_id, fence)
            detach_run(db, number, row)
            put_blobs(db, self._folder, number, blobs)

    # -- owners ------------------------------------------------------------------------------------------

    claim, release, owner = ownership.claim, ownership.release, ownership.owner
    register, renew, retire = ownership.register, ownership.renew, ownership.retire
    expire, workers = ownership.expire, ownership.workers
    take, enqueue, queues = queue.take, queue.enqueue, queue.queues
    entry, time = queue.entry, queue.now
    send, inbox, addressed = inbox.send, inbox.inbox, inbox.addressed
    log_end = reading.log_end

    # -- logs --------------------------------------------------------------------------------------------

    def append(
        self,
        run_id: str,
        entries: Sequence[Any],
        fence: int,
        *,
        drop: Sequence[tuple[str, str, int]] = (),
        blobs: Mapping[str, bytes] = {},
        statements: Sequence[Statement] = (),
        wait: bool = True,
        received: Sequence[int] = (),
    ) -> None:
        is_single = len(entries) == 1 and fence and wait and not (drop or blobs or statements or received)
        if is_single and self._is_added(run_id, entries[0], fence):
            return
        gone = frozenset(drop)
        with self._lock, self._writing(f"run {run_id!r}", wait=wait) as db:
            number = self._owned(db, run_id, fence)
            kept = [entry for entry in entries if entry.name not in gone] if gone else entries
            if statements and not (kept and has(db, number, kept[0])):
                execute(db, statements, run_id)
            try:
                put(db, number, run_id, kept)
            except sqlite3.IntegrityError as error:
                raise CommitConflictError(conflict(run_id, differing(db, number, kept))) from error
            for name in gone:
                remove(db, number, *name)
            put_blobs(db, self._folder, number, blobs)
            if received:
                inbox.receive(db, number, received)

    def _is_added(self, run_id: str, entry: LogEntry, fence: int) -> bool:
        """Add an entry with one statement and one commit; return False if its name exists or the fence is stale."""
        kind, path, n, body, digest = entry.kind, entry.path, entry.n, entry.body, entry.digest
        crc = checksum(run_id, kind, path, n, body, digest)
        number = fence >> 32
        try:
            with self._lock:
                db = clean(self) if self._is_open else self._db
                if kind == OWN_STEP and not path and 0 <= n < SPAN:
                    key = number * SPAN + n
                    done = db.execute(_ADD_STEP, (key, body, digest, crc, number, fence, run_id))
                else:
                    values = (kind, path, n, body, digest, crc, number, fence, run_id)
                    done = db.execute(_ADD_ENTRY, values)
                return bool(done.rowcount)
        except sqlite3.IntegrityError:
            return False
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._explained(error, f"run {run_id!r}") from error

    def rehearse(self, statements: Sequence[Statement]) -> None:
        with self._lock:
            with self._translated("a transaction"):  # errors of the statements themselves are not translated
                db = clean(self)
                self._is_open = True
                db.execute("BEGIN IMMEDIATE")
            rehearse(self._db, statements)
            self._is_open = False

    def entries(
        self, run_id: str, *, after: int = 0, upto: int | None = None, skip: Collection[str] = ()
    ) -> Sequence[LogEntry]:
        last = MOST if upto is None else upto
        with self._lock, self._reading(f"run {run_id!r}") as db:
            number = self._number(db, run_id)
            steps = [] if OWN_STEP in skip else own_steps(db, number, after, last)
            rest = others(db, number, after, last, skip)
        if not rest:
            return checked(run_id, steps)
        return sorted(checked(run_id, rest + steps), key=_by_name)  # two sorted parts, which sorted() merges

    def within(
        self,
        run_id: str,
        kinds: Collection[str],
        paths: Sequence[tuple[str, str]] | None = None,
        *,
        after: int = 0,
        upto: int | None = None,
    ) -> Sequence[LogEntry]:
        last = MOST if upto is None else upto
        with self._lock, self._reading(f"run {run_id!r}") as db:
            found = within(db, self._number(db, run_id), kinds, paths, after, last)
        return sorted(checked(run_id, found), key=_by_name)

    def find(self, run_id: str, kind: str, path: str) -> Sequence[LogEntry]:
        with self._lock, self._reading(f"run {run_id!r}") as db:
            found = named(db, self._number(db, run_id), kind, path)
        return sorted(checked(run_id, found), key=_by_name)

    def last(self, run_id: str, kind: str, path: str, n: int) -> LogEntry | None:
        with self._lock, self._reading(f"run {run_id!r}") as db:
            found = newest(db, self._number(db, run_id), kind, path, n)
        return None if found is None else checked(run_id, [(kind, path, *found)])[0]

    def change_mark(self, run_id: str, kinds: Collection[str]) -> int:
        """Return the version of the file: it changes with every commit, also of another run."""
        with self._translated("the file"):
            return self._data_version.read()

    def blob(self, digest: str) -> bytes:
        with self._lock, self._reading(f"the content {digest[:12]}…") as db:
            found = read_blob(db, self._folder, digest)
        if found is None or sha256(found).hexdigest() != digest:
            raise StoreCorruptError(lost_content(digest, self._folder.place, is_there=found is not None))
        return found

    cached, cache, clear_cache = results.cached, results.cache, results.clear_cache

    # -- the file ----------------------------------------------------------------------------------------

    def open_table(self, name: str) -> SQLiteKeyValueTable:
        """Open a key-value table in this file, with its own connection."""
        return SQLiteKeyValueTable(self.path, name, *self._options)

    def table_names(self) -> list[str]:
        """Return the names of the key-value tables in this file."""
        with self._lock, self._reading("the key-value tables") as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'kv_tables'").fetchone() is None:
                return []
            return [str(name) for (name,) in db.execute("SELECT name FROM kv_tables")]

    def sync(self) -> None:
        if self.defers:
            with self._translated("the file"), self._lock:
                # Any synchronous commit flushes the whole WAL. This one changes nothing.
                clean(self).execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def check(self) -> Iterator[str]:
        names: list[tuple[Callable[[str], object], str]] = []
        try:
            # A separate connection: the check takes long and must not block the store.
            with closing(open_file(self.path, *self._options)) as db:
                lines = [line for (line,) in db.execute("PRAGMA integrity_check(100)") if line != "ok"]
                ids = db.execute("SELECT run_id FROM runs ORDER BY id").fetchall()
                names += [(self.entries, name) for (name,) in ids if type(name) is str]  # see `read_row`
                names += [(lambda name: self.workers(), ""), (lambda name: self.queues(), "")]
                names += [(self.cached, key) for key in results.result_keys(db)]
                for (digest,) in db.execute("SELECT DISTINCT digest FROM blobs"):
                    if type(digest) is str:
                        names.append((self.blob, digest))
                    else:
                        lines.append("a blob has no digest")
        except sqlite3.Error as error:
            lines = [str(error)]
        yield from (f"{self.path}: {line}" for line in lines)
        yield from problems(names)

    def close(self) -> None:
        self._is_closed = True
        with self._lock:
            self._workers.close()
            self._db.close()
        self._data_version.close()
        if self._hasty is not None:
            self._hasty.close()

    def __del__(self) -> None:
        if hasattr(self, "_db"):  # opening succeeded
            self.close()

    def _number(self, db: sqlite3.Connection, run_id: str) -> int:
        found = db.execute("SELECT id FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if found is None:
            raise unknown(run_id, db.execute(RECENT))
        return int(found[0])

    def _owned(self, db: sqlite3.Connection, run_id: str, fence: int) -> int:
        return int(self._held(db, run_id, fence, _HELD)[0])

    def _held(self, db: sqlite3.Connection, run_id: str, fence: int, select: str) -> Sequence[Any]:
        found: Sequence[Any] | None = db.execute(select, (run_id,)).fetchone()
        if found is None:
            raise unknown(run_id, db.execute(RECENT))
        if found[1] != fence:
            raise RunOwnedError(taken_over(run_id))
        return found

    def _writing(self, what: str, *, wait: bool = True) -> SQLiteTransaction:
        return SQLiteTransaction(self, what, "BEGIN IMMEDIATE", waits=wait or not self.defers)

    def _reading(self, what: str) -> SQLiteTransaction:
        return SQLiteTransaction(self, what, "BEGIN")

    def _translated(self, what: str) -> Translated:
        return Translated(self, what)

    def _explained(self, error: Exception, what: str) -> Exception:
        """Translate an error of SQLite."""
        code = getattr(error, "sqlite_errorcode", 0)
        if self._never_waits and code & 0xFF == sqlite3.SQLITE_BUSY:
            return WouldWait(what)
        return explained(error, what, self.path)
