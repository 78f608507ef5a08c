"""Messages to runs in a SQLite file: methods of `SQLiteStore`, and a part of its appends.

The id and the number of a received message are stored until the run is deleted, without its body. So a message that is
sent again later is recognized by its id, and numbers are not reused.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from clew.stores.protocol import Message
from clew.stores.sql_rows import checked, checksum, messages
from clew.stores.sqlite.queue import wake

if TYPE_CHECKING:
    from clew.stores.sqlite.store import SQLiteStore

_ADDRESSED = """
    SELECT DISTINCT runs.run_id FROM json_each(?) AS given JOIN runs ON runs.run_id = given.value
    JOIN inbox ON inbox.run = runs.id WHERE inbox.body IS NOT NULL
"""


def send(store: SQLiteStore, run_id: str, message_id: str, kind: str, body: Any) -> int:
    with store._lock, store._writing(f"run {run_id!r}") as db:
        number = store._number(db, run_id)
        known = db.execute("SELECT n FROM inbox WHERE run = ? AND id = ?", (number, message_id)).fetchone()
        if known is not None:
            return int(known[0])
        (n,) = db.execute("SELECT coalesce(max(n), 0) + 1 FROM inbox WHERE run = ?", (number,)).fetchone()
        crc = checksum(run_id, kind, message_id, n, body, b"")
        db.execute("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?)", (number, n, message_id, kind, body, crc))
        wake(db, number, store._clock.time())
        return int(n)


def inbox(store: SQLiteStore, run_id: str) -> list[Message]:
    with store._lock, store._reading(f"run {run_id!r}") as db:
        return unreceived(db, store._number(db, run_id), run_id)


def unreceived(db: sqlite3.Connection, number: int, run_id: str) -> list[Message]:
    """Return the messages that a run has not received, in order."""
    select = "SELECT kind, id, n, body, x'', crc FROM inbox WHERE run = ? AND body IS NOT NULL ORDER BY n"
    found = db.execute(select, (number,)).fetchall()
    return messages(checked(run_id, found))


def addressed(store: SQLiteStore, run_ids: Sequence[str]) -> list[str]:
    with store._lock, store._reading("messages") as db:
        found = db.execute(_ADDRESSED, (json.dumps(list(run_ids)),)).fetchall()
    return [run_id for (run_id,) in found]


def receive(db: sqlite3.Connection, number: int, numbers: Iterable[int]) -> None:
    """Remove messages; their ids stay."""
    db.executemany("UPDATE inbox SET body = NULL WHERE run = ? AND n = ?", [(number, n) for n in numbers])
