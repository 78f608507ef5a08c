"""Immutable values and rows of them, which know their digests.

A *cell* is a value as its canonical bytes, with a number made from them. A set of cells is identified by the sum of
their numbers; a row, where order counts, by the polynomial that has the numbers as coefficients, modulo a prime.
Both change with one addition when a value comes or goes, at either end of a row.

A cell's bytes are all of it: what is written down elsewhere is read back as the same cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec
from immutables import Map

from clew.state.codec import decode, encode

SHOWN = 100  # values; more are shown by their number and their digest
_PRIME = 2**255 - 19
_BASE = int.from_bytes(blake2b(b"clew row", digest_size=31).digest(), "big")
_INVERSE = pow(_BASE, -1, _PRIME)


class ImmutableValue(msgspec.Struct, frozen=True, eq=False):
    """A value. Unless it is `fixed`, `value` is for showing only: the application gets a copy, which it may change."""

    encoded: bytes
    number: int
    value: Any
    fixed: bool = False

    def read(self) -> Any:
        """The value, for the application."""
        return self.value if self.fixed else decode(self.encoded)


def cell(value: Any, at: str, salt: str = "") -> ImmutableValue:
    """A copy of a value. `at` is what an error calls it; `salt` goes into the number."""
    if type(value) in (str, int, bool, type(None)):
        return _fixed(value, salt)
    encoded = encode(value, at=at)
    return ImmutableValue(encoded, _number(encoded, salt), decode(encoded))


def read_back(encoded: bytes, salt: str = "") -> ImmutableValue:
    """The cell of a value that was written down as its bytes."""
    return cell(decode(encoded), "value", salt)


@lru_cache(maxsize=4096, typed=True)
def _fixed(value: str | int | bool | None, salt: str) -> ImmutableValue:
    """A value that cannot change, so that its cell can be shared. (An explorer makes the same ones again and
    again.)"""
    encoded = encode(value)
    return ImmutableValue(encoded, _number(encoded, salt), value, True)


def _number(encoded: bytes, salt: str) -> int:
    return int.from_bytes(blake2b(encoded, digest_size=31, person=_person(salt)).digest(), "big")


def _person(salt: str) -> bytes:
    return blake2b(salt.encode("utf-8", "surrogatepass"), digest_size=16).digest() if salt else b""


def mixed(total: int, part: ImmutableValue, sign: int) -> int:
    """A sum with a cell more (or, with −1, less)."""
    return (total + sign * part.number) % _PRIME


class ValueSequence(msgspec.Struct, frozen=True, eq=False):
    """Cells in order. It can be lengthened at both ends and shortened at the front."""

    cells: Map[int, ImmutableValue]
    start: int
    polynomial: int
    power: int  # the base to the length

    def append(self, new: ImmutableValue) -> ValueSequence:
        at = self.start + len(self.cells)
        polynomial = (self.polynomial * _BASE + new.number + 1) % _PRIME
        return ValueSequence(self.cells.set(at, new), self.start, polynomial, self.power * _BASE % _PRIME)

    def prepend(self, new: ImmutableValue) -> ValueSequence:
        at = self.start - 1
        polynomial = (self.polynomial + (new.number + 1) * self.power) % _PRIME
        return ValueSequence(self.cells.set(at, new), at, polynomial, self.power * _BASE % _PRIME)

    def take_first(self) -> tuple[ImmutableValue, ValueSequence]:
        first = self.cells[self.start]
        power = self.power * _INVERSE % _PRIME
        polynomial = (self.polynomial - (first.number + 1) * power) % _PRIME
        return first, ValueSequence(self.cells.delete(self.start), self.start + 1, polynomial, power)

    @property
    def first(self) -> ImmutableValue:
        return self.cells[self.start]

    @property
    def digest(self) -> bytes:
        return b"%d:%b" % (len(self.cells), self.polynomial.to_bytes(32, "big"))

    @property
    def shown(self) -> Any:
        """The values; or, if they are many, their number and the digest."""
        if len(self.cells) > SHOWN:
            return {"count": len(self.cells), "digest": self.digest.hex()}
        return [each.value for each in self]

    @property
    def written(self) -> list[bytes]:
        """The bytes of the values."""
        return [each.encoded for each in self]

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[ImmutableValue]:
        cells, start = self.cells, self.start
        return (cells[start + place] for place in range(len(cells)))


EMPTY_ROW = ValueSequence(Map(), 0, 0, 1)


def row_of(written: list[bytes]) -> ValueSequence:
    """The row whose values were written down."""
    row = EMPTY_ROW
    for encoded in written:
        row = row.append(read_back(encoded))
    return row
