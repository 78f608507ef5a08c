"""Key-value tables: named, ordered maps from text to bytes inside a store.

Dependency graphs and explorations keep their data in them. The rules hold in memory, in SQLite and in PostgreSQL:

- Keys are sorted by code point. A key is text of any length without NUL and lone surrogates.
- A `write` is atomic, and durable when it returns. If it names a key twice, the last value counts.
- Tables with different names share nothing. Opening the same name again, also in another process, gives the same table.
- `version` grows with every write. A write with ``expect=version`` raises `StoreConflictError` if another writer was
  faster, so a reader can cache what it read and notice that it is outdated.
- A `scan` reads in pages: it returns each key at most once, and may see writes that happen during the scan.
- All methods are safe to call from several threads, and in a forked process.

A table does not interpret its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from clew.errors import StoreError

FORMAT = 2  # of the SQL tables
PAGE = 512  # rows that a scan reads at a time

Change = tuple[str, bytes | None]


class KeyValueTable(Protocol):
    """A named, ordered map from text to bytes."""

    name: str

    def read(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those keys that exist."""

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        """Iterate over the sorted keys that start with `prefix`, with their values.

        `after` skips the keys up to and including it; `limit` is the largest number of keys. A damaged value raises
        StoreCorruptError; with ``check=False`` it is returned as it is stored.
        """

    def count(self, prefix: str = "") -> int:
        """Count the keys that start with `prefix`."""

    def version(self) -> int:
        """Return the number of the latest write."""

    def write(self, changes: Iterable[Change], *, expect: int | None = None) -> int:
        """Set keys, or delete them where the value is None, atomically; return the new version."""

    def close(self) -> None:
        """Release the resources of the table. Closing twice is allowed."""


def check_key(key: str) -> None:
    """Raise StoreError for a key that some store could not keep exactly."""
    if type(key) is not str:
        raise StoreError(f"a key of a key-value table must be a string, got {key!r}")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise StoreError(
                f"a key of a key-value table cannot contain a lone surrogate: {key!r}"
            ) from error
    if "\0" in key:
        raise StoreError(f"a key of a key-value table cannot contain a NUL: {key!r}")


def upper_bound(prefix: str) -> str | None:
    """Return the smallest text after all texts that start with `prefix`; None if no text is."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(
        0xE000 if code == 0xD800 else code
    )  # skips the surrogates, which are not characters


def in_pages(page: Any, prefix: str, after: str | None, limit: int | None) -> Iterator[tuple[str, bytes]]:
    """Iterate over rows that ``page(start, is_inclusive, end, size)`` reads a page at a time."""
    check_key(prefix)
    end = upper_bound(prefix)
    start, inclusive = prefix, True
    if after is not None and after >= prefix:
        check_key(after)
        start, inclusive = after, False
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = page(start, inclusive, end, size)
        yield from rows
        if len(rows) < size:
            return
        start, inclusive = rows[-1][0], False
        left = None if left is None else left - size


def conflict(name: str) -> str:
    """Return the message of StoreConflictError."""
    return f"table {name!r} was changed by another writer; nothing was written, read again and retry"


def newer(name: str, where: object, version: int) -> str:
    """Return the message of StoreVersionError for a table of a later version of Clew."""
    return f"table {name!r} in {where} has format {version}, this version of Clew reads format {FORMAT}; update Clew"


def older(where: object) -> str:
    """Return the message of StoreVersionError for tables of an earlier version of Clew."""
    return f"the key-value tables in {where} have format 1, which this version of Clew cannot read; use a new store"


def damaged(name: str, where: object, key: str) -> str:
    """Return the message of StoreCorruptError."""
    return f"table {name!r} in {where}: the value of {key!r} is damaged (checksum mismatch); restore a backup"
