"""Fakes of things that applications talk to, held in memory: mail, a clock, an object storage (and, in `memory_queue`,
a queue).

They are for wiring into the application under test in place of the real thing; every thread of it may use them.

- What they hold is immutable, and shared between checkpoints. A checkpoint is a reference; its size is what came
  since the one before. It can be written down as bytes, and read back.
- Values are copied on the way in and on the way out, through the canonical codec: changing a message after it was
  sent does not change what was sent. A value without an encoding is refused with an `EncodeError`.
- Digests are kept up to date with each change, so observing does not depend on the size. What holds more than
  `SHOWN` values is shown by its number of values and its digest.
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
    EMPTY_ROW,
    SHOWN,
    ImmutableValue,
    ValueSequence,
    cell,
    mixed,
    read_back,
    row_of,
)
from clew.explore.systems.version_tokens import VersionTokens
from clew.state.codec import decode, encode

Keys = list[str]
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_OWN = 512  # bytes that a checkpoint takes besides what came


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
        self._came = 0  # bytes, since the last checkpoint
        self._versions: VersionTokens[ValueSequence] = VersionTokens()
        self._seen: tuple[ValueSequence, Observation] | None = None
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
            self._came += len(new.encoded)
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
            self._seen = (now, Observation("mail", {"sent": now.shown}, {}, now.digest))
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
        return msgspec.msgpack.encode(self._versions[token].written)

    def load_token(self, data: bytes) -> int:
        """A token for a checkpoint that was written down."""
        row = row_of(msgspec.msgpack.decode(data, type=list[bytes]))
        return self._versions.keep(row, _OWN + len(data))


class MemoryClock:
    """A clock that moves only when it is told to."""

    ordering: Literal["any"] = "any"

    def __init__(self, start: datetime = _EPOCH) -> None:
        if not isinstance(start, datetime):
            raise SystemSetupError(f"MemoryClock: a datetime with its time zone, not {start!r}")
        if start.tzinfo is None:
            raise SystemSetupError(
                f"MemoryClock: {start!r} has no time zone; say which, for example tzinfo=UTC"
            )
        self._start = start
        self._now = start
        self._versions: VersionTokens[datetime] = VersionTokens()

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
        token = self._versions.keep(self._now, _OWN)
        return token

    def rollback(self, token: int) -> None:
        self._now = self._versions[token]

    def is_valid(self, token: Any) -> bool:
        return token in self._versions

    def release(self, token: int) -> None:
        self._versions.drop(token)

    def size(self, token: int) -> int:
        """The bytes that came with a checkpoint; the rest is shared with others."""
        return self._versions.size(token)

    def dump_token(self, token: int) -> bytes:
        """A checkpoint as bytes, for the disk."""
        return encode(self._versions[token])

    def load_token(self, data: bytes) -> int:
        """A token for a checkpoint that was written down."""
        return self._versions.keep(decode(data), _OWN)


class _Stored(msgspec.Struct, frozen=True, gc=False):
    cells: Map[str, ImmutableValue]
    sum: int

    @property
    def digest(self) -> bytes:
        return b"%d:%b" % (len(self.cells), self.sum.to_bytes(32, "big"))


def _stored(cells: dict[str, ImmutableValue]) -> _Stored:
    total = 0
    for each in cells.values():
        total = mixed(total, each, 1)
    return _Stored(Map(cells), total)


class MemoryStorage:
    """An object storage: values by key."""

    ordering: Literal["any"] = "any"

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        self._now = _Stored(Map(), 0)
        self._came = 0  # bytes, since the last checkpoint
        self._versions: VersionTokens[_Stored] = VersionTokens()
        self._seen: tuple[_Stored, Observation] | None = None
        self._lock = RLock()
        for key, value in (objects or {}).items():
            self.put(key, value)

    def put(self, key: str, value: Any) -> None:
        """Store a value; bytes, or anything that can be encoded."""
        if type(key) is not str:
            raise DefinitionError(f"a key of a MemoryStorage is a text, not {key!r}")
        new = cell(value, f"storage[{key!r}]", salt=key)
        with self._lock:
            now = self._now
            old = now.cells.get(key)
            total = now.sum if old is None else mixed(now.sum, old, -1)
            self._now = _Stored(now.cells.set(key, new), mixed(total, new, 1))
            self._came += len(new.encoded)

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
            cells, digest = now.cells, now.digest
            data: Any = {"count": len(cells), "digest": digest.hex()}
            if len(cells) <= SHOWN:
                data = {key: each.value for key, each in cells.items()}
            self._seen = (now, Observation("storage", data, {}, digest))
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
        cells = self._versions[token].cells
        return msgspec.msgpack.encode({key: each.encoded for key, each in cells.items()})

    def load_token(self, data: bytes) -> int:
        """A token for a checkpoint that was written down."""
        written = msgspec.msgpack.decode(data, type=dict[str, bytes])
        stored = _stored({key: read_back(encoded, salt=key) for key, encoded in written.items()})
        return self._versions.keep(stored, _OWN + len(data))
