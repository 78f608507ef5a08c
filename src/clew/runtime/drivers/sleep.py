"""`ctx.sleep` by a clock that the driver moves: an async node waits for a timer, a sync one on its thread for a nap.

Time moves only when all that executes sleeps, and then to whatever comes first. So sleeps beside each other overlap,
and one that is longer than its node's timeout ends in the timeout, as they do by the system's clock.

A sleeping thread waits for a lock, which the driver releases to wake it. An interrupt of the driver cannot break that,
as it could break a `threading.Event`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _thread import LockType

    from clew.engine.frame import Item
    from clew.runtime.drivers.session import Session
    from clew.runtime.drivers.timers import Timer

    Attempt = tuple[Item, int]


async def asleep(session: Session, seconds: float) -> None:
    """Sleep for `seconds` of the session's clock."""
    if not session.clock.virtual:
        await asyncio.sleep(seconds)
        return
    if session.on_tell is None:  # nobody drives: it is up to the sleeper
        session.clock.advance(session.clock.monotonic() + seconds)
        return
    from clew.runtime.drivers.timers import Timer

    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not woken.done():
            session.sleepers -= 1  # now, not when the task gets to go on: it counts as awake
            woken.set_result(None)

    session.sleepers += 1
    timer = Timer("call", None, 0, action=wake)
    session.at(session.clock.monotonic() + seconds, timer)
    session.on_tell()
    try:
        await woken
    finally:
        if woken.cancelled():
            session.sleepers -= 1
            session.forget(timer)


class SleepingNodes:
    """The naps of sync nodes on threads. Threads begin them; the driver takes note of them, and ends them."""

    def __init__(self, session: Session, nudge: Callable[[], None]) -> None:
        self._session = session
        self._nudge = nudge
        self._lock = Lock()
        self._is_open = True
        self._begun: list[tuple[float, Attempt, LockType]] = []  # of which the driver does not know yet
        self._asleep: dict[Attempt, tuple[Timer, LockType]] = {}

    def sleep(self, item: Item, attempt: int, seconds: float) -> None:
        """Sleep on the calling thread until the driver's clock says so, or nobody waits for the item any more."""
        woken = Lock()
        woken.acquire()
        with self._lock:
            if not self._is_open:
                return
            self._begun.append((self._session.clock.monotonic() + seconds, (item, attempt), woken))
        self._nudge()
        woken.acquire()

    def count(self, items: Iterable[Item]) -> int:
        """How many of the items that execute sleep; naps of others are over, since nobody waits for them."""
        from clew.runtime.drivers.timers import Timer

        with self._lock:
            begun, self._begun = self._begun, []
        for when, nap, woken in begun:
            timer = Timer("call", None, 0, action=partial(self._wake, nap))
            self._asleep[nap] = timer, woken
            self._session.at(when, timer)
        under_way = {(item, item.attempt) for item in items}
        for nap in [nap for nap in self._asleep if nap not in under_way]:
            self._session.forget(self._asleep[nap][0])
            self._wake(nap)
        return len(self._asleep)

    def _wake(self, nap: Attempt) -> None:
        _wake(self._asleep[nap][1])
        del self._asleep[nap]

    def close(self) -> None:
        """The driver stops: all wake up."""
        with self._lock:
            self._is_open = False
            begun, self._begun = self._begun, []
        for woken in (*(woken for _, woken in self._asleep.values()), *(woken for _, _, woken in begun)):
            _wake(woken)


def _wake(woken: LockType) -> None:
    """Wake a thread; once more does nothing."""
    if woken.locked():
        woken.release()
