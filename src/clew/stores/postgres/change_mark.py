"""A mark that changes with a run in PostgreSQL, a method of `PostgresStore`: one query by primary keys, which reads no
entry.

Polling costs the writers nothing. A NOTIFY in every commit would slow them down, because the server handles all
notifications under one lock.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from clew.stores.messages import unknown
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.qualified import RECENT

if TYPE_CHECKING:
    from clew.stores.postgres.store import PostgresStore

_MARK = """
    SELECT id, fence, status, updated,
        (SELECT max(n) FROM @.steps WHERE run = runs.id), (SELECT max(n) FROM @.inbox WHERE run = runs.id),
        (SELECT count(*) FROM @.log WHERE run = runs.id AND kind = ANY(%s::text[])),
        (SELECT max(n) FROM @.log WHERE run = runs.id AND kind = ANY(%s::text[]) AND key = '')
    FROM @.runs WHERE key = %s
"""


def change_mark(store: PostgresStore, run_id: str, kinds: Collection[str]) -> Any:
    values = (list(kinds), list(kinds), key_of(run_id))
    found = store._link.fetch(f"run {run_id!r}", _MARK, values)
    if not found:
        raise unknown(run_id, store._link.fetch("runs", RECENT))
    return found[0]
