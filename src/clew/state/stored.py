"""The stored form of values: what a store keeps, what digests are over, and how one follows from the other.

The stored form is JSON in the order of dicts. Large content is not in it: it is kept apart under its SHA-256,
as it is, and ``{"$blob": [kind, digest]}`` stands for it. So nothing large is Base64, and content that is
stored twice is kept once.

==============  ==============================================  =======================================
kind            for                                             content
==============  ==============================================  =======================================
``bytes``       a leaf of more than 64 KiB, however nested      the bytes
``bytearray``   the same                                        the bytes
``str``         the same, measured in UTF-8                     UTF-8
``json``        a whole value of more than 64 KiB;              its stored form
                a text of that size with lone surrogates
==============  ==============================================  =======================================

Rules:

- Every leaf and every value is encoded once and hashed once.
- The canonical form, which digests are over, follows from the stored bytes alone: ``canonical(stored)`` sorts
  the keys of dicts and the pairs of ``$dict``. It needs no class and no content. So whoever checks a digest
  runs no code of the user.
- Content counts by its digest. Within a value that is kept apart as ``json`` the order of dicts counts too.
- Keys of dicts that are text are not leaves: they stay where they are, whatever their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.errors import DecodeError, EncodeError
from clew.state.codec import NO_ROOM_TO_READ, encode, has_forms, parsed
from clew.state.encoding import (
    LARGE,
    NO_ROOM,
    EncodingFailure,
    apart,
    canonical_json,
    ordered_json,
    sorted_pairs,
    write,
)
from clew.state.scalars import INT_MAX, INT_MIN

_SHORT = LARGE // 8  # a text of this length stays below LARGE, whatever has to be escaped in it


def stored_values(values: Mapping[str, Any], *, at: str, blobs: dict[str, bytes]) -> tuple[bytes, bytes]:
    """Encode values by name, as an update or a state has them: the stored bytes, and the canonical ones.

    Args:
        values: The values.
        at: What an error message calls them: ``state`` makes ``state.docs[3].client``.
        blobs: Large contents are added to it, by their digests.
    """
    try:
        if type(values) is not dict:
            values = dict(values)
        if len(values) == 1 and _is_itself(*values, *values.values()):
            encoded = ordered_json(values)
            return encoded, encoded
        tree = write(values, 0, blobs)
        stored = ordered_json(tree)
        if len(stored) > LARGE:
            tree = _parted(tree, stored, blobs)
            stored = ordered_json(tree)
        if len(tree) < 2 and stored.find(b"{", 1) < 0:  # one name and no dict below: there is nothing to sort
            return stored, stored
        return stored, canonical_json(sorted_pairs(tree) if b'"$dict"' in stored else tree)
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def stored_value(value: Any, *, at: str, blobs: dict[str, bytes]) -> bytes:
    """Encode one value: its stored bytes; large contents are added to ``blobs``."""
    try:
        stored = ordered_json(write(value, 0, blobs))
        return stored if len(stored) <= LARGE else ordered_json(apart("json", stored, blobs))
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def encode_both(value: dict[str, Any], *, at: str = "value") -> tuple[bytes, bytes]:
    """What ``encode`` gives with and without ``ordered=True``: as `stored_values`, and nothing is put apart."""
    if len(value) == 1 and _is_itself(*value, *value.values()):
        encoded = ordered_json(value)
        return encoded, encoded
    try:
        ordered = encode(value, at=at, ordered=True)
        return ordered, canonical(ordered)
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def canonical(stored: bytes) -> bytes:
    """The canonical form of stored bytes: what ``stored_values`` gave beside them."""
    try:
        stored, tree = parsed(stored)
        return canonical_json(sorted_pairs(tree) if has_forms(stored) else tree)
    except (TypeError, ValueError, OverflowError) as error:
        raise DecodeError(f"these bytes are not a stored form: {error}") from error
    except RecursionError:
        raise DecodeError(NO_ROOM_TO_READ) from None


def _parted(tree: dict[str, Any], stored: bytes, blobs: dict[str, bytes]) -> dict[str, Any]:
    """Put each large value of a tree of values by name apart."""
    if len(tree) == 1:
        ((name, value),) = tree.items()
        if name == "$dict":  # names that are not plain text
            return {name: [[key, _small(item, ordered_json(item), blobs)] for key, item in value]}
        return {name: _small(value, stored[len(ordered_json(name)) + 2 : -1], blobs)}  # {"name":value}
    return {name: _small(value, ordered_json(value), blobs) for name, value in tree.items()}


def _small(tree: Any, encoded: bytes, blobs: dict[str, bytes]) -> Any:
    return tree if len(encoded) <= LARGE else apart("json", encoded, blobs)


def _is_itself(key: Any, value: Any) -> bool:
    """Whether a name and its value are written as they are: most updates are one plain value."""
    if type(key) is not str or not key.isidentifier() or not key.isascii():
        return False
    kind = type(value)
    if kind is str:
        return len(value) <= _SHORT and value.isascii()
    return value is None or kind is bool or (kind is int and INT_MIN <= value <= INT_MAX)
