"""Delete a run from PostgreSQL, with its children and what only they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import StoreError
from clew.stores.messages import has_fork
from clew.stores.postgres.migrations import key_of

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor


def delete_run(cursor: Cursor, run_id: str) -> bool:
    """Delete a run and its children in the open transaction; return False if the run does not exist.

    Each row is locked before its children are read, so no child and no fork of it can be created in the meantime.
    """
    found = cursor.execute("SELECT id FROM runs WHERE key = %s FOR UPDATE", (key_of(run_id),)).fetchone()
    if found is None:
        return False
    family: dict[str, int] = {run_id: found[0]}
    for each in (left := [run_id]):
        select = "SELECT run_id, id FROM runs WHERE child_of = %s FOR UPDATE"
        children = cursor.execute(select, (each,)).fetchall()
        family.update(children)
        left += [child for child, _ in children]
    forks = cursor.execute(
        "SELECT parent, run_id FROM runs WHERE parent = ANY(%s) ORDER BY id", (list(family),)
    ).fetchall()
    for parent, fork in forks:
        if fork not in family:
            raise StoreError(has_fork(parent, fork))
    numbers = (list(family.values()),)
    cursor.execute("DELETE FROM steps WHERE run = ANY(%s)", numbers)
    cursor.execute("DELETE FROM log WHERE run = ANY(%s)", numbers)
    digests = cursor.execute("DELETE FROM uses WHERE run = ANY(%s) RETURNING digest", numbers).fetchall()
    if digests:
        # No other transaction may start to use a blob between the check and the deletion.
        cursor.execute("LOCK TABLE blobs IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(
            "DELETE FROM blobs WHERE digest = ANY(%s) "
            "AND NOT EXISTS (SELECT FROM uses WHERE uses.digest = blobs.digest)",
            ([digest for (digest,) in digests],),
        )
    cursor.execute("DELETE FROM origins WHERE run = ANY(%s)", numbers)
    cursor.execute("DELETE FROM runs WHERE id = ANY(%s)", numbers)
    return True
