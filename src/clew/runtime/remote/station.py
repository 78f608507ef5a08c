"""A worker process's end of its link to a driver: it sends frames, and passes each answer to the waiting thread."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from threading import Event, Lock, Thread, get_ident
from time import monotonic
from typing import Any

from clew.runtime.calls.scopes import Leaving
from clew.runtime.remote.frames import (
    Begin,
    BodyRequest,
    Cancel,
    DriverReply,
    Frame,
    Grant,
    Made,
    Method,
    Ping,
    Task,
)
from clew.runtime.remote.links import LinkClosedError, WorkerLink

Answer = tuple[Any, bytes]
OVER = DriverReply(0, "over")


class Station:
    """The frames of all bodies of one driver in this process."""

    def __init__(
        self,
        link: WorkerLink,
        on_task: Callable[[str, bytes], None] | None = None,
        on_end: Callable[[], None] | None = None,
        *,
        lost_after: float | None = None,
    ) -> None:
        self._link = link
        self._on_task = on_task
        self._on_end = on_end
        self._numbers = count(1)
        self._lock = Lock()
        self._waiting: dict[int, tuple[str, Future[Answer]]] = {}
        self._running: dict[str, tuple[Any, int]] = {}  # token -> host, and the thread of a sync node
        self._stopped = Event()
        Thread(target=self._receive, name="clew-link", daemon=True).start()
        if lost_after is not None:
            Thread(target=self._ping, args=(lost_after,), name="clew-ping", daemon=True).start()

    @property
    def is_closed(self) -> bool:
        """Whether the driver is gone."""
        return self._link.is_closed

    def close(self) -> None:
        """Close the link."""
        self._link.close()

    def send(self, frame: Frame, data: bytes = b"") -> None:
        """Send a frame that needs no answer. If the driver is gone, the next request of the body ends it."""
        try:
            self._link.send(frame, data)
        except LinkClosedError:
            pass

    def begin(self, token: str) -> Answer:
        """Ask for the start of a body; wait for the answer."""
        n = next(self._numbers)
        return self._sent(Begin(token, n), b"", token, n).result()

    def request(self, token: str, method: Method, data: bytes) -> Future[Answer]:
        """Send a request of a body."""
        n = next(self._numbers)
        return self._sent(BodyRequest(token, n, method), data, token, n)

    def send_made(self, frame: Made, data: bytes) -> Future[Answer]:
        """Send the result of a recorded call."""
        return self._sent(frame, data, frame.token, frame.n)

    def _sent(self, frame: Frame, data: bytes, token: str, n: int) -> Future[Answer]:
        future: Future[Answer] = Future()
        with self._lock:
            if self._link.is_closed:
                future.set_result((OVER, b""))
                return future
            self._waiting[n] = token, future
        try:
            self._link.send(frame, data)
        except LinkClosedError:
            self._answer(n, OVER, b"")
        return future

    def _answer(self, n: int, frame: Any, data: bytes) -> None:
        with self._lock:
            _, future = self._waiting.pop(n, ("", None))
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result((frame, data))

    # -- bodies ------------------------------------------------------------------------------------------

    def enter(self, token: str, host: Any) -> None:
        """Note that a body runs in this thread."""
        with self._lock:
            self._running[token] = host, 0 if host.is_async else get_ident()

    def leave(self, token: str) -> None:
        """Note that a body has ended; drop an exception that was on its way to it."""
        with self._lock:
            _, thread = self._running.pop(token, (None, 0))
        if thread:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)

    def _cancel(self, token: str) -> None:
        with self._lock:
            host, thread = self._running.get(token, (None, 0))
            waiting = [n for n, (each, _) in self._waiting.items() if each == token]
            if host is not None:
                host.cancel()
                if thread and not waiting:  # one that waits is woken by its answer
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread), ctypes.py_object(Leaving)
                    )
        for n in waiting:
            self._answer(n, OVER, b"")

    # -- the link ----------------------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            while True:
                frame, data = self._link.receive()
                if isinstance(frame, (Grant, DriverReply)):
                    self._answer(frame.n, frame, data)
                elif isinstance(frame, Cancel):
                    self._cancel(frame.token)
                elif isinstance(frame, Task) and self._on_task is not None:
                    self._on_task(frame.token, data)
                del frame, data
        except LinkClosedError:
            pass
        finally:
            self._link.release()
            self._stopped.set()
            with self._lock:
                waiting = list(self._waiting)
                for host, _ in self._running.values():
                    host.cancelled = True
            for n in waiting:
                self._answer(n, OVER, b"")
            if self._on_end is not None:
                self._on_end()

    def _ping(self, lost_after: float) -> None:
        """Tell the driver that this process is alive; close the link if nothing comes back."""
        while not self._stopped.wait(lost_after / 5):
            if monotonic() - self._link.heard > lost_after:
                self._link.close()
            else:
                self.send(Ping())
