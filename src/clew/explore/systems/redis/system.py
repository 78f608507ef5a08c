"""`RedisSystem`: one database of a Redis or Valkey server that can be restored to any of its checkpoints in any order.

- A key is stored as its dump and its remaining time to live. States are a tree of changed keys (`delta_tree`).
- Changed keys are found by keyspace notifications (`connection`). If those are not available, or may have been missed,
  all keys are compared.
- A restore is one transaction (MULTI) of the keys that differ. Other databases of the server are not changed.
- A key that expires gets back the time to live that it had at the checkpoint: time does not pass for a state while
  another one is current. The identity of a state includes only whether a key expires.
- Observations do not depend on the server's encodings (`values`).

Not covered: scripts and functions of the server. The times to live of fields in hashes are restored, not observed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from clew.errors import CheckpointError, ExplorationWarning, RollbackError, SystemSetupError
from clew.explore.model.system import Observation
from clew.explore.process_mark import MidwayMark
from clew.explore.systems.delta_tree import DeltaTree, add
from clew.explore.systems.interrupts import uninterrupted
from clew.explore.systems.redis.connection import Command, RedisConnection
from clew.explore.systems.redis.values import read_all, text
from clew.explore.systems.version_tokens import MarkedSystem
from clew.state.values.codec import encode

SHOWN = 100
_SAME_DEADLINE = 0.1  # seconds; two readings of a time to live differ by the network latency
_MODULUS = 1 << 256
_PIECE = 1 << 20  # bytes of keys in one piece
_OVERHEAD = 300  # bytes of an entry in addition to its dump and value


class KeyEntry(msgspec.Struct, frozen=True, eq=False):
    """A key, its dump, and its deadline in system time if it expires.

    `shown`, its hash (`number`) and its size are computed from these.
    """

    key: bytes
    dump: bytes
    deadline: float | None
    number: int = 0
    shown: Any = None
    size: int = 0  # bytes of `shown`

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyEntry) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[bytes, bytes, float | None]:
        return self.key, self.dump, self.deadline


class RedisStateInfo(msgspec.Struct, eq=False):
    time: float  # system time, which does not pass while another state is current
    sum: int
    observation: Observation | None = None


class RedisSystem(MarkedSystem):
    """One database of a Redis or Valkey server.

    Args:
        server: A URL (redis://..., unix://...?db=2), or a client whose address and settings are used.
    """

    ordering: Literal["any"] = "any"

    def __init__(self, server: Any) -> None:
        self._connection = RedisConnection(server)
        self._mark = MidwayMark(f"redis {self._connection.identity}")
        self._entries: dict[bytes, KeyEntry] = {}
        # keys that expire, with the lag at which their time to live was set
        self._expiring: dict[bytes, float] = {}
        self._streams: set[bytes] = set()  # reads and acknowledgements of groups send no notifications
        self._lag = 0.0  # of the system time behind the clock
        self._tree: DeltaTree[KeyEntry, RedisStateInfo] = DeltaTree()
        self._is_read = False  # the keys, for the first time
        self._sum = 0
        self._observed: Observation | None = None

    # ---------------------------------------------------------------- the system

    @uninterrupted
    def observe(self) -> Observation:
        self._read_changes("observe")
        if self._observed is None:
            self._observed = self._observation()
        return self._observed

    @uninterrupted
    def checkpoint(self, name: str) -> int:
        self._read_changes(f"make the checkpoint {name!r}")
        tree, now = self._tree, self._time()
        # If a key expires, the passing of time alone makes a new state.
        if tree.pending or (self._expiring and now - tree.here.info.time > _SAME_DEADLINE):
            tree.step(RedisStateInfo(now, self._sum, self._observed))
        return tree.mark()

    @uninterrupted
    def rollback(self, token: int) -> None:
        node = self._tree[token]
        self._read_changes(f"restore the checkpoint {token}", RollbackError)
        self._write(self._tree.path_to(node), token, node.info.time)
        self._tree.move(node)
        self._sum, self._observed = node.info.sum, node.info.observation

    def is_valid(self, token: Any) -> bool:
        return token in self._tree

    @uninterrupted
    def release(self, token: int) -> None:
        self._tree.release(token)

    def size(self, token: int) -> int:
        """Return the number of bytes that a checkpoint holds in memory."""
        return sum(len(entry.dump) + entry.size + _OVERHEAD for entry in self._tree[token].delta)

    def save_baseline(self, token: int) -> Iterator[bytes]:
        """Return all keys in pieces, from which another process can restore the last checkpoint."""
        self._claim(CheckpointError)
        self._read_changes("save the baseline")
        node = self._tree[token]
        if self._tree.pending or self._tree.here is not node:
            raise CheckpointError("Redis: keys have changed since the checkpoint; make a new checkpoint")
        return self._packed(list(self._entries.values()), node.info.time)

    def _packed(self, entries: list[KeyEntry], at: float) -> Iterator[bytes]:
        yield msgspec.msgpack.encode((self._connection.identity, self._connection.flags))
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
        """Restore the saved keys with their times to live, and delete all others.

        Return False, and do nothing, if they belong to another database.
        """
        remaining = iter(pieces)
        identity, flags = msgspec.msgpack.decode(next(remaining, b""), type=tuple[str, str | None])
        if identity != self._connection.identity:
            return False
        self._claim(RollbackError)
        if flags is not None:
            self._connection.flags = flags  # the original setting, from the killed process
        self._read_changes("read the keys", RollbackError)
        decode = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, int]]).decode
        wanted = {key: (dump, left) for piece in remaining for key, dump, left in decode(piece)}
        commands: list[Command] = [("DEL", key) for key in self._entries if key not in wanted]
        for key, (dump, left) in wanted.items():
            current = self._entries.get(key)
            if current is None or current.dump != dump or left or current.deadline is not None:
                commands.append(("RESTORE", key, left, dump, "REPLACE"))
        if commands:
            self._execute(commands, "of the baseline")
            self._refresh({*self._entries, *wanted})
        return True

    def _claim(self, kind: type[Exception]) -> None:
        try:
            other = self._connection.claim()
        except Exception as error:
            raise kind(f"Redis: {type(error).__name__}: {error}") from error
        if other is not None:
            raise SystemSetupError(
                f"Redis: another RedisSystem ({other}) is exploring this database; wait until it ends, or close it"
            )

    def release_baseline(self) -> None:
        """Give up the claim: no other process needs to restore the database."""
        self._connection.unclaim()

    def close(self) -> None:
        """Discard all checkpoints, and restore the server's settings."""
        self._tree = DeltaTree()
        self._connection.close()

    # ---------------------------------------------------------------- reading changes

    def _time(self) -> float:
        return time.monotonic() - self._lag

    def _read_changes(self, doing: str, kind: type[Exception] = CheckpointError) -> None:
        """Record the changes since the last call."""
        try:
            could_listen = self._connection.can_listen
            changed = self._connection.changed()
            if could_listen and not self._connection.can_listen:
                warnings.warn(
                    "Redis: cannot enable keyspace notifications (CONFIG SET notify-keyspace-events KA); "
                    "all keys are compared at each step",
                    ExplorationWarning,
                    stacklevel=4,
                )
            now = self._time()
            due = {key for key in self._expiring if (self._entries[key].deadline or 0) <= now}
            size = self._refresh(self._all_keys() if changed is None else changed | due | self._streams)
            if size != len(self._entries):  # a change without a notification
                self._refresh(self._all_keys())
        except Exception as error:
            if isinstance(error, Warning):
                raise
            raise kind(f"Redis: cannot {doing}: {type(error).__name__}: {error}") from error
        if not self._is_read:
            self._is_read = True
            self._tree.new_root(RedisStateInfo(self._time(), self._sum))

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
        """Read keys again, and return the number of keys of the server."""
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
            add(self._tree.pending, {old: -1})
            self._sum = (self._sum - old.number) % _MODULUS
        if new is not None:
            add(self._tree.pending, {new: 1})
            self._sum = (self._sum + new.number) % _MODULUS
        self._hold(old, new)
        self._observed = None

    def _hold(self, old: KeyEntry | None, new: KeyEntry | None) -> None:
        """Update the local copy of a key."""
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
        return Observation("redis", data, {"database": self._connection.database}, digest)

    # ---------------------------------------------------------------- restoring

    def _write(self, path: dict[KeyEntry, int], token: int, at: float) -> None:
        """Restore the keys that differ, and the system time."""
        restored = {entry.key: entry for entry, count in path.items() if count > 0}
        removed = {entry.key: entry for entry, count in path.items() if count < 0}
        lag = time.monotonic() - at
        commands: list[Command] = [("DEL", key) for key in removed if key not in restored]
        for key, entry in restored.items():
            commands.append(("RESTORE", key, _left(entry, at), entry.dump, "REPLACE"))
        for key in self._expiring.keys() - removed.keys() - restored.keys():
            if abs(lag - self._expiring[key]) > _SAME_DEADLINE / 2:
                left = max(1, round(((self._entries[key].deadline or 0) - at) * 1000))
                commands.append(("PEXPIRE", key, left))
                self._expiring[key] = lag
        if commands:
            self._execute(commands, token)
        self._lag = lag
        for key, entry in removed.items():
            self._hold(entry, restored.get(key))
        for entry in restored.values():
            self._hold(None, entry)

    def _execute(self, commands: list[Command], token: object) -> None:
        try:
            *queued, results = self._connection.send([("MULTI",), *commands, ("EXEC",)])
        except Exception as error:
            raise RollbackError(f"Redis: cannot restore the checkpoint {token}: {error}") from error
        replies = results if isinstance(results, list) else [results]
        errors = [reply for reply in (*queued, *replies) if isinstance(reply, Exception)]
        if errors:
            raise RollbackError(f"Redis: cannot restore the checkpoint {token}: {errors[0]}")

    def _send(self, commands: list[Command]) -> list[Any]:
        return self._connection.send(commands)


def _left(entry: KeyEntry, at: float) -> int:
    """Return the milliseconds to live of a key at a system time; 0 if it does not expire."""
    return 0 if entry.deadline is None else max(1, round((entry.deadline - at) * 1000))


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _SAME_DEADLINE
