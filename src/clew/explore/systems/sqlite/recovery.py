"""A SQLite database as pieces of bytes that another process can go back to, and how a database differs from it.

What is kept is the file, all of it: which tables matter, and how their rows are told apart, is known only to whoever
reads it. The two are compared row by row, value by value, types included, which costs the size of the tables, once.
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


def place(path: str) -> bytes:
    """Which database it is."""
    return path.encode() if path in ("", ":memory:") else os.fsencode(os.path.realpath(path))


def packed(file: Path, path: str) -> Iterator[bytes]:
    """A copy of a database in pieces; the first says which it is."""
    yield place(path)
    with file.open("rb") as source:
        while piece := source.read(PIECE):
            yield piece


def unpacked(pieces: Iterable[bytes], file: Path, path: str) -> bool:
    """Write the copy that the pieces are of; False if it is one of another database."""
    coming = iter(pieces)
    if next(coming, None) != place(path):
        return False
    with file.open("wb") as target:
        for piece in coming:
            target.write(piece)
    return True


def shape(connection: sqlite3.Connection) -> Shape:
    """What the application has defined; statistics and what we put there do not count."""
    return sorted(
        (kind, name, sql)
        for kind, name, sql in connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        )
        if not name.startswith((OURS, "sqlite_"))
    )


def way_back(
    now: sqlite3.Connection, kept: sqlite3.Connection, schema: WatchedSchema
) -> dict[tuple[int, bytes], int]:
    """The rows of the watched tables that have to come (+) and to go (−) for the database to be as it was kept."""
    way: dict[tuple[int, bytes], int] = {}
    for table in schema.tables:
        sql = f"SELECT {', '.join(table.fields)} FROM {table.quoted}"
        for connection, sign in ((kept, 1), (now, -1)):
            for row in images.stream(connection, sql):
                add(way, {(table.number, images.encode(row)): sign})
    return way
