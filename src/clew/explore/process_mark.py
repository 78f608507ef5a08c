"""What processes that were killed leave behind, and how another process recognizes it.

A mark is a text that identifies a process, so that another process can check whether it still runs. It consists of the
machine (its boot id and pid namespace), the process id and the start time of the process. The start time tells a
process from a later one with the same id. A process on another machine, or in another pid namespace, can be neither
confirmed nor ruled out. Marks are in two places:

- Temporary directories have the contents of checkpoints. A directory is removed with the object that owns it. A killed
  process cannot remove its directories; the next process that makes one of the same kind does.
- Midway marks say that an exploration has left its initial state. A database has a table for it. A key in Redis or a
  file in a folder would be seen by the application, so their marks are small files in the directory for temporary
  files, named after what they mark. A mark of a process that still runs says nothing: that exploration can restore its
  systems. Marks do not outlive that directory, and other machines do not see them.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import weakref
from hashlib import sha256
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


_MARK = "process"


def new_folder(owner: object, kind: str) -> tuple[Path, weakref.finalize[..., object]]:
    """Make a directory that is removed with its owner; return it, and the function that removes it earlier."""
    prefix = f"clew-{kind}-"
    _clear(Path(tempfile.gettempdir()), prefix)
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))
    (folder / _MARK).write_text(mark())
    return folder, weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)


def _clear(directory: Path, prefix: str) -> None:
    for folder in directory.glob(f"{prefix}*"):
        try:
            if folder.lstat().st_uid == os.getuid() and has_ended((folder / _MARK).read_text()):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it has just been removed, or has no mark yet
            continue


class MidwayMark:
    """The mark of one system. `was_left` tells whether an ended process left one."""

    def __init__(self, place: str) -> None:
        name = f"clew-midway-{sha256(place.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"
        self._file = Path(tempfile.gettempdir()) / name
        try:
            self.was_left = not lives_elsewhere(self._file.read_text())
        except OSError:
            self.was_left = False

    def write(self, is_midway: bool) -> None:
        """Store or remove the mark; a directory that cannot be written has none."""
        try:
            if not is_midway:
                self._file.unlink(missing_ok=True)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with open(os.open(self._file, flags, 0o600), "w") as file:
                file.write(mark())
        except OSError:
            pass
