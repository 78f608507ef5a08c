"""Process marks: a text that identifies a process, so that another process can check whether it still runs.

A mark consists of the machine (its boot id and pid namespace), the process id and the start time of the process. The
start time tells a process from a later one with the same id. A process on another machine, or in another pid namespace,
can be neither confirmed nor ruled out.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def mark() -> str:
    """Return the mark of this process."""
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_start_time(pid)}"


def lives_elsewhere(other: str) -> bool:
    """Return whether a mark belongs to another process that runs on this machine."""
    machine, pid, started = _parse(other)
    return machine == _machine() and pid != os.getpid() and _is_running(pid, started)


def has_ended(other: str) -> bool:
    """Return whether a mark belongs to a process of this machine that has ended."""
    machine, pid, started = _parse(other)
    return machine == _machine() and not _is_running(pid, started)


def _parse(other: str) -> tuple[str, int, str]:
    *_, machine, pid, started = ("", "", *other.split("/"))
    return (machine, int(pid), started) if pid.isdigit() else ("", 0, "")


def _is_running(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        pass
    return _start_time(pid) == started


def _machine() -> str:
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _start_time(pid: int) -> str:
    """Return when a process started, "ended" for a zombie, or "" where the platform does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] in "ZX" else fields[19]
