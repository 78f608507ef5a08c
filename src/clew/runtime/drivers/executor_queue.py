"""Waiting in the queue of an executor that was given: an attempt's time counts from when its function starts.

Threads of our own start at once, so only the pools of the standard library and our own processes are asked. They
say when a call starts by telling its future; that is where this listens. A process pool tells it one call early, of
the one that lies ready for the next process. What tells no start counts from when it was handed over.

A call that has timed out and goes on all the same keeps its worker, perhaps for ever. As long as there is one, those
that wait have no more than their own time, also to start: a run whose workers are all stuck has to end.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from clew.runtime.executors import Processes

if TYPE_CHECKING:
    from clew.engine.frame import Item
    from clew.runtime.drivers.session import Session

    Attempt = tuple[Item, int]


class QueuedAttempts:
    """The attempts of a session that are with an executor which has a queue."""

    def __init__(self) -> None:
        self._began: dict[Attempt, float | None] = {}  # when its function started, if it has
        self._lost: set[Attempt] = set()  # timed out, and still going on

    def over(self, attempt: Attempt, limit: float, now: float) -> float:
        """When the time of an attempt is over; `now`, or before, if it is."""
        if attempt not in self._began:
            return now
        began = self._began[attempt]
        if began is None:
            return now if self._lost else now + limit
        if began + limit <= now:
            self._lost.add(attempt)
        return began + limit

    def watch(self, attempt: Attempt, future: Future[Any], session: Session) -> None:
        """Take note of when the call behind `future` starts, and of when it is done."""
        began, monotonic = self._began, session.clock.monotonic
        began[attempt] = None
        told = future.set_running_or_notify_cancel

        def tell() -> bool:
            began[attempt] = monotonic()
            return told()

        def done(_: Future[Any]) -> None:
            began.pop(attempt, None)
            self._lost.discard(attempt)

        future.set_running_or_notify_cancel = tell  # type: ignore[method-assign]
        if future.running() or future.done():  # it was quicker
            began[attempt] = monotonic()
        future.add_done_callback(done)


def note_start(session: Session, item: Item, executor: Executor, future: Future[Any]) -> None:
    """Let the session know when the call behind `future` starts."""
    if isinstance(executor, (ThreadPoolExecutor, ProcessPoolExecutor, Processes)):
        if session.handed is None:
            session.handed = QueuedAttempts()
        session.handed.watch((item, item.attempt), future, session)
