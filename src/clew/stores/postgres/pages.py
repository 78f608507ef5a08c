"""Listing runs in PostgreSQL one page at a time: a method of `PostgresStore`. The rules are in `clew.stores.pages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from clew.stores.pages import page_statement, read_page
from clew.stores.postgres.migrations import key_of
from clew.stores.protocol import PageQuery, RunRow

if TYPE_CHECKING:
    from clew.stores.postgres.store import PostgresStore

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
