"""The clock of a worker: the time of its store.

Due times follow the clock of the store. If the clock of a machine differed from it, a worker that used its own clock
would release a run that is due, or end a wait early. So it adds the difference, which it measures from time to time. A
measurement that takes long is inaccurate, because the process may have been suspended during it.
"""

from __future__ import annotations

from clew.runtime.process.clock import Clock
from clew.stores import Store

_PROMPT = 0.01  # seconds in which an answer of the store is good enough
_QUESTIONS = 3  # at most, until one is answered promptly


class StoreClock:
    """The clock of a machine, corrected by the difference to the clock of a store."""

    virtual = False

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._ahead = 0.0  # seconds by which the store is ahead
        self.monotonic = clock.monotonic

    def time(self) -> float:
        """Return the time of the store, in seconds since the epoch."""
        return self._clock.time() + self._ahead

    def advance(self, to: float) -> None:
        """Do nothing; this clock moves by itself."""

    def measure(self) -> None:
        """Ask the store for its time; of several answers, use the one that took the shortest time."""
        shortest = float("inf")
        for _ in range(_QUESTIONS):
            before = self._clock.time()
            there = self._store.time()
            after = self._clock.time()
            took = abs(after - before)
            if took < shortest:
                shortest, self._ahead = took, there - (before + after) / 2
            if took < _PROMPT:
                return


def clock_of(store: Store, clock: Clock) -> Clock:
    """Return the clock for a worker of a store. A virtual clock stays as it is."""
    return clock if clock.virtual else StoreClock(clock, store)
