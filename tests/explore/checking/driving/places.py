"""Real stores for paths: SQLite in a file, and PostgreSQL.

Each path starts with an empty store. A separate connection, without faults, empties and inspects it. An additional
table holds the writes of nodes with ``ctx.transaction``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path as File
from typing import Any

from clew import SQLiteStore
from clew.errors import UnknownRunError
from clew.stores import Store

TABLES = {
    "sqlite": ("runs", "origins", "steps", "log", "blobs"),
    "postgresql": ("runs", "origins", "steps", "log", "blobs", "uses"),
}


class Place:
    """A store that outlives whoever writes to it, with what `Disk` has beside."""

    encodes = True

    def __init__(self, store: Store, execute: Callable[[str], list[tuple[Any, ...]]], kind: str) -> None:
        self._store = store
        self._execute = execute
        self._tables = TABLES[kind]
        for table in (*self._tables, "workers", "effects"):
            execute(f"DELETE FROM {table}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def has(self, run_id: str) -> bool:
        """Whether there is such a run."""
        with suppress(UnknownRunError):
            return bool(self._store.row(run_id))
        return False

    def names(self, run_id: str) -> list[list[Any]]:
        """What is kept of a run, by name and digest."""
        if not self.has(run_id):
            return []
        entries = self._store.entries(run_id)
        return [[self._store.row(run_id).status], *([e.kind, e.path, e.n, bytes(e.digest)] for e in entries)]

    def forget_owners(self) -> None:
        """The process that owned runs is dead, and everybody can tell."""
        self._execute("DELETE FROM workers")
        self._execute("UPDATE runs SET owner = ''")

    def lapse(self) -> None:
        """The leases of all owners are over."""
        self._execute("UPDATE workers SET until = 0")

    def effects(self) -> list[str]:
        """What nodes have written, by the paths of their items."""
        return sorted(path for (path,) in self._execute("SELECT path FROM effects"))

    def leftovers(self) -> dict[str, int]:
        """How many rows each table has, where there are any."""
        counts = {table: self._execute(f"SELECT count(*) FROM {table}")[0][0] for table in self._tables}
        return {table: many for table, many in counts.items() if many}


@contextmanager
def in_sqlite(folder: File) -> Iterator[Callable[[], Place]]:
    """Makes empty places in one file."""
    with (
        closing(SQLiteStore(folder / "runs.db", synchronous="off")) as store,
        closing(sqlite3.connect(folder / "runs.db", isolation_level=None, check_same_thread=False)) as db,
    ):
        db.execute("PRAGMA synchronous = OFF")
        db.execute("CREATE TABLE effects (path TEXT)")
        yield lambda: Place(store, lambda sql: db.execute(sql).fetchall(), "sqlite")


@contextmanager
def in_postgres(store: Any, dsn: str) -> Iterator[Callable[[], Place]]:
    """Makes empty places in one schema."""
    import psycopg

    path = f"-c search_path={store._link._schema},public"
    with closing(store), closing(psycopg.connect(dsn, autocommit=True, options=path)) as db:
        db.execute("CREATE TABLE IF NOT EXISTS public.effects (path text)")

        def execute(sql: str) -> list[tuple[Any, ...]]:
            done = db.execute(sql)
            return done.fetchall() if done.description else []

        yield lambda: Place(store, execute, "postgresql")
