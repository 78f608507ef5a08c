"""Streams: yield the events of a run while it executes; at the end, raise its error.

Leaving a stream early, for example with `break`, cancels its run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from clew.runtime.reporting.events import Event

if TYPE_CHECKING:
    import asyncio

_STARTED: Any = None  # the first value of a stream; `start` consumes it


Check = Callable[[Any], None]
"""Called with the result after the last event; raises the error of the run."""

Free = Callable[[BaseException], None]
"""Called if a stream is left before its run has ended, to release the run."""


def start(events: Generator[Event, None, None]) -> Generator[Event, None, None]:
    """Start a stream, so that its cleanup runs even if the caller never iterates over it."""
    next(events)
    return events


def from_driver(
    driving: Generator[None, None, Any], events: SimpleQueue[Event | None], free: Free, check: Check
) -> Generator[Event, None, None]:
    """Yield the events of a run that the caller's thread executes."""
    try:
        yield _STARTED
        while True:
            try:
                next(driving)
            except StopIteration as stop:
                result = stop.value
                break
            yield from _queued(events)
    except BaseException as error:
        driving.close()
        free(error)
        raise
    yield from _queued(events)
    check(result)


def _queued(events: SimpleQueue[Event | None]) -> Iterator[Event]:
    while not events.empty():
        event = events.get()
        assert event is not None
        yield event


def from_thread(
    run: Callable[[], Any],
    events: SimpleQueue[Event | None],
    cancel: Callable[[], Any],
    free: Free,
    check: Check,
) -> Generator[Event, None, None]:
    """Yield the events of a run with async nodes, whose event loop runs in a separate thread."""
    failures: list[BaseException] = []
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(run())
        except BaseException as error:
            failures.append(error)
        finally:
            events.put(None)

    thread = Thread(target=copy_context().run, args=(work,), name="clew-stream", daemon=True)
    try:
        yield _STARTED
        thread.start()
        while (event := events.get()) is not None:
            yield event
    except BaseException as error:
        if thread.is_alive():
            cancel()
            thread.join(5.0)
        if not thread.is_alive():
            free(error)
        raise
    if failures:
        raise failures[0]
    check(results[0])


async def from_task(
    run: Coroutine[Any, Any, Any],
    events: asyncio.Queue[Event | None],
    cancel: Callable[[], Any],
    check: Check,
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run that is a task on the caller's event loop."""
    import asyncio

    loop = asyncio.get_running_loop()

    async def drive() -> Any:
        try:
            return await run
        finally:
            loop.call_soon_threadsafe(events.put_nowait, None)

    task: asyncio.Task[Any] | None = None
    try:
        task = asyncio.ensure_future(drive())
        while (event := await events.get()) is not None:
            yield event
        result = await task
    finally:
        if task is not None and not task.done():
            cancel()
            task.cancel()
            await asyncio.wait([task])
        run.close()  # has an effect only if the task never started
    check(result)
