"""Time that a timeout does not include: `TimeInside` is the time that the items of a subgraph have waited."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.engine.frame import Item
from clew.runtime.process.clock import Clock


class ExcludedTime(msgspec.Struct):
    """The time in which at least one wait was open."""

    waiting: int = 0  # open waits
    since: float = 0.0
    owed: float = 0.0  # seconds that the deadline has not been moved by yet

    def begin(self, now: float) -> None:
        """Add a wait."""
        if not self.waiting:
            self.since = now
        self.waiting += 1

    def end(self, now: float) -> None:
        """Remove a wait."""
        self.waiting -= 1
        if not self.waiting:
            self.owed += now - self.since

    def take(self, now: float) -> float:
        """Return the seconds so far; each second is returned once."""
        if self.waiting:
            self.owed, self.since = self.owed + now - self.since, now
        owed, self.owed = self.owed, 0.0
        return owed


class TimeInside:
    """The waits inside the subgraph items of a session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._items: dict[Item, ExcludedTime] = {}

    def begin(self, item: Item) -> None:
        """Note that an item begins to wait."""
        for around in _around(item):
            self._items.setdefault(around, ExcludedTime()).begin(self._clock.monotonic())

    def end(self, item: Item) -> None:
        """Note that an item no longer waits."""
        for around in _around(item):
            self._items[around].end(self._clock.monotonic())

    def owed(self, item: Item) -> float:
        """Return for how long items inside a subgraph item have waited; each second is returned once."""
        inside = self._items.get(item)
        return 0.0 if inside is None else inside.take(self._clock.monotonic())


def _around(item: Item) -> Iterator[Item]:
    owner = item.frame.owner
    while owner is not None:
        yield owner
        owner = owner.frame.owner
