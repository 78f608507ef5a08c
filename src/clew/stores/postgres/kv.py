"""Key-value tables in PostgreSQL, in the schema of a `PostgresStore`. A write is one round trip.

An index of PostgreSQL accepts keys of about 2,700 bytes. So a key is stored in two parts: its head, which the index
sorts, and the rest, which sorts the keys with the same head. A digest of the rest makes the pair unique.

A write is repeated if the connection breaks. It has a unique mark, by which the repetition recognizes that the first
attempt succeeded. So it neither writes twice nor reports a conflict with itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from clew.errors import StoreConflictError, StoreCorruptError
from clew.stores.kv import (
    FORMAT,
    Change,
    KeyValueTable,
    behind,
    check_format,
    check_key,
    conflict,
    in_pages,
    joined,
)
from clew.stores.postgres.connection import StoreConnection
from clew.stores.postgres.entries import columns

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor

_HEAD = 250  # characters; in UTF-8 they are at most 1,000 bytes
_LOCK = 0x436C6579  # class of the advisory locks for creating the SQL tables

_TABLES = """
    CREATE TABLE IF NOT EXISTS @.kv_tables (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
        format integer NOT NULL, version bigint NOT NULL DEFAULT 0, mark text NOT NULL DEFAULT ''
    );
    CREATE TABLE IF NOT EXISTS @.kv_rows (
        table_id bigint NOT NULL, head text COLLATE "C" NOT NULL, rest text COLLATE "C" NOT NULL,
        digest bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (table_id, head, digest)
    );
"""
# The row of the table is locked first, so that the writers of one table take turns.
_WRITE = """
    WITH mine AS MATERIALIZED (
        SELECT id, version, mark FROM @.kv_tables WHERE id = %s FOR NO KEY UPDATE
    ), free AS MATERIALIZED (
        SELECT id FROM mine WHERE mark <> %s AND (%s::bigint IS NULL OR version = %s::bigint)
    ), put AS (
        INSERT INTO @.kv_rows (table_id, head, rest, digest, value)
        SELECT id, given.* FROM free, unnest(%s::text[], %s::text[], %b::bytea[], %b::bytea[]) AS given &
        ON CONFLICT (table_id, head, digest) DO UPDATE SET value = excluded.value
    ), dropped AS (
        DELETE FROM @.kv_rows USING free, unnest(%s::text[], %b::bytea[]) AS gone (head, digest)
        WHERE kv_rows.table_id = free.id AND kv_rows.head = gone.head AND kv_rows.digest = gone.digest
    ), updated AS (
        UPDATE @.kv_tables SET version = kv_tables.version + 1, mark = %s FROM free WHERE kv_tables.id = free.id
        RETURNING kv_tables.version
    )
    SELECT version FROM updated UNION ALL SELECT version FROM mine WHERE mark = %s
