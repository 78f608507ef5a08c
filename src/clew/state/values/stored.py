"""The stored form of values, and the canonical form that follows from it.

The stored form is JSON in the order of dicts. Large content is stored separately, unchanged, under its SHA-256;
``{"$blob": [kind, digest]}`` refers to it. So no large content is Base64, and equal contents are stored once.

==============  ==============================================  =======================================
kind            for                                             content
==============  ==============================================  =======================================
``bytes``       a leaf of more than 64 KiB, however nested      the bytes
``bytearray``   the same                                        the bytes
``str``         the same, measured in UTF-8                     UTF-8
``npy``, ...    an array or a frame (``libraries``)             the same as inside of a form, not Base64
``json``        a whole value of more than 64 KiB;              its stored form
                a text of that size with lone surrogates
==============  ==============================================  =======================================

Rules:

- Every leaf and every value is encoded once and hashed once.
- Digests use the canonical form. It follows from the stored bytes alone: ``canonical(stored)`` sorts the keys of dicts
  and the pairs of ``$dict``. It needs no class and no content, so checking a digest runs no user code.
- Separate content is represented by its digest. In a value that is stored separately as ``json``, the order of dicts
  affects the digest.
- Text keys of dicts are not leaves: they are never stored separately.

The packed form of a value is its stored form and its large contents in one piece of bytes. It is for data outside of
runs, such as the records of a dependency graph, which have no table of blobs. A value without large contents is its
stored form alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clew.errors import DecodeError, EncodeError
from clew.state.values.codec import NO_ROOM_TO_READ, decode, has_forms, parsed
from clew.state.values.encoding import (
    LARGE,
    NO_ROOM,
    EncodingFailure,
    apart,
    canonical_json,
    ordered_json,
    sorted_pairs,
    write,
)
from clew.state.values.scalars import INT_MAX, INT_MIN

_SHORT = LARGE // 8  # text of this length stays below LARGE even if all of it is escaped


def stored_values(values: Mapping[str, Any], *, at: str, blobs: dict[str, bytes]) -> tuple[bytes, bytes]:
    """Encode values by name; return the stored bytes and the canonical ones.

    Args:
        values: The values.
        at: The name of the values in error messages: ``state`` makes ``state.docs[3].client``.
        blobs: Large contents are added to it, by their digests.
    """
    try:
        if type(values) is not dict:
            values = dict(values)
        if len(values) == 1:
            ((name, value),) = values.items()
            if _is_itself(name, value):
                encoded = ordered_json(values)
                return encoded, encoded
        tree = write(values, 0, blobs)
        stored = ordered_json(tree)
        if len(stored) > LARGE:
            tree = _parted(tree, stored, blobs)
            stored = ordered_json(tree)
        if len(tree) < 2 and stored.find(b"{", 1) < 0:  # one name and no inner dict: nothing to sort
            return stored, stored
        return stored, canonical_json(sorted_pairs(tree) if b'"$dict"' in stored else tree)
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def stored_value(value: Any, *, at: str, blobs: dict[str, bytes]) -> bytes:
    """Return the stored bytes of one value; large contents are added to ``blobs``."""
    try:
        stored = ordered_json(write(value, 0, blobs))
        return stored if len(stored) <= LARGE else ordered_json(apart("json", stored, blobs))
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def canonical(stored: bytes) -> bytes:
    """Return the canonical form of stored bytes."""
    try:
        stored, tree = parsed(stored)
        return canonical_json(sorted_pairs(tree) if has_forms(stored) else tree)
    except (TypeError, ValueError, OverflowError) as error:
        raise DecodeError(f"these bytes are not a stored form: {error}") from error
    except RecursionError:
        raise DecodeError(NO_ROOM_TO_READ) from None


def _parted(tree: dict[str, Any], stored: bytes, blobs: dict[str, bytes]) -> dict[str, Any]:
    """Move each large value of a tree of values by name into ``blobs``."""
    if len(tree) == 1:
        ((name, value),) = tree.items()
        if name == "$dict":  # names that are not plain text
            return {name: [[key, _small(item, ordered_json(item), blobs)] for key, item in value]}
        return {name: _small(value, stored[len(ordered_json(name)) + 2 : -1], blobs)}  # {"name":value}
    return {name: _small(value, ordered_json(value), blobs) for name, value in tree.items()}


def _small(tree: Any, encoded: bytes, blobs: dict[str, bytes]) -> Any:
    return tree if len(encoded) <= LARGE else apart("json", encoded, blobs)


def _is_itself(key: Any, value: Any) -> bool:
    """Return whether a name and its value are encoded as themselves. Most updates are one plain value."""
    if type(key) is not str or not key.isidentifier() or not key.isascii():
        return False
    kind = type(value)
    if kind is str:
        return len(value) <= _SHORT and value.isascii()
    return value is None or kind is bool or (kind is int and INT_MIN <= value <= INT_MAX)


_JSON_APART = b'{"$blob":["json",'
_MARK = b"\x00"  # no JSON starts with it
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, dict[str, memoryview]]).decode


def packed(value: Any, *, at: str = "value") -> bytes:
    """Return the packed form of a value. Raises EncodeError if it has no encoding."""
    return b"".join(packed_parts(value, at=at))


def packed_parts(value: Any, *, at: str = "value") -> list[bytes]:
    """Return the packed form of a value in parts, so that large contents are copied only once, when they are joined."""
    blobs: dict[str, bytes] = {}
    stored = stored_value(value, at=at, blobs=blobs)
    if not blobs:
        return [stored]
    # The MessagePack of a pair: the stored form, and a dict of the contents.
    parts = [_MARK + b"\x92" + _pack(stored) + b"\xdf" + len(blobs).to_bytes(4, "big")]
    for digest, content in blobs.items():
        parts += (_pack(digest) + bytes_header(len(content), at=at), content)
    return parts


def bytes_header(size: int, *, at: str = "value") -> bytes:
    """Return what precedes bytes of this size in MessagePack."""
    if size >= 1 << 32:
        raise EncodeError(f"{at}: a value of {size:,} bytes cannot be stored in one row; divide it")
    return b"\xc6" + size.to_bytes(4, "big")


def unpacked(data: bytes) -> Any:
    """Return the value of a packed form."""
    if data[:1] != _MARK:
        return decode(data)
    stored, blobs = _parts(data)
    return decode(stored, blob=lambda digest: bytes(blobs[digest]))


def stored_part(data: bytes) -> bytes:
    """Return the stored form in a packed form, without large contents."""
    return _parts(data)[0] if data[:1] == _MARK else data


def canonical_part(data: bytes) -> bytes:
    """Return the canonical form of a packed form, with the digests of large contents in their place."""
    stored = stored_part(data)
    if stored.startswith(_JSON_APART):
        _, name = msgspec.json.decode(stored)["$blob"]
        stored = bytes(_parts(data)[1][name])
    return canonical(stored)


def _parts(data: bytes) -> tuple[bytes, dict[str, memoryview]]:
    try:
        return _unpack(memoryview(data)[1:])
    except (msgspec.MsgspecError, ValueError) as error:
        raise DecodeError(f"these bytes are not a packed value: {error}") from error
