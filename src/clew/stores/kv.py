"""What a shelf is: a named, ordered map from text to bytes inside a store, for those who keep more than runs.

Rules, the same in memory, in SQLite and in PostgreSQL:

- Keys are in the order of their code points. A key is text of any length without NUL and lone surrogates.
- A `write` is all or nothing, and durable when it returns. A key that it names twice has its last value.
- Shelves of one store do not see each other; the same name is the same shelf, also in another process.
- `stamp` changes with every write of anybody. A write that names the stamp it `expect`s is refused with
  `StoreConflictError` if somebody else wrote since: so a reader can keep what it read, and notice that it is old.
- What `scan` has not handed out yet may still change; each key is handed out at most once.
- All methods may be called from several threads, and in a process that was forked.

A shelf knows nothing about what its bytes mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from clew.errors import StoreError

FORMAT = 1  # of the tables that shelves lie in
PAGE = 512  # so many rows are read at a time by a scan

Change = tuple[str, bytes | None]


class KeyValueTable(Protocol):
    """A named, ordered map from text to bytes."""

    name: str

    def read(self, key: str) -> bytes | None:
        """The bytes of a key, or None."""

    def read_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The bytes of those keys that are there."""

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None, *, check: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        """Keys that start with `prefix`, and their bytes, in order: those behind `after`, at most `limit`.

        A damaged value is StoreCorruptError; with ``check=False`` it is handed out as it lies there.
        """

    def count(self, prefix: str = "") -> int:
        """How many keys start with `prefix`."""

    def stamp(self) -> int:
        """A number that is another one after each write."""

    def write(self, changes: Iterable[Change], *, expect: int | None = None) -> int:
        """Put bytes under keys, or take keys away (None), all or nothing; the stamp from now on."""

    def close(self) -> None:
        """Let go of whatever the shelf holds. Closing twice is no error."""


def check_key(key: str) -> None:
    """StoreError for a key that some store could not keep exactly."""
    if type(key) is not str:
        raise StoreError(f"a key of a shelf is a text, not {key!r}")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise StoreError(f"a key of a shelf cannot have half a surrogate pair: {key!r}") from error
    if "\0" in key:
        raise StoreError(f"a key of a shelf cannot have a NUL: {key!r}")


def behind(prefix: str) -> str | None:
    """The least text that is behind all texts that start with `prefix`; None if there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)  # past the surrogates, which are no characters


def in_pages(page: Any, prefix: str, after: str | None, limit: int | None) -> Iterator[tuple[str, bytes]]:
    """Rows from a function that reads some of them: ``page(from, is_inclusive, end, how many)``."""
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
    """What StoreConflictError says."""
    return f"the shelf {name!r} was written by somebody else meanwhile; nothing of this write was kept: read again"


def newer(name: str, where: object, version: int) -> str:
    """What StoreVersionError says."""
    return (
        f"the shelf {name!r} in {where} was written by a newer Clew (format {version}, this one reads up to "
        f"{FORMAT}); update Clew"
    )


def damaged(name: str, where: object, key: str) -> str:
    """What StoreCorruptError says."""
    return f"the shelf {name!r} in {where}: the value of {key!r} is damaged: its checksum does not fit"
