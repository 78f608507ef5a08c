"""Timers of a session: retries, deadlines of attempts, and sleeps.

The time that an attempt waits in the queue of an executor, or for a child, does not count towards its timeout, and
neither do durable waits inside a subgraph. When the deadline of an attempt is reached, it is extended by that time.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING

import msgspec

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.runtime.calls.host import SLEPT, Host

if TYPE_CHECKING:
    from clew.runtime.drivers.child_sessions import ChildSessions
    from clew.runtime.drivers.durable_waits import DurableWaits
    from clew.runtime.drivers.executor_queue import QueuedAttempts
    from clew.runtime.drivers.session import Session
    from clew.runtime.settings import Settings


class Timer(msgspec.Struct, frozen=True):
    """An action at a given time: retry an item, end an attempt that takes too long or a wait, or call a function."""

    kind: str  # retry | deadline | call | wait
    item: Item | None
    attempt: int
    limit: float = 0.0
    action: Callable[[], None] | None = None


def matters(timer: Timer) -> bool:
    """Return whether the attempt of a deadline is still running."""
    item = timer.item
    return item is not None and (item.live or item.is_inside) and item.attempt == timer.attempt


_numbers = itertools.count()  # from any thread; they order timers of the same time


class TimedHost(Host):
    """A host with timers."""

    queued_attempts: QueuedAttempts | None = None  # attempts on an executor with a queue
    children: ChildSessions | None = None  # None until the first child starts
    waits: DurableWaits | None = None  # None until a node waits

    def durable_waits(self) -> DurableWaits:
        """Return the waits of this session, from any thread."""
        raise NotImplementedError

    def __init__(self, run_id: str, machine: Machine, settings: Settings) -> None:
        super().__init__(run_id, machine, settings)
        self.is_stopping = False  # no item starts any more: the run is cancelled, or its worker drains
        self.timers: list[tuple[float, int, Timer]] = []  # retries and sleeps
        self._own_deadlines: list[tuple[float, int, Timer]] = []  # of attempts with their own timeout
        self._deadlines: deque[tuple[float, Item, int]] = deque()

    def timeout_of(self, item: Item) -> float | None:
        """Return the timeout of an item in seconds; None without a timeout."""
        own = item.node.policy.timeout
        return self.settings.default_node_timeout if own is None else own

    def at(self, when: float, timer: Timer) -> None:
        self._push(self.timers, when, timer)

    def _push(self, timers: list[tuple[float, int, Timer]], when: float, timer: Timer) -> None:
        heapq.heappush(timers, (when, next(_numbers), timer))

    def forget(self, timer: Timer) -> None:
        self.timers = [entry for entry in self.timers if entry[2] is not timer]
        heapq.heapify(self.timers)

    def watch(self, item: Item) -> None:
        """Set the deadline of an attempt that is starting.

        Deadlines of the default timeout are in the order of the starts, so a queue is enough; it is faster than a heap.
        """
        own = item.node.policy.timeout
        if own is not None:
            self.set_deadline(item, item.attempt, own)
        elif self.settings.default_node_timeout is not None:
            self._deadlines.append((self.clock.monotonic(), item, item.attempt))

    def set_deadline(self, item: Item, attempt: int, seconds: float) -> None:
        """Set the deadline of an attempt with its own timeout."""
        timer = Timer("deadline", item, attempt, seconds)
        self._push(self._own_deadlines, self.clock.monotonic() + seconds, timer)

    def is_early(self, timer: Timer) -> bool:
        """Return whether an attempt has time left because it waited; if so, set its deadline again."""
        assert timer.item is not None
        attempt, now = (timer.item, timer.attempt), self.clock.monotonic()
        deadline = now if self.children is None else now + self.children.owed(attempt)
        if self.waits is not None:
            deadline += self.waits.owed(timer.item)
        if deadline == now and self.queued_attempts is not None:
            deadline = self.queued_attempts.deadline(attempt, timer.limit, now)
        if deadline > now:
            self._push(self._own_deadlines, deadline, timer)
        return deadline > now

    def next_timer(self) -> float | None:
        """Return the time of the next timer that still matters, or None. Mail is due now."""
        if self.waits is not None and self.waits.mail:
            return self.clock.monotonic()
        limit = self.settings.default_node_timeout
        deadlines = self._deadlines
        while deadlines and (not deadlines[0][1].live or deadlines[0][1].attempt != deadlines[0][2]):
            deadlines.popleft()
        own = self._own_deadlines
        while own and not matters(own[0][2]):
            heapq.heappop(own)
        times = [timers[0][0] for timers in (own, self.timers) if timers]
        if deadlines and limit is not None:
            times.append(deadlines[0][0] + limit)
        if self.queued_attempts is not None and (check := self.queued_attempts.next_check()) is not None:
            times.append(check)
        when = min(times, default=None)
        return None if when == inf else when  # a wait without a limit

    def due_timers(self) -> list[Timer]:
        """Remove and return the timers that are due. Also read the mail, and ask a cluster for its workers."""
        if self.waits is not None and self.waits.mail:
            self.waits.read_mail()
        now = self.clock.monotonic()
        found: list[Timer] = []
        limit = self.settings.default_node_timeout
        while limit is not None and self._deadlines and self._deadlines[0][0] + limit <= now:
            _, item, attempt = self._deadlines.popleft()
            found.append(Timer("deadline", item, attempt, limit))
        for timers in (self._own_deadlines, self.timers):
            while timers and timers[0][0] <= now:
                found.append(heapq.heappop(timers)[2])
        if self.queued_attempts is not None:
            check = self.queued_attempts.next_check()
            if check is not None and check <= now:
                assert self.queued_attempts.worker_check is not None
                self.queued_attempts.worker_check.start()
        return found


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
