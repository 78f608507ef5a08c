"""`MemoryQueue`: a queue of messages in memory, which the application uses instead of the real one.

Its content is immutable and shared between checkpoints (see `fakes`).

A consumer identifies a message in flight by its delivery number, so the numbers are part of the state. A delivery gets
the lowest free number. So the next number depends on the state alone, and numbers do not create endless states.
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
    EMPTY_SEQUENCE,
    ImmutableValue,
    ValueSequence,
    immutable,
    read_back,
    sequence_of,
)
from clew.explore.systems.version_tokens import OVERHEAD, VersionedSystem


class Delivery(msgspec.Struct, frozen=True):
    """A message that was received and not yet acknowledged."""

    id: int
    message: Any


class _Queued(msgspec.Struct, frozen=True, gc=False):
    ready: ValueSequence
    flying: Map[int, ImmutableValue]

    @property
    def free(self) -> int:
        """Return the lowest unused delivery number."""
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
    """A version as it is saved."""

    ready: list[bytes]
    flying: dict[int, bytes]


_EMPTY = _Queued(EMPTY_SEQUENCE, Map())


class MemoryQueue(VersionedSystem[_Queued]):
    """A first-in-first-out queue of messages.

    `pop` removes a message. `receive` puts it in flight until `ack` removes it, or `nack` returns it to the front.
    Messages in flight are part of the state.
    """

    ordering: Literal["any"] = "any"

    def __init__(self, messages: Any = ()) -> None:
        super().__init__(_EMPTY)
        self._observed: tuple[_Queued, Observation] | None = None
        self._lock = RLock()
        for message in messages:
            self.push(message)

    def push(self, message: Any) -> None:
        """Append a message."""
        new = immutable(message, "message")
        with self._lock:
            self._now = _Queued(self._now.ready.append(new), self._now.flying)
            self._added += len(new.encoded)

    def pop(self) -> Any:
        """Remove and return the oldest message; None if the queue is empty."""
        with self._lock:
            if not len(self._now.ready):
                return None
            first, rest = self._now.ready.take_first()
            self._now = _Queued(rest, self._now.flying)
        return first.read()

    def peek(self) -> Any:
        """Return the oldest message without removing it; None if the queue is empty."""
        ready = self._now.ready
        return ready.first.read() if len(ready) else None

    def receive(self) -> Delivery | None:
        """Put the oldest message in flight, and return it; None if the queue is empty."""
        with self._lock:
            now = self._now
            if not len(now.ready):
                return None
            first, rest = now.ready.take_first()
            number = now.free
            self._now = _Queued(rest, now.flying.set(number, first))
        return Delivery(number, first.read())

    def ack(self, delivery: Delivery | int) -> None:
        """Remove a message in flight; raise a KeyError if it is not in flight."""
        self._land(delivery)

    def nack(self, delivery: Delivery | int) -> None:
        """Return a message in flight to the front; raise a KeyError if it is not in flight."""
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
        """Remove all messages, including those in flight."""
        with self._lock:
            self._now = _EMPTY

    @property
    def in_flight(self) -> int:
        """Return the number of messages in flight."""
        return len(self._now.flying)

    def __len__(self) -> int:
        return len(self._now.ready)

    def __bool__(self) -> bool:
        return True  # an empty queue is not false

    def __iter__(self) -> Iterator[Any]:
        return (each.read() for each in self._now.ready)

    def observe(self) -> Observation:
        now = self._now
        if self._observed is None or self._observed[0] is not now:
            self._observed = (now, Observation("queue", now.shown, {}, now.digest))
        return self._observed[1]

    def dump_token(self, token: int) -> bytes:
        """Return a checkpoint as bytes."""
        version = self._versions[token]
        flying = {number: each.encoded for number, each in version.flying.items()}
        return msgspec.msgpack.encode(_Written(version.ready.encoded, flying))

    def load_token(self, data: bytes) -> int:
        """Return a token for a checkpoint that was saved as bytes."""
        written = msgspec.msgpack.decode(data, type=_Written)
        flying = Map({number: read_back(encoded) for number, encoded in written.flying.items()})
        return self._versions.keep(_Queued(sequence_of(written.ready), flying), OVERHEAD + len(data))
