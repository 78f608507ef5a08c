"""Write the log entries of runs in PostgreSQL, as SQL and its values.

A single entry is one statement that checks the fence and locks the row of the run. Several entries are one statement
too, with arrays as values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.stores.postgres.migrations import key_of
from clew.stores.protocol import OWN_STEP, LogEntry
from clew.stores.sql_rows import checksum

_MINE = "FROM @.runs WHERE id = %s::bigint AND fence = %s::bigint AND key = %s::text FOR NO KEY UPDATE"
ADD_STEP = f"""
    INSERT INTO @.steps (run, n, body, digest, crc)
    SELECT id, %s::bigint, %s::bytea, %s::bytea, %s::integer {_MINE}
"""
ADD_ENTRY = f"""
    INSERT INTO @.log (run, kind, key, path, n, body, digest, crc)
    SELECT id, %s::text, %s::text, %s::text, %s::bigint, %s::bytea, %s::bytea, %s::integer {_MINE}
"""
# An existing name with the same digest is ignored; with another digest, NOT NULL fails the whole statement.
ADD_ALL = """
    WITH mine AS MATERIALIZED (
        SELECT id FROM @.runs WHERE key = %s AND fence = %s FOR NO KEY UPDATE
    ), stepped AS (
        INSERT INTO @.steps (run, n, body, digest, crc)
        SELECT id, given.* FROM mine, unnest(%s::bigint[], %b::bytea[], %b::bytea[], %s::integer[]) AS given
        ON CONFLICT (run, n) DO UPDATE SET body = NULL WHERE steps.digest <> excluded.digest
    ), added AS (
        INSERT INTO @.log (run, kind, key, path, n, body, digest, crc)
        SELECT id, given.* FROM mine, unnest(
            %s::text[], %s::text[], %s::text[], %s::bigint[], %b::bytea[], %b::bytea[], %s::integer[]) AS given
        ON CONFLICT (run, kind, key, n) DO UPDATE SET body = NULL WHERE log.digest <> excluded.digest
    ), unstepped AS (
        DELETE FROM @.steps USING mine WHERE steps.run = mine.id AND steps.n = ANY(%s::bigint[])
    ), dropped AS (
        DELETE FROM @.log USING mine, unnest(%s::text[], %s::text[], %s::bigint[]) AS gone (kind, key, n)
        WHERE log.run = mine.id AND log.kind = gone.kind AND log.key = gone.key AND log.n = gone.n
    ), kept AS (
        INSERT INTO @.blobs SELECT blob.* FROM mine, unnest(%s::text[], %b::bytea[]) AS blob ON CONFLICT DO NOTHING
    ), used AS (
        INSERT INTO @.uses SELECT id, digest FROM mine, unnest(%s::text[]) AS digest ON CONFLICT DO NOTHING
    ), received AS (
        UPDATE @.inbox SET body = NULL FROM mine WHERE inbox.run = mine.id AND inbox.n = ANY(%s::bigint[])
    )
    SELECT id FROM mine
"""
_SURE = 200  # characters that a key always shares with its path


def added(
    run_id: str, fence: int, entries: Any, gone: Any = (), blobs: Mapping[str, bytes] = {}, received: Any = ()
) -> tuple[Any, ...]:
    """Return the parameters of `ADD_ALL`: entries to add, names to drop, blobs, received messages."""
    steps = (content(run_id, e) for e in entries if is_own_step(e.kind, e.path))
    others = ((*named(e), *content(run_id, e)) for e in entries if not is_own_step(e.kind, e.path))
    return (
        *(key_of(run_id), fence),
        *columns(steps, 4),
        *columns(others, 7),
        [n for kind, path, n in gone if is_own_step(kind, path)],
        *columns(((kind, key_of(path), n) for kind, path, n in gone), 3),
        *columns(blobs.items(), 2),
        list(blobs),
        list(received),
    )


def is_own_step(kind: str, path: str) -> bool:
    """Return whether an entry belongs in the table `steps`."""
    return kind == OWN_STEP and not path


def named(entry: LogEntry) -> tuple[str, str, str | None]:
    """Return kind, key, and the path if it differs from the key."""
    key = key_of(entry.path)
    return entry.kind, key, None if key is entry.path else entry.path


def content(run_id: str, entry: LogEntry) -> tuple[int, bytes, bytes, int]:
    """Return n, body, digest and checksum."""
    return entry.n, entry.body, entry.digest, checksum(run_id, *entry.name, entry.body, entry.digest)


def bounds(first: str, beyond: str) -> tuple[str, str, str, str]:
    """Return the smallest and the largest key of the paths in a range, and the range."""
    return first[:_SURE], beyond if len(beyond) <= _SURE else beyond[:_SURE] + chr(0x10FFFF), first, beyond


def columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows)] or [[] for _ in range(width)]
