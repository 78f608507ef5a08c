"""Which tables of a database are restored and observed, which columns do not count, and what a table consists of.

- `tables` are restored. Without it, all are.
- `observe` are part of the state. Without it, all tables that are restored are. What is not observed is restored
  nevertheless.
- `ignore` are columns that are not part of the state: `"orders.updated_at"`, or by table, `{"orders": ["updated_at"]}`.

Names in `observe` and `ignore` may contain wildcards: `*`, `?` and `[...]`. A table may lack an ignored column. A
pattern of `ignore` that matches no column at all gets a warning, because it is probably misspelt.

The description of a table has its key, its foreign keys, and its time columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from clew.errors import ExplorationWarning, SystemSetupError

Ignore = Mapping[str, Iterable[str]] | Iterable[str]


class TableChoice(msgspec.Struct, frozen=True):
    """The choice of tables and columns. None means all."""

    tables: tuple[str, ...] | None = None
    observe: tuple[str, ...] | None = None
    ignore: tuple[tuple[str, str], ...] = ()  # pattern of the table, pattern of the column


def table_choice(tables: Iterable[str] | None, observe: Iterable[str] | None, ignore: Ignore) -> TableChoice:
    """Return the choice that options of a system make."""
    return TableChoice(_names("tables", tables), _names("observe", observe), tuple(_patterns(ignore)))


def _names(option: str, given: Iterable[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SystemSetupError(f"{option}: expected a list of names, got {given!r}; write [{given!r}]")
    return tuple(given)


def _patterns(ignore: Ignore) -> Iterable[tuple[str, str]]:
    if isinstance(ignore, Mapping):
        for table, columns in ignore.items():
            if isinstance(columns, str):
                raise SystemSetupError(
                    f"ignore: expected a list of columns of {table!r}, got {columns!r}; write [{columns!r}]"
                )
            yield from ((table, column) for column in columns)
        return
    for each in _names("ignore", ignore) or ():
        table, found, column = each.rpartition(".")
        if not found:
            raise SystemSetupError(f'ignore: expected table.column, got {each!r}; write "*.{each}"')
        yield table, column


def is_like(name: str, pattern: str) -> bool:
    """Return whether a name is a pattern, or matches its wildcards."""
    return name == pattern or fnmatchcase(name, pattern)


def warn_about_unused(ignore: Iterable[tuple[str, str]]) -> None:
    """Warn about patterns of columns that match nothing."""
    unused = [f"{table}.{column}" for table, column in ignore]
    if unused:
        warnings.warn(
            f"ignore: no column matches {', '.join(unused)}; check the spelling",
            ExplorationWarning,
            stacklevel=2,
        )


_TIME_WORDS = ("time", "date")


class TableSchema(msgspec.Struct, frozen=True):
    """A table. `foreign_keys` maps each column to the table and the column that it refers to."""

    columns: Mapping[str, str]  # to the declared type
    key: tuple[str, ...]
    foreign_keys: Mapping[str, tuple[str, str]]

    @property
    def times(self) -> frozenset[str]:
        """Return the columns whose declared type is a date or a time."""
        return frozenset(
            name for name, kind in self.columns.items() if any(word in kind.lower() for word in _TIME_WORDS)
        )


Query = Callable[..., Iterable[Any]]


def sqlite_tables(execute: Query) -> dict[str, TableSchema]:
    """Describe the tables of a SQLite database."""
    names = [
        row[0]
        for row in execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        if not row[0].startswith(("sqlite_", "_clew_"))
    ]
    keys, columns = {}, {}
    for name in names:
        rows = list(execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)))
        columns[name] = {row[0]: row[1] for row in rows}
        keys[name] = tuple(row[0] for row in sorted(rows, key=lambda row: row[2]) if row[2])
    found = {}
    for name in names:
        references = {}
        for target, source, column in execute(
            'SELECT "table", "from", "to" FROM pragma_foreign_key_list(?)', (name,)
        ):
            key = keys.get(target, ())
            if column or len(key) == 1:
                references[source] = (target, column or key[0])
        found[name] = TableSchema(columns[name], keys[name], references)
    return found


_POSTGRES_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
       coalesce(array_position(i.indkey::int2[], a.attnum), -1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relkind IN ('r', 'm') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 1, 2, a.attnum
"""

_POSTGRES_KEYS = """
SELECT n.nspname, c.relname, a.attname, fn.nspname, f.relname, b.attname
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class f ON f.oid = k.confrelid JOIN pg_namespace fn ON fn.oid = f.relnamespace
CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS pair(source, target)
JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = pair.source
JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = pair.target
WHERE k.contype = 'f'
"""


def postgres_tables(execute: Query) -> dict[str, TableSchema]:
    """Describe the tables of a PostgreSQL database, named as in observations."""
    columns: dict[str, dict[str, str]] = {}
    keys: dict[str, list[tuple[int, str]]] = {}
    for schema, table, column, kind, position in execute(_POSTGRES_COLUMNS):
        name = _label(schema, table)
        columns.setdefault(name, {})[column] = kind
        if position >= 0:
            keys.setdefault(name, []).append((position, column))
    references: dict[str, dict[str, tuple[str, str]]] = {}
    for schema, table, column, other_schema, other, target in execute(_POSTGRES_KEYS):
        references.setdefault(_label(schema, table), {})[column] = (_label(other_schema, other), target)
    return {
        name: TableSchema(
            parts, tuple(column for _, column in sorted(keys.get(name, ()))), references.get(name, {})
        )
        for name, parts in columns.items()
    }


def _label(schema: str, table: str) -> str:
    return table if schema == "public" else f"{schema}.{table}"
