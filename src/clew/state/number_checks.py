"""Whether a value is a number: a bool is an int in Python, but not a number here."""

from __future__ import annotations

from typing import TypeGuard


def is_int(value: object, least: int | None = None) -> TypeGuard[int]:
    """Return whether a value is an int, of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)


def is_number(value: object, least: float | None = None) -> TypeGuard[float]:
    """Return whether a value is an int or a float, of at least `least`."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (least is None or value >= least)
    )
