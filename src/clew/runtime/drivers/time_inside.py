"""The time that the items of a subgraph have waited, which the timeout of the subgraph item does not include."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.engine.frame import Item
from clew.runtime.process.clock import Clock


class _Inside(msgspec.Struct):
    """The waits inside one subgraph item."""

    waiting: int = 0  # items that wait now
    since: float = 0.0
    owed: float = 0.0  # seconds that the deadline has not been moved by yet


class TimeInside:
    """The waits inside the subgraph items of a session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._items: dict[Item, _Inside] = {}

    def begin(self, item: Item) -> None:
        """Note that an item begins to wait."""
        for around in _around(item):
            inside = self._items.setdefault(around, _Inside())
            if not inside.waiting:
                inside.since = self._clock.monotonic()
            inside.waiting += 1

    def end(self, item: Item) -> None:
        """Note that an item no longer waits."""
        for around in _around(item):
            inside = self._items[around]
            inside.waiting -= 1
            if not inside.waiting:
                inside.owed += self._clock.monotonic() - inside.since

    def owed(self, item: Item) -> float:
        """Return for how long items inside a subgraph item have waited; each second is returned once."""
        inside = self._items.get(item)
        if inside is None:
            return 0.0
        if inside.waiting:
            now = self._clock.monotonic()
            inside.owed, inside.since = inside.owed + now - inside.since, now
        owed, inside.owed = inside.owed, 0.0
        return owed


def _around(item: Item) -> Iterator[Item]:
    owner = item.frame.owner
    while owner is not None:
        yield owner
        owner = owner.frame.owner
