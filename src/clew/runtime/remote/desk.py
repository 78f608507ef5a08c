"""The desk: the driver's end of all links. It grants starts, serves frames, and notices lost workers.

Each link has a thread that receives frames. It handles quick ones itself: grants, events, ends. Requests may wait for
the store, for a child or for the worker itself, so each is served on a thread of a pool. `rejected` counts the frames
that arrived too late.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from threading import Condition, Event, RLock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from clew.errors import RunCancelledError, WorkerLostError
from clew.held_interrupts import start_thread
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.runtime.remote.attempts import Attempt, BodyLostError, Making
from clew.runtime.remote.frames import (
    Begin,
    BodyEvent,
    BodyRequest,
    Cancel,
    DriverReply,
    End,
    Grant,
    Made,
    Ping,
    Ready,
)
from clew.runtime.remote.grants import GrantedCall, Grants
from clew.runtime.remote.inputs import LargeInput
from clew.runtime.remote.links import LinkClosedError, WorkerLink
from clew.runtime.remote.pickling import Dumps, loads, pack_raised, unpack_raised

if TYPE_CHECKING:
    from clew.runtime.remote.executor import RemoteExecutor


class RemoteCall(Future[Any]):
    """The future of one attempt in the cluster."""

    def __init__(self, desk: Desk, attempt: Attempt) -> None:
        super().__init__()
        self.attempt = attempt
        self.grant: GrantedCall[WorkerLink] = desk.submit(self)
        self.task: tuple[bytes, list[LargeInput]] | None = None
        self.handle: Any = None  # of the task in the cluster
        self.makings: dict[int, Making] = {}  # recorded calls that the worker makes, by request
        self.serving = 0  # requests of the body that are being served
        self.is_lost = False  # to be submitted again when none is
        self.is_stopped = False  # cancelled: its task in the cluster is to be ended
        self._desk = desk

    def cancel(self) -> bool:
        """Cancel a waiting call, or end the body of a running one."""
        if not self._desk.close_call(self):
            return False
        was_waiting = super().cancel()
        if was_waiting:
            self.set_running_or_notify_cancel()
        self._desk.stop(self, is_running=not was_waiting)
        if not was_waiting:
            self.set_exception(RunCancelledError(f"{self.attempt.place} was cancelled"))
        return was_waiting


class Desk:
    """Serves the workers of one executor."""

    def __init__(
        self, executor: RemoteExecutor, dumps: Dumps, *, lost_workers: int, lost_after: float
    ) -> None:
        self._executor = executor
        self._dumps = dumps
        self._lost_after = lost_after
        self._lock = RLock()
        prefix, numbers = secrets.token_hex(8), count(1)
        self._grants: Grants[WorkerLink] = Grants(lambda: f"{prefix}-{next(numbers)}", lost_workers)
        self._calls: dict[int, RemoteCall] = {}  # by identity of the grant
        self._links: set[WorkerLink] = set()
        self._idle = Condition(self._lock)
        self._threads = DaemonThreadPool(idle=10.0)
        self._stopped = Event()
        self.rejected = 0
        self.on_ready: Callable[[WorkerLink], None] | None = None
        self.on_gone: Callable[[WorkerLink], None] | None = None

    # -- calls -------------------------------------------------------------------------------------------

    def submit(self, call: RemoteCall) -> GrantedCall[WorkerLink]:
        """Take a new call."""
        with self._lock:
            grant = self._grants.submit()
            self._calls[id(grant)] = call
            return grant

    def close_call(self, call: RemoteCall) -> bool:
        """End a call, so that no frame of it counts any more; return False if it was over."""
        with self._lock:
            link, token = call.grant.link, call.grant.token
            if not self._grants.end(call.grant):
                return False
            del self._calls[id(call.grant)]
            makings = list(call.makings.values())
            self._idle.notify_all()
        for making in makings:
            making.made.put(None)
        if link is not None:
            self._send(link, Cancel(token))
        return True

    def stop(self, call: RemoteCall, *, is_running: bool) -> None:
        """Release a cancelled call."""
        call.is_stopped = True
        call.attempt.ended()
        self._executor.stop_task(call, is_running=is_running)
        self._executor.finished(call)

    def finish(self, call: RemoteCall, error: BaseException | None, value: Any = None) -> None:
        """End a call with its result."""
        with self._lock:
            if not self._grants.end(call.grant):
                return
            del self._calls[id(call.grant)]
            makings = list(call.makings.values())
            self._idle.notify_all()
        for making in makings:
            making.made.put(None)
        call.attempt.ended()
        self._executor.finished(call)
        if not call.running() and not call.set_running_or_notify_cancel():
            return
        if error is None:
            call.set_result(value)
        else:
            call.set_exception(error)

    def lose(self, call: RemoteCall, token: str, why: str) -> None:
        """Handle the loss of a task: submit its call again when nothing is served for it any more."""
        with self._lock:
            found = self._grants.lose(call.grant, token)
            if found == "ignored":
                return
            makings = list(call.makings.values())
            call.is_lost = found == "again"
            if found == "failed":
                del self._calls[id(call.grant)]
                self._idle.notify_all()
        for making in makings:
            making.made.put(None)
        if found == "failed":
            call.attempt.ended()
            self._executor.finished(call)
            if call.running() or call.set_running_or_notify_cancel():
                call.set_exception(
                    WorkerLostError(
                        f"{call.attempt.place} has lost {call.grant.losses} workers, the last one because {why}; "
                        f"look at the logs of the cluster, for example for a lack of memory, or allow more with "
                        f"lost_workers="
                    )
                )
        else:
            self._resubmit(call)

    def _resubmit(self, call: RemoteCall) -> None:
        with self._lock:
            if not call.is_lost or call.serving:
                return
            call.is_lost = False
        self._threads.submit(self._again, call)

    def _again(self, call: RemoteCall) -> None:
        try:
            call.attempt.lost()
            self._executor.dispatch(call)
        except BaseException as error:
            self.finish(call, error)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no call is open."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._calls, timeout)

    def open_calls(self) -> list[RemoteCall]:
        """Return the calls that have not ended."""
        with self._lock:
            return list(self._calls.values())

    # -- links -------------------------------------------------------------------------------------------

    def add(self, link: WorkerLink) -> None:
        """Receive frames from a link, on a thread."""
        start_thread(Thread(target=self.serve, args=(link,), name="clew-desk", daemon=True))

    def watch(self) -> None:
        """Close links that are silent for too long, on a thread."""
        start_thread(Thread(target=self._watch, name="clew-desk-watch", daemon=True))

    def _watch(self) -> None:
        while not self._stopped.wait(min(1.0, self._lost_after / 5)):
            with self._lock:
                links = list(self._links)
            for link in links:
                if monotonic() - link.heard > self._lost_after:
                    link.close()

    def serve(self, link: WorkerLink) -> None:
        """Receive frames from a link until it is closed."""
        with self._lock:
            self._links.add(link)
            is_closed = self._stopped.is_set()
        try:
            while not is_closed:
                frame, data = link.receive()
                handle: Any = _HANDLERS[type(frame)]
                handle(self, link, frame, data)
                del frame, data
        except LinkClosedError:
            pass
        finally:
            try:
                self._lose_held(link)
            finally:
                if self.on_gone is not None:
                    self.on_gone(link)

    def _lose_held(self, link: WorkerLink) -> None:
        link.release()
        with self._lock:
            self._links.discard(link)
            held = [
                (self._calls[id(grant)], grant.token)
                for grant in self._grants.held_by(link)
                if id(grant) in self._calls
            ]
        for call, token in held:
            self.lose(call, token, "its worker is gone")

    def close(self) -> None:
        """Close all links."""
        self._stopped.set()
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()
        self._threads.shutdown()

    def _send(self, link: WorkerLink, frame: Any, data: bytes = b"") -> None:
        try:
            link.send(frame, data)
        except LinkClosedError:
            pass  # the thread that receives notices it too

    # -- frames ------------------------------------------------------------------------------------------

    def _accepted(self, link: WorkerLink, token: str, n: int | None = None) -> RemoteCall | None:
        """Return the call of a frame; reject the frame if it does not count."""
        with self._lock:
            grant = self._grants.accept(token, link)
            if grant is not None:
                return self._calls[id(grant)]
            self.rejected += 1
        if n is not None:
            self._send(link, DriverReply(n, "over"))
        return None

    def _begin(self, link: WorkerLink, frame: Begin, data: bytes) -> None:
        with self._lock:
            grant = self._grants.begin(frame.token, link)
            if grant is None:
                self.rejected += 1
            call = None if grant is None else self._calls[id(grant)]
        if call is None:
            self._send(link, DriverReply(frame.n, "over"))
        elif call.attempt.has_effects:
            self._threads.submit(self._grant, call, link, frame)  # it waits for the store
        else:
            self._grant(call, link, frame)

    def _grant(self, call: RemoteCall, link: WorkerLink, frame: Begin) -> None:
        try:
            given = call.attempt.before_start()
            if not given:
                if not call.running():
                    call.set_running_or_notify_cancel()
                answers = call.attempt.started(self._dumps)
        except BaseException as error:
            self.finish(call, error)
            self._send(link, DriverReply(frame.n, "over"))
            return
        if given:
            self.finish(call, None, given[0])
            self._send(link, DriverReply(frame.n, "over"))
        else:
            self._send(link, Grant(frame.n), answers)

    def _request(self, link: WorkerLink, frame: BodyRequest, data: bytes) -> None:
        call = self._accepted(link, frame.token, frame.n)
        if call is None:
            return
        attempt = call.attempt
        making = Making(
            lambda: self._send(link, DriverReply(frame.n, "make"), attempt.around_call()),
            attempt.take_reports,
        )
        with self._lock:
            call.serving += 1
            call.makings[frame.n] = making
            if self._grants.accept(frame.token, link) is None:
                making.made.put(None)
        self._threads.submit(self._serve, call, link, frame, data, making)

    def _serve(
        self, call: RemoteCall, link: WorkerLink, frame: BodyRequest, data: bytes, making: Making
    ) -> None:
        try:
            try:
                how, answer, awaited = call.attempt.serve(frame.method, loads(data), making, self._dumps)
            except BodyLostError:
                return
            except BaseException as error:  # it could not be read, or its answer not be pickled
                (how, answer), awaited = pack_raised(error, self._dumps), False
            self._send(link, DriverReply(frame.n, how, awaited), answer)
        finally:
            with self._lock:
                call.serving -= 1
                call.makings.pop(frame.n, None)
            self._resubmit(call)

    def _made(self, link: WorkerLink, frame: Made, data: bytes) -> None:
        call = self._accepted(link, frame.token, frame.n)
        making = None if call is None else call.makings.get(frame.n)
        if making is not None:
            making.made.put((frame, data))

    def _event(self, link: WorkerLink, frame: BodyEvent, data: bytes) -> None:
        call = self._accepted(link, frame.token)
        if call is not None:
            try:
                call.attempt.event(frame.kind, loads(data))
            except Exception as error:
                self.finish(call, error)

    def _end(self, link: WorkerLink, frame: End, data: bytes) -> None:
        call = self._accepted(link, frame.token)
        if call is None:
            return
        try:
            call.attempt.take_reports(frame.reports, of_node=True)
            value, error = (
                (loads(data), None) if frame.how == "value" else (None, unpack_raised(frame.how, data))
            )
        except BaseException as unreadable:
            value, error = None, unreadable
        self.finish(call, error, value)

    def _ready(self, link: WorkerLink, frame: Ready, data: bytes) -> None:
        if self.on_ready is not None:
            self.on_ready(link)


_HANDLERS: dict[type, Any] = {
    Begin: Desk._begin,
    BodyRequest: Desk._request,
    Made: Desk._made,
    BodyEvent: Desk._event,
    End: Desk._end,
    Ping: lambda desk, link, frame, data: desk._send(link, frame),
    Ready: Desk._ready,
}
