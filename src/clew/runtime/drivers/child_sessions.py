"""The running children of a session: who stops them, how many nodes run at once, and time that does not count.

- A child works in the slot of the item that waits for it. So a waiting item holds no slot of its own, and a child can
  always go on. Nodes that a child runs at the same time as another of its nodes need a free slot. All sessions of a
  family share `max_concurrent_nodes`.
- The time that an attempt waits for its children does not count towards its timeout.
- Stopping a session stops its children, and so does its end: they are the children of nodes that were left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from clew.engine.frame import Item
    from clew.runtime.drivers.session import Session

    Attempt = tuple[Item, int]

_creating = Lock()


def children_of(session: Session) -> ChildSessions:
    """Return the children of a session, from any thread."""
    with _creating:
        if session.children is None:
            outer = session.outer
            slots = Slots(session) if outer is None or outer.children is None else outer.children.slots
            session.children = ChildSessions(session, slots)
        return session.children


class Slots:
    """The slots that a run shares with its children, and with their children."""

    def __init__(self, root: Session) -> None:
        self._root = root
        self._most = root.settings.max_concurrent_nodes
        self._children: set[Session] = set()
        self._lock = RLock()
        root.take = partial(self._take, root, root.take)

    def add(self, child: Session) -> None:
        """Let a child share the slots."""
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
            return take()

    def _used(self) -> int:
        """Return the number of used slots. The first item of a child uses the slot of the item that waits for it."""
        more = sum(max(0, child.machine.counters.active - 1) for child in self._children)
        return self._root.machine.counters.active + more


class _Wait(msgspec.Struct):
    """How long an attempt has waited for children."""

    children: int = 0  # that it waits for now
    since: float = 0.0
    owed: float = 0.0  # seconds that its deadline has not been moved by yet


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

    def add(self, child: Session) -> None:
        """Take a child that is about to run."""
        self._live[child.run_id] = child
        self.slots.add(child)

    def remove(self, child: Session) -> None:
        """Forget a child that has ended."""
        if self._live.get(child.run_id) is child:
            del self._live[child.run_id]
        self.slots.remove(child)

    def stop(self) -> None:
        """Cancel the children, from any thread."""
        self.is_stopped = True
        for child in list(self._live.values()):
            child.stop()

    # -- time that does not count ------------------------------------------------------------------------

    def wait(self, attempt: Attempt) -> None:
        """Note that an attempt waits for a child from now on."""
        with self._lock:
            wait = self._waits.setdefault(attempt, _Wait())
            if not wait.children:
                wait.since = self._clock.monotonic()
            wait.children += 1

    def go_on(self, attempt: Attempt) -> None:
        """Note that a child of an attempt has ended."""
        with self._lock:
            wait = self._waits.get(attempt)
            if wait is not None:  # otherwise the attempt has ended before its child
                wait.children -= 1
                if not wait.children:
                    wait.owed += self._clock.monotonic() - wait.since

    def owed(self, attempt: Attempt) -> float:
        """Return by how many seconds to move the deadline of an attempt; each second is returned once."""
        with self._lock:
            wait = self._waits.get(attempt)
            if wait is None:
                return 0.0
            if wait.children:
                now = self._clock.monotonic()
                wait.owed, wait.since = wait.owed + now - wait.since, now
            owed, wait.owed = wait.owed, 0.0
            return owed

    def forget(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""
        with self._lock:
            self._waits.pop(attempt, None)
