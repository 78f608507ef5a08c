"""Triggers that write the old and the new image of every changed row into a journal inside the database.

Triggers belong to the database, not to a connection. So every commit of the application is journaled in the same
transaction, and a rolled back transaction leaves no entries. The journal's columns have no type, so each value keeps
its own.

Rows that REPLACE removes. When REPLACE resolves a conflict, SQLite removes the conflicting rows without firing their
delete triggers (unless the connection has `recursive_triggers` on). So before each insert, and each update of unique
columns, the rows that may conflict are copied to a second table, the *suspects*:

- A suspect is a copy of an existing row. The update and delete triggers keep it up to date.
- If a suspect's row no longer exists, or has been replaced, it was removed silently. It is journaled then.
- Whether there is a conflict at all need not be known: a suspect whose row still exists was not removed.

Suspects that were not removed are dropped before the next row is checked, unless a BEFORE trigger of the user could run
in between (then the restore drops them).

Writes through SQLite's incremental blob interface fire no triggers and are not seen.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

from clew.explore.systems.sqlite.schema import OURS, SQLiteTable, WatchedSchema, quote

JOURNAL = f"{OURS}journal"  # seq, tbl, side (-1 removed, +1 inserted), c0, c1, ...
SUSPECTS = f"{OURS}suspects"  # tbl, c0, c1, ...
_QUIET = "quiet"
_ENABLED = f"sqlite_version() <> '{_QUIET}'"
_BODY = re.compile(r"\bBEGIN\b", re.IGNORECASE)
_AFTERWARDS = re.compile(r"\b(AFTER|INSTEAD)\b", re.IGNORECASE)  # the default is BEFORE
OWNER = f"{OURS}owner"  # the SQLiteSystem that installed the journal


def install(connection: sqlite3.Connection, schema: WatchedSchema, owner: str, midway: bool) -> None:
    """Create the journal and its triggers, inside the caller's transaction.

    `midway` tells whether an exploration has left its initial state.
    """
    columns = "".join(f", c{position}" for position in range(schema.widest))
    connection.execute(f"CREATE TABLE {JOURNAL}(seq INTEGER PRIMARY KEY, tbl INTEGER, side INTEGER{columns})")
    connection.execute(f"CREATE TABLE {SUSPECTS}(tbl INTEGER{columns})")
    connection.execute(f"CREATE TABLE {OWNER}(id TEXT, midway INTEGER)")
    connection.execute(f"INSERT INTO {OWNER} VALUES (?, ?)", (owner, midway))
    for table in schema.tables:
        if not table.shadow:
            for statement in triggers_of(table, schema):
                connection.execute(statement)


def triggers_of(table: SQLiteTable, schema: WatchedSchema) -> Iterable[str]:
    """Return the statements that create a table's triggers."""
    users = (sql for found in schema.triggers.values() for _, sql in found)
    interfering = any(not _AFTERWARDS.search(_BODY.split(sql, maxsplit=1)[0]) for sql in users)
    return _triggers(table, drop_suspects=not interfering)


def disable_for(connection: sqlite3.Connection) -> None:
    """Disable the journal's triggers for one connection.

    The condition of every trigger calls a built-in function, which a connection can replace. For other connections the
    condition is true and costs no lookup.
    """
    connection.create_function("sqlite_version", 0, lambda: _QUIET, deterministic=True)


def uninstall(connection: sqlite3.Connection) -> None:
    """Remove everything that `install` created, also in an earlier process, inside the caller's transaction."""
    found = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE substr(name, 1, ?) = ? AND type IN ('table', 'trigger') "
        "ORDER BY type = 'table'",
        (len(OURS), OURS),
    ).fetchall()
    for kind, name in found:
        connection.execute(f"DROP {kind} {quote(name)}")


