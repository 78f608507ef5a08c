"""Runs in PostgreSQL: for several machines, or if a server is already available.

- A step is one round trip: one statement that checks the fence, adds the entry and commits. It locks the row of the
  run, so an append and a claim are serialized: either the claim sees the entry, or the entry is rejected. Several
  entries are one statement too.
- An owner is alive while its connections are open: each holds an advisory lock. Leases use the clock of the server.
- When the server restarts, the store connects again, takes its lock and repeats the interrupted operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from clew.errors import (
    CommitConflictError,
    RunExistsError,
    RunOwnedError,
    StoreCorruptError,
    StoreError,
    UnknownRunError,
)
from clew.stores.messages import RECENT, conflict, exists, lost_content, owned, taken_over, unknown
from clew.stores.postgres import results, threads
from clew.stores.postgres.change_mark import MarkedStore
from clew.stores.postgres.connection import ConstraintViolation, StoreConnection, execute, rehearsed
from clew.stores.postgres.deletion import delete_run, detach_run
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.owners import CLAIM, LEASE, OWNER, RELEASED, SERVER, UNTIL
from clew.stores.protocol import OWN_STEP, LogEntry, Owner, RunRow, Statement, ThreadMove
from clew.stores.sql_rows import (
    COLUMNS,
    ROW,
    checked,
    checksum,
    needed_by,
    problems,
    read_row,
    row_values,
    selection,
)

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor

_MINE = "FROM runs WHERE id = %s::bigint AND fence = %s::bigint AND key = %s::text FOR NO KEY UPDATE"
_ADD_STEP = f"""
    INSERT INTO steps (run, n, body, digest, crc)
    SELECT id, %s::bigint, %s::bytea, %s::bytea, %s::integer {_MINE}
"""
_ADD_ENTRY = f"""
    INSERT INTO log (run, kind, key, path, n, body, digest, crc)
    SELECT id, %s::text, %s::text, %s::text, %s::bigint, %s::bytea, %s::bytea, %s::integer {_MINE}
"""
# An existing name with the same digest is ignored; with another digest, NOT NULL fails the whole statement.
_ADD_ALL = """
    WITH mine AS MATERIALIZED (
        SELECT id FROM runs WHERE key = %s AND fence = %s FOR NO KEY UPDATE
    ), stepped AS (
        INSERT INTO steps (run, n, body, digest, crc)
        SELECT id, given.* FROM mine, unnest(%s::bigint[], %s::bytea[], %s::bytea[], %s::integer[]) AS given
        ON CONFLICT (run, n) DO UPDATE SET body = NULL WHERE steps.digest <> excluded.digest
    ), added AS (
        INSERT INTO log (run, kind, key, path, n, body, digest, crc)
        SELECT id, given.* FROM mine, unnest(
            %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::bytea[], %s::integer[]) AS given
        ON CONFLICT (run, kind, key, n) DO UPDATE SET body = NULL WHERE log.digest <> excluded.digest
    ), unstepped AS (
        DELETE FROM steps USING mine WHERE steps.run = mine.id AND steps.n = ANY(%s::bigint[])
    ), dropped AS (
        DELETE FROM log USING mine, unnest(%s::text[], %s::text[], %s::bigint[]) AS gone (kind, key, n)
        WHERE log.run = mine.id AND log.kind = gone.kind AND log.key = gone.key AND log.n = gone.n
    ), kept AS (
        INSERT INTO blobs SELECT blob.* FROM mine, unnest(%s::text[], %s::bytea[]) AS blob ON CONFLICT DO NOTHING
    ), used AS (
        INSERT INTO uses SELECT id, digest FROM mine, unnest(%s::text[]) AS digest ON CONFLICT DO NOTHING
    )
    SELECT id FROM mine
