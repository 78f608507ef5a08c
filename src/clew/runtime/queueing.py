"""Waiting in the queue of an executor that was given: an attempt's time counts from when its function starts.

Threads of our own start at once, so only the pools of the standard library and our own processes are asked. They
say when a call starts by telling its future; that is where this listens. A process pool tells it one call early, of
the one that lies ready for the next process. What tells no start counts from when it was handed over.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from clew.runtime.executors import Processes

if TYPE_CHECKING:
    from clew.engine.strand import Item
    from clew.runtime.session import Session


class Handed:
    """An attempt that was handed to an executor. `began` is when its function started, if it has."""

    __slots__ = ("began",)

    def __init__(self) -> None:
        self.began: float | None = None


def note_start(session: Session, item: Item, executor: Executor, future: Future[Any]) -> None:
    """Let the session know when the call behind `future` starts."""
    if not isinstance(executor, (ThreadPoolExecutor, ProcessPoolExecutor, Processes)):
        return
    handed, monotonic = Handed(), session.clock.monotonic
    told: Callable[[], bool] = future.set_running_or_notify_cancel

    def tell() -> bool:
        handed.began = monotonic()
        return told()

    future.set_running_or_notify_cancel = tell  # type: ignore[method-assign]
    if future.running() or future.done():  # it was quicker
        handed.began = monotonic()
    key = (item, item.attempt)
    if session.handed is None:
        session.handed = {}
    session.handed[key] = handed
    waiting = session.handed
    future.add_done_callback(lambda _: waiting.pop(key, None))
