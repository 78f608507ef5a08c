"""Whether an owner is alive: it holds a lock on one byte of a file for as long as its process lives.

The operating system lets go of the lock when the process ends, however it ends. Locks of this kind belong to a process
and a file, so this process keeps one descriptor a file (closing any other would drop all its locks), and a table of its
own bytes. Where there are no such locks (another platform, a file system without them), an owner gets the slot 0, which
counts as alive always, and the lease decides.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - a platform without POSIX locks
    fcntl = None  # type: ignore[assignment]

_guard = threading.Lock()
_descriptors: dict[tuple[int, str], int] = {}  # (process, file) -> descriptor
_held: set[tuple[int, str, int]] = set()  # (process, file, byte)


def fresh_owner() -> str:
    """A name for an owner: who and where, for messages."""
    import socket

    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def _file_of(store: Path) -> str:
    return str(store.resolve()) + "-owners"


def _descriptor(file: str) -> int:
    if fcntl is None:  # pragma: no cover - a platform without POSIX locks
        raise OSError(errno.ENOLCK, "no locks on this platform")
    key = (os.getpid(), file)
    if key not in _descriptors:
        _descriptors[key] = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    return _descriptors[key]


def _lock(descriptor: int, byte: int, how: int) -> bool:
    """Take a byte; False if another process has it. OSError if there are no locks here."""
    try:
        fcntl.lockf(descriptor, how | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _unlock(descriptor: int, byte: int) -> None:
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte)


def _is_free(file: str, byte: int) -> bool:
    """Whether nobody holds a byte. OSError if there are no locks here.

    Where the file may only be read, a shared lock tells, which the others' locks keep out too. There this process holds
    nothing in it, so that descriptor is closed again.
    """
    try:
        descriptor, how, is_shared = _descriptor(file), fcntl.LOCK_EX, False
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        descriptor, how, is_shared = os.open(file, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH, True
    try:
        if not _lock(descriptor, byte, how):
            return False
        _unlock(descriptor, byte)
        return True
    finally:
        if is_shared:
            os.close(descriptor)


class Lifeline:
    """A byte that is held until `close` or the end of the process."""

    def __init__(self, store: Path) -> None:
        self._file = _file_of(store)
        with _guard:
            self.slot = self._take()

    def _take(self) -> int:
        try:
            while True:
                slot = secrets.randbelow(1 << 30) + 1
                key = (os.getpid(), self._file, slot)
                if key not in _held and _lock(_descriptor(self._file), slot, fcntl.LOCK_EX):
                    _held.add(key)
                    return slot
        except OSError:
            return 0

    def close(self) -> None:
        """Let go of the byte. The file stays: another process may hold one of it."""
        key = (os.getpid(), self._file, self.slot)
        with _guard:
            if key in _held:  # not in a forked child: the lock is its parent's
                _held.discard(key)
                _unlock(_descriptor(self._file), self.slot)


def is_alive(store: Path, slot: int) -> bool:
    """Whether the owner that holds byte `slot` lives; True where nobody can tell."""
    file = _file_of(store)
    with _guard:
        if slot == 0 or (os.getpid(), file, slot) in _held:
            return True
        try:
            return not _is_free(file, slot)
        except OSError:
            return True
