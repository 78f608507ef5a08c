"""Executors for ``Engine(executor=...)``, in addition to those of the standard library.

`Processes` runs sync nodes in worker processes, one call at a time in each. Cancelling a running call kills its process
and no other, which is what a timeout needs. In a `ProcessPoolExecutor` the death of one worker fails all running calls,
so there a call that timed out is only abandoned.

Rules:

- A call is pickled when it is submitted, so a value that cannot be pickled fails there.
- A process starts when it is first needed, and again after it was killed or died. If a process dies, the call that it
  was running fails with `NodeError`; other calls are not affected.
- Processes end with the executor, and with the process that created it, even if that one is killed.
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
    """Return an executor with `workers` processes, by default one for each core."""
    return Processes(workers, mp_context=mp_context)


class Processes(Executor):
    """Worker processes with one call each; cancelling a running call kills its process."""

    def __init__(self, workers: int | None = None, *, mp_context: BaseContext | None = None) -> None:
        count: Any = (cpu_count() or 1) if workers is None else workers
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise DefinitionError(f"workers must be an int >= 1 or None, got {workers!r}")
        # spawn: a forked process would keep the pipes of other workers open and inherit locks of threads that it lacks
        context = mp_context or get_context("spawn")
        self._work: SimpleQueue[tuple[_PoolCall, bytes] | None] = SimpleQueue()
        self._slots = [_Slot(self._work, context) for _ in range(count)]
        self._lock = Lock()
        self._started = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` in the next free process."""
        payload = pickle.dumps((fn, args, kwargs))
        call = _PoolCall()
        with self._lock:
            if self._closed:
                raise RuntimeError("this executor was shut down; create a new one")
            if self._started < len(self._slots):
                self._slots[self._started].start()
                self._started += 1
            self._work.put((call, payload))
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; the processes end after the calls that were accepted."""
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
    """The future of a call, and the slot that runs it."""

    slot: _Slot | None = None

    def cancel(self) -> bool:
        """Cancel a waiting call, or kill the process of a running one."""
        if super().cancel():
            return True
        if self.slot is not None:
            self.slot.kill(self)
        return False


class _Slot:
    """A thread, and the worker process to which it sends calls."""

    def __init__(self, work: SimpleQueue[tuple[_PoolCall, bytes] | None], context: BaseContext) -> None:
        self._work = work
        self._context: Any = context  # the type BaseContext lacks Process
        self._lock = Lock()
        self._current: _PoolCall | None = None
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._is_dead = False  # the process was killed, or died
        self._thread = Thread(target=self._serve, name="clew-process", daemon=True)

    def start(self) -> None:
        if self._thread.ident is None:  # an interrupt may come just after the thread started
            self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def kill(self, call: _PoolCall) -> None:
        """Kill the process if it is running this call."""
        with self._lock:
            if self._current is call and self._process is not None:
                self._process.kill()
                self._is_dead = True

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
        """Return the pipe of a process that is ready; its start does not count as time of the call."""
        if self._process is not None and self._pipe is not None and self._process.is_alive():
            return self._pipe
        self._end()
        pipe: Connection
        pipe, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        self._process, self._pipe, self._is_dead = process, pipe, False
        try:
            pipe.recv()
        except (EOFError, OSError):
            raise NodeError("the worker process did not start; its error is on standard error") from None
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
                NodeError("the worker process was killed or died; the result of the call is lost"),
            )
            self._is_dead = True
        except Exception as error:  # the answer cannot be unpickled
            is_value, answer = False, error
        with self._lock:
            self._current = None
        if self._is_dead:
            self._end()
        if is_value:
            call.set_result(answer)
        else:
            call.set_exception(answer)

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()  # the process ends when its pipe is closed
        if self._process is not None:
            self._process.join()
        self._pipe = self._process = None


def _work(pipe: Connection) -> None:
    """Run calls in a worker process until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
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
            answer = (False, _with_traceback(error))
        try:
            pipe.send(answer)
        except OSError:
            return
        except Exception as error:
            pipe.send((False, NodeError(f"the result or the exception cannot be pickled: {line_of(error)}")))


def _with_traceback(error: BaseException) -> BaseException:
    """Add the traceback as a note, because pickle drops it."""
    add_note(error, safely(lambda: "".join(format_exception(error)).rstrip(), line_of(error)))
    return error
