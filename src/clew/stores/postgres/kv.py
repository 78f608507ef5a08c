"""Shelves in PostgreSQL, in the schema of a `PostgresStore`: one round trip a write.

Indexes of PostgreSQL take keys of some 2,700 bytes. So a key lies there in two parts: its first characters, by which
rows are found and sorted, and the rest, which sorts those that begin alike; a digest of the rest makes the pair unique.

A write that was under way when the connection broke is made again. It carries a mark that nobody else has, so a
repetition that finds the first one done does not do it twice, nor takes it for the write of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from clew.errors import StoreConflictError, StoreCorruptError, StoreVersionError
from clew.stores.kv import FORMAT, Change, behind, check_key, conflict, in_pages, newer
from clew.stores.postgres.connection import StoreConnection

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor

_HEAD = 250  # characters; in UTF-8 they are at most 1,000 bytes
_LOCK = 0x436C6579  # the class of the advisory locks under which the tables are made

_TABLES = """
    CREATE TABLE IF NOT EXISTS shelves (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
        format integer NOT NULL, stamp bigint NOT NULL DEFAULT 0, mark text NOT NULL DEFAULT ''
    );
    CREATE TABLE IF NOT EXISTS shelf_rows (
        shelf bigint NOT NULL, head text COLLATE "C" NOT NULL, rest text COLLATE "C" NOT NULL,
        digest bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (shelf, head, digest)
    );
"""
# The row of the shelf is locked first, so writers of one shelf come one after the other.
_WRITE = """
    WITH mine AS MATERIALIZED (
        SELECT id, stamp, mark FROM shelves WHERE id = %s FOR NO KEY UPDATE
    ), free AS MATERIALIZED (
        SELECT id FROM mine WHERE mark <> %s AND (%s::bigint IS NULL OR stamp = %s::bigint)
    ), put AS (
        INSERT INTO shelf_rows (shelf, head, rest, digest, value)
        SELECT id, given.* FROM free, unnest(%s::text[], %s::text[], %s::bytea[], %s::bytea[]) AS given
        ON CONFLICT (shelf, head, digest) DO UPDATE SET value = excluded.value
    ), dropped AS (
        DELETE FROM shelf_rows USING free, unnest(%s::text[], %s::bytea[]) AS gone (head, digest)
        WHERE shelf_rows.shelf = free.id AND shelf_rows.head = gone.head AND shelf_rows.digest = gone.digest
    ), stamped AS (
        UPDATE shelves SET stamp = shelves.stamp + 1, mark = %s FROM free WHERE shelves.id = free.id
        RETURNING shelves.stamp
    )
    SELECT stamp FROM stamped UNION ALL SELECT stamp FROM mine WHERE mark = %s
