"""Snapshots: the whole state at a step, so that loading a run does not take all of its steps.

A snapshot is a checkpoint without the large values, compressed. These are kept apart, in pieces, each once by its
digest: a list piece by piece, so that the next snapshot of a list that has grown writes the new end of it only, and
none holds more than a piece of it a second time. One of before there were pieces is a whole checkpoint, compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any
from zlib import compress, decompress
from zlib import error as ZlibError

from clew.errors import DecodeError, StoreCorruptError
from clew.runtime.log_records import SNAPSHOT
from clew.runtime.starts import with_contents
from clew.runtime.wire import LARGE, may_be_large
from clew.state import GraphState, decode, encode
from clew.stores import Entry

PIECE = 1024  # items of a list that are kept together
_IN_PIECES = b"\x02"

Blobs = dict[str, bytes]


def snapshot_entry(state: GraphState, blobs: Blobs | None = None) -> tuple[Entry, int]:
    """A snapshot, and how much it would weigh uncompressed: what reading it costs. Pieces of it go to `blobs`."""
    apart: dict[str, tuple[bool, list[str]]] = {}
    weight = 0
    for name, value in state.values.items() if blobs is not None else ():
        assert blobs is not None
        if may_be_large(value):
            pieces, size = _pieces(name, value, blobs)
            if pieces:
                apart[name] = (_is_long(value), pieces)
                weight += size
    light = with_contents(state, dict.fromkeys(apart)) if apart else state
    body = light.to_checkpoint()
    weight += len(body)
    if apart:
        body = _IN_PIECES + compress(encode([apart, body], at="snapshot", ordered=True), 1)
    else:
        body = compress(body, 1)
    return Entry(SNAPSHOT.name, "", state.step, body, bytes.fromhex(state.digest)), weight


def _is_long(value: Any) -> bool:
    return type(value) is list and len(value) > PIECE


def _pieces(name: str, value: Any, blobs: Blobs) -> tuple[list[str], int]:
    """The digests of the pieces of a value, and their size; none if it is not large after all."""
    pieces, size = list[tuple[str, bytes]](), 0
    for content in _contents(name, value):
        size += len(content)
        piece = compress(content, 1)
        pieces.append((sha256(piece).hexdigest(), piece))
    if size <= LARGE:
        return [], 0
    blobs.update(pieces)
    return [digest for digest, _ in pieces], size


def _contents(name: str, value: Any) -> Iterator[bytes]:
    if not _is_long(value):
        yield encode(value, at=name, ordered=True)
        return
    for first in range(0, len(value), PIECE):
        yield encode(value[first : first + PIECE], at=name, ordered=True)


def snapshot_state(entry: Entry, blob: Callable[[str], bytes]) -> tuple[GraphState, int]:
    """The state in a snapshot, and its weight. DecodeError, CheckpointError or StoreCorruptError if it is damaged."""
    body = bytes(entry.body)
    if not body.startswith(_IN_PIECES):
        data = _decompressed(body)
        return GraphState.from_checkpoint(data), len(data)
    try:
        apart, light = decode(_decompressed(body[1:]))
        weight, values = len(light), dict[str, Any]()
        for name, (is_long, digests) in apart.items():
            value: Any = []
            for digest in digests:
                content = _decompressed(blob(digest))
                weight += len(content)
                value = _joined(value, decode(content), is_long)
            values[name] = value
        return with_contents(GraphState.from_checkpoint(light), values), weight
    except (TypeError, ValueError, AttributeError) as error:
        raise StoreCorruptError(f"its pieces do not fit: {error}") from error


def _joined(before: list[Any], piece: Any, is_long: bool) -> Any:
    if not is_long:
        return piece
    before += piece
    return before


def _decompressed(data: bytes) -> bytes:
    try:
        return decompress(data)
    except ZlibError as error:
        raise DecodeError(f"it is not compressed as it should be: {error}") from error
