"""Which process this is, in a form that another one can read and ask: does it still live?

A mark names the machine since it was started, the process, and when that was started, so a number that was given to
another process since does not deceive. Processes are known to the machine, and in a container to that: about one that
was started elsewhere nothing can be said.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def mark() -> str:
    """The mark of this process."""
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_started(pid)}"


def lives_elsewhere(other: str) -> bool:
    """Whether a mark is that of a living process which is not this one."""
    machine, number, started = _read(other)
    return machine == _machine() and number != os.getpid() and _lives(number, started)


def has_ended(other: str) -> bool:
    """Whether a mark is certainly that of a process which lives no more."""
    machine, number, started = _read(other)
    return machine == _machine() and not _lives(number, started)


def _read(other: str) -> tuple[str, int, str]:
    *_, machine, number, started = ("", "", *other.split("/"))
    return (machine, int(number), started) if number.isdigit() else ("", 0, "")


def _lives(number: int, started: str) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        pass
    return _started(number) == started


def _machine() -> str:
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """When a process was started, where the system tells; a zombie has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] in "ZX" else fields[19]
