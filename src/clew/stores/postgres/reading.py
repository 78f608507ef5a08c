"""Reads of PostgreSQL that are one statement each: the end of a log, a mark that changes with a run, and pages of runs.

- The rows of the end of a log have the columns of entries, preceded by a word that says what the row is. If the run
  exists, there is a row for the run itself, which says whether it has children.
- A mark is read by primary keys, without any entry. Polling costs the writers nothing. A NOTIFY in every commit would
  slow them down, because the server handles all notifications under one lock.
- The rules for pages are in `clew.stores.pages`.

The functions are methods of `PostgresStore`.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Unpack

from clew.stores.pages import page_statement, read_page
from clew.stores.postgres.migrations import key_of
from clew.stores.protocol import OWN_STEP, LogEnd, PageQuery, RunRow
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
    for what, *columns in store._of_run(run_id, _END, {**values, "kinds": list(kinds)}):
        found.setdefault(what, []).append(tuple(columns))
    return LogEnd(
        sorted(checked(run_id, found.get("entry", ())), key=_by_name),
        {(kind, path): number for kind, path, number, *_ in found.get("count", ())},
        sorted(messages(checked(run_id, found.get("message", ()))), key=attrgetter("n")),
        found["run"] == [("", "", 1, None, None, None)],
    )


_MARK = """
    SELECT id, fence, status, updated,
        (SELECT max(n) FROM @.steps WHERE run = runs.id), (SELECT max(n) FROM @.inbox WHERE run = runs.id),
        (SELECT count(*) FROM @.log WHERE run = runs.id AND kind = ANY(%s::text[])),
        (SELECT max(n) FROM @.log WHERE run = runs.id AND kind = ANY(%s::text[]) AND key = '')
    FROM @.runs WHERE key = %s
"""


def change_mark(store: PostgresStore, run_id: str, kinds: Collection[str]) -> Any:
    values = (list(kinds), list(kinds), key_of(run_id))
    return store._of_run(run_id, _MARK, values)[0]


PAGE: dict[str, Any] = {
    "find": "strpos",
    "schema": "@.",
    "same_graph": "left(runs.graph, 200) = left(?, 200) AND runs.graph = ?",
}
"""The dialect of a page. The index contains only the beginning of a long name."""


def page(store: PostgresStore, **query: Unpack[PageQuery]) -> tuple[list[RunRow], str | None]:
    if "attributes" in query:
        query["attributes"] = {key_of(name): key_of(value) for name, value in query["attributes"].items()}
    statement, values, limit = page_statement(**query, **PAGE)
    return read_page(store._link.fetch("the list of runs", statement.replace("?", "%s"), values), limit)


def tally(store: PostgresStore) -> dict[str, int]:
    statement = "SELECT status, count(*) FROM @.runs WHERE child_of IS NULL GROUP BY status"
    return {status: int(number) for status, number in store._link.fetch("the list of runs", statement, [])}
