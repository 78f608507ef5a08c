"""Threads in PostgreSQL, and the deletion of runs, which moves threads back.

A thread is a row with the run at its head. `head` and `threads` are methods of `PostgresStore`. Callers of the other
functions of threads have a transaction open. A run is deleted with its log, its children, and the blobs that nothing
else uses. A fork that was detached does not prevent the deletion of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.errors import StoreError, ThreadMovedError
from clew.stores.messages import has_fork, moved, unknown
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.qualified import RECENT
from clew.stores.protocol import RunRow, ThreadMove
from clew.stores.sql_rows import row_values

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor
    from clew.stores.postgres.store import PostgresStore


_ADD = "INSERT INTO @.threads (key, name, head) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_MOVE = "UPDATE @.threads SET head = %s WHERE key = %s AND head = %s"
_PARENT = "(SELECT parent FROM @.runs WHERE key = %s)"


def head(store: PostgresStore, thread: str) -> str | None:
    return store._link.run(f"thread {thread!r}", lambda cursor, _: head_of(cursor, thread))


def threads(store: PostgresStore) -> list[tuple[str, str]]:
    select = 'SELECT name, head FROM @.threads ORDER BY name COLLATE "C"'
    return store._link.fetch("the list of threads", select, ())


def head_of(cursor: Cursor, thread: str) -> str | None:
    """Return the head of a thread, or None."""
    found = cursor.execute("SELECT head FROM @.threads WHERE key = %s", (key_of(thread),)).fetchone()
    return None if found is None else str(found[0])


def move(cursor: Cursor, thread: ThreadMove, run_id: str) -> None:
    """Make a run the head of a thread. Raise ThreadMovedError if the thread has another head than expected."""
    key = key_of(thread.name)
    values: tuple[Any, ...]
    if thread.expected is None:
        statement, values = _ADD, (key, thread.name, run_id)
    else:
        statement, values = _MOVE, (run_id, key, thread.expected)
    if not cursor.execute(statement, values).rowcount:
        raise ThreadMovedError(moved(thread.name, head_of(cursor, thread.name)))


def move_back(cursor: Cursor, run_id: str) -> None:
    """Make the parent of a run the head of its threads. Without a parent, delete them."""
    key = key_of(run_id)
    cursor.execute(f"DELETE FROM @.threads WHERE head = %s AND {_PARENT} IS NULL", (run_id, key))
    cursor.execute(f"UPDATE @.threads SET head = {_PARENT} WHERE head = %s", (key, run_id))


_BLOBS = (
    "DELETE FROM @.blobs WHERE digest = ANY(%s) "
    "AND NOT EXISTS (SELECT FROM @.uses WHERE uses.digest = blobs.digest)"
)


def delete_run(cursor: Cursor, run_id: str, *, again: bool) -> None:
    """Delete a run without forks, and its children. With `again`, an earlier attempt may have deleted it.

    Each row is locked before its children are read, so no child and no fork of it can be created in the meantime.
    """
    with cursor.connection.transaction():
        found = cursor.execute(
            "SELECT id FROM @.runs WHERE key = %s FOR UPDATE", (key_of(run_id),)
        ).fetchone()
        if found is None:
            if again:
                return
            raise unknown(run_id, cursor.execute(RECENT))
        family: dict[str, int] = {run_id: found[0]}
        for each in (left := [run_id]):
            select = "SELECT run_id, id FROM @.runs WHERE child_of = %s FOR UPDATE"
            children = cursor.execute(select, (each,)).fetchall()
            family.update(children)
            left += [child for child, _ in children]
        select = "SELECT parent, run_id FROM @.runs WHERE parent = ANY(%s) ORDER BY id"
        for parent, fork in cursor.execute(select, (list(family),)).fetchall():
            if fork not in family:
                raise StoreError(has_fork(parent, fork))
        move_back(cursor, run_id)
        numbers = (list(family.values()),)
        cursor.execute("DELETE FROM @.steps WHERE run = ANY(%s)", numbers)
        cursor.execute("DELETE FROM @.log WHERE run = ANY(%s)", numbers)
        used = cursor.execute("DELETE FROM @.uses WHERE run = ANY(%s) RETURNING digest", numbers).fetchall()
        drop_unused(cursor, [digest for (digest,) in used])
        cursor.execute("DELETE FROM @.origins WHERE run = ANY(%s)", numbers)
        cursor.execute("DELETE FROM @.queue WHERE run = ANY(%s)", numbers)
        cursor.execute("DELETE FROM @.inbox WHERE run = ANY(%s)", numbers)
        cursor.execute("DELETE FROM @.attributes WHERE run = ANY(%s)", numbers)
        cursor.execute("DELETE FROM @.runs WHERE id = ANY(%s)", numbers)


_DETACH = """
    WITH mine AS (
        UPDATE @.runs SET parent = NULL, parent_step = NULL WHERE key = %s AND fence = %s RETURNING id
    ), began AS (
        UPDATE @.origins SET start = %s::bytea, codes = %s, start_digest = %s, description = %s, crc = %s::bigint
        FROM mine WHERE origins.run = mine.id
    ), kept AS (
        INSERT INTO @.blobs SELECT blob.* FROM mine, unnest(%s::text[], %b::bytea[]) AS blob ON CONFLICT DO NOTHING
    ), used AS (
        INSERT INTO @.uses SELECT id, digest FROM mine, unnest(%s::text[]) AS digest ON CONFLICT DO NOTHING
    )
    SELECT id FROM mine
"""


def detach_run(cursor: Cursor, row: RunRow, blobs: Mapping[str, bytes], fence: int) -> bool:
    """Replace the initial state of a fork, which no longer has a parent; return False if the fence is stale."""
    stored = (list(blobs), list(blobs.values()), list(blobs))
    return (
        cursor.execute(_DETACH, (key_of(row.run_id), fence, *row_values(row)[1], *stored)).fetchone()
        is not None
    )


def drop_unused(cursor: Cursor, digests: list[str]) -> None:
    """Delete those blobs that neither a run nor a cached result uses any more."""
    if digests:
        # No other transaction may start to use a blob between the check and the deletion.
        cursor.execute("LOCK TABLE @.blobs IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(_BLOBS, (digests,))
