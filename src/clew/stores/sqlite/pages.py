"""Listing runs in a SQLite file one page at a time: a method of `SQLiteStore`. The rules are in `clew.stores.pages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from clew.stores.pages import page_statement, read_page
from clew.stores.protocol import PageQuery, RunRow

if TYPE_CHECKING:
    from clew.stores.sqlite.store import SQLiteStore


def page(store: SQLiteStore, **query: Unpack[PageQuery]) -> tuple[list[RunRow], str | None]:
    statement, values, limit = page_statement(**query)
    with store._lock, store._reading("the list of runs") as db:
        return read_page(db.execute(statement, values).fetchall(), limit)


def tally(store: SQLiteStore) -> dict[str, int]:
    with store._lock, store._reading("the list of runs") as db:
        found = db.execute("SELECT status, count(*) FROM runs WHERE child_of IS NULL GROUP BY status")
        return {str(status): number for status, number in found}
