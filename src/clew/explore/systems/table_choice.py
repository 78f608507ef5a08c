"""Which tables of a database are restored, which are observed, and which columns do not count.

- `tables` are restored. Without it, all are.
- `observe` are part of the state. Without it, all tables that are restored are. What is not observed is restored
  nevertheless.
- `ignore` are columns that are not part of the state: `"orders.updated_at"`, or by table, `{"orders": ["updated_at"]}`.

Names in `observe` and `ignore` may contain wildcards: `*`, `?` and `[...]`. A table may lack an ignored column. A
pattern of `ignore` that matches no column at all gets a warning, because it is probably misspelt.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

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
