"""Deleting a run from PostgreSQL: its row, its log, its children, and the blobs that nothing else uses."""

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
    """Delete a run without forks, and its children. With `again`, an earlier attempt may have deleted it.

    Each row is locked before its children are read, so no child and no fork of it can be created in the meantime.
    """
    with cursor.connection.transaction():
        found = cursor.execute("SELECT id FROM runs WHERE key = %s FOR UPDATE", (key_of(run_id),)).fetchone()
        if found is None:
            if again:
                return
            raise unknown(run_id, cursor.execute(RECENT))
        family: dict[str, int] = {run_id: found[0]}
        for each in (left := [run_id]):
            select = "SELECT run_id, id FROM runs WHERE child_of = %s FOR UPDATE"
            children = cursor.execute(select, (each,)).fetchall()
            family.update(children)
            left += [child for child, _ in children]
        select = "SELECT parent, run_id FROM runs WHERE parent = ANY(%s) ORDER BY id"
        for parent, fork in cursor.execute(select, (list(family),)).fetchall():
            if fork not in family:
                raise StoreError(has_fork(parent, fork))
        move_back(cursor, run_id)
        numbers = (list(family.values()),)
        cursor.execute("DELETE FROM steps WHERE run = ANY(%s)", numbers)
        cursor.execute("DELETE FROM log WHERE run = ANY(%s)", numbers)
        used = cursor.execute("DELETE FROM uses WHERE run = ANY(%s) RETURNING digest", numbers).fetchall()
        drop_unused(cursor, [digest for (digest,) in used])
        cursor.execute("DELETE FROM origins WHERE run = ANY(%s)", numbers)
        cursor.execute("DELETE FROM runs WHERE id = ANY(%s)", numbers)


def drop_unused(cursor: Cursor, digests: list[str]) -> None:
    """Delete those blobs that neither a run nor a cached result uses any more."""
    if digests:
        # No other transaction may start to use a blob between the check and the deletion.
        cursor.execute("LOCK TABLE blobs IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(_BLOBS, (digests,))
