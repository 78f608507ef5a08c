"""Threads in PostgreSQL: a row for each, with the run at its head.

`head` and `threads` are methods of `PostgresStore`. Callers of the other functions have a transaction open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.errors import ThreadMovedError
from clew.stores.messages import moved
from clew.stores.postgres.migrations import key_of
from clew.stores.protocol import ThreadMove

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
