"""A reducer that refuses: for tests of what becomes of an update that its step cannot take."""

from __future__ import annotations


def below_ten(current: int, update: int) -> int:
    """The sum, which may not be above ten."""
    if current + update > 10:
        raise ValueError(f"{current} + {update} is too much")
    return current + update
