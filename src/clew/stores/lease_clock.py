"""The clock for leases on one machine: the time since boot.

People and time servers set wall clocks, so the processes of a machine may disagree about the time. The clock since boot
is the same for all of them and never goes back. It restarts when the machine boots, so a lease is stored with the id of
the boot: an owner from an earlier boot is dead.

The clock is `time.monotonic`, which stops while the machine sleeps. No owner can renew its lease during that time. If
the clock did not stop, the first process to wake up would take over the runs of the others.

Containers share the kernel's boot id and clock. In a time namespace the clock is shifted; the kernel reports the
offset, which is subtracted. Machines that share a file over a network have different boots, so each would treat the
other's owners as dead. SQLite's locks do not work there either; use a `PostgresStore`.

On a system without a boot id, the id is empty, and only the owner's lock shows that the owner is dead.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Protocol

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OFFSETS = Path("/proc/self/timens_offsets")


class LeaseClock(Protocol):
    """The clock of a store. `clew.testing.VirtualClock` is one for tests."""

    @property
    def boot(self) -> str:
        """The id of the boot from which `monotonic` counts; times of different boots are not compared."""

    def monotonic(self) -> float:
        """Return seconds that never go back, the same for all processes with the same `boot`."""

    def time(self) -> float:
        """Return seconds since the epoch, for what outlives a boot: the age of cached results."""


class BootClock:
    """The clock of the machine."""

    @property
    def boot(self) -> str:
        return _boot_id()

    def monotonic(self) -> float:
        """Return the seconds since boot, without the time that the machine slept."""
        return time.monotonic() - _offset()

    def time(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


BOOT_CLOCK = BootClock()


@cache
def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return _darwin_boot_id() if sys.platform == "darwin" else ""


def _darwin_boot_id() -> str:
    from ctypes import CDLL, byref, c_size_t, create_string_buffer

    text = create_string_buffer(64)
    size = c_size_t(len(text))
    failed = CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, byref(size), None, c_size_t(0))
    return "" if failed else text.value.decode()


@cache
def _offset() -> float:
    """Return the offset of the clock in a time namespace."""
    try:
        lines = _OFFSETS.read_text().splitlines()
        seconds, nanoseconds = next(line.split()[1:] for line in lines if line.startswith("monotonic"))
        return int(seconds) + int(nanoseconds) / 1e9
    except (OSError, ValueError, StopIteration):
        return 0.0
