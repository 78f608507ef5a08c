"""Cached results, as far as all stores share the code: checksums, expiry, and a table in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import msgspec

from clew.errors import StoreCorruptError
from clew.stores.protocol import CachedResult

EXPIRED_AT_A_TIME = 100  # expired results that a write deletes
MOST_IN_MEMORY = 10_000


def result_checksum(key: str, body: bytes) -> int:
    return crc32(body, crc32(key.encode())) - (1 << 31)  # signed, as for entries


def checked_result(key: str, body: Any, crc: Any, made: Any, expires: Any, now: float) -> CachedResult | None:
    """Return a stored result, or None if it has expired. Raise StoreCorruptError if it is damaged."""
    is_valid = isinstance(made, float | int) and (expires is None or isinstance(expires, float | int))
    if not is_valid or not isinstance(body, bytes) or result_checksum(key, body) != crc:
        raise StoreCorruptError(f"the cached result {key[:12]}… is damaged: checksum mismatch")
    if expires is not None and expires <= now:
        return None
    return CachedResult(body, max(0.0, now - made))


class StoredResult(msgspec.Struct, frozen=True):
    """A cached result in memory."""

    node: str
    body: bytes
    blobs: frozenset[str]
    made: float
    expires: float | None


class MemoryResults:
    """Cached results in memory. A full table drops its oldest result. The caller holds the lock of the store."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredResult] = {}

    def find(self, key: str, now: float) -> CachedResult | None:
        """Return a result that has not expired, or None."""
        row = self.rows.get(key)
        if row is None or (row.expires is not None and row.expires <= now):
            return None
        return CachedResult(row.body, max(0.0, now - row.made))

    def put(
        self, key: str, node: str, body: bytes, blobs: Mapping[str, bytes], now: float, ttl: float | None
    ) -> set[str]:
        """Store a result; return the digests of the blobs that dropped results used."""
        gone = self.rows.pop(key, None)
        self.rows[key] = StoredResult(node, body, frozenset(blobs), now, None if ttl is None else now + ttl)
        dropped = set() if gone is None else set(gone.blobs)
        if len(self.rows) > MOST_IN_MEMORY:
            dropped |= self.rows.pop(next(iter(self.rows))).blobs
        return dropped

    def drop(self, node: str | None) -> tuple[int, set[str]]:
        """Delete the results of a node, or all; return how many, and the digests of their blobs."""
        gone = [key for key, row in self.rows.items() if node is None or row.node == node]
        return len(gone), {digest for key in gone for digest in self.rows.pop(key).blobs}

    def uses(self, digest: str) -> bool:
        """Return whether a result uses a blob."""
        return any(digest in row.blobs for row in self.rows.values())
