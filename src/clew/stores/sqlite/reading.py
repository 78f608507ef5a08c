"""Reads of a SQLite file in one transaction each: the end of a log, and pages of runs, whose rules are in
`clew.stores.pages`. The functions are methods of `SQLiteStore`."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import TYPE_CHECKING, Unpack

from clew.stores.pages import page_statement, read_page
from clew.stores.protocol import LogEnd, PageQuery, RunRow
from clew.stores.sql_rows import checked
from clew.stores.sqlite.entries import MOST, counted, last_steps, newest, within
from clew.stores.sqlite.inbox import unreceived

if TYPE_CHECKING:
    from clew.stores.sqlite.store import SQLiteStore


_HAS_CHILDREN = "SELECT EXISTS (SELECT 1 FROM runs WHERE child_of = ?)"
_by_name = attrgetter("kind", "path", "n")


def log_end(
    store: SQLiteStore, run_id: str, kinds: Collection[str], *, base: str = "", most: int, counts: bool = True
) -> LogEnd:
    with store._lock, store._reading(f"run {run_id!r}") as db:
        number = store._number(db, run_id)
        last = newest(db, number, base, "", MOST) if base else None
        found = last_steps(db, number, 0 if last is None else last[0], most)
        found += within(db, number, kinds, None, 0, MOST)
        if last is not None:
            found.append((base, "", *last))
        return LogEnd(
            sorted(checked(run_id, found), key=_by_name),
            counted(db, number, run_id) if counts else {},
            unreceived(db, number, run_id),
            bool(db.execute(_HAS_CHILDREN, (run_id,)).fetchone()[0]),
        )


def page(store: SQLiteStore, **query: Unpack[PageQuery]) -> tuple[list[RunRow], str | None]:
    statement, values, limit = page_statement(**query)
    with store._lock, store._reading("the list of runs") as db:
        return read_page(db.execute(statement, values).fetchall(), limit)


def tally(store: SQLiteStore) -> dict[str, int]:
    with store._lock, store._reading("the list of runs") as db:
        found = db.execute("SELECT status, count(*) FROM runs WHERE child_of IS NULL GROUP BY status")
        return {str(status): number for status, number in found}
