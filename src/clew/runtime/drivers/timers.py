"""Timers of a session: retries, deadlines of attempts, and sleeps."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from clew.engine.frame import Item
from clew.runtime.calls.host import SLEPT

if TYPE_CHECKING:
    from clew.runtime.drivers.session import Session


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


def slept(session: Session, item: Item, attempt: int, seconds: float) -> Awaitable[None]:
    """Implement `ctx.sleep`: async nodes await the result, sync nodes block their thread."""
    if item.node.mode in ("async", "async_generator"):
        from clew.runtime.drivers.sleep import asleep

        return asleep(session, seconds)
    if not session.clock.virtual:
        threading.Event().wait(seconds)
    elif session.sleeping_nodes is None or threading.get_ident() == session.thread:
        session.clock.advance(session.clock.monotonic() + seconds)
    else:
        session.sleeping_nodes.sleep(item, attempt, seconds)
    return SLEPT
