"""Executors for ``Engine(executor=...)`` beside those of the standard library.

`Processes` runs sync nodes in processes, one call at a time in each. It differs from the standard library's pool in
what a timeout needs: cancelling a call that is running kills its process, and no other. In that pool the death of one
worker fails every call that is under way, so there a call that has timed out is only abandoned.

Rules:

- A call is pickled when it is submitted, so what cannot cross fails then, and there.
- A process is started when it is first needed, and again after it was killed or died. A process that dies takes
  with it the call that it was running, which fails with `NodeError`, and nothing else.
- Processes end with the executor, and with the process that made it, however that ends.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from os import cpu_count
from queue import SimpleQueue
from threading import Lock, Thread
from traceback import format_exception
from typing import Any, ParamSpec, TypeVar

from clew.error_text import add_note, line_of, safely
from clew.errors import DefinitionError, NodeError

__all__ = ["Processes", "processes"]

P = ParamSpec("P")
T = TypeVar("T")


def processes(workers: int | None = None, *, mp_context: BaseContext | None = None) -> Processes:
    """As many processes as there are cores, or `workers` of them, for sync nodes that can be killed."""
    return Processes(workers, mp_context=mp_context)


class Processes(Executor):
    """Processes that run one call each; cancelling a call that runs kills its process."""

    def __init__(self, workers: int | None = None, *, mp_context: BaseContext | None = None) -> None:
        count: Any = (cpu_count() or 1) if workers is None else workers
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise DefinitionError(f"workers is a whole number of at least 1, or None, not {workers!r}")
        # spawned: a forked process would hold the pipes of its sisters open, and copy threads half
        context = mp_context or get_context("spawn")
        self._work: SimpleQueue[tuple[_PoolCall, bytes] | None] = SimpleQueue()
        self._slots = [_Slot(self._work, context) for _ in range(count)]
        self._lock = Lock()
        self._started = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` in the next process that is free."""
        payload = pickle.dumps((fn, args, kwargs))
        call = _PoolCall()
        with self._lock:
            if self._closed:
                raise RuntimeError("these processes were shut down")
            if self._started < len(self._slots):
                self._slots[self._started].start()
                self._started += 1
            self._work.put((call, payload))
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; the processes end when those that were taken are done."""
        with self._lock:
            started, self._closed = self._slots[: self._started], True
        if cancel_futures:
            while not self._work.empty():
                if (work := self._work.get()) is not None:
                    work[0].cancel()
        for _ in started:
            self._work.put(None)
        if wait:
            for slot in started:
                slot.join()


class _PoolCall(Future[Any]):
    """A call, and the slot that runs it."""

    slot: _Slot | None = None

    def cancel(self) -> bool:
        """Take a waiting call back; end a running one with its process."""
        if super().cancel():
            return True
        if self.slot is not None:
            self.slot.kill(self)
        return False


class _Slot:
    """A thread of this process, and the process that it hands calls to."""

    def __init__(self, work: SimpleQueue[tuple[_PoolCall, bytes] | None], context: BaseContext) -> None:
        self._work = work
        self._context: Any = context  # a BaseContext, whose type lacks Process
        self._lock = Lock()
        self._current: _PoolCall | None = None
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._is_over = False  # the process was killed, or died
        self._thread = Thread(target=self._serve, name="clew-process", daemon=True)

    def start(self) -> None:
        if self._thread.ident is None:  # else an interrupt came when it had begun
            self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def kill(self, call: _PoolCall) -> None:
        """End the process, if it is this call that it runs."""
        with self._lock:
            if self._current is call and self._process is not None:
                self._process.kill()
                self._is_over = True

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            call, payload = work
            del work
            call.slot = self
            try:
                pipe = self._begin()
            except Exception as error:
                if call.set_running_or_notify_cancel():
                    call.set_exception(error)
                continue
            if call.set_running_or_notify_cancel():
                self._run(call, pipe, payload)
            del call, payload
        self._end()

    def _begin(self) -> Connection:
        """A process that is ready: the time that it takes to start is not the call's."""
        if self._process is not None and self._pipe is not None and self._process.is_alive():
            return self._pipe
        self._end()
        pipe: Connection
        pipe, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        self._process, self._pipe, self._is_over = process, pipe, False
        try:
            pipe.recv()
        except (EOFError, OSError):
            raise NodeError("its process did not start; what it said is on the standard error") from None
        return pipe

    def _run(self, call: _PoolCall, pipe: Connection, payload: bytes) -> None:
        with self._lock:
            self._current = call
        try:
            pipe.send_bytes(payload)
            is_value, answer = pipe.recv()
        except (EOFError, OSError):
            is_value, answer = (
                False,
                NodeError("its process was killed, or died; nothing of the call is left"),
            )
            self._is_over = True
        except Exception as error:  # what came back cannot be read
            is_value, answer = False, error
        with self._lock:
            self._current = None
        if self._is_over:
            self._end()
        if is_value:
            call.set_result(answer)
        else:
            call.set_exception(answer)

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()  # which the process takes for its end
        if self._process is not None:
            self._process.join()
        self._pipe = self._process = None


def _work(pipe: Connection) -> None:
    """What a process does: one call after another, until nobody holds the other end."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # an interrupt from the keyboard is for the process that asks
    pipe.send(None)
    while True:
        try:
            payload = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            fn, args, kwargs = pickle.loads(payload)
            answer: tuple[bool, Any] = (True, fn(*args, **kwargs))
        except BaseException as error:
            answer = (False, _told(error))
        try:
            pipe.send(answer)
        except OSError:
            return
        except Exception as error:
            pipe.send(
                (False, NodeError(f"what it returned or raised cannot leave its process: {line_of(error)}"))
            )


def _told(error: BaseException) -> BaseException:
    """The error with the traceback as text, which does not cross by itself."""
    add_note(error, safely(lambda: "".join(format_exception(error)).rstrip(), line_of(error)))
    return error
