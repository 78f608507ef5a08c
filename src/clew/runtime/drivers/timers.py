"""Timers of a session: retries, sleeps and deadlines of attempts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from clew.engine.frame import Item


class Timer(msgspec.Struct, frozen=True):
    """Something that happens to an attempt of an item at a time: it is retried, or it has taken too long."""

    kind: str  # retry | deadline | call
    item: Item | None
    attempt: int
    limit: float = 0.0
    action: Callable[[], None] | None = None


def matters(timer: Timer) -> bool:
    """Whether the attempt that a deadline was set for is still under way."""
    item = timer.item
    return item is not None and (item.live or item.is_inside) and item.attempt == timer.attempt
