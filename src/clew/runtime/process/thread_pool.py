"""A thread pool for sync nodes that run concurrently or have their own timeout, and for work on a store.

It differs from `ThreadPoolExecutor` in three ways. Its threads are daemons, so a stuck node does not keep the process
alive. It starts a new thread if all others are busy, so a stuck node does not block others. It passes on the caller's
context variables. The number of threads can be limited, and idle threads can end after a time. A forked process starts
new threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from os import getpid
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

from clew.held_interrupts import HeldInterrupts
from clew.runtime.process.forks import end_child

P = ParamSpec("P")
T = TypeVar("T")

_numbers = itertools.count(1)


class DaemonThreadPool(Executor):
    """Daemon threads, created as needed, at most `most`. A thread ends after `idle` seconds without work."""

    def __init__(self, *, most: int | None = None, idle: float | None = None) -> None:
        self._most = most
        self._idle_timeout = idle
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        """Start without threads: a forked process has none of those of its parent."""
        self._process = getpid()
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = Lock()
        self._idle = 0  # waiting threads minus waiting calls
        self._alive = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` on an idle thread, or on a new one."""
        future: Future[T] = Future()
        self.fulfil(future, fn, *args, **kwargs)
        return future

    def fulfil(self, future: Future[T], fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """`submit` with a future of the caller, who then knows it even if an interrupt comes in between."""
        context = copy_context()
        if self._process != getpid():
            self._begin()
        with HeldInterrupts(), self._lock:
            if self._closed:
                raise RuntimeError("this thread pool was shut down")
            if self._idle <= 0 and (self._most is None or self._alive < self._most):
                Thread(target=self._serve, name=f"clew-{next(_numbers)}", daemon=True).start()
                self._alive += 1
            else:
                self._idle -= 1
            self._work.put((future, lambda: context.run(fn, *args, **kwargs)))

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=self._idle_timeout)
            except Empty:
                with self._lock:
                    if self._idle <= 0:  # a call has been assigned to this thread
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
            if self._process != getpid():
                end_child(future.exception())
            del future, call
            with self._lock:
                self._idle += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end when they are idle; do not wait for them."""
        if self._process != getpid():
            self._begin()
        with self._lock:
            self._closed = True
            for _ in range(self._alive):
                self._work.put(None)
