"""The canonical codec: one encoding of values for stores, digests and the identity of states.

It is JSON, readable for people and other languages. A value that JSON lacks is an object with one key, a tag:

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
``$npy``            an array of numpy, as an ``.npy`` file in Base64; ``$numpy_scalar`` its type and its bytes
``$pandas_frame``   an Arrow IPC stream in Base64; so are ``$pandas_series``, ``$pandas_index``, ``$polars_frame``,
                    ``$polars_series``, ``$arrow_table``, ``$arrow_batch``, ``$arrow_array``, ``$arrow_chunks``
``$pydantic_url``   the name of one of pydantic's types of URLs, and the text
``$blob``           a kind (``bytes``, ``bytearray``, ``str``, ``json``, or a tag of the two rows above) and the SHA-256
                    of content that is stored separately; only in the stored form (``stored``)
==================  =========================================================================================

Rules:

- The bytes depend on the value only: not on the hash seed, the platform, or the insertion order of dicts. Values of
  different types have different bytes: 1, 1.0 and True differ.
- Decoding returns equal values of the same types. It builds registered classes only; an instance of any other class
  becomes a `StoredObject`, and so does a value of a library that is not installed (`StoredContent`).
- ``ordered=True`` keeps the order of dicts, which equality ignores but iteration shows. It is for stored values;
  digests always use canonical bytes.
- A value without an encoding raises ``EncodeError`` with its path.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal

import msgspec

from clew.errors import DecodeError, EncodeError
from clew.state.stored_object import StoredObject
from clew.state.values.decoding import Lookup, Reading, read
from clew.state.values.encoding import (
    CANONICAL,
    NO_ROOM,
    ORDERED,
    EncodingFailure,
    canonical_json,
    ordered_json,
    write,
)


def encode(value: Any, *, at: str = "value", ordered: bool = False) -> bytes:
    """Return the canonical bytes of a value; with ``ordered=True``, in the order of its dicts.

    Args:
        value: Any combination of plain values and registered classes.
        at: The name of the value in error messages: ``state`` makes ``state.docs[3].client``.
        ordered: Keep the order of dicts instead of sorting them.
    """
    to_json, manner = (ordered_json, ORDERED) if ordered else (canonical_json, CANONICAL)
    try:
        return to_json(write(value, 0, manner))
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def decode(
    data: bytes,
    *,
    blob: Lookup | None = None,
    classes: bool = True,
    unfit: Literal["raise", "keep"] = "raise",
) -> Any:
    """Read a value that ``encode`` or ``stored_value`` wrote.

    Args:
        data: The bytes, in any bytes-like object.
        blob: Returns separately stored content by its digest. It is not verified here; stores verify contents.
        classes: Build registered classes; instances of other classes become `StoredObject`. False builds no class, so
            no user code runs.
        unfit: "raise" for an instance that its class no longer accepts, or "keep" to return a `StoredObject`.

    Raises:
        ClassChangedError: The class of a stored object has changed and no longer accepts it, unless `unfit` is "keep".
        DecodeError: The bytes are invalid in another way.
    """
    try:
        data, tree = parsed(data)
        if not has_forms(data):
            return tree
        reading = Reading(blob, builds=classes, keeps_unfit=unfit == "keep")
        value = read(tree, reading)
        if reading.lost:
            reading.warn()
        return value
    except RecursionError:
        raise DecodeError(NO_ROOM_TO_READ) from None


def why_unbuilt(stored: StoredObject) -> DecodeError:
    """Say why a stored instance is not built, and what to do about it."""
    try:
        from_tree(to_tree(stored))
    except DecodeError as error:
        return error
    return DecodeError(
        f"the class of a stored {stored.name!r} was registered, or changed, after it was read; read it again"
    )


def parsed(data: bytes) -> tuple[bytes, Any]:
    """Parse JSON; return the bytes and the tree."""
    try:
        if type(data) is not bytes:  # a database may return a memoryview, which cannot be searched
            data = bytes(data)
        return data, msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise DecodeError(f"these bytes are not JSON: {error}") from error


def has_forms(data: bytes) -> bool:
    """Return whether the bytes may contain a form: a key or text that starts with ``$``, perhaps as an escape."""
    return b'"$' in data or b"\\u0024" in data


def to_tree(value: Any, *, at: str = "value") -> Any:
    """Return a value as a tree of plain JSON values, in the order of its dicts.

    The tree may share parts with the value: use it immediately, and do not change it.
    """
    try:
        return write(value, 0, ORDERED)
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at(at)) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"{at}: {NO_ROOM}") from None


def from_tree(tree: Any) -> Any:
    """Return the value of a tree from ``to_tree``. Raises DecodeError for a class that is not registered."""
    try:
        reading = Reading(is_strict=True)
        value = read(tree, reading)
        if reading.lost:
            reading.warn()
        return value
    except RecursionError:
        raise DecodeError(NO_ROOM_TO_READ) from None


NO_ROOM_TO_READ = (
    "it is nested too deep to have been written by clew, or the caller left no room on the stack"
)


def digest(*parts: bytes) -> str:
    """Return the SHA-256 over length-prefixed parts, in hexadecimal."""
    state = sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.hexdigest()
