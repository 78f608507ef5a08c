"""Runs in PostgreSQL: for several machines, or if a server is already available.

- A step is one round trip: one statement that checks the fence, adds the entry and commits. It locks the row of the
  run, so an append and a claim are serialized: either the claim sees the entry, or the entry is rejected. Several
  entries are one statement too.
- An owner is alive while its connections are open: each holds an advisory lock. Leases use the clock of the server.
- With ``pooler=True``, the store works behind PgBouncer in transaction mode: its connections have no state, and only
  leases show that an owner is dead.
- When the server restarts, the store connects again, takes its lock and repeats the interrupted operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clew.errors import (
    CommitConflictError,
    OwnerDeadError,
    RunExistsError,
    RunOwnedError,
    StoreCorruptError,
    StoreError,
)
from clew.stores.inherited_docs import with_docs
from clew.stores.messages import conflict, declared_dead, exists, lost_content, taken_over, unknown
from clew.stores.postgres import inbox, lineage, ownership, queue, reading, results
from clew.stores.postgres.connection import ConstraintViolation, StoreConnection, Values, execute, rehearsed
from clew.stores.postgres.entries import (
    ADD_ALL,
    ADD_ENTRY,
    ADD_STEP,
    added,
    bounds,
    columns,
    content,
    is_own_step,
    named,
)
from clew.stores.postgres.inbox import LOCK
from clew.stores.postgres.kv import PostgresKeyValueTable
from clew.stores.postgres.lineage import delete_run, detach_run
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.ownership import RELEASED
from clew.stores.postgres.qualified import RECENT, ROW
from clew.stores.postgres.queue import PUT, entered, settled
from clew.stores.postgres.queue_bell import BellListener, QueueBell
from clew.stores.postgres.workers import enroll, enrolling
from clew.stores.protocol import OWN_STEP, LogEntry, QueueEntry, RunRow, Statement, Store, ThreadMove
from clew.stores.queue import WAKES
from clew.stores.sql_rows import COLUMNS, checked, needed_by, problems, read_row, row_values, selection

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor

_CREATE = f"""
    WITH next AS MATERIALIZED (
        SELECT nextval(pg_get_serial_sequence('@.runs', 'id')) AS id
    ), made AS (
        INSERT INTO @.runs (id, fence, owner, token, key, {COLUMNS}) OVERRIDING SYSTEM VALUE
        SELECT id, CASE %s::text WHEN '' THEN 0 ELSE (id << 32) + 1 END, %s, %s,
            %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s
        FROM next WHERE NOT EXISTS (SELECT FROM @.workers WHERE workers.owner = %s AND dead)
        ON CONFLICT (key) DO NOTHING RETURNING id, fence
    ), enrolled AS ({enroll("EXISTS (SELECT FROM made)")}
    ), began AS (
        INSERT INTO @.origins (run, start, codes, start_digest, description, crc)
        SELECT id, %s::bytea, %s, %s, %s, %s::bigint FROM made
    ), kept AS (
        INSERT INTO @.blobs SELECT blob.* FROM made, unnest(%s::text[], %b::bytea[]) AS blob ON CONFLICT DO NOTHING
    ), used AS (
        INSERT INTO @.uses SELECT id, digest FROM made, unnest(%s::text[]) AS digest ON CONFLICT DO NOTHING
    ), named AS (
        INSERT INTO @.attributes (name, value, created, run)
        SELECT given.name, given.value, given.created, made.id
        FROM made, unnest(%s::text[], %s::text[], %s::double precision[]) AS given (name, value, created)
    ), entered AS ({PUT})
    SELECT fence FROM made
