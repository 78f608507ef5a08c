"""Large values, stored as blobs: stored bytes refer to a blob by its digest.

Many readers of a run do not need its large values. If a whole value of a state or an update is a blob, it need not be
fetched: `Kept` takes its place and is written again as the same reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from clew.state import decode

Blobs = dict[str, bytes]
Lookup = Callable[[str], bytes]

_json = msgspec.json.Encoder().encode


class Kept(msgspec.Struct, frozen=True):
    """A reference to a large value that was not fetched: the kind and digest of its blob."""

    kind: str
    digest: str
    where: str = ""  # the place of the reference, for messages


def part_kept(stored: bytes, where: str) -> tuple[bytes, dict[str, Kept]]:
    """Split stored values by name: bytes to decode, and values that are blobs; `where` is for messages."""
    if b'"$blob"' not in stored:
        return stored, {}
    values = msgspec.json.decode(stored, type=dict[str, msgspec.Raw])
    kept = {name: kept_of(raw, where) for name, raw in values.items() if bytes(raw).startswith(b'{"$blob":')}
    return _json({name: None if name in kept else raw for name, raw in values.items()}), kept


def kept_of(reference: msgspec.Raw, where: str) -> Kept:
    """Decode a reference to a blob."""
    kind, digest = msgspec.json.decode(reference, type=dict[str, tuple[str, str]])["$blob"]
    return Kept(kind, digest, where)


def fetched(value: Any, blob: Lookup, *, classes: bool = True) -> Any:
    """Return the value; fetch it if it is `Kept`."""
    if type(value) is not Kept:
        return value
    return decode(_json({"$blob": [value.kind, value.digest]}), blob=blob, classes=classes, unfit="keep")


_BLOB = re.compile(rb'\{"\$blob":\["([a-z_]+)","([0-9a-f]{64})"\]\}')


def blobs_of(stored: bytes, blob: Lookup) -> Iterator[tuple[str, bytes]]:
    """Yield digest and content of all blobs that stored bytes refer to, directly or through other blobs.

    Quotes in strings are escaped, so the pattern matches only references.
    """
    for kind, name in _BLOB.findall(bytes(stored)):
        digest = name.decode()
        content = blob(digest)
        yield digest, content
        if kind == b"json":
            yield from blobs_of(content, blob)
