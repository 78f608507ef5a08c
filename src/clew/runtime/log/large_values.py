"""Large values: blobs, which stored bytes refer to by their digests.

Not everybody who reads a run needs its large values. A value of a state or an update that is a blob as a whole can be
left where it is: `Kept` stands for it, and is written again as the same reference.
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
    """A large value of a state that was not fetched: the kind and the digest of its blob."""

    kind: str
    digest: str
    where: str = ""  # what refers to it, for people


def part_kept(stored: bytes, where: str) -> tuple[bytes, dict[str, Kept]]:
    """Part stored values by name: those to be decoded, and those that are blobs as a whole; `where` they are."""
    if b'"$blob"' not in stored:
        return stored, {}
    values = msgspec.json.decode(stored, type=dict[str, msgspec.Raw])
    kept = {name: kept_of(raw, where) for name, raw in values.items() if bytes(raw).startswith(b'{"$blob":')}
    return _json({name: None if name in kept else raw for name, raw in values.items()}), kept


def kept_of(reference: msgspec.Raw, where: str) -> Kept:
    """Read the form that refers to a blob."""
    kind, digest = msgspec.json.decode(reference, type=dict[str, tuple[str, str]])["$blob"]
    return Kept(kind, digest, where)


def fetched(value: Any, blob: Lookup, *, classes: bool = True) -> Any:
    """Give the value, fetched if it is `Kept`."""
    if type(value) is not Kept:
        return value
    return decode(_json({"$blob": [value.kind, value.digest]}), blob=blob, classes=classes, unfit="keep")


_BLOB = re.compile(rb'\{"\$blob":\["([a-z]+)","([0-9a-f]{64})"\]\}')


def blobs_of(stored: bytes, blob: Lookup) -> Iterator[tuple[str, bytes]]:
    """The contents that stored bytes refer to, and those that these refer to: digest and content.

    A quote inside a text is escaped, so what looks like a reference is one.
    """
    for kind, name in _BLOB.findall(bytes(stored)):
        digest = name.decode()
        content = blob(digest)
        yield digest, content
        if kind == b"json":
            yield from blobs_of(content, blob)
