"""What a SQLite database holds, without times. As a script it prints that: a command for `ROWS`."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any


def stored_rows(path: Path | str) -> list[tuple[Any, ...]]:
    """The rows of all tables, without columns that hold times."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = _without_times
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return [(name, *row) for (name,) in tables for row in connection.execute(f"SELECT * FROM {name}")]


def _without_times(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
    names = [each[0] for each in cursor.description]
    return tuple(value for name, value in zip(names, row) if not name.endswith("_at"))


if __name__ == "__main__":
    print(*stored_rows(sys.argv[1]), sep="\n")
