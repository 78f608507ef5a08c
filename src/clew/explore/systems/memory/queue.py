"""`MemoryQueue`: a queue of messages in memory, which the application uses instead of the real one.

A consumer identifies a message in flight by its delivery number, so the numbers are part of the state. A delivery gets
the lowest free number. So the next number depends on the state alone, and numbers do not create endless states.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from clew.explore.systems.memory.content import MemorySystem, StoredValue, listed, read_back, stored


class Delivery(msgspec.Struct, frozen=True):
    """A message that was received and not yet acknowledged."""

    id: int
    message: Any


class _Queued(msgspec.Struct, frozen=True, eq=False):
    ready: tuple[StoredValue, ...] = ()
    flying: dict[int, StoredValue] = {}  # by delivery number, in order; replaced, never changed


class MemoryQueue(MemorySystem[_Queued]):
    """A first-in-first-out queue of messages.

    `pop` removes a message. `receive` puts it in flight until `ack` removes it, or `nack` returns it to the front.
    Messages in flight are part of the state.
    """

    _system = "queue"

    def __init__(self, messages: Any = ()) -> None:
        super().__init__(_Queued())
        for message in messages:
            self.push(message)

    def push(self, message: Any) -> None:
        """Append a message."""
        new = stored(message, "message")
        with self._lock:
            self._now = _Queued((*self._now.ready, new), self._now.flying)
            self._added += len(new.encoded)

    def pop(self) -> Any:
        """Remove and return the oldest message; None if the queue is empty."""
        with self._lock:
            ready = self._now.ready
            self._now = _Queued(ready[1:], self._now.flying)
        return ready[0].read() if ready else None

    def peek(self) -> Any:
        """Return the oldest message without removing it; None if the queue is empty."""
        ready = self._now.ready
        return ready[0].read() if ready else None

    def receive(self) -> Delivery | None:
        """Put the oldest message in flight, and return it; None if the queue is empty."""
        with self._lock:
            ready, flying = self._now.ready, self._now.flying
            if not ready:
                return None
            number = next(number for number in count() if number not in flying)
            self._now = _Queued(ready[1:], dict(sorted({**flying, number: ready[0]}.items())))
        return Delivery(number, ready[0].read())

    def ack(self, delivery: Delivery | int) -> None:
        """Remove a message in flight; raise a KeyError if it is not in flight."""
        self._land(delivery)

    def nack(self, delivery: Delivery | int) -> None:
        """Return a message in flight to the front; raise a KeyError if it is not in flight."""
        with self._lock:
            landed = self._land(delivery)
            self._now = _Queued((landed, *self._now.ready), self._now.flying)

    def _land(self, delivery: Delivery | int) -> StoredValue:
        number = delivery.id if isinstance(delivery, Delivery) else delivery
        with self._lock:
            flying = dict(self._now.flying)
            if number not in flying:
                raise KeyError(f"delivery {number} is not in flight; it was acknowledged, or never received")
            landed = flying.pop(number)
            self._now = _Queued(self._now.ready, flying)
        return landed

    def clear(self) -> None:
        """Remove all messages, including those in flight."""
        with self._lock:
            self._now = _Queued()

    @property
    def in_flight(self) -> int:
        """Return the number of messages in flight."""
        return len(self._now.flying)

    def __len__(self) -> int:
        return len(self._now.ready)

    def __iter__(self) -> Iterator[Any]:
        return (each.read() for each in self._now.ready)

    def _shown(self, content: _Queued, digest: bytes) -> dict[str, Any]:
        numbers = [*content.flying]
        in_flight = [each.value for each in content.flying.values()]
        data = {"ready": listed(content.ready, digest), "in_flight": in_flight}
        return data if numbers == [*range(len(numbers))] else {**data, "deliveries": numbers}

    def _packed(self, content: _Queued) -> bytes:
        flying = {number: each.encoded for number, each in content.flying.items()}
        return msgspec.msgpack.encode(([each.encoded for each in content.ready], flying))

    def _unpacked(self, data: bytes) -> _Queued:
        ready, flying = msgspec.msgpack.decode(data, type=tuple[list[bytes], dict[int, bytes]])
        return _Queued(tuple(map(read_back, ready)), {n: read_back(each) for n, each in flying.items()})
