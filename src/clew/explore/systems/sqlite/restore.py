"""Write rows back: deletes, then inserts, without firing any trigger.

The journal's triggers do not fire on the system's connection (`triggers.disable_for`). The user's triggers must not
fire either. Before Python 3.12, triggers cannot be switched off. Then the triggers of the affected tables are dropped
and created again in the same transaction, so no other connection sees them missing. The journal's triggers are created
last, because SQLite fires the youngest first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping

from clew.errors import RollbackError
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.epochs import Numbers
from clew.explore.systems.sqlite.schema import OURS, SQLiteTable, WatchedSchema, quote
from clew.explore.systems.sqlite.triggers import triggers_of

PRAGMAS = ("application_id", "user_version")
COUNTER = "counter of "  # before the name of a table

_ENABLE_TRIGGER = 1003  # SQLITE_DBCONFIG_ENABLE_TRIGGER, which the standard library names from 3.12


def switch_triggers_off(connection: sqlite3.Connection) -> bool:
    """Disable all triggers for a connection; return False if that is not possible (before Python 3.12)."""
    if not hasattr(connection, "setconfig"):
        return False
    connection.setconfig(_ENABLE_TRIGGER, False)
    return True


def apply(
    connection: sqlite3.Connection,
    schema: WatchedSchema,
    delta: Mapping[tuple[int, bytes], int],
    *,
    quiet: bool,
) -> int | None:
    """Apply a delta inside a transaction; return the new schema version if triggers were created again.

    `quiet` means that no triggers fire on this connection.
    """
    deleted: dict[int, list[list[object]]] = {}
    inserted: dict[int, list[list[object]]] = {}
    for (number, image), count in delta.items():
        rows = deleted if count < 0 else inserted
        rows.setdefault(number, []).extend([images.decode(image)] * abs(count))
    tables = [schema.tables[number] for number in sorted({*deleted, *inserted})]
    silenced = [table for table in tables if not quiet and schema.triggers.get(table.name)]
    _drop_triggers(connection, schema, silenced)
    for number, lost in deleted.items():
        _delete(connection, schema.tables[number], lost)
    for number, new in inserted.items():
        _insert(connection, schema.tables[number], new)
    _create_triggers(connection, schema, silenced)
    return connection.execute("PRAGMA schema_version").fetchone()[0] if silenced else None


def _delete(connection: sqlite3.Connection, table: SQLiteTable, rows: list[list[object]]) -> None:
    def statement(places: list[str]) -> str:
        where = " AND ".join(f"{table.fields[at]} = {place}" for at, place in zip(table.key, places))
        return f"DELETE FROM {table.quoted} WHERE {where}"

    _each(connection, table, statement, [[row[at] for at in table.key] for row in rows])


def _insert(connection: sqlite3.Connection, table: SQLiteTable, rows: list[list[object]]) -> None:
    def statement(places: list[str]) -> str:
        # OR ABORT: a table may declare ON CONFLICT REPLACE, and a conflict here is an error.
        fields = ", ".join(table.fields)
        return f"INSERT OR ABORT INTO {table.quoted}({fields}) VALUES ({', '.join(places)})"

    _each(connection, table, statement, rows)


def _each(
    connection: sqlite3.Connection,
    table: SQLiteTable,
    statement: Callable[[list[str]], str],
    rows: list[list[object]],
) -> None:
    """Run a statement for each row, and check that each execution changed one row."""
    invalid = [row for row in rows if images.InvalidText in map(type, row)]
    usual = [row for row in rows if images.InvalidText not in map(type, row)] if invalid else rows
    changed = connection.executemany(statement(["?"] * len(rows[0])), usual).rowcount if usual else 0
    for row in invalid:  # text that is not UTF-8 cannot be bound; bind a blob and cast it
        places = ["CAST(? AS TEXT)" if isinstance(value, images.InvalidText) else "?" for value in row]
        values = [value.raw if isinstance(value, images.InvalidText) else value for value in row]
        changed += connection.execute(statement(places), values).rowcount
    if changed != len(rows):
        raise RollbackError(
            f"table {table.name!r} differs from its recorded state: {len(rows)} rows should have changed, {changed} "
            "did; do not write without firing triggers (incremental blob writes, writable_schema, PRAGMAs that "
            "disable triggers, copied files)"
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


def read_numbers(connection: sqlite3.Connection, schema: WatchedSchema) -> Numbers:
    """Return the numbers that are restored and are not part of the state.

    These are the AUTOINCREMENT counters of the watched tables, and the numbers that an application stores in the file.
    """
    found = [(name, *connection.execute(f"PRAGMA {name}").fetchone()) for name in PRAGMAS]
    if schema.has_sequences:
        watched = {table.name for table in schema.tables}
        counters = connection.execute("SELECT name, seq FROM sqlite_sequence")
        found += sorted((f"{COUNTER}{name}", seq) for name, seq in counters if name in watched)
    return tuple(found)


def write_numbers(connection: sqlite3.Connection, schema: WatchedSchema, numbers: Numbers) -> None:
    """Set the numbers if they differ."""
    now = read_numbers(connection, schema)
    if now == numbers:
        return
    for (name, value), (_, current) in zip(numbers, now[: len(PRAGMAS)]):
        if value != current:
            connection.execute(f"PRAGMA {name} = {int(value)}")
    if schema.has_sequences:
        connection.executemany(
            "DELETE FROM sqlite_sequence WHERE name = ?", [(table.name,) for table in schema.tables]
        )
        counters = [(name.removeprefix(COUNTER), value) for name, value in numbers[len(PRAGMAS) :]]
        connection.executemany("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", counters)
