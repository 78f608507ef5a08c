"""A timer thread that calls functions after a short delay, for background writers.

Starting or waking a thread costs as much as many writes. So scheduling a call only records it; the thread checks every
ten milliseconds, and ends after some idle seconds. A call that is cancelled in time costs almost nothing.

Rules:

- `call_later` replaces an earlier call of the same owner. `cancel` removes it.
- Functions run in the timer's thread and must return quickly; a longer task starts its own thread.
- A forked process inherits neither the thread nor the calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

from clew.held_interrupts import start_thread

TICK = 0.01  # seconds between two checks

_IDLE = 500  # idle checks after which the thread ends
_guard = Lock()
_calls: dict[Any, tuple[float, Callable[[], None]]] = {}
_thread: Thread | None = None


def call_later(owner: Any, seconds: float, call: Callable[[], None]) -> None:
    """Call a function after some seconds, unless its owner cancels it."""
    global _thread
    with _guard:
        _calls[owner] = (monotonic() + seconds, call)
        if _thread is None or not _thread.is_alive():
            _thread = Thread(target=_run, name="clew-timer", daemon=True)
            start_thread(_thread)


def cancel(owner: Any) -> None:
    _calls.pop(owner, None)


def _run() -> None:
    global _thread
    idle = 0
    while True:
        sleep(TICK)
        with _guard:
            due = _take_due()
            idle = 0 if due or _calls else idle + 1
            if idle > _IDLE:
                _thread = None
                return
        while due:
            due.pop()()


def _take_due() -> list[Callable[[], None]]:
    now = monotonic()
    late = [owner for owner, (at, _) in list(_calls.items()) if at <= now]
    return [found[1] for owner in late if (found := _calls.pop(owner, None)) is not None]


def _after_fork() -> None:
    global _guard, _thread
    _guard, _thread = Lock(), None
    _calls.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
