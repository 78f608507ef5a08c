"""Make forks safe while threads use SQLite.

A fork copies the internal locks of SQLite. If another thread was inside SQLite at that moment, the child would wait
forever when it opens a file. So every connection is used under a lock, and a fork holds all of these locks.

A fork waits at most a second for each lock. A thread that stays inside SQLite for longer waits for the disk or for
another process.
"""

from __future__ import annotations

import os
from _thread import RLock
from typing import Protocol
from weakref import WeakSet

_TIMEOUT = 1.0  # seconds


class ForkGuard(Protocol):
    """An object that uses a connection under a lock."""

    _lock: RLock


_users: WeakSet[ForkGuard] = WeakSet()
_held: list[RLock] = []


def guard(user: ForkGuard) -> None:
    """Make forks wait for the lock of an object."""
    _users.add(user)


def _before() -> None:
    for user in list(_users):
        lock = user._lock
        if lock.acquire(timeout=_TIMEOUT):
            _held.append(lock)


def _after() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