def _triggers(table: SQLiteTable, *, drop_suspects: bool) -> Iterable[str]:
    parts = [part for unique in table.uniques for part in unique]
    by_expression = any(part.column is None for part in parts)
    columns = table.fields if by_expression else [part.column for part in parts]
    changes_unique = " OR ".join(
        f"NEW.{column} COLLATE BINARY IS NOT OLD.{column}" for column in dict.fromkeys(columns)
    )
    of_old = _at(table, "OLD")
    of_new = _at(table, "NEW")
    missing = _missing(table)
    copied = _mirrors(table, "OLD")
    checked = [
        *_journal_vanished(table, missing),
        *([f"DELETE FROM {SUSPECTS} WHERE tbl = {table.number}"] if drop_suspects else []),
    ]
    refreshed = ", ".join(f"c{position} = NEW.{field}" for position, field in enumerate(table.fields))
    bodies = {
        "BEFORE INSERT": [*checked, _suspect(table, "1")],
        "BEFORE UPDATE": [*checked, _suspect(table, f"NOT ({_same_row(table, 'OLD')})")],
        "AFTER INSERT": [*_journal_vanished(table, f"({of_new}) OR {missing}"), _image(table, 1, "NEW")],
        "AFTER UPDATE": [
            *_journal_vanished(table, f"NOT ({copied}) AND (({of_new}) OR ({of_old}) OR {missing})"),
            f"UPDATE {SUSPECTS} SET {refreshed} WHERE tbl = {table.number} AND ({copied})",
            _image(table, -1, "OLD"),
            _image(table, 1, "NEW"),
        ],
        "AFTER DELETE": [
            *_journal_vanished(table, f"NOT ({copied}) AND ({of_old})"),
            f"DELETE FROM {SUSPECTS} WHERE tbl = {table.number} AND ({copied})",
            _image(table, -1, "OLD"),
        ],
    }
    for event, statements in bodies.items():
        name = f"{OURS}{table.number}_{event.lower().replace(' ', '_')}"
        condition = f"WHEN {_ENABLED}" + (f" AND ({changes_unique}) " if event == "BEFORE UPDATE" else " ")
        body = " ".join(f"{statement};" for statement in statements)
        yield f"CREATE TRIGGER {name} {event} ON {table.quoted} {condition}BEGIN {body} END"


def _columns(table: SQLiteTable) -> str:
    return ", ".join(f"c{position}" for position in range(len(table.fields)))


def _image(table: SQLiteTable, side: int, row: str) -> str:
    values = ", ".join(f"{row}.{field}" for field in table.fields)
    return f"INSERT INTO {JOURNAL}(tbl, side, {_columns(table)}) VALUES ({table.number}, {side}, {values})"


def _suspect(table: SQLiteTable, except_for: str) -> str:
    """Copy the rows that have a unique value of the new row."""
    values = ", ".join(f"r.{field}" for field in table.fields)
    conflicting = " OR ".join(
        "(" + " AND ".join(f"{part.row} COLLATE {part.order} = {part.new}" for part in unique) + ")"
        for unique in table.uniques
    )
    return (
        f"INSERT INTO {SUSPECTS}(tbl, {_columns(table)}) SELECT {table.number}, {values} "
        f"FROM {table.quoted} AS r WHERE ({conflicting}) AND {except_for}"
    )


def _same_row(table: SQLiteTable, row: str) -> str:
    return " AND ".join(
        f"{row}.{table.fields[at]} = r.{table.fields[at]} COLLATE {order}"
        for at, order in zip(table.key, table.orders)
    )


def _at(table: SQLiteTable, row: str) -> str:
    """Whether the suspect has the key of this row."""
    return " AND ".join(
        f"{row}.{table.fields[at]} = {SUSPECTS}.c{at} COLLATE {order}"
        for at, order in zip(table.key, table.orders)
    )


def _mirrors(table: SQLiteTable, row: str) -> str:
    """Whether the suspect equals this row. (It is the left operand, so text is compared exactly.)"""
    return " AND ".join(f"{SUSPECTS}.c{at} IS {row}.{field}" for at, field in enumerate(table.fields))


def _missing(table: SQLiteTable) -> str:
    """Whether no row has the key of the suspect."""
    return f"NOT EXISTS (SELECT 1 FROM {table.quoted} AS r WHERE {_at(table, 'r')})"


def _journal_vanished(table: SQLiteTable, vanished: str) -> list[str]:
    which = f"{SUSPECTS}.tbl = {table.number} AND ({vanished})"
    return [
        f"INSERT INTO {JOURNAL}(tbl, side, {_columns(table)}) "
        f"SELECT tbl, -1, {_columns(table)} FROM {SUSPECTS} WHERE {which}",
        f"DELETE FROM {SUSPECTS} WHERE {which}",
    ]