"""


def open_postgres_table(dsn: str, name: str) -> PostgresKeyValueTable:
    """A shelf with a connection of its own."""
    return PostgresKeyValueTable(
        StoreConnection(dsn, "clew", connect_timeout=10.0, patience=30.0), name, is_its_own=True
    )


class PostgresKeyValueTable:
    """A shelf in a schema of a PostgreSQL database."""

    def __init__(self, link: StoreConnection, name: str, *, is_its_own: bool = False) -> None:
        self.name = name
        self._link = link
        self._is_its_own = is_its_own
        self._what = f"the shelf {name!r}"
        try:
            self._id = link.run(self._what, self._opened)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresShelf({self._link.name}, {self.name!r})"

    def _opened(self, cursor: Cursor, _: bool) -> int:
        is_there = cursor.execute("SELECT to_regclass('shelf_rows')").fetchone() != (None,)
        row = self._find(cursor) if is_there else None
        if row is None:
            with cursor.connection.transaction():
                cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(current_schema()))", (_LOCK,))
                if not is_there:
                    cursor.connection.execute(_TABLES)  # several statements, which take no values
                cursor.execute(
                    "INSERT INTO shelves (name, format) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    (self.name, FORMAT),
                )
                row = self._find(cursor)
        assert row is not None
        if row[1] > FORMAT:
            raise StoreVersionError(newer(self.name, self._link.name, row[1]))
        return int(row[0])

    def _find(self, cursor: Cursor) -> Any:
        return cursor.execute("SELECT id, format FROM shelves WHERE name = %s", (self.name,)).fetchone()

    # -- reading -----------------------------------------------------------------------------------------

    def read(self, key: str) -> bytes | None:
        """The bytes of a key, or None."""
        return self.read_many([key]).get(key)

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The bytes of those keys that are there."""
        rows = self._link.fetch(
            self._what,
            "SELECT r.head || r.rest, r.value FROM unnest(%s::text[], %s::bytea[]) AS wanted (head, digest) "
            "JOIN shelf_rows r ON r.shelf = %s AND r.head = wanted.head AND r.digest = wanted.digest",
            (*_columns((_place(key)[::2] for key in keys), 2), self._id),
        )
        return {key: bytes(value) for key, value in rows}

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        """Keys that start with `prefix`, and their bytes, in order."""
        return in_pages(self._page, prefix, after, limit)

    def _page(self, start: str, inclusive: bool, end: str | None, size: int) -> list[tuple[str, bytes]]:
        where, values = self._within(start, inclusive, end)
        statement = f"SELECT head || rest, value FROM shelf_rows WHERE {where} ORDER BY head, rest LIMIT %s"
        rows = self._link.fetch(self._what, statement, (*values, size))
        return [(key, bytes(value)) for key, value in rows]

    def count(self, prefix: str = "") -> int:
        """How many keys start with `prefix`."""
        check_key(prefix)
        where, values = self._within(prefix, True, behind(prefix))
        return int(
            self._link.fetch(self._what, f"SELECT count(*) FROM shelf_rows WHERE {where}", values)[0][0]
        )

    def _within(self, start: str, inclusive: bool, end: str | None) -> tuple[str, list[Any]]:
        # The first condition of each pair is for the index, the second for those that begin alike.
        head, rest = start[:_HEAD], start[_HEAD:]
        where = f"shelf = %s AND head >= %s AND (head > %s OR rest {'>=' if inclusive else '>'} %s)"
        values: list[Any] = [self._id, head, head, rest]
        if end is not None:
            head, rest = end[:_HEAD], end[_HEAD:]
            where += " AND head <= %s AND (head < %s OR rest < %s)"
            values += [head, head, rest]
        return where, values

    # -- writing -----------------------------------------------------------------------------------------

    def stamp(self) -> int:
        """A number that is another one after each write."""
        rows = self._link.fetch(self._what, "SELECT stamp FROM shelves WHERE id = %s", (self._id,))
        if not rows:
            raise StoreCorruptError(f"{self._what} has been taken out of {self._link.name}")
        return int(rows[0][0])

    def write(self, changes: Iterable[Change], *, expect: int | None = None) -> int:
        """Put bytes under keys, or take keys away (None), all or nothing."""
        wanted = dict(changes)
        put = [(*_place(key), bytes(value)) for key, value in wanted.items() if value is not None]
        gone = [_place(key)[::2] for key, value in wanted.items() if value is None]
        mark = token_hex(8)
        values = (
            *(self._id, mark, expect, expect),
            *_columns(((head, rest, digest, value) for head, rest, digest, value in put), 4),
            *_columns(gone, 2),
            *(mark, mark),
        )
        rows = self._link.fetch(self._what, _WRITE, values)
        if not rows:
            raise StoreConflictError(conflict(self.name))
        return int(rows[0][0])

    def close(self) -> None:
        """Close the connection, unless it is a store's."""
        if self._is_its_own:
            self._link.close()

    def __del__(self) -> None:
        if hasattr(self, "_is_its_own"):
            self.close()


def _place(key: str) -> tuple[str, str, bytes]:
    """The two parts of a key, and what stands for the second one."""
    check_key(key)
    rest = key[_HEAD:]
    return key[:_HEAD], rest, sha256(rest.encode()).digest() if rest else b""


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows)] or [[] for _ in range(width)]
