"""Threads for sync nodes that run beside others, or that have a timeout of their own.

An executor like the standard library's, with two differences that a workflow needs. Its threads are daemons, so a
node that is stuck cannot keep the process from ending. And a thread whose item timed out is given up: it does not
count as a worker any more, so a stuck node cannot starve the others. The caller's context variables are passed on.

There may be a bound to how many there are; what comes then waits. They may also end after a time without work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_numbers = itertools.count(1)


class DaemonThreadPool(Executor):
    """As many daemon threads as are needed at once; they end when `shutdown` is called.

    With `most`, no more than so many. With `idle`, one that had nothing to do for so many seconds ends before.
    """

    def __init__(self, *, most: int | None = None, idle: float | None = None) -> None:
        self._most = most
        self._patience = idle
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = Lock()
        self._idle = 0  # threads that wait for work, less what waits for a thread
        self._alive = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` on an idle thread, or on a new one."""
        future: Future[T] = Future()
        self.fulfil(future, fn, *args, **kwargs)
        return future

    def fulfil(self, future: Future[T], fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """`submit`, for who has to know the future even if an interrupt comes in between."""
        context = copy_context()
        with self._lock:
            if self._closed:
                raise RuntimeError("these threads were shut down")
            if self._idle <= 0 and (self._most is None or self._alive < self._most):
                Thread(target=self._serve, name=f"clew-{next(_numbers)}", daemon=True).start()
                self._alive += 1
            else:
                self._idle -= 1
            self._work.put((future, lambda: context.run(fn, *args, **kwargs)))

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=self._patience)
            except Empty:
                with self._lock:
                    if self._idle <= 0:  # something is on its way
                        continue
                    self._idle -= 1
                    self._alive -= 1
                    return
            if work is None:
                return
            future, call = work
            del work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del future, call
            with self._lock:
                self._idle += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end when they are idle; never waits for one that is stuck."""
        with self._lock:
            self._closed = True
            for _ in range(self._alive):
                self._work.put(None)
