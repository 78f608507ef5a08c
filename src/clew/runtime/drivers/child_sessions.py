"""The running children of a session: what stops them, and how timeouts treat the time that they take.

- The time that an attempt waits for its children does not count towards its timeout.
- Stopping a session stops its children. So does its end; these are the children of nodes that were left.
- The end of an attempt stops the children that still run. An async node does not end before they have ended, and a
  later attempt of its item runs no child before that. A child that does not end in time is handed over: the later
  attempt takes it from the earlier one, or starts another. The same applies to children on threads, which cannot be
  ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from clew.runtime.drivers.slots import Slots, resolve
from clew.runtime.drivers.time_inside import ExcludedTime

if TYPE_CHECKING:
    import asyncio

    from clew.engine.frame import Item
    from clew.runtime.drivers.session import Session

    Attempt = tuple[Item, int]

_creating = Lock()
_PATIENCE = 5.0  # seconds in which a cancelled child has to end


def children_of(session: Session) -> ChildSessions:
    """Return the children of a session, from any thread."""
    with _creating:
        if session.children is None:
            outer = session.outer
            slots = Slots(session) if outer is None or outer.children is None else outer.children.slots
            session.children = ChildSessions(session, slots)
        return session.children


class _Wait(ExcludedTime):
    """How long an attempt has waited for children."""

    live: list[Session] = msgspec.field(default_factory=list)
    has_ended: bool = False
    # called when the last child has ended
    on_end: list[Callable[[], Any]] = msgspec.field(default_factory=list)


class ChildSessions:
    """The children of one session that run now."""

    def __init__(self, session: Session, slots: Slots) -> None:
        self.slots = slots
        self.is_stopped = False
        self.results: dict[str, Any] = {}  # of children that no store keeps
        self._clock = session.clock
        self._live: dict[str, Session] = {}
        self._waits: dict[Attempt, _Wait] = {}
        self._lock = Lock()

    def is_live(self, run_id: str) -> bool:
        """Return whether a child is running, perhaps for an attempt that has ended."""
        return run_id in self._live

    def add(self, attempt: Attempt, child: Session) -> None:
        """Take a child of an attempt that is about to run."""
        self._live[child.run_id] = child
        self.slots.add(child)
        with self._lock:
            wait = self._waits[attempt]
            wait.live.append(child)
        if wait.has_ended:
            child.stop()

    def remove(self, attempt: Attempt, child: Session) -> None:
        """Forget a child that has ended."""
        if self._live.get(child.run_id) is child:
            del self._live[child.run_id]
        self.slots.remove(child)
        with self._lock:
            wait = self._waits[attempt]
            if child in wait.live:
                wait.live.remove(child)

    def stop(self) -> None:
        """Cancel the children, from any thread."""
        self.is_stopped = True
        for child in list(self._live.values()):
            child.stop()
        for attempt in list(self._waits):
            self.slots.give_up(attempt)

    # -- ends of attempts --------------------------------------------------------------------------------

    def has_ended(self, attempt: Attempt) -> bool:
        """Return whether an attempt has ended while a child of it is running."""
        wait = self._waits.get(attempt)
        return wait is not None and wait.has_ended

    def end(self, attempt: Attempt) -> None:
        """Stop the children of an attempt that has ended, from any thread."""
        with self._lock:
            wait = self._waits.get(attempt)
            if wait is None:
                return
            wait.has_ended = True
            if not wait.waiting:
                del self._waits[attempt]
                return
        for child in list(wait.live):
            child.stop()
        self.slots.give_up(attempt)

    async def aend(self, attempt: Attempt) -> None:
        """Stop the children of an attempt that has ended, and wait until they have ended."""
        if attempt in self._waits:
            self.end(attempt)
            await self._gone([attempt])

    async def take_over(self, attempt: Attempt) -> None:
        """Stop the children of earlier attempts of an item, and wait until they have ended."""
        if len(self._waits) > 1:
            with self._lock:
                earlier = [other for other in self._waits if _is_earlier(other, attempt)]
            for other in earlier:
                self.end(other)
            await self._gone(earlier)

    async def _gone(self, attempts: list[Attempt]) -> None:
        """Wait until the children of attempts have ended, at most `_PATIENCE` seconds."""
        import asyncio

        loop, until = asyncio.get_running_loop(), time.monotonic() + _PATIENCE
        for attempt in attempts:
            ended: asyncio.Future[None] = loop.create_future()
            with self._lock:
                wait = self._waits.get(attempt)
                if wait is None:
                    continue
                wait.on_end.append(partial(loop.call_soon_threadsafe, resolve, ended))
            await asyncio.wait([ended], timeout=max(0.0, until - time.monotonic()))

    # -- time that does not count ------------------------------------------------------------------------

    def wait(self, attempt: Attempt) -> None:
        """Note that an attempt waits for a child from now on."""
        with self._lock:
            self._waits.setdefault(attempt, _Wait()).begin(self._clock.monotonic())

    def go_on(self, attempt: Attempt) -> None:
        """Note that a child of an attempt has ended."""
        with self._lock:
            wait = self._waits[attempt]
            wait.end(self._clock.monotonic())
            if wait.waiting:
                return
            if wait.has_ended:
                del self._waits[attempt]
        for call in wait.on_end:
            call()

    def owed(self, attempt: Attempt) -> float:
        """Return by how many seconds to move the deadline of an attempt; each second is returned once."""
        with self._lock:
            wait = self._waits.get(attempt)
            return 0.0 if wait is None else wait.take(self._clock.monotonic())


def _is_earlier(attempt: Attempt, now: Attempt) -> bool:
    """Return whether an attempt does the same work: it belongs to this item, or to one that was started again."""
    return attempt != now and attempt[0].path == now[0].path
