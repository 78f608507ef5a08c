"""Fakes of things that applications talk to, held in memory: a queue, mail, a clock, an object storage.

They are for wiring into the application under test in place of the real thing; every thread of it may use them.

- What they hold is immutable, and shared between checkpoints. A checkpoint is a reference.
- Values are copied on the way in and on the way out, through the canonical codec: changing a message after it was
  sent does not change what was sent. A value without an encoding is refused with an `EncodeError`.
- Digests are kept up to date with each change, so observing does not depend on the size. What holds more than
  `SHOWN` values is shown by its number of values and its digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any, Literal

import msgspec
from immutables import Map

from clew.errors import SystemSetupError
from clew.explore.observation import Observation
from clew.explore.systems.cells import EMPTY_ROW, Cell, Row, cell, mixed
from clew.explore.systems.versions import Versions

SHOWN = 100
Keys = list[str]
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def _shown(row: Row) -> Any:
    return [each.value for each in row] if len(row) <= SHOWN else {"count": len(row)}


class Delivery(msgspec.Struct, frozen=True):
    """A message that was received and not yet acknowledged."""

    id: int
    message: Any


class _Queued(msgspec.Struct, frozen=True):
    ready: Row
    flying: Map[int, Cell]
    flying_sum: int


class MemoryQueue:
    """A first-in-first-out queue of messages.

    `pop` takes a message for good. `receive` hands it out until `ack` says that it was dealt with, or `nack` puts
    it back to the front; a message in between is part of the state.
    """

    ordering: Literal["any"] = "any"

    def __init__(self, messages: Any = ()) -> None:
        self._now = _Queued(EMPTY_ROW, Map(), 0)
        self._versions: Versions[_Queued] = Versions()
        self._seen: tuple[_Queued, Observation] | None = None
        self._lock = RLock()
        for message in messages:
            self.push(message)

    def push(self, message: Any) -> None:
        """Add a message at the end."""
        new = cell(message, "message")
        with self._lock:
            self._now = msgspec.structs.replace(self._now, ready=self._now.ready.append(new))

    def pop(self) -> Any:
        """Take the oldest message; None if there is none."""
        with self._lock:
            if not len(self._now.ready):
                return None
            first, rest = self._now.ready.take_first()
            self._now = msgspec.structs.replace(self._now, ready=rest)
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
            # The place in the queue is the delivery's number: the same on every branch that leads here.
            number = now.ready.start
            flying = now.flying.set(number, first)
            self._now = _Queued(rest, flying, mixed(now.flying_sum, first, 1))
        return Delivery(number, first.read())

    def ack(self, delivery: Delivery | int) -> None:
        """Be done with a message; a KeyError if it is not in flight."""
        self._land(delivery)

    def nack(self, delivery: Delivery | int) -> None:
        """Put a message back to the front; a KeyError if it is not in flight."""
        with self._lock:
            landed = self._land(delivery)
            self._now = msgspec.structs.replace(self._now, ready=self._now.ready.prepend(landed))

    def _land(self, delivery: Delivery | int) -> Cell:
        number = delivery.id if isinstance(delivery, Delivery) else delivery
        with self._lock:
            now = self._now
            if number not in now.flying:
                raise KeyError(f"delivery {number} is not in flight; it was acknowledged, or never received")
            landed = now.flying[number]
            self._now = _Queued(now.ready, now.flying.delete(number), mixed(now.flying_sum, landed, -1))
        return landed

    def clear(self) -> None:
        """Drop all messages, also those in flight."""
        with self._lock:
            self._now = _Queued(EMPTY_ROW, Map(), 0)

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
            data = {
                "ready": _shown(now.ready),
                "in_flight": [now.flying[at].value for at in sorted(now.flying)],
            }
            digest = b"%b%b%d" % (now.ready.digest, now.flying_sum.to_bytes(32, "big"), len(now.flying))
            self._seen = (now, Observation("queue", data, {}, digest))
        return self._seen[1]

    def checkpoint(self, name: str) -> int:
        return self._versions.keep(self._now)

    def rollback(self, token: int) -> None:
        self._now = self._versions[token]

    def is_valid(self, token: Any) -> bool:
        return token in self._versions

    def release(self, token: int) -> None:
        self._versions.drop(token)


class Mail(msgspec.Struct, frozen=True):
    """A message that was sent."""

    to: tuple[str, ...]
    subject: str = ""
    body: str = ""
    sender: str = ""
    headers: dict[str, str] = {}


class MemoryMail:
    """A mail server that keeps what is sent."""

    ordering: Literal["any"] = "any"

    def __init__(self) -> None:
        self._now = EMPTY_ROW
        self._versions: Versions[Row] = Versions()
        self._seen: tuple[Row, Observation] | None = None
        self._lock = RLock()

    def send(
        self,
        to: str | tuple[str, ...] | list[str],
        subject: str = "",
        body: str = "",
        *,
        sender: str = "",
        headers: dict[str, str] | None = None,
    ) -> Mail:
        """Send a message to one address or several; what was sent."""
        mail = Mail((to,) if isinstance(to, str) else tuple(to), subject, body, sender, dict(headers or {}))
        new = cell(msgspec.structs.asdict(mail), "mail")
        with self._lock:
            self._now = self._now.append(new)
        return mail

    def inbox(self, address: str) -> list[Mail]:
        """What was sent to an address, the oldest first."""
        return [mail for mail in self.sent if address in mail.to]

    @property
    def sent(self) -> list[Mail]:
        """All that was sent, the oldest first."""
        return [Mail(**each.read()) for each in self._now]

    def clear(self) -> None:
        """Forget all that was sent."""
        with self._lock:
            self._now = EMPTY_ROW

    def __len__(self) -> int:
        return len(self._now)

    def __bool__(self) -> bool:
        return True

    def observe(self) -> Observation:
        now = self._now
        if self._seen is None or self._seen[0] is not now:
            self._seen = (now, Observation("mail", {"sent": _shown(now)}, {}, now.digest))
        return self._seen[1]

    def checkpoint(self, name: str) -> int:
        return self._versions.keep(self._now)

    def rollback(self, token: int) -> None:
        self._now = self._versions[token]

    def is_valid(self, token: Any) -> bool:
        return token in self._versions

    def release(self, token: int) -> None:
        self._versions.drop(token)


class MemoryClock:
    """A clock that moves only when it is told to."""

    ordering: Literal["any"] = "any"

    def __init__(self, start: datetime = _EPOCH) -> None:
        if start.tzinfo is None:
            raise SystemSetupError(
                f"MemoryClock: {start!r} has no time zone; say which, for example tzinfo=UTC"
            )
        self._start = start
        self._now = start
        self._versions: Versions[datetime] = Versions()

    def now(self) -> datetime:
        """The time, with its time zone."""
        return self._now

    def time(self) -> float:
        """The time in seconds since 1970, as `time.time` says it."""
        return self._now.timestamp()

    def monotonic(self) -> float:
        """Seconds since this clock began."""
        return (self._now - self._start).total_seconds()

    def advance(self, by: float | timedelta) -> datetime:
        """Move the clock on, by seconds or a timedelta; the new time. It never goes back."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if step < timedelta():
            raise ValueError(f"a clock does not go back: advance({by!r})")
        self._now += step
        return self._now

    def sleep(self, seconds: float) -> None:
        """Sleep without waiting: the clock moves on."""
        self.advance(seconds)

    def observe(self) -> Observation:
        return Observation("clock", {"now": self._now})

    def checkpoint(self, name: str) -> int:
        return self._versions.keep(self._now)

    def rollback(self, token: int) -> None:
        self._now = self._versions[token]

    def is_valid(self, token: Any) -> bool:
        return token in self._versions

    def release(self, token: int) -> None:
        self._versions.drop(token)


