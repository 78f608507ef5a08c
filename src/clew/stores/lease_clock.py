"""The clock that leases run by on one machine: the time since it was booted, which nobody sets.

A wall clock is set, by people and by time servers, and may differ between the processes that compare it. The clock
since boot is one for all processes of a machine and always goes forward. It starts over when the machine is booted,
so a lease is kept with the id of the boot: an owner from another boot is dead.

The clock is that of `time.monotonic`, which stands still while the machine sleeps. So do the owners, who could not
renew a lease then; with a clock that goes on, whoever wakes up first would take the runs of the others.

Containers share the kernel's boot id and its clock. A container with a time namespace sees the clock shifted; the
kernel says by how much, and that is taken off. Machines that share a file over a network have different boots, so
each takes the other's owners for dead; SQLite's own locks do not work there either, and a `PostgresStore` is for
that.

Where the system has no id of the boot, it is empty, and only the owner's lock tells that the owner is dead.
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
    """What a store asks for the time of a lease. `clew.testing.VirtualClock` is one that is moved by hand."""

    @property
    def boot(self) -> str:
        """What `monotonic` counts from; times of different boots are not compared."""

    def monotonic(self) -> float:
        """Seconds that never go back, the same for all who share `boot`."""


class BootClock:
    """The machine's own clock."""

    @property
    def boot(self) -> str:
        return _boot_id()

    def monotonic(self) -> float:
        """Seconds since the machine was booted, without those that it slept."""
        return time.monotonic() - _offset()


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
    """By how much a time namespace shifts the clock."""
    try:
        lines = _OFFSETS.read_text().splitlines()
        seconds, nanoseconds = next(line.split()[1:] for line in lines if line.startswith("monotonic"))
        return int(seconds) + int(nanoseconds) / 1e9
    except (OSError, ValueError, StopIteration):
        return 0.0
