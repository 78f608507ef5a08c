"""Fakes in memory of services that applications use: mail, a clock, an object storage and a queue.

The application under test uses them instead of the real service. They are thread-safe.

- Values are copied on the way in and on the way out with the canonical codec, so changing a message after it was sent
  has no effect. A value that cannot be encoded is rejected with an `EncodeError`.
- More than `SHOWN` values are shown as their count and digest.
- A consumer identifies a message in flight by its delivery number, so the numbers are part of the state. A delivery
  gets the lowest free number. So the next number depends on the state alone, and numbers do not create endless states.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
from immutables import Map

from clew.errors import DefinitionError, SystemSetupError
from clew.explore.systems.memory.content import SHOWN, MemorySystem, StoredValue, listed, read_back, stored
from clew.state.values.codec import decode, encode

Keys = list[str]
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Mail(msgspec.Struct, frozen=True):
    """A message that was sent."""

    to: tuple[str, ...]
    subject: str = ""
    body: str = ""
    sender: str = ""
    headers: dict[str, str] = {}


class MemoryMail(MemorySystem[tuple[StoredValue, ...]]):
    """A mail server that stores every message."""

    _system = "mail"

    def __init__(self) -> None:
        super().__init__(())

    def send(
        self,
        to: str | tuple[str, ...] | list[str],
        subject: str = "",
        body: str = "",
        *,
        sender: str = "",
        headers: dict[str, str] | None = None,
    ) -> Mail:
        """Send a message to one or several addresses, and return it."""
        mail = Mail((to,) if isinstance(to, str) else tuple(to), subject, body, sender, dict(headers or {}))
        new = stored(msgspec.structs.asdict(mail), "mail")
        with self._lock:
            self._now = (*self._now, new)
            self._added += len(new.encoded)
        return mail

    def inbox(self, address: str) -> list[Mail]:
        """Return the messages to an address, oldest first."""
        return [mail for mail in self.sent if address in mail.to]

    @property
    def sent(self) -> list[Mail]:
        """Return all messages, oldest first."""
        return [Mail(**each.read()) for each in self._now]

    def clear(self) -> None:
        """Delete all messages."""
        with self._lock:
            self._now = ()

    def __len__(self) -> int:
        return len(self._now)

    def _shown(self, content: tuple[StoredValue, ...], digest: bytes) -> Any:
        return {"sent": listed(content, digest)}

    def _packed(self, content: tuple[StoredValue, ...]) -> bytes:
        return msgspec.msgpack.encode([each.encoded for each in content])

    def _unpacked(self, data: bytes) -> tuple[StoredValue, ...]:
        return tuple(map(read_back, msgspec.msgpack.decode(data, type=list[bytes])))


class MemoryClock(MemorySystem[datetime]):
    """A clock that only `advance` and `sleep` move."""

    _system = "clock"

    def __init__(self, start: datetime = _EPOCH) -> None:
        if not isinstance(start, datetime):
            raise SystemSetupError(f"start: expected a datetime with a time zone, got {start!r}")
        if start.tzinfo is None:
            raise SystemSetupError(f"start: {start!r} has no time zone; add one, for example tzinfo=UTC")
        self._start = start
        super().__init__(start)

    def now(self) -> datetime:
        """Return the time with its time zone."""
        return self._now

    def time(self) -> float:
        """Return the time in seconds since 1970, as `time.time` does."""
        return self._now.timestamp()

    def monotonic(self) -> float:
        """Return the seconds since the start of the clock."""
        return (self._now - self._start).total_seconds()

    def advance(self, by: float | timedelta) -> datetime:
        """Advance the clock by seconds or a timedelta, and return the new time."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if step < timedelta():
            raise ValueError(f"by: expected a duration >= 0, got {by!r}")
        self._now += step
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the clock instead of waiting."""
        self.advance(seconds)

    def _shown(self, content: datetime, digest: bytes) -> Any:
        return {"now": content}

    def _packed(self, content: datetime) -> bytes:
        return encode(content)

    def _unpacked(self, data: bytes) -> datetime:
        found: datetime = decode(data)
        return found


class MemoryStorage(MemorySystem[Map[str, StoredValue]]):
    """An object storage: values by key."""

    _system = "storage"

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        super().__init__(Map())
        for key, value in (objects or {}).items():
            self.put(key, value)

    def put(self, key: str, value: Any) -> None:
        """Store a value that can be encoded."""
        if type(key) is not str:
            raise DefinitionError(f"key: expected a str, got {key!r}")
        new = stored(value, f"storage[{key!r}]")
        with self._lock:
            self._now = self._now.set(key, new)
            self._added += len(new.encoded)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        found = self._now.get(key)
        return default if found is None else found.read()

    def __getitem__(self, key: str) -> Any:
        return self._now[key].read()

    def delete(self, key: str) -> bool:
        """Remove a key, and return whether it existed."""
        with self._lock:
            if key not in self._now:
                return False
            self._now = self._now.delete(key)
        return True

    def list(self, prefix: str = "") -> Keys:
        """Return the keys that start with a prefix, sorted."""
        return sorted(key for key in self._now if key.startswith(prefix))

    def clear(self) -> None:
        """Remove all keys."""
        with self._lock:
            self._now = Map()

    def __contains__(self, key: str) -> bool:
        return key in self._now

    def __len__(self) -> int:
        return len(self._now)

    def _shown(self, content: Map[str, StoredValue], digest: bytes) -> Any:
        if len(content) > SHOWN:
            return {"count": len(content), "digest": digest.hex()}
        return {key: each.value for key, each in content.items()}

    def _packed(self, content: Map[str, StoredValue]) -> bytes:
        return msgspec.msgpack.encode(
            [(key.encode("utf-8", "surrogatepass"), content[key].encoded) for key in sorted(content)]
        )

    def _unpacked(self, data: bytes) -> Map[str, StoredValue]:
        pairs = msgspec.msgpack.decode(data, type=tuple[tuple[bytes, bytes], ...])
        return Map({key.decode("utf-8", "surrogatepass"): read_back(encoded) for key, encoded in pairs})


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
