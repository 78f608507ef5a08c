"""Deleting a run from PostgreSQL: its row, its log, and the blobs that nothing else uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import StoreError
from clew.stores.messages import RECENT, has_fork, unknown
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.threads import move_back

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor

_BLOBS = "DELETE FROM blobs WHERE digest = ANY(%s) AND NOT EXISTS (SELECT FROM uses WHERE uses.digest = blobs.digest)"


def delete_run(cursor: Cursor, run_id: str, *, again: bool) -> None:
    """Delete a run without forks. With `again`, an earlier attempt may have deleted it."""
    with cursor.connection.transaction():
        found = cursor.execute("SELECT id FROM runs WHERE key = %s FOR UPDATE", (key_of(run_id),)).fetchone()
        if found is None:
            if again:
                return
            raise unknown(run_id, cursor.execute(RECENT))
        select = "SELECT run_id FROM runs WHERE parent = %s ORDER BY id LIMIT 1"
        if fork := cursor.execute(select, (run_id,)).fetchone():
            raise StoreError(has_fork(run_id, fork[0]))
        move_back(cursor, run_id)
        cursor.execute("DELETE FROM steps WHERE run = %s", found)
        cursor.execute("DELETE FROM log WHERE run = %s", found)
        used = cursor.execute("DELETE FROM uses WHERE run = %s RETURNING digest", found).fetchall()
        drop_unused(cursor, [digest for (digest,) in used])
        cursor.execute("DELETE FROM origins WHERE run = %s", found)
        cursor.execute("DELETE FROM runs WHERE id = %s", found)


def drop_unused(cursor: Cursor, digests: list[str]) -> None:
    """Delete those blobs that neither a run nor a cached result uses any more."""
    if digests:
        # No other transaction may start to use a blob between the check and the deletion.
        cursor.execute("LOCK TABLE blobs IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(_BLOBS, (digests,))
