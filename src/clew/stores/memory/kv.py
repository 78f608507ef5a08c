"""Key-value tables in memory. The tables of a `MemoryStore` live as long as the store.

A scan sorts the keys; the order is reused until a key is added or removed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any

from clew.errors import StoreConflictError
from clew.stores.kv import Change, KeyValueTable, check_key, conflict, in_pages, joined


class MemoryRows:
    """The rows of a table."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.values: dict[str, bytes] = {}
        self.order: list[str] | None = []  # None: must be sorted
        self.version = 0


class MemoryTable(KeyValueTable):
    """A key-value table in a dict."""

    def __init__(self, name: str, rows: MemoryRows | None = None) -> None:
        self.name = name
        self._rows = rows or MemoryRows()

    def __repr__(self) -> str:
        return f"MemoryTable({self.name!r})"

    def read(self, key: str) -> bytes | None:
        return self._rows.values.get(key)

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        with self._rows.lock:
            values = self._rows.values
            return {key: values[key] for key in keys if key in values}

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        return in_pages(self._page, prefix, after, limit)

    def _page(self, start: str, inclusive: bool, end: str | None, size: int) -> list[tuple[str, bytes]]:
        with self._rows.lock:
            order = self._sorted()
            begin = bisect_left(order, start) if inclusive else bisect_right(order, start)
            stop = min(begin + size, len(order) if end is None else bisect_left(order, end))
            return [(key, self._rows.values[key]) for key in order[begin:stop]]

    def _sorted(self) -> list[str]:
        rows = self._rows
        if rows.order is None:
            rows.order = sorted(rows.values)
        return rows.order

    def count(self, prefix: str = "") -> int:
        with self._rows.lock:
            return sum(key.startswith(prefix) for key in self._rows.values)

    def version(self) -> int:
        return self._rows.version

    def write(self, changes: Iterable[Change], *, expect: int | None = None) -> int:
        wanted: dict[str, bytes | None] = {}
        for key, value in changes:
            check_key(key)
            wanted[key] = None if value is None else joined(value)
        with self._rows.lock:
            rows = self._rows
            if expect is not None and rows.version != expect:
                raise StoreConflictError(conflict(self.name))
            for key, value in wanted.items():
                self._put(rows.values, key, value)
            rows.version += 1
            return rows.version

    def _put(self, values: dict[str, Any], key: str, value: bytes | None) -> None:
        if (key in values) is (value is None):
            self._rows.order = None
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value

    def close(self) -> None:
        """Do nothing: memory needs no closing."""
