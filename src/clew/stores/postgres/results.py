"""Cached results in PostgreSQL.

The table is created with the first result. A result uses blobs in the same way as a run, under its negated number.
Times follow the clock of the server. `cached`, `cache` and `clear_cache` are methods of `PostgresStore`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.stores.postgres.connection import StoreConnection
from clew.stores.postgres.lineage import drop_unused
from clew.stores.protocol import CachedResult
from clew.stores.results import EXPIRED_AT_A_TIME, checked_result, result_checksum

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor
    from clew.stores.postgres.store import PostgresStore

_WHAT = "the cached results"
_LOCK = 0x436C657A  # class of the advisory locks for creating the table
_NOW = "extract(epoch FROM clock_timestamp())::double precision"
_EXISTS = "SELECT to_regclass('@.results') IS NOT NULL"
_TABLE = """
    CREATE TABLE IF NOT EXISTS @.results (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text COLLATE "C" NOT NULL UNIQUE,
        node text NOT NULL, body bytea NOT NULL, made double precision NOT NULL, expires double precision,
        crc integer NOT NULL
    );
    CREATE INDEX IF NOT EXISTS results_by_expiry ON @.results (expires) WHERE expires IS NOT NULL;
    CREATE INDEX IF NOT EXISTS results_by_node ON @.results (node);
"""
_PUT = f"""
    INSERT INTO @.results (key, node, body, made, expires, crc)
    VALUES (%s, %s, %s, {_NOW}, {_NOW} + %s::double precision, %s) RETURNING id
"""


def cached(store: PostgresStore, key: str) -> CachedResult | None:
    select = f"SELECT body, crc, made, expires, {_NOW} FROM @.results WHERE key = %s"
    found = store._link.run(_WHAT, lambda cursor, _: _rows(cursor, select, (key,)))
    if not found:
        return None
    body, crc, made, expires, now = found[0]
    return checked_result(key, bytes(body), crc, made, expires, now)


def cache(
    store: PostgresStore,
    key: str,
    node: str,
    body: bytes,
    blobs: Mapping[str, bytes] = {},
    *,
    ttl: float | None = None,
) -> None:
    """Store a result instead of an earlier one of the same key; delete some that have expired."""

    def work(cursor: Cursor, _: bool) -> None:
        with cursor.connection.transaction():
            if not _exists(cursor):
                cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext('@.'))", (_LOCK,))
                cursor.connection.execute(_TABLE)  # several statements, without parameters
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, key))
            expired = f"SELECT id FROM @.results WHERE expires <= {_NOW} LIMIT %s FOR UPDATE SKIP LOCKED"
            _drop(cursor, f"key = %s OR id IN ({expired})", (key, EXPIRED_AT_A_TIME))
            made = cursor.execute(_PUT, (key, node, body, ttl, result_checksum(key, body))).fetchone()
            assert made is not None
            for digest, content in blobs.items():
                cursor.execute(
                    "INSERT INTO @.blobs VALUES (%s, %s) ON CONFLICT DO NOTHING", (digest, content)
                )
                cursor.execute(
                    "INSERT INTO @.uses VALUES (%s, %s) ON CONFLICT DO NOTHING", (-made[0], digest)
                )

    store._link.run(_WHAT, work)


def clear_cache(store: PostgresStore, node: str | None = None) -> int:

    def work(cursor: Cursor, _: bool) -> int:
        with cursor.connection.transaction():
            if not _exists(cursor):
                return 0
            return _drop(cursor, "%s::text IS NULL OR node = %s", (node, node))

    return store._link.run(_WHAT, work)


def result_keys(link: StoreConnection) -> list[str]:
    found = link.run(_WHAT, lambda cursor, _: _rows(cursor, "SELECT key FROM @.results ORDER BY id", ()))
    return [key for (key,) in found]


def _exists(cursor: Cursor) -> bool:
    return cursor.execute(_EXISTS).fetchone() == (True,)


def _rows(cursor: Cursor, statement: str, values: tuple[Any, ...]) -> list[Any]:
    return cursor.execute(statement, values).fetchall() if _exists(cursor) else []


def _drop(cursor: Cursor, where: str, values: tuple[Any, ...]) -> int:
    gone = [
        number for (number,) in cursor.execute(f"DELETE FROM @.results WHERE {where} RETURNING id", values)
    ]
    used = cursor.execute(
        "DELETE FROM @.uses WHERE run = ANY(%s) RETURNING digest", ([-number for number in gone],)
    )
    drop_unused(cursor, [digest for (digest,) in used.fetchall()])
    return len(gone)
