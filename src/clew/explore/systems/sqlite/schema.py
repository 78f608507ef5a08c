"""The watched tables of a SQLite database, and the parts of their rows.

The *image* of a row is the tuple of its stored values: the rowid first, if the table has one that is not a column, then
the columns in order, without generated ones. `key` identifies the row: by its rowid or, WITHOUT ROWID, by its primary
key. `uniques` are the column sets for which a REPLACE may remove other rows.

- Views are not watched. A virtual table is watched through its shadow tables, which are ordinary tables. It is observed
  by its own rows, because its shadow tables depend on the history.
- SQLite's own tables (sqlite_...) are not watched. AUTOINCREMENT counters are restored separately.
- Names are always quoted.
"""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from clew.errors import ExplorationWarning, SystemSetupError
from clew.explore.systems.tables import TableChoice, is_like, warn_about_unused

OURS = "_clew_"  # prefix of all names that the system adds to the database
_ROWID_NAMES = ("rowid", "_rowid_", "oid")
_EXPRESSION = -2  # instead of a column number
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/ | \w+ | \s+ | .""",
    re.VERBOSE | re.DOTALL,
)
_DIRECTION = re.compile(r"\s+(?:ASC|DESC)\s*$", re.IGNORECASE)
_MAX_COLUMNS = 900  # a comparison of whole rows must stay below SQLite's expression depth limit


class UniqueKeyPart(msgspec.Struct, frozen=True):
    """A part of a unique key: a column or an expression, as SQL for a row `r` of the table and for the new row."""

    column: str | None  # quoted
    row: str
    new: str
    order: str  # quoted collation


class SQLiteTable(msgspec.Struct, frozen=True):
    """A watched table. Positions are positions in an image."""

    number: int
    name: str
    fields: tuple[str, ...]  # quoted names of the values of an image
    key: tuple[int, ...]
    orders: tuple[str, ...]  # quoted collations of the key
    uniques: tuple[tuple[UniqueKeyPart, ...], ...]
    observed: tuple[int, ...] | None  # None: the whole image is observed
    shadow: bool
    shown: bool  # in observations
    sql: str

    @property
    def quoted(self) -> str:
        return quote(self.name)


class WatchedSchema(msgspec.Struct, frozen=True):
    """The watched tables, and what the journal needs to know in addition."""

    tables: tuple[SQLiteTable, ...]
    virtual: tuple[tuple[str, str], ...]  # observed by their own rows: name, SQL
    triggers: Mapping[str, tuple[tuple[str, str], ...]]  # of the user, by table: name, SQL
    has_sequences: bool

    @property
    def widest(self) -> int:
        return max((len(table.fields) for table in self.tables), default=0)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_schema(
    connection: sqlite3.Connection, choice: TableChoice, *, complete: bool = True
) -> WatchedSchema:
    """Return the watched schema. If `complete`, an unknown table is an error, and an unknown column gets a warning."""
    only = choice.tables
    kinds = {
        name: (kind, bool(without_rowid))
        for schema, name, kind, _, without_rowid, _ in connection.execute("PRAGMA table_list")
        if schema == "main" and not name.startswith(("sqlite_", OURS))
    }
    if complete:
        _check_names(kinds, choice)
    written = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    virtual = [name for name, (kind, _) in kinds.items() if kind == "virtual" and _chosen(name, only)]
    tables: list[SQLiteTable] = []
    for name, (kind, without_rowid) in sorted(kinds.items()):
        watched = (
            _chosen(name, only)
            if kind == "table"
            else kind == "shadow" and any(name.startswith(f"{v}_") for v in virtual)
        )
        if watched:
            tables.append(
                _table(
                    connection,
                    len(tables),
                    name,
                    without_rowid,
                    shadow=kind == "shadow",
                    shown=is_observed(name, choice),
                    ignored=[column for table, column in choice.ignore if is_like(name, table)],
                    sql=written.get(name) or "",
                )
            )
    _warn_about_virtual(virtual, tables)
    if complete:
        warn_about_unused(_unused(connection, kinds, choice))
    return WatchedSchema(
        tuple(tables),
        tuple((name, written.get(name) or "") for name in sorted(virtual) if is_observed(name, choice)),
        _user_triggers(connection),
        "sqlite_sequence" in written,
    )


def _chosen(name: str, only: Collection[str] | None) -> bool:
    return only is None or name in only


def is_observed(name: str, choice: TableChoice) -> bool:
    """Return whether a table that is rolled back is part of the state."""
    return choice.observe is None or any(is_like(name, pattern) for pattern in choice.observe)


def _check_names(kinds: Mapping[str, Any], choice: TableChoice) -> None:
    only = choice.tables or ()
    if missing := [name for name in only if name not in kinds]:
        raise SystemSetupError(f"tables={missing!r}: unknown tables; the database has {sorted(kinds)}")
    if views := [name for name in only if kinds[name][0] == "view"]:
        raise SystemSetupError(f"tables={views!r}: views store no rows; name the tables that they read")
    watched = [name for name, (kind, _) in kinds.items() if kind != "view" and _chosen(name, choice.tables)]
    if missing := [each for each in choice.observe or () if not any(is_like(name, each) for name in watched)]:
        raise SystemSetupError(
            f"observe={missing!r}: these tables are not rolled back; only {sorted(watched)} are"
        )


def _unused(
    connection: sqlite3.Connection, kinds: Iterable[str], choice: TableChoice
) -> Iterable[tuple[str, str]]:
    """Yield the patterns of columns that match nothing."""
    if not choice.ignore:
        return
    columns = {
        name: [column for (column,) in connection.execute("SELECT name FROM pragma_table_xinfo(?)", (name,))]
        for name in kinds
        if _chosen(name, choice.tables)
    }
    for table, column in choice.ignore:
        if not any(
            is_like(name, table) and any(is_like(c, column) for c in columns[name]) for name in columns
        ):
            yield table, column


def _table(
    connection: sqlite3.Connection,
    number: int,
    name: str,
    without_rowid: bool,
    *,
    shadow: bool,
    shown: bool,
    ignored: Collection[str],
    sql: str,
) -> SQLiteTable:
    info = list(connection.execute("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", (name,)))
    names = [column for column, *_ in info]
    columns = [(column, kind, pk) for column, kind, pk, hidden in info if not hidden]
    indexes = list(connection.execute('SELECT name, "unique", origin FROM pragma_index_list(?)', (name,)))
    fields = [quote(column) for column, _, _ in columns]
    key = tuple(sorted((at for at, (_, _, pk) in enumerate(columns) if pk), key=lambda at: columns[at][2]))
    is_rowid = len(key) == 1 and _is_rowid(columns[key[0]][1], indexes)
    hidden_rowid = not without_rowid and not is_rowid
    if hidden_rowid:
        fields.insert(0, _rowid_name(name, names))
        key = (0,)
    if len(fields) > _MAX_COLUMNS:
        raise SystemSetupError(
            f"table {name!r} has {len(fields)} columns; at most {_MAX_COLUMNS} are supported"
        )
    shows = [not any(is_like(column, pattern) for pattern in ignored) for column, _, _ in columns]
    observed = tuple(position for position, is_shown in enumerate(shows, start=hidden_rowid) if is_shown)
    uniques = _uniques(connection, indexes, names)
    if not without_rowid:
        uniques = [(_column_part(fields[key[0]], '"BINARY"'),), *uniques]
    return SQLiteTable(
        number,
        name,
        tuple(fields),
        key,
        _orders([fields[at] for at in key], uniques),
        tuple(uniques),
        None if len(observed) == len(fields) else observed,
        shadow,
        shown,
        sql,
    )


def _is_rowid(kind: str, indexes: Iterable[tuple[str, int, str]]) -> bool:
    """Return whether a single primary key of this type is the rowid itself: SQLite made no index for it (as it does for
    DESC)."""
    return kind.upper() == "INTEGER" and all(origin != "pk" for _, _, origin in indexes)


def _orders(key: Sequence[str], uniques: Iterable[Sequence[UniqueKeyPart]]) -> tuple[str, ...]:
    """Return by what the columns of a key are ordered, from the index over them."""
    orders = ({part.column: part.order for part in unique} for unique in uniques)
    found = next(each for each in orders if each.keys() == set(key))
    return tuple(found[column] for column in key)


def _rowid_name(table: str, columns: list[str]) -> str:
    taken = {column.lower() for column in columns}
    for name in _ROWID_NAMES:
        if name not in taken:
            return name
    raise SystemSetupError(
        f"table {table!r} has columns named rowid, _rowid_ and oid, so its rows cannot be identified; "
        "leave it out (tables=[...]) or give it an INTEGER PRIMARY KEY"
    )


def _uniques(
    connection: sqlite3.Connection, indexes: Iterable[tuple[str, int, str]], columns: list[str]
) -> list[tuple[UniqueKeyPart, ...]]:
    found = []
    new_row = ", ".join(f"NEW.{quote(column)} AS {quote(column)}" for column in columns)
    for index, unique, _ in indexes:
        if not unique:
            continue
        listed = connection.execute(
            "SELECT name, cid, coll FROM pragma_index_xinfo(?) WHERE key", (index,)
        ).fetchall()
        expressions: list[str] = []
        if any(cid == _EXPRESSION for _, cid, _ in listed):
            (written,) = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (index,)
            ).fetchone()
            expressions = listed_parts(written)
        parts = []
        for place, (column, cid, collation) in enumerate(listed):
            if cid == _EXPRESSION:
                text = expressions[place]
                parts.append(
                    UniqueKeyPart(
                        None, f"({text})", f"(SELECT {text} FROM (SELECT {new_row}))", quote(collation)
                    )
                )
            else:
                parts.append(_column_part(quote(column), quote(collation)))
        found.append(tuple(parts))
    return found


def _column_part(column: str, order: str) -> UniqueKeyPart:
    return UniqueKeyPart(column, f"r.{column}", f"NEW.{column}", order)


def listed_parts(sql: str) -> list[str]:
    """Return the parts that a CREATE INDEX statement lists in parentheses, without ASC and DESC."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(sql):
        depth -= token == ")"
        if depth:
            if token == "," and depth == 1:
                parts.append("")
            elif not token.startswith(("--", "/*")):
                parts[-1] += token
        elif token == ")":
            break
        depth += token == "("
    return [_DIRECTION.sub("", part).strip() for part in parts]


def _user_triggers(connection: sqlite3.Connection) -> dict[str, tuple[tuple[str, str], ...]]:
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for name, table, sql in connection.execute(
        "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid"
    ):
        if not name.startswith(OURS):
            found[table] = (*found.get(table, ()), (name, sql))
    return found


def _warn_about_virtual(virtual: Iterable[str], tables: Iterable[SQLiteTable]) -> None:
    shadows = [table.name for table in tables if table.shadow]
    for name in virtual:
        if not any(shadow.startswith(f"{name}_") for shadow in shadows):
            warnings.warn(
                f"virtual table {name!r} stores its rows outside of the database; they are not rolled back",
                ExplorationWarning,
                stacklevel=2,
            )
