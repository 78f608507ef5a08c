"""Messages to runs in PostgreSQL: methods of `PostgresStore`.

A sender locks the row of the run, so that messages are numbered in the order of their commits. The id and the number of
a received message are stored until the run is deleted, without its body. So a message that is sent again later is
recognized by its id, and numbers are not reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clew.stores.messages import unknown
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.qualified import RECENT
from clew.stores.postgres.workers import NOW
from clew.stores.protocol import Message
from clew.stores.queue import WAKES
from clew.stores.sql_rows import checked, checksum, messages

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor
    from clew.stores.postgres.store import PostgresStore

LOCK = "SELECT id, status FROM @.runs WHERE key = %s FOR NO KEY UPDATE"
_KNOWN = "SELECT n FROM @.inbox WHERE run = %s AND id = %s"
_NEXT = "SELECT coalesce(max(n), 0) + 1 FROM @.inbox WHERE run = %s"
_ADD = "INSERT INTO @.inbox (run, n, id, kind, body, crc) VALUES (%s, %s, %s, %s, %s, %s)"
_WAKE = f"UPDATE @.queue SET due = {NOW} WHERE run = %s AND due > {NOW}"
_READ = """
    SELECT kind, id, n, body, ''::bytea, crc FROM @.inbox
    WHERE run = (SELECT id FROM @.runs WHERE key = %s) AND body IS NOT NULL ORDER BY n
"""

_ADDRESSED = """
    SELECT DISTINCT runs.key FROM @.runs AS runs JOIN @.inbox AS inbox ON inbox.run = runs.id
    WHERE runs.key = ANY(%s) AND inbox.body IS NOT NULL
"""


def send(store: PostgresStore, run_id: str, message_id: str, kind: str, body: Any) -> int:

    def work(cursor: Cursor, _: bool) -> tuple[int, bool]:
        with cursor.connection.transaction():
            run = cursor.execute(LOCK, (key_of(run_id),)).fetchone()
            if run is None:
                raise unknown(run_id, cursor.execute(RECENT))
            found = cursor.execute(_KNOWN, (run[0], message_id)).fetchone()
            if found is None:
                found = cursor.execute(_NEXT, (run[0],)).fetchone()
                assert found is not None
                crc = checksum(run_id, kind, message_id, found[0], body, b"")
                cursor.execute(_ADD, (run[0], found[0], message_id, kind, body, crc))
                if run[1] in WAKES:
                    cursor.execute(_WAKE, (run[0],))
            return int(found[0]), run[1] in WAKES

    n, is_woken = store._link.run(f"run {run_id!r}", work)
    if is_woken:
        store._bell.ring()
    return n


def inbox(store: PostgresStore, run_id: str) -> list[Message]:
    link, key = store._link, key_of(run_id)
    found = link.fetch(f"run {run_id!r}", _READ, (key,))
    if not found and not link.fetch("runs", "SELECT 1 FROM @.runs WHERE key = %s", (key,)):
        raise unknown(run_id, link.fetch("runs", RECENT))
    return messages(checked(run_id, found))


def addressed(store: PostgresStore, run_ids: Sequence[str]) -> list[str]:
    names = {key_of(run_id): run_id for run_id in run_ids}
    found = store._link.fetch("messages", _ADDRESSED, (list(names),))
    return [names[key] for (key,) in found]
