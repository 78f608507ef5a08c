"""Key-value tables: named, ordered maps from text to bytes inside a store, for data other than runs.

Rules, the same in memory, in SQLite and in PostgreSQL:

- Keys are ordered by code points. A key is text of any length without NUL and lone surrogates.
- A `write` is atomic, and durable when it returns. If it contains a key twice, the last value counts.
- Tables of different names are independent. The same name is the same table, also in another process.
- Every write changes the `version`. A write with `expect` raises `StoreConflictError` if the version differs. So a
  reader can cache what it has read, and detect that the cache is outdated.
- Entries that `scan` has not returned yet may still change. Each key is returned at most once.
- All methods are safe to call from several threads, and in a forked process.

A table does not interpret its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from clew.errors import StoreError, StoreVersionError

FORMAT = 3  # of the database tables
PAGE = 512  # rows that a scan reads at a time

Content = bytes | list[bytes]  # large ones come in parts, so that they need not be copied into one
Change = tuple[str, Content | None]


class KeyValueTable(Protocol):
    """A named, ordered map from text to bytes."""

    name: str

    def read(self, key: str) -> bytes | None:
        """Return the bytes of a key, or None."""

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of those keys that exist."""

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the keys that start with `prefix` and their bytes, in order: those above `after`, at most `limit`.

        `after` skips the keys up to and including it; `limit` is the largest number of keys. A damaged value raises
        StoreCorruptError; with ``check=False`` it is returned as it is stored, and a value that has its own file is
        not read: its bytes are empty.
        """

    def count(self, prefix: str = "") -> int:
        """Return how many keys start with `prefix`."""

    def version(self) -> int:
        """Return the version of the table: a number that changes with each write."""

    def write(self, changes: Iterable[Change], *, expect: int | None = None) -> int:
        """Set keys to bytes (or parts of them), or delete them (None), atomically; return the new version."""

    def close(self) -> None:
        """Release all resources. Closing twice is not an error."""


@runtime_checkable
class HasTables(Protocol):
    """A store of runs that also has key-value tables."""

    def open_table(self, name: str) -> KeyValueTable:
        """Open the table of that name; it is created if it does not exist."""

    def table_names(self) -> list[str]:
        """Return the names of the tables; nothing is created."""


def joined(content: Content) -> bytes:
    return b"".join(content) if isinstance(content, list) else bytes(content)


def check_key(key: str) -> None:
    """Raise StoreError for a key that some store could not store exactly."""
    if type(key) is not str:
        raise StoreError(f"key of a key-value table: expected a string, got {key!r}")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise StoreError(
                f"a key of a key-value table cannot contain a lone surrogate: {key!r}"
            ) from error
    if "\0" in key:
        raise StoreError(f"a key of a key-value table cannot contain NUL: {key!r}")


def behind(prefix: str) -> str | None:
    """Return the smallest text above all texts that start with `prefix`; None if all texts do."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)  # skip the surrogates


def in_pages(page: Any, prefix: str, after: str | None, limit: int | None) -> Iterator[Any]:
    """Yield rows page by page, read by ``page(start, is_inclusive, end, count)``. A row starts with its key."""
    check_key(prefix)
    end = behind(prefix)
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
    return f"table {name!r} was changed by another writer; nothing of this write was stored, so read again and retry"


def check_format(name: str, where: object, version: int) -> None:
    """Raise StoreVersionError for a table of another format."""
    if version != FORMAT:
        advice = "update Clew" if version > FORMAT else "use a new store"
        raise StoreVersionError(
            f"table {name!r} in {where} has format {version}, this version of Clew reads format {FORMAT}; {advice}"
        )


def damaged(name: str, where: object, key: str) -> str:
    """Return the message of StoreCorruptError."""
    return f"table {name!r} in {where}: the value of {key!r} is damaged: checksum mismatch"


def lost(name: str, where: object, key: str, file: str) -> str:
    """Return the message of StoreCorruptError for a value whose file does not exist."""
    return f"table {name!r} in {where}: the value of {key!r} is lost; restore the file {file}"
