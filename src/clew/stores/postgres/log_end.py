"""The end of a run's log in PostgreSQL: a method of `PostgresStore`, which is one statement.

Its rows have the columns of entries, preceded by a word that says what the row is. If the run exists, there is a row
for the run itself, which says whether it has children.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from clew.stores.messages import unknown
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.qualified import RECENT
from clew.stores.protocol import OWN_STEP, LogEnd
from clew.stores.sql_rows import checked, messages

if TYPE_CHECKING:
    from clew.stores.postgres.store import PostgresStore

_THIS = "run = (SELECT id FROM this)"
_ENTRY = "kind, coalesce(path, key), n, body, digest, crc FROM @.log"
_END = f"""
    WITH this AS MATERIALIZED (
        SELECT id FROM @.runs WHERE key = %(key)s
    ), base AS MATERIALIZED (
        SELECT {_ENTRY} WHERE {_THIS} AND kind = %(base)s AND key = '' ORDER BY n DESC LIMIT 1
    )
    SELECT 'entry', base.* FROM base
    UNION ALL (
        SELECT 'entry', '{OWN_STEP}', '', n, body, digest, crc FROM @.steps
        WHERE {_THIS} AND n > coalesce((SELECT n FROM base), 0) ORDER BY n DESC LIMIT %(most)s
    )
    UNION ALL SELECT 'entry', {_ENTRY} WHERE {_THIS} AND kind = ANY(%(kinds)s::text[])
    UNION ALL SELECT 'count', kind, coalesce(path, key), count(*), NULL, NULL, NULL FROM @.log
        WHERE {_THIS} AND %(counts)s GROUP BY kind, coalesce(path, key)
    UNION ALL SELECT 'message', kind, id, n, body, ''::bytea, crc FROM @.inbox WHERE {_THIS} AND body IS NOT NULL
    UNION ALL SELECT 'run', '', '', EXISTS (SELECT FROM @.runs WHERE child_of = %(run)s)::integer, NULL, NULL, NULL
        FROM this
"""
_by_name = attrgetter("kind", "path", "n")


def log_end(
    store: PostgresStore,
    run_id: str,
    kinds: Collection[str],
    *,
    base: str = "",
    most: int,
    counts: bool = True,
) -> LogEnd:
    values = {"key": key_of(run_id), "run": run_id, "base": base, "most": most, "counts": counts}
    found: dict[str, list[tuple[Any, ...]]] = {}
    for what, *columns in store._link.fetch(f"run {run_id!r}", _END, {**values, "kinds": list(kinds)}):
        found.setdefault(what, []).append(tuple(columns))
    if not found:
        raise unknown(run_id, store._link.fetch("runs", RECENT))
    return LogEnd(
        sorted(checked(run_id, found.get("entry", ())), key=_by_name),
        {(kind, path): number for kind, path, number, *_ in found.get("count", ())},
        sorted(messages(checked(run_id, found.get("message", ()))), key=attrgetter("n")),
        found["run"] == [("", "", 1, None, None, None)],
    )
