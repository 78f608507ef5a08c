"""Writing rows back: deletes, then inserts, with nothing else in the database taking part.

Our triggers do not fire on our connection (`sqlite_journal.be_quiet`). The user's must not either. Where triggers
cannot be switched off (before Python 3.12), those of the tables concerned are dropped and created again in the same
transaction, so that no other connection ever sees them gone. Ours are created after them, because SQLite fires the
youngest first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping

from clew.errors import RollbackError
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.schema import OURS, SQLiteTable, WatchedSchema, quote
from clew.explore.systems.sqlite.triggers import triggers_of

_ENABLE_TRIGGER = 1003  # SQLITE_DBCONFIG_ENABLE_TRIGGER, which the standard library names from 3.12


def switch_triggers_off(connection: sqlite3.Connection) -> bool:
    """Let no triggers fire for what a connection writes; whether that can be had (from Python 3.12)."""
    if not hasattr(connection, "setconfig"):
        return False
    connection.setconfig(_ENABLE_TRIGGER, False)
    return True


def apply(
    connection: sqlite3.Connection,
    schema: WatchedSchema,
    way: Mapping[tuple[int, bytes], int],
    *,
    quiet: bool,
) -> int | None:
    """Make the changes, inside a transaction; the schema's new version, if triggers had to be made anew.

    `quiet` says that no triggers fire on this connection.
    """
    going: dict[int, list[list[object]]] = {}
    coming: dict[int, list[list[object]]] = {}
    for (number, image), count in way.items():
        side = going if count < 0 else coming
        side.setdefault(number, []).extend([images.decode(image)] * abs(count))
    tables = [schema.tables[number] for number in sorted({*going, *coming})]
    silenced = [table for table in tables if not quiet and schema.triggers.get(table.name)]
    _drop_triggers(connection, schema, silenced)
    for number, rows in going.items():
        _delete(connection, schema.tables[number], rows)
    for number, rows in coming.items():
        _insert(connection, schema.tables[number], rows)
    _create_triggers(connection, schema, silenced)
    return connection.execute("PRAGMA schema_version").fetchone()[0] if silenced else None


def _delete(connection: sqlite3.Connection, table: SQLiteTable, rows: list[list[object]]) -> None:
    def statement(places: list[str]) -> str:
        where = " AND ".join(f"{table.fields[at]} = {place}" for at, place in zip(table.key, places))
        return f"DELETE FROM {table.quoted} WHERE {where}"

    _each(connection, table, statement, [[row[at] for at in table.key] for row in rows])


def _insert(connection: sqlite3.Connection, table: SQLiteTable, rows: list[list[object]]) -> None:
    def statement(places: list[str]) -> str:
        # OR ABORT: a table may declare that conflicts replace rows, and there must be none.
        fields = ", ".join(table.fields)
        return f"INSERT OR ABORT INTO {table.quoted}({fields}) VALUES ({', '.join(places)})"

    _each(connection, table, statement, rows)


def _each(
    connection: sqlite3.Connection,
    table: SQLiteTable,
    statement: Callable[[list[str]], str],
    rows: list[list[object]],
) -> None:
    """Run a statement for each row, and see that it changed one row each time."""
    ill = [row for row in rows if images.InvalidText in map(type, row)]
    usual = [row for row in rows if images.InvalidText not in map(type, row)] if ill else rows
    changed = connection.executemany(statement(["?"] * len(rows[0])), usual).rowcount if usual else 0
    for row in ill:  # such text cannot be bound; as a blob it can be, and cast back
        places = ["CAST(? AS TEXT)" if isinstance(value, images.InvalidText) else "?" for value in row]
        values = [value.raw if isinstance(value, images.InvalidText) else value for value in row]
        changed += connection.execute(statement(places), values).rowcount
    if changed != len(rows):
        raise RollbackError(
            f"table {table.name!r} is not what was recorded: {len(rows)} rows should have changed, {changed} did. "
            "Something wrote without firing triggers (incremental blob writes, writable_schema, another program's "
            "PRAGMA or a copied file)"
        )


def _drop_triggers(
    connection: sqlite3.Connection, schema: WatchedSchema, tables: Iterable[SQLiteTable]
) -> None:
    for table in tables:
        for name, _ in schema.triggers[table.name]:
            connection.execute(f"DROP TRIGGER {quote(name)}")


def _create_triggers(
    connection: sqlite3.Connection, schema: WatchedSchema, tables: Iterable[SQLiteTable]
) -> None:
    for table in tables:
        for _, sql in schema.triggers[table.name]:
            connection.execute(sql)
        for statement in triggers_of(table, schema):
            name = statement.split()[2]
            assert name.startswith(OURS)
            connection.execute(f"DROP TRIGGER {name}")
            connection.execute(statement)


def read_sequences(connection: sqlite3.Connection, schema: WatchedSchema) -> tuple[tuple[str, int], ...]:
    """The AUTOINCREMENT counters of the watched tables."""
    if not schema.has_sequences:
        return ()
    watched = {table.name for table in schema.tables}
    found = connection.execute("SELECT name, seq FROM sqlite_sequence")
    return tuple(sorted((name, seq) for name, seq in found if name in watched))


def write_sequences(
    connection: sqlite3.Connection, schema: WatchedSchema, sequences: Iterable[tuple[str, int]]
) -> None:
    """Set the counters, where they are not what they should be."""
    if read_sequences(connection, schema) == tuple(sequences):
        return
    connection.executemany(
        "DELETE FROM sqlite_sequence WHERE name = ?", [(table.name,) for table in schema.tables]
    )
    connection.executemany("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", sequences)
