"""The executor of an engine whose nodes run in other processes. A backend is the cluster behind it.

Calls whose arguments may be large are pickled and submitted on one thread. So their inputs are put into the cluster one
after the other, and an event loop does not wait for this. Other calls are submitted at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from threading import Lock
from typing import Any, Literal, NoReturn, Protocol

from clew.engine.frame import Item
from clew.errors import DefinitionError, DriverUnreachableError, NodeError
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.runtime.remote.attempts import Attempt, QueueTimes
from clew.runtime.remote.desk import Desk, RemoteCall
from clew.runtime.remote.inputs import InputStore, LargeInputs
from clew.runtime.remote.pickling import Dumps
from clew.state.number_checks import is_int, is_number

TaskEnd = Literal["over", "lost", "lost-input", "broken", "unreachable"]
"""What a cluster says about a task: it ended, its worker or an input is lost, it cannot run, or found no driver."""

Done = Callable[[TaskEnd, str], None]


class Backend(InputStore, Protocol):
    """A cluster, as an executor uses it."""

    dumps: Dumps
    is_cluster: bool

    def open(self, desk: Desk) -> None:
        """Begin to use a desk."""

    def submit(self, token: str, task: bytes, handles: Sequence[Any], attempt: Attempt, done: Done) -> Any:
        """Start a task; call `done` when it has ended. Nodes of children must not wait for the nodes that wait."""

    def ended(self, handle: Any) -> None:
        """Handle the end of the body of a task."""

    def cancel(self, handle: Any, *, is_running: bool) -> None:
        """Drop a task that waits, or end one that runs."""

    def has_workers(self) -> bool:
        """Return whether the cluster has workers. It may take long."""

    def close(self, *, wait: bool) -> None:
        """End everything that this backend has started."""


class RemoteExecutor(Executor):
    """Runs the nodes of engines in other processes: ``Engine(graph, executor=...)``. Close it, or use ``with``."""

    def __init__(self, backend: Backend, *, lost_workers: int, lost_after: float) -> None:
        check_limits(lost_workers, lost_after)
        self.backend = backend
        self.desk = Desk(self, backend.dumps, lost_workers=lost_workers, lost_after=lost_after)
        self.inputs = LargeInputs(backend, backend.dumps)
        self._dispatcher = DaemonThreadPool(most=1)
        self._lock = Lock()
        self._closed = False
        backend.open(self.desk)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse plain functions: this executor runs nodes."""
        raise NotImplementedError(
            "this executor runs the nodes of an Engine; for plain functions, use the cluster's own interface"
        )

    def start(self, session: Any, item: Item, times: QueueTimes) -> Future[Any]:
        """Run one attempt of an item in the cluster."""
        with self._lock:
            if self._closed:
                raise RuntimeError("this executor was shut down; create a new one")
            call = RemoteCall(self.desk, Attempt(session, item, times))
        if call.attempt.is_small:
            self._first(call)
        else:
            self._dispatcher.submit(self._first, call)
        return call

    def _first(self, call: RemoteCall) -> None:
        try:
            if not call.done():
                call.task = call.attempt.pack(
                    self.inputs, self.backend.dumps, is_cluster=self.backend.is_cluster
                )
                if call.done():  # cancelled in the meantime
                    self.finished(call)
                else:
                    self.dispatch(call)
        except BaseException as error:
            self.desk.finish(call, error)

    def dispatch(self, call: RemoteCall) -> None:
        """Submit a call to the cluster, again or for the first time."""
        assert call.task is not None
        token, (task, inputs) = call.grant.token, call.task
        handles = [self.inputs.handle(each) for each in inputs]
        call.handle = self.backend.submit(
            token, task, handles, call.attempt, partial(self._ended, call, token)
        )
        if call.is_stopped:
            self.stop_task(call, is_running=True)
        elif call.done():  # its body was faster than this thread; its worker is needed
            self.finished(call)

    def _ended(self, call: RemoteCall, token: str, how: TaskEnd, why: str) -> None:
        """Handle the report of the cluster that a task has ended."""
        if call.grant.token != token or call.grant.state == "over":
            return
        if how == "over":
            if call.grant.state == "queued":
                self.desk.lose(call, token, "the cluster ended its task before it began")
        elif how == "unreachable":
            self.desk.finish(call, DriverUnreachableError(f"{call.attempt.place}: {why}"))
        elif how == "broken":
            self.desk.finish(call, NodeError(f"{call.attempt.place} could not start in the cluster: {why}"))
        else:
            if how == "lost-input" and call.task is not None:
                for each in call.task[1]:
                    self.inputs.forget(each)
            self.desk.lose(call, token, why)

    def has_workers(self) -> bool:
        """Return whether the cluster has workers, as far as it says so."""
        try:
            return self.backend.has_workers()
        except Exception:  # the cluster is gone or this executor is being closed, which the calls report
            return True

    def stop_task(self, call: RemoteCall, *, is_running: bool) -> None:
        """End the task of a call that was cancelled."""
        handle, call.handle = call.handle, None
        if handle is not None:
            self.backend.cancel(handle, is_running=is_running)

    def finished(self, call: RemoteCall) -> None:
        """Release the inputs of a call."""
        with self._lock:
            task, call.task = call.task, None
            handle, call.handle = call.handle, None
        if handle is not None:
            self.backend.ended(handle)
        if task is not None:
            for each in task[1]:
                self.inputs.release(each)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; end after those that were accepted, or without waiting for them."""
        with self._lock:
            is_first, self._closed = not self._closed, True
        if cancel_futures:
            for call in self.desk.open_calls():
                if not call.running():
                    call.cancel()
        if wait:
            self.desk.wait()
        for call in self.desk.open_calls():
            call.cancel()
        if is_first:
            self.backend.close(wait=wait)
            self.desk.close()
            self._dispatcher.shutdown()
            self.inputs.clear()


def check_limits(lost_workers: Any, lost_after: Any) -> None:
    """Raise DefinitionError for invalid limits."""
    if not is_int(lost_workers, 0):
        raise DefinitionError(f"lost_workers must be an int >= 0, got {lost_workers!r}")
    if not (is_number(lost_after) and lost_after > 0):
        raise DefinitionError(f"lost_after must be a number of seconds > 0, got {lost_after!r}")
