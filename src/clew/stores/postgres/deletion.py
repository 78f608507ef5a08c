"""Deleting a run from PostgreSQL: its row, its log, and the blobs that no other run uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import StoreError, UnknownRunError
from clew.stores.messages import has_fork, unknown
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
            raise UnknownRunError(unknown(run_id))
        select = "SELECT run_id FROM runs WHERE parent = %s ORDER BY id LIMIT 1"
        if fork := cursor.execute(select, (run_id,)).fetchone():
            raise StoreError(has_fork(run_id, fork[0]))
        move_back(cursor, run_id)
        cursor.execute("DELETE FROM steps WHERE run = %s", found)
        cursor.execute("DELETE FROM log WHERE run = %s", found)
        digests = cursor.execute("DELETE FROM uses WHERE run = %s RETURNING digest", found).fetchall()
        if digests:
            # No other transaction may start to use a blob between the check and the deletion.
            cursor.execute("LOCK TABLE blobs IN SHARE ROW EXCLUSIVE MODE")
            cursor.execute(_BLOBS, ([digest for (digest,) in digests],))
        cursor.execute("DELETE FROM origins WHERE run = %s", found)
        cursor.execute("DELETE FROM runs WHERE id = %s", found)
