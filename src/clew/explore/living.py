"""Which process this is, in a form that another one can read and ask: does it still live?

A mark names the machine since it was started, the process, and when that was started, so a number that was given to
another process since does not deceive. About a process of another machine nothing can be said; it counts as gone.
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
    *_, machine, number, started = ("", "", *other.split("/"))
    if machine != _machine() or not number.isdigit() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        pass
    return _started(int(number)) == started


def _machine() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """When a process was started, where the system tells; a zombie has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] in "ZX" else fields[19]
