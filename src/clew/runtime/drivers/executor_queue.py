"""Timeouts of attempts that wait in the queue of an executor: the time counts from the start of the function.

A call on a `ThreadPoolExecutor` reports its start itself, and the executors of ``clew.runtime.remote`` report the grant
of a start. With other executors the time counts from the submission. Clew's own threads start at once and need none of
this.

A call that timed out and does not stop keeps its worker. While there is such a call, waiting attempts time out in the
queue too, so that a run whose workers are all stuck ends.

While attempts wait, the driver asks the cluster from time to time whether it has workers, and logs a warning if it has
none. It asks on a thread, because a cluster may take long to answer.
"""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

from clew.held_interrupts import start_thread

if TYPE_CHECKING:
    from clew.engine.frame import Item
    from clew.runtime.drivers.session import Session
    from clew.runtime.remote.executor import RemoteExecutor

    Attempt = tuple[Item, int]

CHECK_INTERVAL = 10.0
"""Seconds between two questions to a cluster, while attempts wait."""


class QueuedAttempts:
    """The attempts of a session that were submitted to an executor with a queue."""

    def __init__(self) -> None:
        self._began: dict[Attempt, float | None] = {}  # start of the function; None while queued
        self._stuck: set[Attempt] = set()  # timed out, and still running
        self.worker_check: WorkerCheck | None = None  # of a cluster
        self.has_warned = False  # that it has no workers

    @property
    def waiting(self) -> int:
        """The number of attempts that have not started."""
        return list(self._began.values()).count(None)  # other threads change it

    def next_check(self) -> float | None:
        """Return when to ask the cluster for its workers, or None."""
        return self.worker_check.due if self.worker_check is not None and self._began else None

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

    def queue(self, attempt: Attempt) -> None:
        """Note that an attempt waits in a queue."""
        self._began[attempt] = None

    def start(self, attempt: Attempt, now: float) -> None:
        """Note that the function of an attempt has started."""
        if attempt in self._began:
            self._began[attempt] = now

    def end(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""
        self._began.pop(attempt, None)
        self._stuck.discard(attempt)


def queued_attempts_of(session: Session) -> QueuedAttempts:
    """Return the attempts of a session that were submitted to an executor with a queue."""
    if session.queued_attempts is None:
        session.queued_attempts = QueuedAttempts()
    return session.queued_attempts


class WorkerCheck:
    """Logs a warning if attempts wait and their cluster has no workers: once for a run with its children."""

    def __init__(self, session: Session, executor: RemoteExecutor) -> None:
        self._session = session
        self._executor = executor
        self.due: float | None = session.clock.monotonic() + CHECK_INTERVAL

    def start(self) -> None:
        """Ask the cluster, on a thread."""
        self.due = None
        start_thread(Thread(target=self._ask, name="clew-workers", daemon=True))

    def _ask(self) -> None:
        session, root = self._session, self._session
        while root.outer is not None:
            root = root.outer
        warned = queued_attempts_of(root)
        if warned.has_warned:
            return
        attempts = queued_attempts_of(session)
        if attempts.waiting and not self._executor.has_workers() and (waiting := attempts.waiting):
            from clew.runtime.reporting.reports import report_no_workers  # here, because it imports logging

            warned.has_warned = True
            report_no_workers(root.run_id, root.machine.root.program.graph.name, waiting)
            return
        self.due = session.clock.monotonic() + CHECK_INTERVAL
        if (wake := session.wake_driver) is not None:
            wake()


def check_workers(session: Session, executor: RemoteExecutor) -> None:
    """Watch the workers of a cluster while attempts of a session wait for it."""
    attempts = queued_attempts_of(session)
    if attempts.worker_check is None:
        attempts.worker_check = WorkerCheck(session, executor)
