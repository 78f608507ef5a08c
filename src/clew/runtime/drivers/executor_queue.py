"""Timeouts of attempts that wait in the queue of an executor: the time counts from the start of the function.

The pools of the standard library and `Processes` mark the future of a call as running when the call starts; this module
observes that. A `ProcessPoolExecutor` does it one call early. With other executors the time counts from the submission.
Clew's own threads start at once and need none of this.

A call that timed out and does not stop keeps its worker. While there is such a call, waiting attempts time out in the
queue too, so that a run whose workers are all stuck ends.
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
    """The attempts of a session that were submitted to an executor with a queue."""

    def __init__(self) -> None:
        self._began: dict[Attempt, float | None] = {}  # start of the function; None while queued
        self._stuck: set[Attempt] = set()  # timed out, and still running

    def deadline(self, attempt: Attempt, limit: float, now: float) -> float:
        """Return the deadline of an attempt; it has passed if it is not after `now`."""
        if attempt not in self._began:
            return now
        began = self._began[attempt]
        if began is None:
            return now if self._stuck else now + limit
        if began + limit <= now:
            self._stuck.add(attempt)
        return began + limit

    def watch(self, attempt: Attempt, future: Future[Any], session: Session) -> None:
        """Observe when the call of `future` starts and ends."""
        began, monotonic = self._began, session.clock.monotonic
        began[attempt] = None
        original = future.set_running_or_notify_cancel

        def started() -> bool:
            began[attempt] = monotonic()
            return original()

        def done(_: Future[Any]) -> None:
            began.pop(attempt, None)
            self._stuck.discard(attempt)

        future.set_running_or_notify_cancel = started  # type: ignore[method-assign]
        if future.running() or future.done():  # it started before the method was replaced
            began[attempt] = monotonic()
        future.add_done_callback(done)


def note_start(session: Session, item: Item, executor: Executor, future: Future[Any]) -> None:
    """Register a submitted attempt with the session, if the executor has a queue."""
    if isinstance(executor, (ThreadPoolExecutor, ProcessPoolExecutor, Processes)):
        if session.queued_attempts is None:
            session.queued_attempts = QueuedAttempts()
        session.queued_attempts.watch((item, item.attempt), future, session)
