"""Parameters of the statements of a `PostgresStore`: entries, names and blobs as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clew.stores.postgres.migrations import key_of
from clew.stores.protocol import OWN_STEP, LogEntry
from clew.stores.sql_rows import checksum

_SURE = 200  # characters that a key always shares with its path


def added(run_id: str, fence: int, entries: Any, gone: Any, blobs: Any) -> tuple[Any, ...]:
    """Return the parameters of `_ADD_ALL`: entries to add, names to drop, blobs."""
    steps = (content(e) for e in entries if is_own_step(e.kind, e.path))
    others = ((*named(e), *content(e)) for e in entries if not is_own_step(e.kind, e.path))
    return (
        *(key_of(run_id), fence),
        *columns(steps, 4),
        *columns(others, 7),
        [n for kind, path, n in gone if is_own_step(kind, path)],
        *columns(((kind, key_of(path), n) for kind, path, n in gone), 3),
        *columns(blobs.items(), 2),
        list(blobs),
    )


def is_own_step(kind: str, path: str) -> bool:
    """Return whether an entry is a step of the run itself."""
    return kind == OWN_STEP and not path


def named(entry: LogEntry) -> tuple[str, str, str | None]:
    """Return kind, key, and the path if it differs from the key."""
    key = key_of(entry.path)
    return entry.kind, key, None if key is entry.path else entry.path


def content(entry: LogEntry) -> tuple[int, bytes, bytes, int]:
    """Return number, body, digest and checksum."""
    return entry.n, entry.body, entry.digest, checksum(entry.body, entry.digest)


def bounds(first: str, beyond: str) -> tuple[str, str, str, str]:
    """Return the smallest and the largest key of the paths in a range, and the range."""
    return first[:_SURE], beyond if len(beyond) <= _SURE else beyond[:_SURE] + chr(0x10FFFF), first, beyond


def columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return rows as columns."""
    return [list(column) for column in zip(*rows)] or [[] for _ in range(width)]