"""
_STAYS = "SELECT id FROM @.runs WHERE key = %s FOR KEY SHARE"  # locks a parent until its fork exists
_RUN = "WHERE run = (SELECT id FROM @.runs WHERE key = %s)"
_STEPS = f"SELECT '{OWN_STEP}', '', n, body, digest, crc FROM @.steps {_RUN}"
_OTHERS = f"SELECT kind, coalesce(path, key), n, body, digest, crc FROM @.log {_RUN}"
_EXISTS = "UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL FROM @.runs WHERE key = %s"
_SPANS = "unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS span (low, high, first, beyond)"
_IN_SPAN = (  # by the index, then exactly: the index has only the beginning of a long path
    "log.key >= low AND log.key <= high AND coalesce(path, log.key) >= first AND coalesce(path, log.key) < beyond"
)
_CENSUS = """(
    SELECT json_object_agg(kind, number)::text FROM (
        SELECT kind, count(*) FROM @.log WHERE run = runs.id GROUP BY kind
        UNION ALL SELECT '', max(n) FROM @.steps WHERE run = runs.id HAVING max(n) IS NOT NULL
    ) AS counted (kind, number)
)"""
_by_name = attrgetter("kind", "path", "n")


@with_docs
class PostgresStore(Store):
    """A store in a schema of a PostgreSQL database."""

    encodes = True
    _tidied = float("-inf")  # see `clew.stores.postgres.ownership`

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "clew",
        connect_timeout: float = 10.0,
        patience: float = 30.0,
        pool_size: int = 8,
        pooler: bool = False,
    ) -> None:
        if not schema:
            raise StoreError("schema: expected the name of a schema that only Clew uses, got an empty string")
        self._link = StoreConnection(
            dsn,
            schema,
            connect_timeout=connect_timeout,
            patience=patience,
            pool_size=pool_size,
            pooler=pooler,
        )
        self._bell = QueueBell(self._link, schema, pooler=pooler)

    def __repr__(self) -> str:
        return f"PostgresStore({self._link.name})"

    def create(
        self,
        row: RunRow,
        blobs: Mapping[str, bytes] = {},
        *,
        owner: str = "",
        lease: float = 0.0,
        token: str = "",
        entries: Sequence[LogEntry] = (),
        wait: bool = True,
        thread: ThreadMove | None = None,
        queue: QueueEntry | None = None,
    ) -> int:
        """Create a run, and claim it for `owner` if given, in one statement. Raise RunExistsError if the id exists."""
        row = row if queue is None else replace(row, status="queued", queue=queue.queue)
        first, origin = row_values(row)
        key = key_of(row.run_id)
        values = (owner, owner, token, key, *first, owner, *enrolling(owner, self._link.slot, lease))
        values += (*origin, *columns(blobs.items(), 2), list(blobs))
        named = ((key_of(name), key_of(value), row.created) for name, value in row.attributes.items())
        values += (*columns(named, 3), *entered(queue, row.structure))

        def work(cursor: Cursor, again: bool) -> int | None:
            others = needed_by(row)
            if not others and not entries and thread is None:
                made = cursor.execute(_CREATE, values).fetchone()
            else:
                with cursor.connection.transaction():
                    for other in others:
                        if not cursor.execute(_STAYS, (key_of(other),)).fetchone():
                            raise unknown(other, cursor.execute(RECENT))
                    made = cursor.execute(_CREATE, values).fetchone()
                    if made is not None and thread is not None:
                        lineage.move(cursor, thread, row.run_id)
                    if made is not None and entries:
                        cursor.execute(ADD_ALL, added(row.run_id, made[0], entries))
            # the first attempt created it
            if made is None and again and self._row(cursor, row.run_id) == row:
                select = "SELECT fence FROM @.runs WHERE key = %s AND owner = %s AND token = %s"
                made = cursor.execute(select, (key, owner, token)).fetchone()
            return None if made is None else int(made[0])

        fence = self._link.run(f"run {row.run_id!r}", work)
        if fence is None:
            if not self._link.fetch("runs", "SELECT 1 FROM @.runs WHERE key = %s", (key,)):
                raise OwnerDeadError(declared_dead(owner))
            raise RunExistsError(exists(row.run_id))
        if queue is not None and queue.due is None:
            self._bell.ring()
        return fence

    def row(self, run_id: str) -> RunRow:
        found = read_row(self._of_run(run_id, f"{ROW} WHERE key = %s", (key_of(run_id),))[0])
        if found.damage:
            raise StoreCorruptError(found.damage)
        return found

    def _row(self, cursor: Cursor, run_id: str) -> RunRow | None:
        found = cursor.execute(f"{ROW} WHERE key = %s", (key_of(run_id),)).fetchone()
        return None if found is None else read_row(found)

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        where, values = selection(status, of)
        statement = f"{ROW} {where.replace('?', '%s')} ORDER BY runs.id"
        return [read_row(found) for found in self._link.fetch("the list of runs", statement, values)]

    page, tally, change_mark = reading.page, reading.tally, reading.change_mark
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
        then = f", {RELEASED}, census = coalesce({_CENSUS}, '{{}}')" if release else ""
        what = f"status = %s, updated = %s, error = %s{then}"
        also, values = settled(status, due, release=release)
        is_locked = release and status in WAKES  # a message that is committed just before counts
        self._change(run_id, fence, what, status, updated, error, also=also, more=values, is_locked=is_locked)

    def delete(self, run_id: str) -> None:
        self._link.run(f"run {run_id!r}", lambda cursor, again: delete_run(cursor, run_id, again=again))

    def detach(self, row: RunRow, blobs: Mapping[str, bytes], fence: int) -> None:
        what = f"run {row.run_id!r}"
        if not self._link.run(what, lambda cursor, _: detach_run(cursor, row, blobs, fence)):
            self._check_fence(row.run_id, fence)

    # -- owners ------------------------------------------------------------------------------------------

    claim, release, owner = ownership.claim, ownership.release, ownership.owner
    register, renew, retire = ownership.register, ownership.renew, ownership.retire
    expire, workers = ownership.expire, ownership.workers
    take, enqueue, queues = queue.take, queue.enqueue, queue.queues
    entry, time = queue.entry, queue.now
    send, inbox, addressed = inbox.send, inbox.inbox, inbox.addressed
    log_end = reading.log_end

    def listen(self, wake: Callable[[], None]) -> BellListener | None:
        """Call a function when a run may have become ready; None behind a pooler."""
        return self._bell.listen(wake)

    def wait_at_most(self, seconds: float | None) -> None:
        """Let all calls wait no longer than this for the server from now on; None: for `patience` again."""
        self._link.wait_at_most(seconds)

    def _change(
        self,
        run_id: str,
        fence: int,
        what: str,
        *values: Any,
        also: str = "",
        more: tuple[Any, ...] = (),
        is_locked: bool = False,
    ) -> None:
        """Change the row of a run, and in the same statement other rows that depend on the table `changed`.

        With `is_locked`, the statement begins when the row is locked.
        """
        changed = f"UPDATE @.runs SET {what} WHERE key = %s AND fence = %s RETURNING id, structure, status"
        statement = f"WITH changed AS ({changed}){also} SELECT id FROM changed"
        key = key_of(run_id)
        given, lock = (*values, key, fence, *more), (LOCK, (key,)) if is_locked else None
        if not self._link.change(f"run {run_id!r}", statement, given, after=lock):
            self._check_fence(run_id, fence)

    def _check_fence(self, run_id: str, fence: int) -> None:
        found = self._of_run(run_id, "SELECT fence FROM @.runs WHERE key = %s", (key_of(run_id),))
        if found != [(fence,)]:
            raise RunOwnedError(taken_over(run_id))

    def _of_run(self, run_id: str, statement: str, values: Values) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about a run. Raise UnknownRunError if no row exists."""
        found = self._link.fetch(f"run {run_id!r}", statement, values)
        if not found:
            raise unknown(run_id, self._link.fetch("runs", RECENT))
        return found

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
        """Add entries atomically, in one round trip unless there are statements."""
        is_single = len(entries) == 1 and fence and not (drop or blobs or statements or received)
        if is_single and self._is_added(run_id, entries[0], fence):
            return
        gone = frozenset(drop)
        kept: dict[tuple[str, str, int], LogEntry] = {}
        twice: LogEntry | None = None
        for entry in entries:
            if entry.name not in gone and kept.setdefault(entry.name, entry).digest != entry.digest:
                twice = twice or entry
        if twice is not None:
            self._check_fence(run_id, fence)  # a lost run is reported first
            raise CommitConflictError(conflict(run_id, twice))
        values = added(run_id, fence, kept.values(), gone, blobs, received)
        try:
            if statements:
                is_mine = self._with_statements(run_id, list(kept.values()), values, statements)
            else:
                is_mine = self._link.change(f"run {run_id!r}", ADD_ALL, values)
        except ConstraintViolation as error:
            raise CommitConflictError(conflict(run_id, self._differing(run_id, kept.values()))) from error
        if not is_mine:
            self._check_fence(run_id, fence)

    def _is_added(self, run_id: str, entry: LogEntry, fence: int) -> bool:
        """Add an entry with a short statement; return False if its name exists or the fence is stale."""
        mine = (fence >> 32, fence, key_of(run_id))
        try:
            if is_own_step(entry.kind, entry.path):
                values: tuple[Any, ...] = (*content(run_id, entry), *mine)
                return bool(self._link.change(f"run {run_id!r}", ADD_STEP, values))
            values = (*named(entry), *content(run_id, entry), *mine)
            return bool(self._link.change(f"run {run_id!r}", ADD_ENTRY, values))
        except ConstraintViolation:
            return False

    def _with_statements(
        self, run_id: str, kept: Sequence[LogEntry], values: tuple[Any, ...], statements: Sequence[Statement]
    ) -> int:
        def work(cursor: Cursor, _: bool) -> int:
            with cursor.connection.transaction():
                locked = "SELECT id FROM @.runs WHERE key = %s AND fence = %s FOR NO KEY UPDATE"
                found = cursor.execute(locked, values[:2]).fetchone()
                if found is None:
                    return 0
                if kept and self._has(cursor, found[0], kept[0]):
                    return 1  # the first attempt succeeded, and only the response was lost
                cursor.execute(ADD_ALL, values)
                execute(cursor, statements, run_id)
                return 1

        return self._link.run(f"run {run_id!r}", work)

    def _has(self, cursor: Cursor, run: int, entry: LogEntry) -> bool:
        if is_own_step(entry.kind, entry.path):
            cursor.execute("SELECT 1 FROM @.steps WHERE run = %s AND n = %s", (run, entry.n))
        else:
            name = (run, entry.kind, key_of(entry.path), entry.n)
            cursor.execute("SELECT 1 FROM @.log WHERE run = %s AND kind = %s AND key = %s AND n = %s", name)
        return cursor.fetchone() is not None

    def rehearse(self, statements: Sequence[Statement]) -> None:
        error = self._link.run("a transaction", lambda cursor, _: rehearsed(cursor, statements))
        if error is not None:
            raise error

    def _differing(self, run_id: str, entries: Iterable[LogEntry]) -> LogEntry:
        for entry in entries:
            known = self.last(run_id, entry.kind, entry.path, entry.n)
            if known is not None and known.n == entry.n and known.digest != entry.digest:
                return entry
        raise AssertionError("no entry conflicts after a conflict")

    def entries(
        self, run_id: str, *, after: int = 0, upto: int | None = None, skip: Collection[str] = ()
    ) -> Sequence[LogEntry]:
        statement = (
            f"{_STEPS} AND n > %s AND n <= %s AND NOT %s UNION ALL {_OTHERS} AND kind <> ALL(%s::text[])"
        )
        key, last = key_of(run_id), (1 << 63) - 1 if upto is None else upto
        return self._read(run_id, statement, (key, after, last, OWN_STEP in skip, key, list(skip)))

    def within(
        self,
        run_id: str,
        kinds: Collection[str],
        paths: Sequence[tuple[str, str]] | None = None,
        *,
        after: int = 0,
        upto: int | None = None,
    ) -> Sequence[LogEntry]:
        """Return the entries of some kinds, with paths in some ranges, by the index."""
        key, last = key_of(run_id), (1 << 63) - 1 if upto is None else upto
        has_own = OWN_STEP in kinds and (paths is None or any(high and not low for low, high in paths))
        statement, values = _OTHERS, list[Any]([key])
        if paths is not None:
            statement = _OTHERS.replace(_RUN, f", {_SPANS} {_RUN} AND {_IN_SPAN}")
            values[:0] = columns((bounds(*span) for span in paths), 4)
        return self._read(
            run_id,
            f"{_STEPS} AND n > %s AND n <= %s AND %s UNION ALL {statement} AND kind = ANY(%s::text[])",
            (key, after, last, has_own, *values, list(kinds)),
        )

    def find(self, run_id: str, kind: str, path: str) -> Sequence[LogEntry]:
        if is_own_step(kind, path):
            return self._read(run_id, _STEPS, (key_of(run_id),))
        return self._read(
            run_id, f"{_OTHERS} AND kind = %s AND key = %s", (key_of(run_id), kind, key_of(path))
        )

    def last(self, run_id: str, kind: str, path: str, n: int) -> LogEntry | None:
        up_to = "AND n <= %s ORDER BY n DESC LIMIT 1"
        if is_own_step(kind, path):
            found = self._read(run_id, f"{_STEPS} {up_to}", (key_of(run_id), n))
        else:
            values = (key_of(run_id), kind, key_of(path), n)
            found = self._read(run_id, f"{_OTHERS} AND kind = %s AND key = %s {up_to}", values)
        return found[0] if found else None

    def _read(self, run_id: str, statement: str, values: Any) -> list[LogEntry]:
        found = self._of_run(run_id, f"({statement}) {_EXISTS}", (*values, key_of(run_id)))
        return sorted(checked(run_id, (row for row in found if row[0] is not None)), key=_by_name)

    def blob(self, digest: str) -> bytes:
        found = self._link.fetch(
            f"the content {digest[:12]}…", "SELECT body FROM @.blobs WHERE digest = %s", (digest,)
        )
        if not found or sha256(found[0][0]).hexdigest() != digest:
            raise StoreCorruptError(lost_content(digest, self._link.name, is_there=bool(found)))
        return bytes(found[0][0])

    cached, cache, clear_cache = results.cached, results.cache, results.clear_cache

    # -- the server --------------------------------------------------------------------------------------

    def open_table(self, name: str) -> PostgresKeyValueTable:
        """Open a key-value table in this schema."""
        return PostgresKeyValueTable(self._link, name)

    def table_names(self) -> list[str]:
        """Return the names of the key-value tables in this schema."""
        what = "the key-value tables"
        if not self._link.fetch(what, "SELECT 1 WHERE to_regclass('@.kv_tables') IS NOT NULL", []):
            return []
        return [str(name) for (name,) in self._link.fetch(what, "SELECT name FROM @.kv_tables", [])]

    def check(self) -> Iterator[str]:
        names: list[tuple[Callable[[str], object], str]] = [(self.entries, row.run_id) for row in self.rows()]
        digests = self._link.fetch("the contents", "SELECT DISTINCT digest FROM @.uses")
        names += [(self.blob, digest) for (digest,) in digests]
        names.append((lambda name: self.workers(), ""))
        yield from problems([*names, *((self.cached, key) for key in results.result_keys(self._link))])

    def close(self) -> None:
        self._link.close()

    def __del__(self) -> None:
        if hasattr(self, "_link"):  # opening succeeded
            self.close()
