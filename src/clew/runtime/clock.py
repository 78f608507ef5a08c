"""Time, as drivers see it. The system's clock here; a virtual one is in ``clew.testing``."""

from __future__ import annotations

import time as _time
from typing import Protocol


class Clock(Protocol):
    """What a driver asks of time. `virtual`: nothing really waits, and `advance` moves it."""

    virtual: bool

    def time(self) -> float:
        """Seconds since the epoch, for timestamps."""

    def monotonic(self) -> float:
        """Seconds that never go back, for durations and timers."""

    def advance(self, to: float) -> None:
        """Move a virtual clock; the system's clock moves by itself."""


class SystemClock:
    """The clock of the machine."""

    virtual = False
    time = staticmethod(_time.time)
    monotonic = staticmethod(_time.perf_counter)

    def advance(self, to: float) -> None:
        """Nothing: waiting moves this clock."""


SYSTEM_CLOCK = SystemClock()
