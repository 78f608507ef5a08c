"""Waiting for a store without waiting on the event loop.

A store may have to wait: for another process that has a SQLite file locked, for a server. Nothing that a loop runs may
do so. Work that might wait is tried at once where the store can say that it would have to wait (`at_once`). Otherwise
it is done on a thread, of which an engine has a few: runs beside each other commit in parallel as far as their store
allows it, and what one run writes stays in order, because its writer queues it.

An interrupted caller must know what became of the work, because it releases what was acquired. So `open`, `finish` and
`conclude` wait for the thread even if their task is cancelled meanwhile, and raise the cancellation afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from clew.runtime.drivers.hold import Work
from clew.runtime.drivers.thread_pool import DaemonThreadPool
from clew.stores import WouldWait

if TYPE_CHECKING:
    from clew.runtime.drivers.session import Session

T = TypeVar("T")

_MOST = 16  # threads of an engine
_IDLE = 5.0  # seconds after which an idle one ends


class OffLoop:
    """The threads on which an engine waits for its store. With `is_quick`, the store can say that it would wait."""

    def __init__(self, *, is_quick: bool) -> None:
        self._is_quick = is_quick
        self._threads = DaemonThreadPool(most=_MOST, idle=_IDLE)

    def submit(self, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Begin some work on a thread."""
        return asyncio.wrap_future(self._threads.submit(work, *args))

    async def finish(self, work: Callable[..., T], *args: Any) -> T:
        """Do some work on a thread, to its end; a cancellation meanwhile is raised after it."""
        future, cancelled = await self._ended(work, *args)
        if cancelled is not None:
            future.exception()  # nobody else asks for it
            raise cancelled
        return future.result()

    async def _ended(
        self, work: Callable[..., T], *args: Any
    ) -> tuple[Future[T], asyncio.CancelledError | None]:
        """Some work that was done on a thread, and the cancellation that came meanwhile."""
        future: Future[T] = Future()
        try:
            self._threads.fulfil(future, work, *args)
            return future, await _end_of(future)
        except BaseException as error:  # an interrupt: the work has not begun, or has to end first
            if not future.cancel() and not future.done():
                if isinstance(error, GeneratorExit):
                    future.exception()
                else:
                    await _end_of(future)
            raise

    async def open(self, work: Callable[..., T]) -> T:
        """Do some work at once if that is possible, else on a thread, to its end."""
        if self._is_quick:
            try:
                return work(at_once=True)
            except WouldWait:
                pass
        return await self.finish(work)

    async def conclude(self, works: Generator[Work, Any, T]) -> T:
        """Do one work after the other, to the end of all; a cancellation meanwhile is raised after them."""
        cancelled: list[BaseException] = []
        try:
            work = next(works)
            while True:
                try:
                    answer = await self._done(work, cancelled)
                except BaseException as error:
                    work = works.throw(error)
                else:
                    work = works.send(answer)
        except StopIteration as stop:
            if cancelled:
                raise cancelled[0] from None
            result: T = stop.value
            return result

    async def _done(self, work: Work, cancelled: list[BaseException]) -> Any:
        if self._is_quick:
            try:
                return work(at_once=True)
            except WouldWait:
                pass
        future, cancellation = await self._ended(work)
        if cancellation is not None:
            cancelled.append(cancellation)
        return future.result()

    def close(self) -> None:
        """End the threads when they are idle."""
        self._threads.shutdown()


async def _end_of(work: Future[Any]) -> asyncio.CancelledError | None:
    """Wait for some work, whatever happens to the task; the cancellation that came meanwhile."""
    loop, cancelled = asyncio.get_running_loop(), None
    ended: asyncio.Future[None] = loop.create_future()

    def tell(_: Future[Any]) -> None:
        try:
            loop.call_soon_threadsafe(ended.set_result, None)
        except RuntimeError:  # the loop is closed: nobody waits
            pass

    work.add_done_callback(tell)
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def before_call(session: Session) -> None:
    """`Session.before_call`, without waiting on the loop."""
    if session.off_loop is not None and (session.is_overdue or not session.writer.is_settled):
        await session.off_loop.submit(session.before_call)
    else:
        session.before_call()


async def settle(session: Session) -> None:
    """Return when all that a session has written so far is as durable as was asked for, and listeners know of it."""
    writer = session.writer
    if session.off_loop is None:
        writer.ensure()
    elif writer.is_behind:
        mark = writer.mark()
        while not writer.is_past(mark):
            await _catch_up(session, session.off_loop)
    session.tell_rest()


async def _catch_up(session: Session, off_loop: OffLoop) -> None:
    """Wait for the thread that writes what waits; a session has one at a time, whoever waits for it."""
    job = session.catching_up
    if job is None or job.done():
        job = session.catching_up = off_loop.submit(session.writer.catch_up)
        job.add_done_callback(_noted)  # whoever waited for it may be cancelled by then
    await asyncio.wait([job])
    job.result()


def _noted(job: asyncio.Future[None]) -> None:
    if not job.cancelled():
        job.exception()
