"""Run a coroutine to its end from sync code, also if the caller's thread already runs an event loop.

A running loop cannot run another coroutine to its end. So if one is running (in a notebook or a debug console), the
coroutine runs on a helper thread, with a separate loop and a copy of the caller's context. The caller blocks, as in any
sync function. Clients that are bound to the outer loop do not work there; code that uses them awaits the async methods.

An interrupt of the caller cancels the coroutine and waits for its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from threading import Thread
from typing import Any, Generic, TypeVar

from clew.held_interrupts import start_thread

T = TypeVar("T")


def run_coroutine(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of the coroutine that `start` makes."""
    if asyncio._get_running_loop() is not None:
        return _OwnLoop(start).result()
    began: list[None] = []
    try:
        values, error = asyncio.run(_caught(start, began))
    except asyncio.CancelledError:
        if began:
            raise
        raise KeyboardInterrupt from None  # asyncio.run forgets one that comes before its task begins
    if error is not None:
        try:
            raise error
        finally:
            del error  # it refers to this frame
    return values[0]


async def _caught(
    start: Callable[[], Coroutine[Any, Any, T]], began: list[None]
) -> tuple[list[T], BaseException | None]:
    """Return a value or an exception. asyncio.run prints its task, and a class may have a ``__repr__`` that raises."""
    began.append(None)
    try:
        return [await start()], None
    except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return [], error


class _OwnLoop(Generic[T]):
    """A coroutine on a thread with a separate loop."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._start = start
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._value: list[T] = []
        self._error: BaseException | None = None

    def result(self) -> T:
        # daemon: a node that never returns does not keep the process
        thread = Thread(target=copy_context().run, args=(self._run,), name="clew-loop", daemon=True)
        try:
            start_thread(thread)
            thread.join()
        except BaseException:
            self._cancel()
            if thread.is_alive():
                thread.join()
            raise
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _run(self) -> None:
        try:
            self._value.append(asyncio.run(self._main()))
        except BaseException as error:
            self._error = error

    async def _main(self) -> T:
        self._task = asyncio.current_task()
        if self._cancelled:
            raise asyncio.CancelledError
        return await self._start()

    def _cancel(self) -> None:
        self._cancelled = True
        task = self._task
        if task is not None:
            try:
                task.get_loop().call_soon_threadsafe(task.cancel)
            except RuntimeError:  # the loop has just closed
                pass
