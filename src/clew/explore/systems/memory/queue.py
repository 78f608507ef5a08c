"""`MemoryQueue`: a queue of messages held in memory, for wiring into the application in place of the real one.

What it holds is immutable, and shared between checkpoints; see `memory`.

A consumer knows a message in flight by the number of its delivery, so the numbers are part of the state. A delivery
gets the lowest number that is free: whatever way led to a state, the next one has the same number there, and numbers
do not make states without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from threading import RLock
from typing import Any, Literal

import msgspec
from immutables import Map

from clew.explore.model.observation import Observation
from clew.explore.systems.immutable_values import (
    EMPTY_ROW,
    ImmutableValue,
    ValueSequence,
    cell,
    read_back,
    row_of,
)
from clew.explore.systems.version_tokens import VersionTokens

_OWN = 512  # bytes that a checkpoint takes besides what came


class Delivery(msgspec.Struct, frozen=True):
    """A message that was received and not yet acknowledged."""

    id: int
    message: Any


class _Queued(msgspec.Struct, frozen=True, gc=False):
    ready: ValueSequence
    flying: Map[int, ImmutableValue]

    @property
    def free(self) -> int:
        """The lowest number that no delivery has."""
        number = 0
        while number in self.flying:
            number += 1
        return number

    @property
    def digest(self) -> bytes:
        flying = blake2b(digest_size=32)
        for number in sorted(self.flying):
            flying.update(b"%d:%b" % (number, self.flying[number].number.to_bytes(32, "big")))
        return b"%b%d:%b" % (self.ready.digest, len(self.flying), flying.digest())

    @property
    def shown(self) -> dict[str, Any]:
        numbers = sorted(self.flying)
        data = {"ready": self.ready.shown, "in_flight": [self.flying[number].value for number in numbers]}
        return data if numbers == [*range(len(numbers))] else {**data, "deliveries": numbers}


class _Written(msgspec.Struct, array_like=True):
    """A version as it is written down."""

    ready: list[bytes]
    flying: dict[int, bytes]


_EMPTY = _Queued(EMPTY_ROW, Map())


class MemoryQueue:
    """A first-in-first-out queue of messages.

    `pop` takes a message for good. `receive` hands it out until `ack` says that it was dealt with, or `nack` puts
    it back to the front; a message in between is part of the state.
    """

    ordering: Literal["any"] = "any"

    def __init__(self, messages: Any = ()) -> None:
        self._now = _EMPTY
        self._came = 0  # bytes, since the last checkpoint
        self._versions: VersionTokens[_Queued] = VersionTokens()
        self._seen: tuple[_Queued, Observation] | None = None
        self._lock = RLock()
        for message in messages:
            self.push(message)

    def push(self, message: Any) -> None:
        """Add a message at the end."""
        new = cell(message, "message")
        with self._lock:
            self._now = _Queued(self._now.ready.append(new), self._now.flying)
            self._came += len(new.encoded)

    def pop(self) -> Any:
        """Take the oldest message; None if there is none."""
        with self._lock:
            if not len(self._now.ready):
                return None
            first, rest = self._now.ready.take_first()
            self._now = _Queued(rest, self._now.flying)
        return first.read()

    def peek(self) -> Any:
        """The oldest message, which stays; None if there is none."""
        ready = self._now.ready
        return ready.first.read() if len(ready) else None

    def receive(self) -> Delivery | None:
        """Take the oldest message until it is acknowledged; None if there is none."""
        with self._lock:
            now = self._now
            if not len(now.ready):
                return None
            first, rest = now.ready.take_first()
            number = now.free
            self._now = _Queued(rest, now.flying.set(number, first))
        return Delivery(number, first.read())

    def ack(self, delivery: Delivery | int) -> None:
        """Be done with a message; a KeyError if it is not in flight."""
        self._land(delivery)

    def nack(self, delivery: Delivery | int) -> None:
        """Put a message back to the front; a KeyError if it is not in flight."""
        with self._lock:
            landed = self._land(delivery)
            self._now = _Queued(self._now.ready.prepend(landed), self._now.flying)

    def _land(self, delivery: Delivery | int) -> ImmutableValue:
        number = delivery.id if isinstance(delivery, Delivery) else delivery
        with self._lock:
            now = self._now
            if number not in now.flying:
                raise KeyError(f"delivery {number} is not in flight; it was acknowledged, or never received")
            landed = now.flying[number]
            self._now = _Queued(now.ready, now.flying.delete(number))
        return landed

    def clear(self) -> None:
        """Drop all messages, also those in flight."""
        with self._lock:
            self._now = _EMPTY

    @property
    def in_flight(self) -> int:
        """How many messages are received and not acknowledged."""
        return len(self._now.flying)

    def __len__(self) -> int:
        return len(self._now.ready)

    def __bool__(self) -> bool:
        return True  # a queue is there, also when it is empty

    def __iter__(self) -> Iterator[Any]:
        return (each.read() for each in self._now.ready)

    def observe(self) -> Observation:
        now = self._now
        if self._seen is None or self._seen[0] is not now:
            self._seen = (now, Observation("queue", now.shown, {}, now.digest))
        return self._seen[1]

    def checkpoint(self, name: str) -> int:
        token = self._versions.keep(self._now, _OWN + self._came)
        self._came = 0
        return token

    def rollback(self, token: int) -> None:
        self._now = self._versions[token]
        self._came = 0

    def is_valid(self, token: Any) -> bool:
        return token in self._versions

    def release(self, token: int) -> None:
        self._versions.drop(token)

    def size(self, token: int) -> int:
        """The bytes that came with a checkpoint; the rest is shared with others."""
        return self._versions.size(token)

    def dump_token(self, token: int) -> bytes:
        """A checkpoint as bytes, for the disk."""
        version = self._versions[token]
        flying = {number: each.encoded for number, each in version.flying.items()}
        return msgspec.msgpack.encode(_Written(version.ready.written, flying))

    def load_token(self, data: bytes) -> int:
        """A token for a checkpoint that was written down."""
        written = msgspec.msgpack.decode(data, type=_Written)
        flying = Map({number: read_back(encoded) for number, encoded in written.flying.items()})
        return self._versions.keep(_Queued(row_of(written.ready), flying), _OWN + len(data))
