"""Clocks for drivers: the protocol and the system clock. A virtual clock is in ``clew.testing``."""

from __future__ import annotations

import time as _time
from typing import Protocol


class Clock(Protocol):
    """The time source of a driver. A `virtual` clock stands still until `advance` moves it, so nothing really waits."""

    virtual: bool

    def time(self) -> float:
        """Return seconds since the epoch, for timestamps."""

    def monotonic(self) -> float:
        """Return seconds that never decrease, for durations and timers."""

    def advance(self, to: float) -> None:
        """Move a virtual clock to this monotonic time."""


class SystemClock:
    """The clock of the operating system."""

    virtual = False
    time = staticmethod(_time.time)
    monotonic = staticmethod(_time.perf_counter)

    def advance(self, to: float) -> None:
        """Do nothing; this clock moves by itself."""


SYSTEM_CLOCK = SystemClock()
