"""`RedisSystem`: one database of a Redis or Valkey server, restored to any of its checkpoints in any order.

- A key is held as its dump and the time it has to live. States are a tree of deltas (`deltas`): the keys that
  changed.
- Keys that were touched are known by keyspace notifications (`redis_wire`); where these cannot be had, or may have
  been missed, all keys are compared.
- A restore is one transaction (MULTI), of the keys that differ. Other databases of the server are not touched.
- A key that expires gets the time to live back that it had at the checkpoint: time does not pass for a state that
  is left and come back to. For the identity of a state only counts whether a key expires at all.
- What is observed does not depend on the server's encodings (`redis_values`).

Not covered: scripts and functions of the server, times to live of single fields in hashes (they are restored, not
observed).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from types import TracebackType
from typing import Any, Literal

import msgspec

from clew.errors import CheckpointError, ExplorationWarning, RollbackError, SystemSetupError
from clew.explore.model.observation import Observation
from clew.explore.systems.delta_tree import DeltaTree, add
from clew.explore.systems.redis.connection import Command, RedisConnection
from clew.explore.systems.redis.values import read_all, text
from clew.state.codec import encode

SHOWN = 100
_SAME_DEADLINE = 0.1  # seconds: two readings of one time to live differ by what the network takes
_MODULUS = 1 << 256
_PIECE = 1 << 20  # bytes of keys that are kept together
_OWN = 300  # bytes of an entry besides its dump and what is shown of it


class KeyEntry(msgspec.Struct, frozen=True, eq=False):
    """A key and what it holds; `deadline` in seconds of the world's time, if it expires.

    `shown`, its hash (`number`) and its size follow from the others. They live as long as a state that holds the entry.
    """

    key: bytes
    dump: bytes
    deadline: float | None
    number: int = 0
    shown: Any = None
    size: int = 0  # bytes of what is shown

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyEntry) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[bytes, bytes, float | None]:
        return self.key, self.dump, self.deadline


class RedisStateInfo(msgspec.Struct, eq=False):
    time: float  # of the world, which stands still for a state that was left
    sum: int
    observation: Observation | None = None


class RedisSystem:
    """One database of a Redis or Valkey server.

    Args:
        server: A URL (redis://…, unix://…?db=2) or a client; of a client only its address and settings are used.
    """

    ordering: Literal["any"] = "any"

    def __init__(self, server: Any) -> None:
        self._wire = RedisConnection(server)
        self._entries: dict[bytes, KeyEntry] = {}
        self._expiring: dict[
            bytes, float
        ] = {}  # keys that expire, and the lag that their time to live was set with
        self._streams: set[bytes] = set()  # reading and acknowledging in groups notifies nobody
        self._lag = 0.0  # how much the world's time is behind the clock
        self._tree: DeltaTree[KeyEntry, RedisStateInfo] | None = None
        self._delta: dict[KeyEntry, int] = {}
        self._sum = 0
        self._seen: Observation | None = None

    # ---------------------------------------------------------------- the system

    def observe(self) -> Observation:
        self._look("observe")
        if self._seen is None:
            self._seen = self._observation()
        return self._seen

    def checkpoint(self, name: str) -> int:
        self._look(f"make the checkpoint {name!r}")
        tree, now = self._known, self._time()
        # Time alone makes a new node too, where something expires.
        if self._delta or (self._expiring and now - tree.here.facts.time > _SAME_DEADLINE):
            tree.step(self._delta, RedisStateInfo(now, self._sum, self._seen))
            self._delta = {}
        return tree.mark()

    def rollback(self, token: int) -> None:
        if self._tree is None:
            self._tree = DeltaTree(RedisStateInfo(self._time(), 0))
            self._tree[token]  # there is none yet
        node = self._known[token]
        self._look(f"restore the checkpoint {token}", RollbackError)
        way = self._known.between(self._known.here, node)
        assert way is not None  # there is one root
        add(way, self._delta, -1)
        self._write(way, token, node.facts.time)
        self._known.move(node)
        self._delta, self._sum, self._seen = {}, node.facts.sum, node.facts.observation

    def is_valid(self, token: Any) -> bool:
        return self._tree is not None and token in self._tree

    def release(self, token: int) -> None:
        if self._tree is not None:
            self._tree.release(token)

    def size(self, token: int) -> int:
        """The bytes that a checkpoint holds in this process: those of the keys that changed."""
        return sum(len(entry.dump) + entry.size + _OWN for entry in self._known[token].delta)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        """Return all keys at the latest checkpoint as byte strings for `restore_baseline` in another process."""
        self._claim(CheckpointError)
        self._look("keep the keys")
        node = self._known[token]
        if self._delta or self._known.here is not node:
            raise CheckpointError("Redis: keys were changed since the checkpoint that is to be kept")
        return self._packed(list(self._entries.values()), node.facts.time)

    def _packed(self, entries: list[KeyEntry], at: float) -> Iterator[bytes]:
        yield msgspec.msgpack.encode((self._wire.place, self._wire.flags))
        piece: list[tuple[bytes, bytes, int]] = []
        size = 0
        for entry in entries:
            piece.append((entry.key, entry.dump, _left(entry, at)))
            size += len(entry.dump) + len(entry.key)
            if size > _PIECE:
                yield msgspec.msgpack.encode(piece)
                piece, size = [], 0
        yield msgspec.msgpack.encode(piece)

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Hold the keys that were kept and no others, each with the time to live that it had.

        False if they are of another database, and nothing was done.
        """
        coming = iter(pieces)
        place, flags = msgspec.msgpack.decode(next(coming, b""), type=tuple[str, str | None])
        if place != self._wire.place:
            return False
        self._claim(RollbackError)
        if flags is not None:
            self._wire.flags = flags  # as the killed process had found them
        self._look("see what is there", RollbackError)
        decode = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, int]]).decode
        wanted = {key: (dump, left) for piece in coming for key, dump, left in decode(piece)}
        commands: list[Command] = [("DEL", key) for key in self._entries if key not in wanted]
        for key, (dump, left) in wanted.items():
            there = self._entries.get(key)
            if there is None or there.dump != dump or left or there.deadline is not None:
                commands.append(("RESTORE", key, left, dump, "REPLACE"))
        if commands:
            self._execute(commands, "that was kept")
            self._refresh({*self._entries, *wanted})
        return True

    def _claim(self, kind: type[Exception]) -> None:
        try:
            other = self._wire.claim()
        except Exception as error:
            raise kind(f"Redis: {type(error).__name__}: {error}") from error
        if other is not None:
            raise SystemSetupError(
                f"Redis: another RedisSystem ({other}) explores this database; wait for its end, or close it"
            )

    def release_baseline(self) -> None:
        """Nobody has to come back after this process."""
        self._wire.unclaim()

    def close(self) -> None:
        """Forget all checkpoints, and leave the server's settings as they were."""
        self._tree = None
        self._wire.close()

    def __enter__(self) -> RedisSystem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------- looking

    @property
    def _known(self) -> DeltaTree[KeyEntry, RedisStateInfo]:
        assert self._tree is not None  # every public method looks first
        return self._tree

    def _time(self) -> float:
        return time.monotonic() - self._lag

    def _look(self, doing: str, kind: type[Exception] = CheckpointError) -> None:
        """Take in what was touched since we looked last."""
        try:
            could_listen = self._wire.can_listen
            touched = self._wire.touched()
            if could_listen and not self._wire.can_listen:
                warnings.warn(
                    "the server does not let us switch on keyspace notifications "
                    "(CONFIG SET notify-keyspace-events KA): all keys are compared at each step",
                    ExplorationWarning,
                    stacklevel=4,
                )
            now = self._time()
            due = {key for key in self._expiring if (self._entries[key].deadline or 0) <= now}
            size = self._refresh(self._all_keys() if touched is None else touched | due | self._streams)
            if size != len(self._entries):  # something happened that nobody was told of
                self._refresh(self._all_keys())
        except Exception as error:
            if isinstance(error, Warning):
                raise
            raise kind(f"Redis: cannot {doing}: {type(error).__name__}: {error}") from error
        if self._tree is None:
            self._tree = DeltaTree(RedisStateInfo(self._time(), self._sum))
            self._delta = {}

    def _all_keys(self) -> set[bytes]:
        found = set(self._entries)
        cursor: Any = 0
        while True:
            (answer,) = self._send([("SCAN", cursor, "COUNT", 1000)])
            cursor, keys = answer
            found.update(keys)
            if int(cursor) == 0:
                return found

    def _refresh(self, keys: Iterable[bytes]) -> int:
        """Read keys again; the number of keys that the server has."""
        listed = sorted(keys)
        commands: list[Command] = []
        for key in listed:
            commands += (("DUMP", key), ("PTTL", key), ("TYPE", key))
        *answers, size = self._send([*commands, ("DBSIZE",)])
        now = self._time()
        fresh: dict[bytes, tuple[KeyEntry, bytes]] = {}
        for place, key in enumerate(listed):
            dump, left, kind = answers[3 * place : 3 * place + 3]
            old = self._entries.get(key)
            if isinstance(dump, Exception):
                raise dump
            if dump is None:
                if old is not None:
                    self._replace(old, None)
                continue
            deadline = now + left / 1000 if left >= 0 else None
            if old is None or old.dump != dump or not _same(old.deadline, deadline):
                fresh[key] = (KeyEntry(key, dump, deadline), kind)
        self._read(fresh)
        return int(size)

    def _read(self, fresh: dict[bytes, tuple[KeyEntry, bytes]]) -> None:
        unread = {key: (kind, entry.dump) for key, (entry, kind) in fresh.items()}
        values = read_all(self._send, unread)
        for key, (entry, kind) in fresh.items():
            expires = entry.deadline is not None
            shown = {"type": kind.decode(), "value": values[key], "expires": expires}
            encoded = encode((key, shown))
            number = int.from_bytes(blake2b(encoded, digest_size=32).digest(), "big")
            read = KeyEntry(entry.key, entry.dump, entry.deadline, number, shown, len(encoded))
            self._replace(self._entries.get(key), read)

    def _replace(self, old: KeyEntry | None, new: KeyEntry | None) -> None:
        if old is not None:
            add(self._delta, {old: -1})
            self._sum = (self._sum - old.number) % _MODULUS
        if new is not None:
            add(self._delta, {new: 1})
            self._sum = (self._sum + new.number) % _MODULUS
        self._hold(old, new)
        self._seen = None

    def _hold(self, old: KeyEntry | None, new: KeyEntry | None) -> None:
        """Know what the server holds; also after a restore, where nothing is read again."""
        if old is not None and new is None:
            del self._entries[old.key]
            self._expiring.pop(old.key, None)
            self._streams.discard(old.key)
        if new is not None:
            self._entries[new.key] = new
            is_stream = new.shown["type"] == "stream"
            (self._streams.add if is_stream else self._streams.discard)(new.key)
            self._expiring.pop(new.key, None)
            if new.deadline is not None:
                self._expiring[new.key] = self._lag

    def _observation(self) -> Observation:
        digest = b"%d:%b" % (len(self._entries), self._sum.to_bytes(32, "big"))
        data: Any = {"keys": len(self._entries), "digest": digest.hex()}
        if len(self._entries) <= SHOWN:
            data = {text(key): self._entries[key].shown for key in sorted(self._entries)}
        return Observation("redis", data, {"database": self._wire.database}, digest)

    # ---------------------------------------------------------------- restoring

    def _write(self, way: dict[KeyEntry, int], token: int, at: float) -> None:
        """Make the keys that differ what they were, and let the world's time be what it was."""
        coming = {entry.key: entry for entry, count in way.items() if count > 0}
        going = {entry.key: entry for entry, count in way.items() if count < 0}
        lag = time.monotonic() - at
        commands: list[Command] = [("DEL", key) for key in going if key not in coming]
        for key, entry in coming.items():
            commands.append(("RESTORE", key, _left(entry, at), entry.dump, "REPLACE"))
        for key in self._expiring.keys() - going.keys() - coming.keys():
            if abs(lag - self._expiring[key]) > _SAME_DEADLINE / 2:
                left = max(1, round(((self._entries[key].deadline or 0) - at) * 1000))
                commands.append(("PEXPIRE", key, left))
                self._expiring[key] = lag
        if commands:
            self._execute(commands, token)
        self._lag = lag
        for key, entry in going.items():
            self._hold(entry, coming.get(key))
        for entry in coming.values():
            self._hold(None, entry)

    def _execute(self, commands: list[Command], token: object) -> None:
        try:
            *queued, results = self._wire.send([("MULTI",), *commands, ("EXEC",)])
        except Exception as error:
            raise RollbackError(f"Redis: cannot restore the checkpoint {token}: {error}") from error
        answers = results if isinstance(results, list) else [results]
        wrong = [answer for answer in (*queued, *answers) if isinstance(answer, Exception)]
        if wrong:
            raise RollbackError(f"Redis: cannot restore the checkpoint {token}: {wrong[0]}")

    def _send(self, commands: list[Command]) -> list[Any]:
        return self._wire.send(commands)


def _left(entry: KeyEntry, at: float) -> int:
    """The milliseconds that a key has to live at a time of the world; 0 if it does not expire."""
    return 0 if entry.deadline is None else max(1, round((entry.deadline - at) * 1000))


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _SAME_DEADLINE
