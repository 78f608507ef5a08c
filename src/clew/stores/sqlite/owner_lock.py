"""Owner locks: detect whether the owner of a run on the same machine is alive.

A store that owns runs holds a lock (`flock`) on its own file next to the database. The operating system releases the
lock when the process ends, however it ends. The row of a run contains the number of the file, its slot. If the lock is
free or the file does not exist, the owner is dead.

Why a file for each owner, and `flock`:

- The lock belongs to the open file, not to the process. Closing another descriptor, as a copy of the folder does,
  does not release it. (Any close in the process releases POSIX byte locks, which SQLite uses on the database. That is
  why this lock is on a separate file.)
- A probe opens the file itself, so it also sees the locks of its own process. Probes take a shared lock, so two probes
  never mistake each other for an owner.

A forked child would share the lock and keep it after its parent was killed. So the child closes the descriptor at
once, and takes its own lock when it claims a run. (A lock is taken under the lock of its store, which a fork
waits for, so a child knows every descriptor.) A program started with exec never gets the descriptor.

`close` removes the file. A killed owner leaves its file, which the next store that takes a lock removes. If a file
is removed by mistake, the next lease renewal detects it (`is_visible`) and takes another lock.

On a file system without locks the slot is 0, and only the lease decides. Platforms without `flock` (Windows) are not
supported: claiming a run raises `StoreError`.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from clew.errors import StoreError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_TRIES = 100  # another process may remove a new file before it is locked
_SUFFIX = "-owner-"
_descriptors: set[int] = set()  # of locks that this process holds


class OwnerLock:
    """A lock that lasts until `close` or the end of the process."""

    def __init__(self, store: Path) -> None:
        if fcntl is None:
            raise StoreError(
                f"{store}: runs in a SQLite file need file locks, which this platform lacks; use a PostgresStore "
                f"to run them (reading works here)"
            )
        self.slot = 0
        self._process = os.getpid()
        self._descriptor = -1
        try:
            _sweep(store)
            self.slot, self._descriptor = _take(store)
            _descriptors.add(self._descriptor)
        except OSError:  # no locks, or no write permission: only the lease decides
            pass
        self._file = _file(store, self.slot)

    def is_visible(self) -> bool:
        """Return whether other processes still find this lock: its file was not removed or replaced."""
        if not self.slot:
            return True
        try:
            return os.path.samestat(os.stat(self._file), os.fstat(self._descriptor))
        except OSError:
            return False

    def close(self) -> None:
        """Release the lock and remove its file."""
        if self._descriptor >= 0 and self._process == os.getpid():  # otherwise closed, or of the parent
            _descriptors.discard(self._descriptor)
            if self.is_visible():
                with suppress(OSError):  # the next store that takes a lock removes it
                    self._file.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


def is_alive(store: Path, slot: int) -> bool:
    """Return whether the owner with this slot is alive; True if that is unknown."""
    if not slot or fcntl is None:
        return True
    try:
        descriptor = os.open(_file(store, slot), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:  # the owner holds it, or the file system has no locks
        return True
    finally:
        os.close(descriptor)


def _file(store: Path, slot: int) -> Path:
    return Path(f"{store.resolve()}{_SUFFIX}{slot:016x}")


def _take(store: Path) -> tuple[int, int]:
    """Create a file, lock it, and return its slot and its descriptor."""
    for _ in range(_TRIES):
        slot = secrets.randbelow(1 << 62) + 1
        file = _file(store, slot)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:  # otherwise another store removed it before it was locked
                return slot, descriptor
        except BlockingIOError:  # another store is about to remove it
            pass
        except BaseException:
            os.close(descriptor)
            file.unlink(missing_ok=True)
            raise
        os.close(descriptor)
    raise OSError(f"cannot lock a file next to {store}")


def _sweep(store: Path) -> None:
    """Remove the files of owners that were killed."""
    place = store.resolve()
    with os.scandir(place.parent) as files:
        left = [file.path for file in files if file.name.startswith(f"{place.name}{_SUFFIX}")]
    for file in left:
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(file)
        except OSError:
            pass
        finally:
            os.close(descriptor)


def _close_inherited() -> None:
    """Close the parent's locks in a forked child; the parent keeps them."""
    while _descriptors:
        os.close(_descriptors.pop())


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_close_inherited)
