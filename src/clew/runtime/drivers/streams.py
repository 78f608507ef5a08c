"""Streams: events handed out while a run goes on, wherever it is driven.

A stream that is left early (a `break` in the caller's loop) cancels its run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from clew.runtime.events import Event

if TYPE_CHECKING:
    import asyncio

_BEGINNING: Any = None  # what `begun` takes


Free = Callable[[BaseException], None]
"""Called if a stream is left before its run has ended: whatever was opened for it is released."""


def begun(events: Generator[Event, None, None]) -> Generator[Event, None, None]:
    """A stream that stands at its beginning. Who drops it there leaves it, as one does anywhere else in it."""
    next(events)
    return events


def from_driver(
    driving: Generator[None, None, None], told: SimpleQueue[Event | None], free: Free
) -> Generator[Event, None, None]:
    """Events of a run that the caller's own thread drives, a little at a time."""
    try:
        yield _BEGINNING
        for _ in driving:
            yield from _so_far(told)
    except BaseException as error:
        driving.close()
        free(error)
        raise
    yield from _so_far(told)


def _so_far(told: SimpleQueue[Event | None]) -> Iterator[Event]:
    while not told.empty():
        event = told.get()
        assert event is not None
        yield event


def from_thread(
    run: Callable[[], Any], told: SimpleQueue[Event | None], cancel: Callable[[], Any], free: Free
) -> Generator[Event, None, None]:
    """Events of a run with async nodes, whose loop runs in a thread of its own."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)
        finally:
            told.put(None)

    thread = Thread(target=work, name="clew-stream", daemon=True)
    try:
        yield _BEGINNING
        thread.start()
        while (event := told.get()) is not None:
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


async def from_task(
    run: Coroutine[Any, Any, Any], told: asyncio.Queue[Event | None], cancel: Callable[[], Any]
) -> AsyncGenerator[Event, None]:
    """Events of a run that is a task of the caller's loop."""
    import asyncio

    loop = asyncio.get_running_loop()

    async def drive() -> None:
        try:
            await run
        finally:
            loop.call_soon_threadsafe(told.put_nowait, None)

    task: asyncio.Task[None] | None = None
    try:
        task = asyncio.ensure_future(drive())
        while (event := await told.get()) is not None:
            yield event
        await task
    finally:
        if task is not None and not task.done():
            cancel()
            task.cancel()
            await asyncio.wait([task])
        run.close()  # nothing, unless it never began
