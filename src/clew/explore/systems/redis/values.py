"""The values of Redis keys, independent of the server's internal encoding.

DUMP is exact and fast, but depends on the encoding inside the server: a set that was filled in another order, or a list
that was once longer, has another dump. So a state is identified by the replies of commands: members of sets and fields
of hashes sorted, members of sorted sets in order, streams with their groups and pending entries, without times. Types
of modules are identified by their dump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.explore.systems.redis.connection import Command

_READ: dict[bytes, Callable[[bytes], list[Command]]] = {
    b"string": lambda key: [("GET", key)],
    b"list": lambda key: [("LRANGE", key, 0, -1)],
    b"set": lambda key: [("SMEMBERS", key)],
    b"hash": lambda key: [("HGETALL", key)],
    b"zset": lambda key: [("ZRANGE", key, 0, -1, "WITHSCORES")],
    b"stream": lambda key: [("XRANGE", key, "-", "+"), ("XINFO", "STREAM", key), ("XINFO", "GROUPS", key)],
}
_TRAILER = 10  # version and checksum at the end of a dump
_MAX_PENDING = 1_000_000


def read_all(
    send: Callable[[list[Command]], list[Any]], kinds: Mapping[bytes, tuple[bytes, bytes]]
) -> dict[bytes, Any]:
    """Return the values of keys, given their types and dumps.

    A key whose type changes concurrently is represented by its dump.
    """
    commands = {key: _READ[kind](key) for key, (kind, _) in kinds.items() if kind in _READ}
    answers = iter(send([command for listed in commands.values() for command in listed]))
    found: dict[bytes, Any] = {}
    for key, (kind, dump) in kinds.items():
        parts = [next(answers) for _ in commands.get(key, ())]
        if kind not in _READ or any(isinstance(part, Exception) for part in parts):
            found[key] = {"dump": dump[:-_TRAILER]}
        elif kind == b"stream":
            found[key] = _stream(send, key, *parts)
        else:
            found[key] = _VALUE[kind](parts[0])
    return found


def text(raw: Any) -> Any:
    """Return bytes as text if they are UTF-8; return other values unchanged."""
    if not isinstance(raw, bytes):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _pairs(flat: list[bytes]) -> list[tuple[Any, Any]]:
    return [(text(flat[at]), text(flat[at + 1])) for at in range(0, len(flat), 2)]


_VALUE: dict[bytes, Callable[[Any], Any]] = {
    b"string": text,
    b"list": lambda items: [text(item) for item in items],
    b"set": lambda items: {"members": [text(item) for item in sorted(items)]},
    b"hash": lambda flat: dict(sorted(_pairs(flat), key=lambda pair: repr(pair[0]))),
    b"zset": lambda flat: {"scores": [[member, score] for member, score in _pairs(flat)]},
}


def _stream(
    send: Callable[[list[Command]], list[Any]], key: bytes, entries: Any, about: Any, groups: Any
) -> Any:
    info = dict(_pairs(about))
    listed = [dict(_pairs(group)) for group in groups]
    pending = send([("XPENDING", key, group["name"], "-", "+", _MAX_PENDING) for group in listed])
    return {
        "entries": [[text(number), [[text(part) for part in fields or ()]]] for number, fields in entries],
        "last": info.get("last-generated-id"),
        "groups": [
            {
                "name": group["name"],
                "delivered": group.get("last-delivered-id"),
                "consumers": group.get("consumers"),
                "pending": [[text(number), text(consumer), times] for number, consumer, _, times in waiting],
            }
            for group, waiting in zip(listed, pending)
        ],
    }
