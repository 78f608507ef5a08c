"""A mark that changes with a run in PostgreSQL: one query by primary keys, which reads no entry.

Polling costs the writers nothing. A NOTIFY in every commit would: the server handles notifications under one lock.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from clew.stores.messages import RECENT, unknown
from clew.stores.postgres.connection import StoreConnection
from clew.stores.postgres.migrations import key_of
from clew.stores.protocol import Store

_MARK = """
    SELECT id, fence, status, updated, until,
        (SELECT max(n) FROM steps WHERE run = runs.id),
        (SELECT count(*) FROM log WHERE run = runs.id AND kind = ANY(%s::text[])),
        (SELECT max(n) FROM log WHERE run = runs.id AND kind = ANY(%s::text[]) AND key = '')
    FROM runs WHERE key = %s
"""


class MarkedStore(Store):
    """The part of a PostgreSQL store that tells whether a run has changed."""

    _link: StoreConnection

    def change_mark(self, run_id: str, kinds: Collection[str]) -> Any:
        """Return a value that changes with the run."""
        values = (list(kinds), list(kinds), key_of(run_id))
        found = self._link.fetch(f"run {run_id!r}", _MARK, values)
        if not found:
            raise unknown(run_id, self._link.fetch("runs", RECENT))
        return found[0]
