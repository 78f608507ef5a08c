"""Fakes in memory of services that applications use: mail, a clock and an object storage. `queue` has a queue.

The application under test uses them instead of the real service. They are thread-safe.

- Their content is immutable and shared between checkpoints. A checkpoint is a reference; its size is the new content
  since the previous one. It can be saved as bytes.
- Values are copied on the way in and on the way out with the canonical codec, so changing a message after it was sent
  has no effect. A value that cannot be encoded is rejected with an `EncodeError`.
- Digests are updated with each change, so the cost of observing does not depend on the size. More than `SHOWN` values
  are shown as their count and digest.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any, Literal

import msgspec
from immutables import Map

from clew.errors import DefinitionError, SystemSetupError
from clew.explore.model.observation import Observation
from clew.explore.systems.immutable_values import (
    EMPTY_SEQUENCE,
    SHOWN,
    ImmutableValue,
    ValueSequence,
    immutable,
    mixed,
    read_back,
    sequence_of,
)
from clew.explore.systems.version_tokens import OVERHEAD, VersionedSystem
from clew.state.codec import decode, encode

Keys = list[str]
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Mail(msgspec.Struct, frozen=True):
    """A message that was sent."""

    to: tuple[str, ...]
    subject: str = ""
    body: str = ""
    sender: str = ""
    headers: dict[str, str] = {}


class MemoryMail(VersionedSystem[ValueSequence]):
    """A mail server that stores every message."""

    ordering: Literal["any"] = "any"

    def __init__(self) -> None:
        super().__init__(EMPTY_SEQUENCE)
        self._observed: tuple[ValueSequence, Observation] | None = None
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
        """Send a message to one or several addresses, and return it."""
        mail = Mail((to,) if isinstance(to, str) else tuple(to), subject, body, sender, dict(headers or {}))
        new = immutable(msgspec.structs.asdict(mail), "mail")
        with self._lock:
            self._now = self._now.append(new)
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
            self._now = EMPTY_SEQUENCE

    def __len__(self) -> int:
        return len(self._now)

    def __bool__(self) -> bool:
        return True

    def observe(self) -> Observation:
        now = self._now
        if self._observed is None or self._observed[0] is not now:
            self._observed = (now, Observation("mail", {"sent": now.shown}, {}, now.digest))
        return self._observed[1]

    def dump_token(self, token: int) -> bytes:
        """Return a checkpoint as bytes."""
        return msgspec.msgpack.encode(self._versions[token].encoded)

    def load_token(self, data: bytes) -> int:
        """Return a token for a checkpoint that was saved as bytes."""
        row = sequence_of(msgspec.msgpack.decode(data, type=list[bytes]))
        return self._versions.keep(row, OVERHEAD + len(data))


class MemoryClock(VersionedSystem[datetime]):
    """A clock that only `advance` and `sleep` move."""

    ordering: Literal["any"] = "any"

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

    def observe(self) -> Observation:
        return Observation("clock", {"now": self._now})

    def dump_token(self, token: int) -> bytes:
        """Return a checkpoint as bytes."""
        return encode(self._versions[token])

    def load_token(self, data: bytes) -> int:
        """Return a token for a checkpoint that was saved as bytes."""
        return self._versions.keep(decode(data), OVERHEAD)


class _Stored(msgspec.Struct, frozen=True, gc=False):
    values: Map[str, ImmutableValue]
    sum: int

    @property
    def digest(self) -> bytes:
        return b"%d:%b" % (len(self.values), self.sum.to_bytes(32, "big"))


def _stored(values: dict[str, ImmutableValue]) -> _Stored:
    total = 0
    for each in values.values():
        total = mixed(total, each, 1)
    return _Stored(Map(values), total)


class MemoryStorage(VersionedSystem[_Stored]):
    """An object storage: values by key."""

    ordering: Literal["any"] = "any"

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        super().__init__(_Stored(Map(), 0))
        self._observed: tuple[_Stored, Observation] | None = None
        self._lock = RLock()
        for key, value in (objects or {}).items():
            self.put(key, value)

    def put(self, key: str, value: Any) -> None:
        """Store a value that can be encoded."""
        if type(key) is not str:
            raise DefinitionError(f"key: expected a str, got {key!r}")
        new = immutable(value, f"storage[{key!r}]", salt=key)
        with self._lock:
            now = self._now
            old = now.values.get(key)
            total = now.sum if old is None else mixed(now.sum, old, -1)
            self._now = _Stored(now.values.set(key, new), mixed(total, new, 1))
            self._added += len(new.encoded)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        found = self._now.values.get(key)
        return default if found is None else found.read()

    def __getitem__(self, key: str) -> Any:
        return self._now.values[key].read()

    def delete(self, key: str) -> bool:
        """Remove a key, and return whether it existed."""
        with self._lock:
            now = self._now
            old = now.values.get(key)
            if old is None:
                return False
            self._now = _Stored(now.values.delete(key), mixed(now.sum, old, -1))
        return True

    def list(self, prefix: str = "") -> Keys:
        """Return the keys that start with a prefix, sorted."""
        return sorted(key for key in self._now.values if key.startswith(prefix))

    def clear(self) -> None:
        """Remove all keys."""
        with self._lock:
            self._now = _Stored(Map(), 0)

    def __contains__(self, key: str) -> bool:
        return key in self._now.values

    def __len__(self) -> int:
        return len(self._now.values)

    def __bool__(self) -> bool:
        return True

    def observe(self) -> Observation:
        now = self._now
        if self._observed is None or self._observed[0] is not now:
            values, digest = now.values, now.digest
            data: Any = {"count": len(values), "digest": digest.hex()}
            if len(values) <= SHOWN:
                data = {key: each.value for key, each in values.items()}
            self._observed = (now, Observation("storage", data, {}, digest))
        return self._observed[1]

    def dump_token(self, token: int) -> bytes:
        """Return a checkpoint as bytes."""
        values = self._versions[token].values
        return msgspec.msgpack.encode({key: each.encoded for key, each in values.items()})

    def load_token(self, data: bytes) -> int:
        """Return a token for a checkpoint that was saved as bytes."""
        written = msgspec.msgpack.decode(data, type=dict[str, bytes])
        stored = _stored({key: read_back(encoded, salt=key) for key, encoded in written.items()})
        return self._versions.keep(stored, OVERHEAD + len(data))
