"""Forking a process while its threads use SQLite.

SQLite guards itself with locks, and a fork copies them as they are: a child of a process whose other thread was inside
SQLite just then would wait for ever when it opens a file. So a fork waits until no thread of ours is inside: everyone
who uses a connection does so under a lock, and a fork holds all of these locks while it happens.

It waits for a moment only. A thread that stays inside for longer waits for the disk or for another process.
"""

from __future__ import annotations

import os
from _thread import RLock
from typing import Protocol
from weakref import WeakSet

_MOMENT = 1.0  # seconds


class ForkGuard(Protocol):
    """Whoever uses connections under a lock."""

    _lock: RLock


_users: WeakSet[ForkGuard] = WeakSet()
_held: list[RLock] = []


def guard(user: ForkGuard) -> None:
    """Have forks wait for this one."""
    _users.add(user)


def _before() -> None:
    for user in list(_users):
        lock = user._lock
        if lock.acquire(timeout=_MOMENT):
            _held.append(lock)


def _after() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
