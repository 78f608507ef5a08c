"""The slots of a run and its children: together they execute at most `max_concurrent_nodes` nodes at once.

- An item that waits for a child lends its slot to the child, so it holds none. If it waits for several children, one of
  them works in that slot. Each of the others waits until this slot, or any other slot, is free.
- A child keeps its slot until it ends. So it can always execute one node, and children never wait for each other in a
  circle. If a child executes several nodes at the same time, each further node needs a free slot.
- Waiting children are stored by the attempt that waits for them. So the next child for a slot is found without looking
  at all of them, and each of a thousand children costs the same.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import count
from threading import Event, RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from clew.engine.frame import Item
    from clew.runtime.drivers.session import Session

    Attempt = tuple[Item, int]


class _Entry:
    """A child that has a slot, or waits for one. Numbers give the order of arrival."""

    def __init__(self, attempt: Attempt, number: int, wake: Callable[[], Any]) -> None:
        self.attempt = attempt
        self.number = number
        self.wake = wake
        self.has_slot = False


class Slots:
    """The slots that a run shares with its children, and with their children."""

    def __init__(self, root: Session) -> None:
        self._root = root
        self._most = root.settings.max_concurrent_nodes
        self._children: set[Session] = set()
        # children with a slot, by the attempt that waits for them
        self._entered: Counter[Attempt] = Counter()
        self._queues: dict[Attempt, deque[_Entry]] = {}  # those that wait, by attempt; none is empty
        self._numbers = count()
        self._lock = RLock()
        root.take = partial(self._take, root, root.take)

    # -- children ----------------------------------------------------------------------------------------

    def enter(self, attempt: Attempt, is_left: Callable[[], bool]) -> bool:
        """Wait until there is a slot for a child of an attempt; return False if the attempt is left before."""
        woken = Event()
        entry = _Entry(attempt, next(self._numbers), woken.set)
        if not self._is_decided(entry, is_left):
            woken.wait()
        return entry.has_slot

    async def aenter(self, attempt: Attempt, is_left: Callable[[], bool]) -> bool:
        """`enter` on an event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        wake = partial(loop.call_soon_threadsafe, resolve, woken)
        entry = _Entry(attempt, next(self._numbers), wake)
        if not self._is_decided(entry, is_left):
            try:
                await woken
            except BaseException:
                self._forget(entry)
                if entry.has_slot:
                    self.leave(attempt)
                raise
        return entry.has_slot

    def leave(self, attempt: Attempt) -> None:
        """Free the slot of a child that has ended."""
        with self._lock:
            self._entered[attempt] -= 1
            if not self._entered[attempt]:
                del self._entered[attempt]
        self._admit()

    def give_up(self, attempt: Attempt) -> None:
        """Wake the waiting children of an attempt that was left; they get no slot."""
        with self._lock:
            left = self._queues.pop(attempt, ())
        for entry in left:
            entry.wake()

    def _is_decided(self, entry: _Entry, is_left: Callable[[], bool]) -> bool:
        """Give a slot to a child, or put it into the queue; return whether it need not wait."""
        with self._lock:
            if is_left():
                return True
            self._queues.setdefault(entry.attempt, deque()).append(entry)
        self._admit()
        return entry.has_slot

    def _forget(self, entry: _Entry) -> None:
        """Remove a child that no longer waits."""
        with self._lock:
            queue = self._queues.get(entry.attempt)
            if queue is not None and entry in queue:
                queue.remove(entry)
                if not queue:
                    del self._queues[entry.attempt]

    def _admit(self) -> None:
        """Give the slots that are free to waiting children: first the slots of the items that wait for them."""
        with self._lock:
            admitted = [self._next(attempt) for attempt in list(self._queues) if not self._entered[attempt]]
            free = self._most - self._used() if self._queues else 0
            while free > 0 and self._queues:
                admitted.append(self._next(min(self._queues, key=lambda each: self._queues[each][0].number)))
                free -= 1
        for entry in admitted:
            entry.wake()

    def _next(self, attempt: Attempt) -> _Entry:
        """Give a slot to the child of an attempt that has waited longest."""
        queue = self._queues[attempt]
        entry = queue.popleft()
        if not queue:
            del self._queues[attempt]
        self._entered[attempt] += 1
        entry.has_slot = True
        return entry

    # -- nodes -------------------------------------------------------------------------------------------

    def add(self, child: Session) -> None:
        """Let the nodes of a child share the slots."""
        with self._lock:
            self._children.add(child)
        child.take = partial(self._take, child, child.take)

    def remove(self, child: Session) -> None:
        """Forget a child that has ended."""
        with self._lock:
            self._children.discard(child)

    def _take(self, session: Session, take: Callable[[], Item | None]) -> Item | None:
        """Take an item if there is a slot for it. A session without a running item has one."""
        with self._lock:
            if session.machine.counters.active and self._used() >= self._most:
                return None
            item = take()
            if item is None and self._queues:
                self._admit()
            return item

    def _used(self) -> int:
        """Return the number of used slots. The first item of a child uses the slot that the child has entered with.

        The first child of an attempt has entered with the slot of the waiting item.
        """
        inside = sum(max(0, child.machine.counters.active - 1) for child in self._children)
        entered = sum(children - 1 for children in self._entered.values() if children)
        return self._root.machine.counters.active + inside + entered


def resolve(future: asyncio.Future[None]) -> None:
    """End a wait, unless it has been cancelled."""
    if not future.done():
        future.set_result(None)