class _Stored(msgspec.Struct, frozen=True):
    cells: Map[str, Cell]
    sum: int


class MemoryStorage:
    """An object storage: values by key."""

    ordering: Literal["any"] = "any"

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        self._now = _Stored(Map(), 0)
        self._versions: Versions[_Stored] = Versions()
        self._seen: tuple[_Stored, Observation] | None = None
        self._lock = RLock()
        for key, value in (objects or {}).items():
            self.put(key, value)

    def put(self, key: str, value: Any) -> None:
        """Store a value; bytes, or anything that can be encoded."""
        new = cell(value, f"storage[{key!r}]", salt=key)
        with self._lock:
            now = self._now
            old = now.cells.get(key)
            total = now.sum if old is None else mixed(now.sum, old, -1)
            self._now = _Stored(now.cells.set(key, new), mixed(total, new, 1))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        found = self._now.cells.get(key)
        return default if found is None else found.read()

    def __getitem__(self, key: str) -> Any:
        return self._now.cells[key].read()

    def delete(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        with self._lock:
            now = self._now
            old = now.cells.get(key)
            if old is None:
                return False
            self._now = _Stored(now.cells.delete(key), mixed(now.sum, old, -1))
        return True

    def list(self, prefix: str = "") -> Keys:
        """The keys that begin with a prefix, in order."""
        return sorted(key for key in self._now.cells if key.startswith(prefix))

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._now = _Stored(Map(), 0)

    def __contains__(self, key: str) -> bool:
        return key in self._now.cells

    def __len__(self) -> int:
        return len(self._now.cells)

    def __bool__(self) -> bool:
        return True

    def observe(self) -> Observation:
        now = self._now
        if self._seen is None or self._seen[0] is not now:
            cells = now.cells
            data: Any = {"count": len(cells)}
            if len(cells) <= SHOWN:
                data = {key: each.value for key, each in cells.items()}
            digest = b"%d:%b" % (len(now.cells), now.sum.to_bytes(32, "big"))
            self._seen = (now, Observation("storage", data, {}, digest))
        return self._seen[1]

    def checkpoint(self, name: str) -> int:
        return self._versions.keep(self._now)

    def rollback(self, token: int) -> None:
        self._now = self._versions[token]

    def is_valid(self, token: Any) -> bool:
        return token in self._versions

    def release(self, token: int) -> None:
        self._versions.drop(token)
