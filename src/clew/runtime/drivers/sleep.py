"""`ctx.sleep` with a virtual clock: the driver advances the clock and wakes the sleeping nodes.

The clock moves only if all running nodes sleep, and then to the next timer. So concurrent sleeps overlap, and a sleep
that is longer than the timeout of its node ends in the timeout, as with the system clock.

A sleeping thread waits for a lock that the driver releases. An interrupt of the driver cannot corrupt a lock, as it
could a `threading.Event`.
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
    """Sleep for `seconds` by the clock of the session."""
    if not session.clock.virtual:
        await asyncio.sleep(seconds)
        return
    if session.wake_driver is None:  # without a driver, the sleeper advances the clock
        session.clock.advance(session.clock.monotonic() + seconds)
        return
    from clew.runtime.drivers.timers import Timer

    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not woken.done():
            session.sleepers -= 1  # now, not when the task continues: it counts as awake
            woken.set_result(None)

    session.sleepers += 1
    timer = Timer("call", None, 0, action=wake)
    session.at(session.clock.monotonic() + seconds, timer)
    session.wake_driver()
    try:
        await woken
    finally:
        if woken.cancelled():
            session.sleepers -= 1
            session.forget(timer)


class SleepingNodes:
    """Sync nodes that sleep on their threads. The threads register their sleeps; the driver ends them."""

    def __init__(self, session: Session, wake_driver: Callable[[], None]) -> None:
        self._session = session
        self._wake_driver = wake_driver
        self._lock = Lock()
        self._is_open = True
        self._begun: list[tuple[float, Attempt, LockType]] = []  # not yet seen by the driver
        self._asleep: dict[Attempt, tuple[Timer, LockType]] = {}

    def sleep(self, item: Item, attempt: int, seconds: float) -> None:
        """Block the calling thread until its time has come or its attempt has ended."""
        woken = Lock()
        woken.acquire()
        with self._lock:
            if not self._is_open:
                return
            self._begun.append((self._session.clock.monotonic() + seconds, (item, attempt), woken))
        self._wake_driver()
        woken.acquire()

    def count(self, items: Iterable[Item]) -> int:
        """Return how many of the running items sleep; wake threads of attempts that have ended."""
        from clew.runtime.drivers.timers import Timer

        with self._lock:
            begun, self._begun = self._begun, []
        for when, sleeper, woken in begun:
            timer = Timer("call", None, 0, action=partial(self._wake, sleeper))
            self._asleep[sleeper] = timer, woken
            self._session.at(when, timer)
        running = {(item, item.attempt) for item in items}
        for sleeper in [sleeper for sleeper in self._asleep if sleeper not in running]:
            self._session.forget(self._asleep[sleeper][0])
            self._wake(sleeper)
        return len(self._asleep)

    def _wake(self, sleeper: Attempt) -> None:
        _wake(self._asleep[sleeper][1])
        del self._asleep[sleeper]

    def close(self) -> None:
        """Wake all threads, because the driver stops."""
        with self._lock:
            self._is_open = False
            begun, self._begun = self._begun, []
        for woken in (*(woken for _, woken in self._asleep.values()), *(woken for _, _, woken in begun)):
            _wake(woken)


def _wake(woken: LockType) -> None:
    """Wake a thread; do nothing if it is awake."""
    if woken.locked():
        woken.release()
