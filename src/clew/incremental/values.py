"""Values: when two are equal, what is kept of one, and what a computor may be handed.

Equal means equal canonical encodings. For the plain types below, Python's own comparison says the same (``type(a) is
type(b)`` stands before it, and floats go by their shortest spelling, which tells 0.0 from -0.0 and finds nan equal to
itself), so no bytes are made for them. Every other value is encoded once, when it is stored: later changes to the
object cannot change what it is compared with, nor what a database keeps.

An encoding keeps the order of dicts, which code can see; where the bytes differ by that alone, the values are equal.
"""

from __future__ import annotations

from typing import Any

from clew.errors import InvalidUnchangedError
from clew.state import decode, encode

PLAIN = frozenset({int, str, bool, type(None), float, bytes})  # immutable, and cheap to compare


class _Unchanged:
    """What a computor returns to say that the value is what it was."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Unchanged"

    def __reduce__(self) -> str:
        return "Unchanged"  # a copy of it is it


Unchanged = _Unchanged()


def code_of(value: Any, key: str) -> bytes | None:
    """The bytes that stand for a value; None for a plain one. EncodeError if there are none."""
    if type(value) in PLAIN:
        return None
    if value is Unchanged:
        raise InvalidUnchangedError(f"{key}: Unchanged is no value; it is for computors to return")
    return encode(value, at=key, ordered=True)


def same(value: Any, code: bytes | None, other: Any, other_code: bytes | None) -> bool:
    """Whether two values have one canonical encoding; codes as `code_of` gave them."""
    if code is None or other_code is None:
        if code is not other_code or type(value) is not type(other):
            return False
        return repr(value) == repr(other) if type(value) is float else bool(value == other)
    if code == other_code:
        return True
    # The order of a dict moves bytes, but makes none.
    return len(code) == len(other_code) and encode(decode(code)) == encode(decode(other_code))
