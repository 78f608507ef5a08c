"""Owner locks: whether the owner of a run is alive, for the processes of one machine.

A store that owns runs holds a lock (`flock`) on a file of its own beside the database. The operating system releases
the lock when the process ends, however it ends. Others find the file by the number that the run's row carries, its
slot: if the lock is free or the file is gone, the owner is dead.

Why a file for each owner, and `flock`:

- The lock belongs to the open file, not to the process. Closing another descriptor, as a copy of the folder does,
  does not release it. (POSIX byte locks, which SQLite uses on the database, are released by any close in the process.
  That is why this lock is on no file that SQLite opens.)
- A probe opens its own description, so it also sees the locks of its own process. Probes share their lock: two of
  them never take each other for an owner.

A forked child would share the lock and keep it after its parent was killed. So the child closes the descriptor first
thing, and takes a lock of its own when it claims a run. (A lock is taken under the lock of its store, which a fork
waits for; so no descriptor is unknown to a child.) A program that is executed never gets the descriptor.

`close` removes the file. A killed owner leaves its file behind; the next store that takes a lock removes it. A file
that is removed by mistake is noticed when the lease is renewed (`is_visible`), and the store then takes another lock.

A file system without locks gives the slot 0: nobody can tell whether such an owner lives, and its lease decides
alone. A platform without `flock` (Windows) is not supported: there, claiming a run is a `StoreError`.
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

_TRIES = 100  # others may remove a new file before it is locked; not a hundred times
_SUFFIX = "-owner-"
_descriptors: set[int] = set()  # of locks that this process holds


class OwnerLock:
    """A lock that is held until `close`, or until the process ends."""

    def __init__(self, store: Path) -> None:
        if fcntl is None:
            raise StoreError(
                f"{store}: runs in a SQLite file need file locks that this platform does not have; they can be read "
                f"here, to run them use a PostgresStore"
            )
        self.slot = 0
        self._process = os.getpid()
        self._descriptor = -1
        try:
            _sweep(store)
            self.slot, self._descriptor = _take(store)
            _descriptors.add(self._descriptor)
        except OSError:  # no locks here, or no right to write: the lease decides
            pass
        self._file = _file(store, self.slot)

    def is_visible(self) -> bool:
        """Whether others still find this lock; not if its file was removed or replaced."""
        if not self.slot:
            return True
        try:
            return os.path.samestat(os.stat(self._file), os.fstat(self._descriptor))
        except OSError:
            return False

    def close(self) -> None:
        """Release the lock and remove its file."""
        if self._descriptor >= 0 and self._process == os.getpid():  # else it is closed, or the parent's
            _descriptors.discard(self._descriptor)
            if self.is_visible():
                with suppress(OSError):  # the next store that takes a lock removes it
                    self._file.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


def is_alive(store: Path, slot: int) -> bool:
    """Tell whether the owner with this slot is alive; True where nobody can tell."""
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
    except OSError:  # somebody holds it, or there are no locks here
        return True
    finally:
        os.close(descriptor)


def _file(store: Path, slot: int) -> Path:
    return Path(f"{store.resolve()}{_SUFFIX}{slot:016x}")


def _take(store: Path) -> tuple[int, int]:
    """Create a file and lock it: its slot and its descriptor."""
    for _ in range(_TRIES):
        slot = secrets.randbelow(1 << 62) + 1
        file = _file(store, slot)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:  # else somebody swept it away before it was locked
                return slot, descriptor
        except BlockingIOError:  # somebody is about to sweep it away
            pass
        except BaseException:
            os.close(descriptor)
            file.unlink(missing_ok=True)
            raise
        os.close(descriptor)
    raise OSError(f"no file beside {store} stays")


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