"""
_LARGEST = 1 << 20  # in an array; the server would write a larger one to a temporary file
_LARGE_ROW = "UNION ALL SELECT id, %s::text, %s::text, %b::bytea, %b::bytea FROM free "


def open_postgres_table(dsn: str, name: str) -> PostgresKeyValueTable:
    """Open a table with its own connection."""
    return PostgresKeyValueTable(
        StoreConnection(dsn, "clew", connect_timeout=10.0, patience=30.0), name, owns_connection=True
    )


class PostgresKeyValueTable(KeyValueTable):
    """A key-value table in a schema of a PostgreSQL database."""

    def __init__(self, link: StoreConnection, name: str, *, owns_connection: bool = False) -> None:
        self.name = name
        self._link = link
        self._owns_connection = owns_connection
        self._what = f"table {name!r}"
        try:
            self._id = link.run(self._what, self._opened)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresKeyValueTable({self._link.name}, {self.name!r})"

    def _opened(self, cursor: Cursor, _: bool) -> int:
        exists = cursor.execute("SELECT to_regclass('@.kv_rows')").fetchone() != (None,)
        row = self._find(cursor) if exists else None
        if row is None:
            with cursor.connection.transaction():
                cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext('@.'))", (_LOCK,))
                if not exists:
                    cursor.connection.execute(_TABLES)  # several statements, without parameters
                cursor.execute(
                    "INSERT INTO @.kv_tables (name, format) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    (self.name, FORMAT),
                )
                row = self._find(cursor)
        assert row is not None
        check_format(self.name, self._link.name, row[1])
        return int(row[0])

    def _find(self, cursor: Cursor) -> Any:
        return cursor.execute("SELECT id, format FROM @.kv_tables WHERE name = %s", (self.name,)).fetchone()

    # -- reading -----------------------------------------------------------------------------------------

    def read(self, key: str) -> bytes | None:
        return self.read_many([key]).get(key)

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        rows = self._link.fetch(
            self._what,
            "SELECT r.head || r.rest, r.value FROM unnest(%s::text[], %b::bytea[]) AS wanted (head, digest) "
            "JOIN @.kv_rows r ON r.table_id = %s AND r.head = wanted.head AND r.digest = wanted.digest",
            (*columns((_key_parts(key)[::2] for key in keys), 2), self._id),
        )
        return {key: bytes(value) for key, value in rows}

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        return in_pages(self._page, prefix, after, limit)

    def _page(self, start: str, inclusive: bool, end: str | None, size: int) -> list[tuple[str, bytes]]:
        where, values = self._within(start, inclusive, end)
        statement = f"SELECT head || rest, value FROM @.kv_rows WHERE {where} ORDER BY head, rest LIMIT %s"
        rows = self._link.fetch(self._what, statement, (*values, size))
        return [(key, bytes(value)) for key, value in rows]

    def count(self, prefix: str = "") -> int:
        check_key(prefix)
        where, values = self._within(prefix, True, behind(prefix))
        return int(
            self._link.fetch(self._what, f"SELECT count(*) FROM @.kv_rows WHERE {where}", values)[0][0]
        )

    def _within(self, start: str, inclusive: bool, end: str | None) -> tuple[str, list[Any]]:
        # The first condition of each pair is for the index, the second for keys with the same head.
        head, rest = start[:_HEAD], start[_HEAD:]
        where = f"table_id = %s AND head >= %s AND (head > %s OR rest {'>=' if inclusive else '>'} %s)"
        values: list[Any] = [self._id, head, head, rest]
        if end is not None:
            head, rest = end[:_HEAD], end[_HEAD:]
            where += " AND head <= %s AND (head < %s OR rest < %s)"
            values += [head, head, rest]
        return where, values

    # -- writing -----------------------------------------------------------------------------------------

    def version(self) -> int:
        rows = self._link.fetch(self._what, "SELECT version FROM @.kv_tables WHERE id = %s", (self._id,))
        if not rows:
            raise StoreCorruptError(f"{self._what} was deleted from {self._link.name}; open it again")
        return int(rows[0][0])

    def write(self, changes: Iterable[Change], *, expect: int | None = None) -> int:
        wanted = dict(changes)
        put = [(*_key_parts(key), joined(value)) for key, value in wanted.items() if value is not None]
        gone = [_key_parts(key)[::2] for key, value in wanted.items() if value is None]
        large = [row for row in put if len(row[3]) > _LARGEST]
        mark = token_hex(8)
        values = (
            *(self._id, mark, expect, expect),
            *columns((row for row in put if len(row[3]) <= _LARGEST), 4),
            *(part for row in large for part in row),
            *columns(gone, 2),
            *(mark, mark),
        )
        rows = self._link.fetch(self._what, _WRITE.replace("&", _LARGE_ROW * len(large)), values)
        if not rows:
            raise StoreConflictError(conflict(self.name))
        return int(rows[0][0])

    def close(self) -> None:
        """Close the connection, unless it belongs to a store."""
        if self._owns_connection:
            self._link.close()

    def __del__(self) -> None:
        if hasattr(self, "_owns_connection"):
            self.close()


def _key_parts(key: str) -> tuple[str, str, bytes]:
    """Return the two parts of a key, and the digest of the second."""
    check_key(key)
    rest = key[_HEAD:]
    return key[:_HEAD], rest, sha256(rest.encode()).digest() if rest else b""
