"""Timers of a session: retries, deadlines of attempts, and sleeps."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from clew.engine.frame import Item


class Timer(msgspec.Struct, frozen=True):
    """An action at a given time: retry an item, end an attempt that takes too long, or call a function."""

    kind: str  # retry | deadline | call
    item: Item | None
    attempt: int
    limit: float = 0.0
    action: Callable[[], None] | None = None


def matters(timer: Timer) -> bool:
    """Return whether the attempt of a deadline is still running."""
    item = timer.item
    return item is not None and (item.live or item.is_inside) and item.attempt == timer.attempt
