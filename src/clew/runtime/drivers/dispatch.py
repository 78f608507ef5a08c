"""Submit an item to an executor.

The executors of ``clew.runtime.remote`` run nodes in other processes. All other executors run functions in this
process: the function needs the session, so it cannot be pickled. A node with ``on="driver"`` runs in this process, on a
thread of the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NoReturn

from clew.engine.frame import Item
from clew.errors import NodeError, RunCancelledError
from clew.runtime.drivers.executor_queue import QueuedAttempts, check_workers, queued_attempts_of
from clew.runtime.drivers.session import Session
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.runtime.remote.executor import RemoteExecutor


def submit(
    session: Session, item: Item, executor: Executor, own_threads: Callable[[], DaemonThreadPool]
) -> Future[Any]:
    """Start an item on an executor."""
    if isinstance(executor, RemoteExecutor):
        if item.node.on != "driver":
            check_workers(session, executor)
            return executor.start(session, item, queued_attempts_of(session))
        executor = own_threads()
    if not isinstance(executor, ThreadPoolExecutor):
        return executor.submit(_Call(session, item))
    attempts, attempt = queued_attempts_of(session), (item, item.attempt)
    attempts.queue(attempt)
    try:
        future = executor.submit(_Call(session, item, attempts))
    except BaseException:
        attempts.end(attempt)
        raise
    future.add_done_callback(lambda _: attempts.end(attempt))
    return future


class _Call:
    """Calls an item's function on a thread. A StopIteration becomes a NodeError, because asyncio futures reject it.

    The thread may start after its attempt has ended and the next one is running; then it does nothing.
    """

    def __init__(self, session: Session, item: Item, queued: QueuedAttempts | None = None) -> None:
        self._session = session
        self.item = item
        self._attempt = item.attempt
        self._queued = queued

    def __call__(self) -> Any:
        item, attempt = self.item, self._attempt
        if self._queued is not None:
            self._queued.start((item, attempt), self._session.clock.monotonic())
        if item.attempt != attempt:
            raise RunCancelledError(f"{item.path}: attempt {attempt} ended before its thread started")
        try:
            return self._session.call(item, attempt)
        except StopIteration as error:
            raise NodeError(
                f"node {item.node.name!r} at {item.path} raised StopIteration; give next() a default"
            ) from error

    def __reduce__(self) -> NoReturn:
        raise NodeError(
            f"node {self.item.node.name!r} at {self.item.path}: this executor pickles its calls, and nodes need "
            f"their run; use clew.runtime.executors.processes(), dask() or ray()"
        )
