"""Equality and encoding of values.

Two values are equal if their canonical encodings are equal. For the plain types below, Python's comparison gives the
same answer (after ``type(a) is type(b)``; floats compare by ``repr``, which distinguishes 0.0 from -0.0 and makes nan
equal to itself), so they are not encoded. Every other value is encoded once, when it is stored; later changes to the
object affect neither comparisons nor the database. The encoding is the packed form: large contents are not Base64.

An encoding preserves the order of dicts, because code can observe it. Values whose encodings differ only in that order
are equal.
"""

from __future__ import annotations

from typing import Any

from clew.errors import InvalidUnchangedError
from clew.state import canonical_part, packed

PLAIN = frozenset({int, str, bool, type(None), float, bytes})  # immutable, and cheap to compare


class _Unchanged:
    """Returned by a computor to keep the old value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Unchanged"

    def __reduce__(self) -> str:
        return "Unchanged"  # copies are the same object


Unchanged = _Unchanged()


def code_of(value: Any, key: str) -> bytes | None:
    """Return the encoding of a value; None for a plain one. Raises EncodeError if it has none."""
    if type(value) in PLAIN:
        return None
    if value is Unchanged:
        raise InvalidUnchangedError(f"{key}: Unchanged is not a value; only computors return it")
    return packed(value, at=key)


def same(value: Any, code: bytes | None, other: Any, other_code: bytes | None) -> bool:
    """Return whether two values have the same canonical encoding; codes are those of `code_of`."""
    if code is None or other_code is None:
        if code is not other_code or type(value) is not type(other):
            return False
        return repr(value) == repr(other) if type(value) is float else bool(value == other)
    if code == other_code:
        return True
    # A different dict order keeps the length. Large contents are compared by their digests.
    return len(code) == len(other_code) and canonical_part(code) == canonical_part(other_code)
