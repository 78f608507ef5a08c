"""What an observation shows of a SQLite database.

A table of up to `rows_shown` rows is shown as a list of dicts, ordered by the key, or by the values if there is no
key. A larger table is shown as `{"rows": count, "digest": text}`. The digest depends on the table's definition, its
number of rows and the sum of their hashes. Both depend on the state alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from clew.explore.model.system import Observation
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.schema import SQLiteTable, WatchedSchema, quote


class TableObservation(msgspec.Struct, frozen=True, eq=False):
    """The observation of one table."""

    shown: Any
    digest: bytes


class DatabaseObserver:
    """Observes a database over a connection. A table is read again only if its rows have changed."""

    def __init__(self, connection: sqlite3.Connection, path: str, rows_shown: int) -> None:
        self._connection = connection
        self._path = path
        self._rows_shown = rows_shown
        self._latest: dict[int, tuple[SQLiteTable, images.Sum, TableObservation]] = {}

    def observe(
        self, schema: WatchedSchema, sums: Sequence[images.Sum], virtual: sqlite3.Connection
    ) -> Observation:
        """Return an observation of all tables; `sums` identify their rows, `virtual` reads the virtual tables."""
        found = {
            table.name: self._table(table, rows)
            for table, rows in zip(schema.tables, sums)
            if table.shown and not table.shadow
        }
        found |= {name: self._virtual_table(virtual, name, sql) for name, sql in schema.virtual}
        digest = blake2b(digest_size=32)
        for _, table in sorted(found.items()):
            digest.update(table.digest)
        data = {name: table.shown for name, table in sorted(found.items())}
        return Observation("sqlite", data, {"path": self._path}, digest.digest())

    def _table(self, table: SQLiteTable, rows: images.Sum) -> TableObservation:
        latest = self._latest.get(table.number)
        if latest is None or latest[0] is not table or latest[1] != rows:
            latest = (table, rows, self._read(table, rows))
            self._latest[table.number] = latest
        return latest[2]

    def _read(self, table: SQLiteTable, found: images.Sum) -> TableObservation:
        observed = range(len(table.fields)) if table.observed is None else table.observed
        fields = [table.fields[at] for at in observed]
        if found[0] > self._rows_shown or not fields:
            return _observation(table.name, table.sql, found, None)
        key = [str(1 + place) for at in table.key for place, other in enumerate(observed) if other == at]
        order = ", ".join(key if len(key) == len(table.key) else [str(1 + n) for n in range(len(fields))])
        sql = f"SELECT {', '.join(fields)} FROM {table.quoted} ORDER BY {order}"
        names = [field[1:-1].replace('""', '"') for field in fields]
        rows = [_row(names, row) for row in images.rows(self._connection, sql)]
        return _observation(table.name, table.sql, found, rows)

    def _virtual_table(self, connection: sqlite3.Connection, name: str, sql: str) -> TableObservation:
        rows = list(images.rows(connection, f"SELECT * FROM {quote(name)}"))
        names = [column[1] for column in connection.execute(f"PRAGMA table_info({quote(name)})")]
        found = (0, 0)
        for row in rows:
            found = images.plus(found, images.encode(row), 1)
        shown = sorted((_row(names, row) for row in rows), key=repr) if found[0] <= self._rows_shown else None
        return _observation(name, sql, found, shown)


def _observation(
    name: str, sql: str, found: images.Sum, rows: list[dict[str, Any]] | None
) -> TableObservation:
    count, hashes = found
    digest = blake2b(
        images.encode((name, sql, count, hashes.to_bytes(32, "little"))), digest_size=32
    ).digest()
    return TableObservation({"rows": count, "digest": digest.hex()} if rows is None else rows, digest)


def _row(names: list[str], row: images.Row) -> dict[str, Any]:
    values = (value.raw if isinstance(value, images.InvalidText) else value for value in row)
    return dict(zip(names, values))
