"""The canonical codec: one encoding of values, for stores, for digests and for the identity of states.

It is JSON that people and other languages can read. What JSON lacks is an object with one key, a tag:

==================  =========================================================================================
``$tuple``          its items; ``$set`` and ``$frozenset`` too, sorted by their encodings
``$dict``           pairs of key and value, sorted: where a key is not text, or the only key starts with ``$``
``$str``            text with lone surrogates, as in Python's own escapes
``$int``            an integer beyond 64 bits, hexadecimal; ``$float`` is ``nan``, ``inf`` or ``-inf``
``$complex``        its two parts; ``$decimal`` its digits as written; ``$uuid`` in the usual notation
``$bytes``          Base64; so is ``$bytearray``
``$datetime``       ISO 8601, or ``[ISO 8601, time zone, fold]``; ``$time`` likewise; ``$date``
``$timedelta``      days, seconds, microseconds; ``$timezone`` such an offset and a name; ``$zoneinfo`` a key
``$path``           a path of the platform; ``$pure_posix_path``, ``$pure_windows_path``
``$object``         the name of a registered class, and what an instance of it is made of
``$unset``          ``msgspec.UNSET``
==================  =========================================================================================

Rules:

- The bytes are a function of the value alone: not of the hash seed, the platform, or the order in which a
  dict was filled. Values of different types have different bytes: 1, 1.0 and True do.
- Reading gives back equal values of the same types, and builds registered classes only.
- ``ordered=True`` keeps the order of dicts, which their equality ignores but code that loops over them
  sees. It is for storing a value that code will go on working with; digests are always over canonical
  bytes.
- A value without encoding is an ``EncodeError`` with its path.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from clew.errors import DecodeError, EncodeError
from clew.state.readers import read
from clew.state.scalars import INT_MAX, INT_MIN
from clew.state.writers import TOO_DEEP, Refusal, canonical_json, write

_ordered_json = msgspec.json.Encoder().encode


def encode(value: Any, *, at: str = "value", ordered: bool = False) -> bytes:
    """The canonical bytes of a value (with ``ordered=True``, in the order of its dicts).

    Args:
        value: Anything made of plain values and registered classes.
        at: What an error message calls the value: ``state`` makes ``state.docs[3].client``.
        ordered: Keep the order of dicts instead of sorting them.
    """
    try:
        tree = write(value, 0, ordered)
        return _ordered_json(tree) if ordered else canonical_json(tree)
    except Refusal as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {TOO_DEEP}") from None


def encode_both(value: dict[str, Any], *, at: str = "value") -> tuple[bytes, bytes]:
    """What ``encode`` gives with and without ``ordered=True``, for what is both stored and digested."""
    if len(value) == 1 and _is_itself(*value, *value.values()):
        encoded = _ordered_json(value)
        return encoded, encoded
    try:
        tree = write(value, 0, True)
        ordered = _ordered_json(tree)
        if (
            len(tree) < 2 and ordered.find(b"{", 1) < 0
        ):  # one name and no dict below: there is nothing to sort
            return ordered, ordered
        if b'"$' in ordered:  # some form in it may have another order of its own
            tree = write(value, 0, False)
        return ordered, canonical_json(tree)
    except Refusal as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {TOO_DEEP}") from None


def _is_itself(key: Any, value: Any) -> bool:
    """Whether a name and its value are written as they are: most updates are one plain value."""
    if type(key) is not str or not key.isidentifier() or not key.isascii():
        return False
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    return value is None or kind is bool or (kind is int and INT_MIN <= value <= INT_MAX)


def decode(data: bytes) -> Any:
    """The value that ``encode`` wrote."""
    try:
        if type(data) is not bytes:  # a database may hand out a memoryview, in which nothing can be searched
            data = bytes(data)
        tree = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise DecodeError(f"these bytes are not JSON: {error}") from error
    except RecursionError:
        raise DecodeError(_TOO_DEEP_TO_READ) from None
    # No key or text starts with "$": there is no form in it, so the tree is the value.
    return from_tree(tree) if b'"$' in data else tree


def to_tree(value: Any, *, at: str = "value") -> Any:
    """A value as a tree of plain JSON values, in the order of its dicts.

    Parts of the tree may be parts of the value: use it at once, and do not change it.
    """
    try:
        return write(value, 0, True)
    except Refusal as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {TOO_DEEP}") from None


def from_tree(tree: Any) -> Any:
    """The value that ``to_tree`` took apart."""
    try:
        return read(tree)
    except RecursionError:
        raise DecodeError(_TOO_DEEP_TO_READ) from None


_TOO_DEEP_TO_READ = "it is nested too deep to have been written by clew"


def digest(*parts: bytes) -> str:
    """SHA-256 over parts, each with its length before it, in hexadecimal: no two lists of parts read the
    same."""
    state = sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.hexdigest()
