"""What an observation shows of a SQLite database.

A table of up to `rows_shown` rows is shown as its rows: dicts, in the order of the key (without one, of their
values). A larger one is shown as `{"rows": count, "digest": text}`. Which of the two depends on the state alone,
and so does the digest: on the table's definition, its number of rows and the sum of their hashes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from hashlib import blake2b
from typing import Any

import msgspec

from clew.explore.model.observation import Observation
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.schema import SQLiteTable, quote


class TableObservation(msgspec.Struct, frozen=True, eq=False):
    """What is seen of one table."""

    shown: Any
    digest: bytes


def see(
    connection: sqlite3.Connection, table: SQLiteTable, found: images.Sum, rows_shown: int
) -> TableObservation:
    """A watched table, of which the sum is known."""
    observed = range(len(table.fields)) if table.observed is None else table.observed
    fields = [table.fields[at] for at in observed]
    if found[0] > rows_shown or not fields:
        return _sight(table.name, table.sql, found, None)
    key = [str(1 + place) for at in table.key for place, other in enumerate(observed) if other == at]
    order = ", ".join(key if len(key) == len(table.key) else [str(1 + n) for n in range(len(fields))])
    sql = f"SELECT {', '.join(fields)} FROM {table.quoted} ORDER BY {order}"
    names = [field[1:-1].replace('""', '"') for field in fields]
    rows = [dict(zip(names, map(_plain, row))) for row in images.rows(connection, sql)]
    return _sight(table.name, table.sql, found, rows)


def see_virtual(path: str, name: str, sql: str, rows_shown: int) -> TableObservation:
    """A virtual table; on a connection of its own, whose cache our restores do not deceive."""
    with closing(sqlite3.connect(path)) as reader:
        rows = list(images.rows(reader, f"SELECT * FROM {quote(name)}"))
        names = [column[1] for column in reader.execute(f"PRAGMA table_info({quote(name)})")]
    return see_rows(name, sql, names, rows, rows_shown)


def see_rows(
    name: str, sql: str, names: list[str], rows: list[images.Row], rows_shown: int
) -> TableObservation:
    """A table by its rows."""
    found = (0, 0)
    for row in rows:
        found = images.plus(found, images.encode(row), 1)
    shown = sorted((dict(zip(names, map(_plain, row))) for row in rows), key=repr)
    return _sight(name, sql, found, shown if found[0] <= rows_shown else None)


def observation(sights: Mapping[str, TableObservation], path: str) -> Observation:
    """All tables together."""
    digest = blake2b(digest_size=32)
    for _, sight in sorted(sights.items()):
        digest.update(sight.digest)
    data = {name: sight.shown for name, sight in sorted(sights.items())}
    return Observation("sqlite", data, {"path": path}, digest.digest())


def _sight(name: str, sql: str, found: images.Sum, rows: list[dict[str, Any]] | None) -> TableObservation:
    count, hashes = found
    digest = blake2b(
        images.encode((name, sql, count, hashes.to_bytes(32, "little"))), digest_size=32
    ).digest()
    return TableObservation({"rows": count, "digest": digest.hex()} if rows is None else rows, digest)


def _plain(value: Any) -> Any:
    return value.raw if isinstance(value, images.InvalidText) else value
