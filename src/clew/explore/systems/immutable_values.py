"""Immutable values, and sequences of them, with digests that are cheap to update.

- An `ImmutableValue` is a value as its canonical bytes, with a number computed from them. The bytes are complete: the
  value can be stored elsewhere and read back.
- A set of values is identified by the sum of their numbers. A `ValueSequence` is identified by the polynomial that has
  the numbers as coefficients, modulo a prime. Both change with one addition when a value is added or removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec
from immutables import Map

from clew.state.codec import decode, encode

SHOWN = 100  # larger collections are shown as their count and digest
_PRIME = 2**255 - 19
_BASE = int.from_bytes(blake2b(b"clew row", digest_size=31).digest(), "big")
_INVERSE = pow(_BASE, -1, _PRIME)


class ImmutableValue(msgspec.Struct, frozen=True, eq=False):
    """A value. Unless it is `fixed`, `value` is for observations only, and the application gets a copy."""

    encoded: bytes
    number: int
    value: Any
    fixed: bool = False

    def read(self) -> Any:
        """Return the value for the application."""
        return self.value if self.fixed else decode(self.encoded)


def immutable(value: Any, at: str, salt: str = "") -> ImmutableValue:
    """Return an immutable copy of a value. Errors call it `at`; `salt` becomes part of the number."""
    if type(value) in (str, int, bool, type(None)):
        return _fixed(value, salt)
    encoded = encode(value, at=at)
    return ImmutableValue(encoded, _number(encoded, salt), decode(encoded))


def read_back(encoded: bytes, salt: str = "") -> ImmutableValue:
    """Return the value of its canonical bytes."""
    return immutable(decode(encoded), "value", salt)


@lru_cache(maxsize=4096, typed=True)
def _fixed(value: str | int | bool | None, salt: str) -> ImmutableValue:
    """Return a shared object for a value that cannot change; an explorer makes the same ones repeatedly."""
    encoded = encode(value)
    return ImmutableValue(encoded, _number(encoded, salt), value, True)


def _number(encoded: bytes, salt: str) -> int:
    return int.from_bytes(blake2b(encoded, digest_size=31, person=_person(salt)).digest(), "big")


def _person(salt: str) -> bytes:
    return blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=16).digest() if salt else b""


def mixed(total: int, part: ImmutableValue, sign: int) -> int:
    """Return a sum with one value more, or one less if the sign is -1."""
    return (total + sign * part.number) % _PRIME


class ValueSequence(msgspec.Struct, frozen=True, eq=False):
    """Values in order. Values can be added at both ends and removed at the front."""

    values: Map[int, ImmutableValue]
    start: int
    polynomial: int
    power: int  # _BASE ** len(self)

    def append(self, new: ImmutableValue) -> ValueSequence:
        at = self.start + len(self.values)
        polynomial = (self.polynomial * _BASE + new.number + 1) % _PRIME
        return ValueSequence(self.values.set(at, new), self.start, polynomial, self.power * _BASE % _PRIME)

    def prepend(self, new: ImmutableValue) -> ValueSequence:
        at = self.start - 1
        polynomial = (self.polynomial + (new.number + 1) * self.power) % _PRIME
        return ValueSequence(self.values.set(at, new), at, polynomial, self.power * _BASE % _PRIME)

    def take_first(self) -> tuple[ImmutableValue, ValueSequence]:
        first = self.values[self.start]
        power = self.power * _INVERSE % _PRIME
        polynomial = (self.polynomial - (first.number + 1) * power) % _PRIME
        return first, ValueSequence(self.values.delete(self.start), self.start + 1, polynomial, power)

    @property
    def first(self) -> ImmutableValue:
        return self.values[self.start]

    @property
    def digest(self) -> bytes:
        return b"%d:%b" % (len(self.values), self.polynomial.to_bytes(32, "big"))

    @property
    def shown(self) -> Any:
        """Return the values, or their count and digest if there are more than SHOWN."""
        if len(self.values) > SHOWN:
            return {"count": len(self.values), "digest": self.digest.hex()}
        return [each.value for each in self]

    @property
    def encoded(self) -> list[bytes]:
        """Return the bytes of the values."""
        return [each.encoded for each in self]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[ImmutableValue]:
        values, start = self.values, self.start
        return (values[start + offset] for offset in range(len(values)))


EMPTY_SEQUENCE = ValueSequence(Map(), 0, 0, 1)


def sequence_of(encoded_values: list[bytes]) -> ValueSequence:
    """Return the sequence of values with these canonical bytes."""
    sequence = EMPTY_SEQUENCE
    for encoded in encoded_values:
        sequence = sequence.append(read_back(encoded))
    return sequence
