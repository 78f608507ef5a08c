"""The packed form of a value: its stored form and its large contents in one piece of bytes.

For data outside of runs, such as the records of a dependency graph, which have no table of blobs. Large bytes, text,
arrays and frames are contained as they are, not in Base64. A value without large contents is its stored form alone.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.errors import DecodeError
from clew.state.codec import decode
from clew.state.stored import stored_value

_MARK = b"\x00"  # no JSON starts with it
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, dict[str, memoryview]]).decode


def packed(value: Any, *, at: str = "value") -> bytes:
    """Return the packed form of a value. Raises EncodeError if it has no encoding."""
    blobs: dict[str, bytes] = {}
    stored = stored_value(value, at=at, blobs=blobs)
    return _MARK + _pack((stored, blobs)) if blobs else stored


def unpacked(data: bytes) -> Any:
    """Return the value of a packed form."""
    if data[:1] != _MARK:
        return decode(data)
    stored, blobs = _parts(data)
    return decode(stored, blob=lambda digest: bytes(blobs[digest]))


def stored_part(data: bytes) -> bytes:
    """Return the stored form in a packed form, without large contents."""
    return _parts(data)[0] if data[:1] == _MARK else data


def _parts(data: bytes) -> tuple[bytes, dict[str, memoryview]]:
    try:
        return _unpack(memoryview(data)[1:])
    except (msgspec.MsgspecError, ValueError) as error:
        raise DecodeError(f"these bytes are not a packed value: {error}") from error
