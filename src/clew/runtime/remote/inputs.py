"""Large inputs: pickled once, put into the cluster once, and passed by reference.

An input is recognized by the identity of its value, then by the digest of its pickled form. It stays in the cluster
while a call uses it. Up to `KEPT` inputs that no call uses stay longer. One input is pickled at a time, so the driver
never holds more than one pickled copy. An input that the cluster has lost is put there again from its value.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from functools import partial
from hashlib import sha256
from threading import RLock
from typing import Any, Protocol

from clew.runtime.remote.pickling import Dumps

LARGE = 1 << 18
"""Bytes: a pickled argument of this size or more goes by reference."""

KEPT = 16

_SMALL = (type(None), bool, int, float, complex)


dumps_small = partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)  # plain data needs no own pickler


def is_small(value: Any) -> bool:
    """Return whether a value is certainly not large; its pickled form is not made for that."""
    return type(value) in _SMALL or (type(value) in (str, bytes) and len(value) < LARGE // 4)


class InputStore(Protocol):
    """Where a cluster keeps large inputs."""

    def put(self, blob: bytes) -> Any:
        """Put pickled data into the cluster; return its handle."""

    def drop(self, handle: Any) -> None:
        """Remove data that is not needed any more."""

    def is_lost(self, handle: Any) -> bool:
        """Return whether the cluster is known to have lost data."""


class LargeInput:
    """A large value, and its handle in the cluster."""

    __slots__ = ("digest", "handle", "users", "value")

    def __init__(self, value: Any, digest: bytes) -> None:
        self.value = value  # so that its identity stays, and it can be put again
        self.digest = digest
        self.handle: Any = None
        self.users = 0


class LargeInputs:
    """The large inputs of one executor."""

    def __init__(self, store: InputStore, dumps: Dumps) -> None:
        self._store = store
        self._dumps = dumps
        self._lock = RLock()
        self._by_identity: dict[int, LargeInput] = {}
        self._by_digest: dict[bytes, LargeInput] = {}
        self._idle: OrderedDict[bytes, LargeInput] = OrderedDict()
        self.puts = 0

    def pack(self, value: Any) -> bytes | LargeInput:
        """Return a value pickled, or, if it is large, in use by reference."""
        if is_small(value):
            return dumps_small(value)
        with self._lock:
            known = self._by_identity.get(id(value))
            if known is not None:
                return self._use(known)
            blob = self._dumps(value)
            if len(blob) < LARGE:
                return blob
            digest = sha256(blob).digest()
            found = self._by_digest.get(digest)
            if found is None:
                found = self._by_digest[digest] = self._by_identity[id(value)] = LargeInput(value, digest)
                found.handle = self._put(blob)
            return self._use(found)

    def _use(self, found: LargeInput) -> LargeInput:
        found.users += 1
        self._idle.pop(found.digest, None)
        return found

    def _put(self, blob: bytes) -> Any:
        self.puts += 1
        return self._store.put(blob)

    def handle(self, found: LargeInput) -> Any:
        """Return the handle of an input in use; put the input again if it was lost."""
        with self._lock:
            if found.handle is None or self._store.is_lost(found.handle):
                found.handle = self._put(self._dumps(found.value))
            return found.handle

    def forget(self, found: LargeInput) -> None:
        """Note that the cluster has lost an input."""
        found.handle = None

    def release(self, found: LargeInput) -> None:
        """Note that one call less uses an input."""
        with self._lock:
            found.users -= 1
            if not found.users:
                self._idle[found.digest] = found
                while len(self._idle) > KEPT:
                    self._remove(self._idle.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            for found in list(self._by_digest.values()):
                self._remove(found)
            self._idle.clear()

    def _remove(self, found: LargeInput) -> None:
        self._by_digest.pop(found.digest, None)
        self._by_identity.pop(id(found.value), None)
        if found.handle is not None:
            self._store.drop(found.handle)
        found.handle = None
