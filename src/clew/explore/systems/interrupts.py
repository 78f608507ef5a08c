"""Ctrl-C waits until a system has finished what it does.

An interrupt in the middle of a checkpoint or a rollback would break the connection of a system, and nothing could
restore the database any more. The methods of systems on servers and files are therefore decorated with
`uninterrupted`: the interrupt is raised when the method returns. A handler that a program has installed is left alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def uninterrupted(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that raises KeyboardInterrupt at its end, and not before."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return function(*args, **kwargs)
        interrupts: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
        try:
            return function(*args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if interrupts:
                raise KeyboardInterrupt

    return run
