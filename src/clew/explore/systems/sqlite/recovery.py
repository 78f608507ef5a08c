"""Save a SQLite database as pieces of bytes, so that another process can restore it.

The whole file is saved, because only the reader knows which tables are watched and how their rows are identified. The
databases are compared row by row, including types. That costs the size of the tables, once.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from clew.explore.systems.delta_tree import add
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.schema import OURS, WatchedSchema

PIECE = 1 << 20
Shape = list[tuple[str, str, str]]


def _identity(path: str) -> bytes:
    """Return the bytes that identify a database."""
    return path.encode() if path in ("", ":memory:") else os.fsencode(os.path.realpath(path))


def packed(file: Path, path: str) -> Iterator[bytes]:
    """Return a copy of a database in pieces; the first piece identifies the database."""
    yield _identity(path)
    with file.open("rb") as source:
        while piece := source.read(PIECE):
            yield piece


def unpacked(pieces: Iterable[bytes], file: Path, path: str) -> bool:
    """Write the pieces to a file; return False if they belong to another database."""
    remaining = iter(pieces)
    if next(remaining, None) != _identity(path):
        return False
    with file.open("wb") as target:
        for piece in remaining:
            target.write(piece)
    return True


def shape(connection: sqlite3.Connection) -> Shape:
    """Return the definitions of the application, without statistics and the journal."""
    return sorted(
        (kind, name, sql)
        for kind, name, sql in connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        )
        if not name.startswith((OURS, "sqlite_"))
    )


def path_back(
    now: sqlite3.Connection, saved: sqlite3.Connection, schema: WatchedSchema
) -> dict[tuple[int, bytes], int]:
    """Return the delta of the watched tables from the current database to the saved one."""
    path: dict[tuple[int, bytes], int] = {}
    for table in schema.tables:
        sql = f"SELECT {', '.join(table.fields)} FROM {table.quoted}"
        for connection, sign in ((saved, 1), (now, -1)):
            for row in images.stream(connection, sql):
                add(path, {(table.number, images.encode(row)): sign})
    return path
