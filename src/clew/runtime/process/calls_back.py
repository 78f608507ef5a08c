"""Wait until a function is called: in the caller's thread, or on its event loop.

`register` gets the function, which may be called from any thread, also at once. `forget` gets it when the wait is over.

A thread waits for a lock of its own. An interrupt in `threading.Event` or in a future can leave their common lock
acquired, and everything that uses it would wait forever.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

Callback = Callable[[], object]
Register = Callable[[Callback], object]


def _keep(callback: Callback) -> None:
    """Do nothing: a late call has no effect."""


def wait_for_call(register: Register, seconds: float | None = None, *, forget: Register = _keep) -> bool:
    """Wait in the caller's thread; return whether the call came in time."""
    turn = Lock()
    turn.acquire()
    try:
        register(turn.release)
        return turn.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
    finally:
        forget(turn.release)


async def await_call(register: Register, seconds: float | None = None, *, forget: Register = _keep) -> bool:
    """Wait on the running event loop; return whether the call came in time."""
    import asyncio

    loop, called = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(called.set)
        except RuntimeError:  # the loop is closed
            pass

    try:
        register(wake)
        await asyncio.wait_for(called.wait(), seconds)
    except TimeoutError:
        return False
    finally:
        forget(wake)
    return True