"""
_CREATE = f"""
    WITH next AS MATERIALIZED (
        SELECT nextval(pg_get_serial_sequence('runs', 'id')) AS id
    ), made AS (
        INSERT INTO runs (id, fence, owner, slot, until, server, key, {COLUMNS}) OVERRIDING SYSTEM VALUE
        SELECT id, CASE %s::text WHEN '' THEN 0 ELSE (id << 32) + 1 END, %s, %s, {UNTIL}, {SERVER},
            %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s
        FROM next ON CONFLICT (key) DO NOTHING RETURNING id, fence
    ), began AS (
        INSERT INTO origins (run, start, codes, start_digest, description, crc)
        SELECT id, %s::bytea, %s, %s, %s, %s::bigint FROM made
    ), kept AS (
        INSERT INTO blobs SELECT blob.* FROM made, unnest(%s::text[], %s::bytea[]) AS blob ON CONFLICT DO NOTHING
    ), used AS (
        INSERT INTO uses SELECT id, digest FROM made, unnest(%s::text[]) AS digest ON CONFLICT DO NOTHING
    )
    SELECT fence FROM made
"""
_STAYS = "SELECT id FROM runs WHERE key = %s FOR KEY SHARE"  # locks a parent until its fork exists
_RUN = "WHERE run = (SELECT id FROM runs WHERE key = %s)"
_STEPS = f"SELECT '{OWN_STEP}', '', n, body, digest, crc FROM steps {_RUN}"
_OTHERS = f"SELECT kind, coalesce(path, key), n, body, digest, crc FROM log {_RUN}"
_SPANS = "unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS span (low, high, first, beyond)"
_IN_SPAN = (  # by the index, then exactly: the index has only the beginning of a long path
    "log.key >= low AND log.key <= high AND coalesce(path, log.key) >= first AND coalesce(path, log.key) < beyond"
)
_CENSUS = """(
    SELECT json_object_agg(kind, number)::text FROM (
        SELECT kind, count(*) FROM log WHERE run = runs.id GROUP BY kind
        UNION ALL SELECT '', max(n) FROM steps WHERE run = runs.id HAVING max(n) IS NOT NULL
    ) AS counted (kind, number)
)"""
_SURE = 200  # characters that a key always shares with its path
_by_name = attrgetter("kind", "path", "n")


class PostgresStore(threads.PostgresThreads, MarkedStore):
    """A store in a schema of a PostgreSQL database."""

    encodes = True

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "clew",
        connect_timeout: float = 10.0,
        patience: float = 30.0,
        pool_size: int = 8,
    ) -> None:
        if not schema:
            raise StoreError("schema: expected the name of a schema that only Clew uses, got an empty string")
        self._link = StoreConnection(
            dsn, schema, connect_timeout=connect_timeout, patience=patience, pool_size=pool_size
        )

    def __repr__(self) -> str:
        return f"PostgresStore({self._link.name})"

    def create(
        self,
        row: RunRow,
        blobs: Mapping[str, bytes] = {},
        *,
        owner: str = "",
        lease: float = 0.0,
        entries: Sequence[LogEntry] = (),
        wait: bool = True,
        thread: ThreadMove | None = None,
    ) -> int:
        """Create a run, and claim it for `owner` if given, in one statement. Raise RunExistsError if the id exists."""
        first, origin = row_values(row)
        key, slot = key_of(row.run_id), self._link.slot if owner else 0
        values = (owner, owner, slot, lease, key, *first, *origin, *_columns(blobs.items(), 2), list(blobs))

        def work(cursor: Cursor, again: bool) -> int | None:
            others = needed_by(row)
            if not others and not entries and thread is None:
                made = cursor.execute(_CREATE, values).fetchone()
            else:
                with cursor.connection.transaction():
                    for other in others:
                        if not cursor.execute(_STAYS, (key_of(other),)).fetchone():
                            raise unknown(other)
                    made = cursor.execute(_CREATE, values).fetchone()
                    if made is not None and thread is not None:
                        threads.move(cursor, thread, row.run_id)
                    if made is not None and entries:
                        cursor.execute(_ADD_ALL, _added(row.run_id, made[0], entries, (), {}))
            if (
                made is None and again and self._row(cursor, row.run_id) == row
            ):  # the first attempt created it
                select = "SELECT fence FROM runs WHERE key = %s AND owner = %s"
                made = cursor.execute(select, (key, owner)).fetchone()
            return None if made is None else int(made[0])

        fence = self._link.run(f"run {row.run_id!r}", work)
        if fence is None:
            raise RunExistsError(exists(row.run_id))
        return fence

    def row(self, run_id: str) -> RunRow:
        """Return a run. Raise UnknownRunError if it does not exist."""
        found = self._link.run(f"run {run_id!r}", lambda cursor, _: self._row(cursor, run_id))
        if found is None:
            raise unknown(run_id, self._link.fetch("runs", RECENT))
        if found.damage:
            raise StoreCorruptError(found.damage)
        return found

    def _row(self, cursor: Cursor, run_id: str) -> RunRow | None:
        found = cursor.execute(f"{ROW} WHERE key = %s", (key_of(run_id),)).fetchone()
        return None if found is None else read_row(found)

    def rows(self, status: str | None = None, *, of: str | None = None) -> list[RunRow]:
        """Return all runs, those with a status, or the children of one run, in the order of their creation."""
        where, values = selection(status, of)
        statement = f"{ROW} {where.replace('?', '%s')} ORDER BY runs.id"
        return [read_row(found) for found in self._link.fetch("the list of runs", statement, values)]

    def update(
        self, run_id: str, *, status: str, updated: float, error: Any, fence: int, release: bool = False
    ) -> None:
        """Update the row of a run, and release the run if `release` is set."""
        then = f", {RELEASED}, census = coalesce({_CENSUS}, '{{}}')" if release else ""
        what = f"status = %s, updated = %s, error = %s{then}"
        self._change(run_id, fence, what, status, updated, error)

    def delete(self, run_id: str) -> None:
        """Delete a run and its children. Their forks must be deleted first."""
        self._link.run(f"run {run_id!r}", lambda cursor, again: delete_run(cursor, run_id, again=again))

    def detach(self, row: RunRow, blobs: Mapping[str, bytes], fence: int) -> None:
        """Replace the initial state of a fork, which no longer has a parent."""
        what = f"run {row.run_id!r}"
        if not self._link.run(what, lambda cursor, _: detach_run(cursor, row, blobs, fence)):
            self._check_fence(row.run_id, fence)

    # -- owners ------------------------------------------------------------------------------------------

    def claim(self, run_id: str, owner: str, *, lease: float) -> int:
        """Become the owner of a run, and return its fence. Detecting a living owner takes a moment."""
        key, what = key_of(run_id), f"run {run_id!r}"
        values = (owner, self._link.slot, lease, key, owner)
        while True:
            if found := self._link.fetch(what, CLAIM, values):
                return int(found[0][0])
            found = self._link.fetch(what, OWNER, (key,))
            if not found:
                raise unknown(run_id, self._link.fetch("runs", RECENT))
            holder, slot, expires_in = found[0]
            if not self._link.outlives(slot):
                raise RunOwnedError(owned(run_id, holder, expires_in))

    def renew(self, run_id: str, fence: int, *, lease: float) -> None:
        """Extend the lease."""
        self._change(run_id, fence, LEASE, lease)

    def release(self, run_id: str, fence: int) -> None:
        """Give up the ownership."""
        try:
            self._change(run_id, fence, RELEASED)
        except (RunOwnedError, UnknownRunError):
            pass

    def owner(self, run_id: str) -> Owner | None:
        """Return the owner of a run, alive or dead, or None."""
        found = self._link.fetch(f"run {run_id!r}", OWNER, (key_of(run_id),))
        if not found:
            raise unknown(run_id, self._link.fetch("runs", RECENT))
        name, slot, expires_in = found[0]
        return Owner(name, expires_in, not self._link.outlives(slot)) if name else None

    def _change(self, run_id: str, fence: int, what: str, *values: Any) -> None:
        statement = f"UPDATE runs SET {what} WHERE key = %s AND fence = %s"
        if not self._link.change(f"run {run_id!r}", statement, (*values, key_of(run_id), fence)):
            self._check_fence(run_id, fence)

    def _check_fence(self, run_id: str, fence: int) -> None:
        found = self._link.fetch(
            f"run {run_id!r}", "SELECT fence FROM runs WHERE key = %s", (key_of(run_id),)
        )
        if not found:
            raise unknown(run_id, self._link.fetch("runs", RECENT))
        if found[0][0] != fence:
            raise RunOwnedError(taken_over(run_id))

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
    ) -> None:
        """Add entries atomically, in one round trip unless there are statements."""
        if len(entries) == 1 and fence and not drop and not blobs and not statements:
            entry: LogEntry = entries[0]
            mine = (fence >> 32, fence, key_of(run_id))
            try:
                if _is_own_step(entry.kind, entry.path):
                    values: tuple[Any, ...] = (*_content(run_id, entry), *mine)
                    done = self._link.change(f"run {run_id!r}", _ADD_STEP, values)
                else:
                    values = (*_named(entry), *_content(run_id, entry), *mine)
                    done = self._link.change(f"run {run_id!r}", _ADD_ENTRY, values)
                if done:
                    return
            except ConstraintViolation:
                pass  # the name exists: `_append` finds out with which content
        self._append(run_id, entries, fence, drop, blobs, statements)

    def _append(
        self,
        run_id: str,
        entries: Sequence[LogEntry],
        fence: int,
        drop: Sequence[tuple[str, str, int]],
        blobs: Mapping[str, bytes],
        statements: Sequence[Statement],
    ) -> None:
        gone = frozenset(drop)
        kept: dict[tuple[str, str, int], LogEntry] = {}
        twice: LogEntry | None = None
        for entry in entries:
            if entry.name not in gone and kept.setdefault(entry.name, entry).digest != entry.digest:
                twice = twice or entry
        if twice is not None:
            self._check_fence(run_id, fence)  # a lost run is reported first
            raise CommitConflictError(conflict(run_id, twice))
        values = _added(run_id, fence, kept.values(), gone, blobs)
        try:
            if statements:
                is_mine = self._with_statements(run_id, list(kept.values()), values, statements)
            else:
                is_mine = self._link.change(f"run {run_id!r}", _ADD_ALL, values)
        except ConstraintViolation as error:
            raise CommitConflictError(conflict(run_id, self._differing(run_id, kept.values()))) from error
        if not is_mine:
            self._check_fence(run_id, fence)

    def _with_statements(
        self, run_id: str, kept: Sequence[LogEntry], values: tuple[Any, ...], statements: Sequence[Statement]
    ) -> int:
        def work(cursor: Cursor, _: bool) -> int:
            with cursor.connection.transaction():
                locked = "SELECT id FROM runs WHERE key = %s AND fence = %s FOR NO KEY UPDATE"
                found = cursor.execute(locked, values[:2]).fetchone()
                if found is None:
                    return 0
                if kept and self._has(cursor, found[0], kept[0]):
                    return 1  # the first attempt succeeded, and only the response was lost
                cursor.execute(_ADD_ALL, values)
                execute(cursor, statements, run_id)
                return 1

        return self._link.run(f"run {run_id!r}", work)

    def _has(self, cursor: Cursor, run: int, entry: LogEntry) -> bool:
        if _is_own_step(entry.kind, entry.path):
            cursor.execute("SELECT 1 FROM steps WHERE run = %s AND n = %s", (run, entry.n))
        else:
            name = (run, entry.kind, key_of(entry.path), entry.n)
            cursor.execute("SELECT 1 FROM log WHERE run = %s AND kind = %s AND key = %s AND n = %s", name)
        return cursor.fetchone() is not None

    def rehearse(self, statements: Sequence[Statement]) -> None:
        """Execute statements and roll them back."""
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
        """Return the log of a run by kind, path and n; of its own steps only those after `after` and up to `upto`."""
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
            values[:0] = _columns((_bounds(*span) for span in paths), 4)
        return self._read(
            run_id,
            f"{_STEPS} AND n > %s AND n <= %s AND %s UNION ALL {statement} AND kind = ANY(%s::text[])",
            (key, after, last, has_own, *values, list(kinds)),
        )

    def counts(self, run_id: str) -> Mapping[tuple[str, str], int]:
        """Count the entries of a run by kind and path."""
        statement = f"SELECT kind, coalesce(path, key), count(*) FROM log {_RUN} GROUP BY 1, 2"
        found = self._link.fetch(f"run {run_id!r}", statement, (key_of(run_id),))
        if not found:
            self.row(run_id)
        return {(kind, path): number for kind, path, number in found}

    def find(self, run_id: str, kind: str, path: str) -> Sequence[LogEntry]:
        """Return the entries of one kind and path, by n."""
        if _is_own_step(kind, path):
            return self._read(run_id, _STEPS, (key_of(run_id),))
        return self._read(
            run_id, f"{_OTHERS} AND kind = %s AND key = %s", (key_of(run_id), kind, key_of(path))
        )

    def last(self, run_id: str, kind: str, path: str, n: int) -> LogEntry | None:
        """Return the entry of one kind and path with the largest n up to `n`, or None."""
        up_to = "AND n <= %s ORDER BY n DESC LIMIT 1"
        if _is_own_step(kind, path):
            found = self._read(run_id, f"{_STEPS} {up_to}", (key_of(run_id), n))
        else:
            values = (key_of(run_id), kind, key_of(path), n)
            found = self._read(run_id, f"{_OTHERS} AND kind = %s AND key = %s {up_to}", values)
        return found[0] if found else None

    def _read(self, run_id: str, statement: str, values: Any) -> list[LogEntry]:
        found = self._link.run(
            f"run {run_id!r}", lambda cursor, _: cursor.execute(statement, values).fetchall()
        )
        if not found:
            self.row(run_id)
        return sorted(checked(run_id, found), key=_by_name)

    def blob(self, digest: str) -> bytes:
        """Return a blob, verified by its digest."""
        found = self._link.fetch(
            f"the content {digest[:12]}…", "SELECT body FROM blobs WHERE digest = %s", (digest,)
        )
        if not found or sha256(found[0][0]).hexdigest() != digest:
            raise StoreCorruptError(lost_content(digest, self._link.name, is_there=bool(found)))
        return bytes(found[0][0])

    cached, cache, clear_cache = results.cached, results.cache, results.clear_cache

    # -- the server --------------------------------------------------------------------------------------

    def check(self) -> Iterator[str]:
        """Read and verify everything, and yield a line for each problem."""
        names: list[tuple[Callable[[str], object], str]] = [(self.entries, row.run_id) for row in self.rows()]
        digests = self._link.fetch("the contents", "SELECT DISTINCT digest FROM uses")
        names += [(self.blob, digest) for (digest,) in digests]
        yield from problems([*names, *((self.cached, key) for key in results.result_keys(self._link))])

    def close(self) -> None:
        """Close the connections and release the runs of this store."""
        self._link.close()

    def __del__(self) -> None:
        if hasattr(self, "_link"):  # opening succeeded
            self.close()


def _added(run_id: str, fence: int, entries: Any, gone: Any, blobs: Any) -> tuple[Any, ...]:
    """Return the parameters of `_ADD_ALL`: entries to add, names to drop, blobs."""
    steps = (_content(run_id, e) for e in entries if _is_own_step(e.kind, e.path))
    others = ((*_named(e), *_content(run_id, e)) for e in entries if not _is_own_step(e.kind, e.path))
    return (
        *(key_of(run_id), fence),
        *_columns(steps, 4),
        *_columns(others, 7),
        [n for kind, path, n in gone if _is_own_step(kind, path)],
        *_columns(((kind, key_of(path), n) for kind, path, n in gone), 3),
        *_columns(blobs.items(), 2),
        list(blobs),
    )


def _is_own_step(kind: str, path: str) -> bool:
    return kind == OWN_STEP and not path


def _named(entry: LogEntry) -> tuple[str, str, str | None]:
    """Return kind, key, and the path if it differs from the key."""
    key = key_of(entry.path)
    return entry.kind, key, None if key is entry.path else entry.path


def _content(run_id: str, entry: LogEntry) -> tuple[int, bytes, bytes, int]:
    return entry.n, entry.body, entry.digest, checksum(run_id, *entry.name, entry.body, entry.digest)


def _bounds(first: str, beyond: str) -> tuple[str, str, str, str]:
    """Return the smallest and the largest key of the paths in a range, and the range."""
    return first[:_SURE], beyond if len(beyond) <= _SURE else beyond[:_SURE] + chr(0x10FFFF), first, beyond


def _columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows)] or [[] for _ in range(width)]
