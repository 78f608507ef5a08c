"""The common part of the systems in memory: immutable content, shared between checkpoints.

A fake replaces its content, `_now`, with each change. So a checkpoint is a reference, at any size, and its size is what
was added since the previous one. The packed content is what identifies a state, and what is saved of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from threading import RLock
from typing import Any, Generic, Literal

import msgspec

from clew.explore.model.system import Observation
from clew.explore.systems.version_tokens import TokenSystem, Version
from clew.state.values.codec import decode, encode

SHOWN = 100  # larger collections are shown as their count and digest
SHORT = 256  # bytes of packed content that identify a state without being hashed
OVERHEAD = 512  # bytes of a checkpoint in addition to new content


class StoredValue(msgspec.Struct, frozen=True, eq=False):
    """A copy of a value. Unless it is `fixed`, `value` is for observations, and the application gets another copy."""

    encoded: bytes
    value: Any
    fixed: bool = False

    def read(self) -> Any:
        """Return the value for the application."""
        return self.value if self.fixed else decode(self.encoded)


def stored(value: Any, at: str) -> StoredValue:
    """Return a copy of a value; raise an EncodeError that calls it `at` if it cannot be encoded."""
    if type(value) in (str, int, bool, type(None)):
        return _fixed(value)
    return read_back(encode(value, at=at))


def read_back(encoded: bytes) -> StoredValue:
    """Return the value of its canonical bytes."""
    value = decode(encoded)
    return _fixed(value) if type(value) in (str, int, bool, type(None)) else StoredValue(encoded, value)


@lru_cache(maxsize=4096, typed=True)
def _fixed(value: str | int | bool | None) -> StoredValue:
    """Return a shared object for a value that cannot change; an explorer makes the same ones repeatedly."""
    return StoredValue(encode(value), value, True)


class MemorySystem(TokenSystem[Version], Generic[Version]):
    """A system whose state is one immutable object. Subclasses pack, unpack and show it."""

    ordering: Literal["any"] = "any"
    _system: str  # its name in observations

    def __init__(self, now: Version) -> None:
        super().__init__()
        self._now = now
        self._added = 0  # bytes since the last checkpoint
        self._lock = RLock()
        self._observed: tuple[Version, Observation] | None = None

    def _packed(self, content: Version) -> bytes:
        raise NotImplementedError

    def _unpacked(self, data: bytes) -> Version:
        raise NotImplementedError

    def _shown(self, content: Version, digest: bytes) -> Any:
        raise NotImplementedError

    def observe(self) -> Observation:
        now = self._now
        if self._observed is None or self._observed[0] is not now:
            packed = self._packed(now)
            digest = packed if len(packed) <= SHORT else sha256(packed).digest()
            self._observed = (now, Observation(self._system, self._shown(now, digest), {}, digest))
        return self._observed[1]

    def checkpoint(self, name: str) -> int:
        token = self._versions.keep(self._now, OVERHEAD + self._added)
        self._added = 0
        return token

    def rollback(self, token: int) -> None:
        self._now = self._versions[token]
        self._added = 0

    def size(self, token: int) -> int:
        """Return the number of bytes that a checkpoint added; the rest is shared with others."""
        return self._versions.size(token)

    def save_baseline(self, token: int) -> list[bytes]:
        """Return a checkpoint as bytes."""
        return [self._packed(self._versions[token])]

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore a checkpoint that was saved as bytes."""
        self._now, self._added = self._unpacked(b"".join(pieces)), 0
        return True

    def __bool__(self) -> bool:
        return True  # also without content


def listed(values: tuple[StoredValue, ...], digest: bytes) -> Any:
    """Return values as an observation shows them."""
    if len(values) > SHOWN:
        return {"count": len(values), "digest": digest.hex()}
    return [each.value for each in values]
