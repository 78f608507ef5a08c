"""Use a store from an event loop without blocking the loop.

A store may have to wait, for example for a server or for another process that has locked a SQLite file. If the store
can report that it would wait (`at_once`), work is first tried on the loop. Otherwise it runs on one of the engine's
threads. Concurrent runs commit in parallel if the store allows it. The writes of one run stay in order, because its
writer queues them.

A cancelled caller must know the result of the work, because it releases what was acquired. So `open`, `finish` and
`conclude` wait for the thread even if their task is cancelled, and raise the cancellation afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from clew.runtime.drivers.hold import Work
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.stores import WouldWait

if TYPE_CHECKING:
    from clew.runtime.drivers.session import Session

T = TypeVar("T")

_MAX_THREADS = 16
_IDLE_SECONDS = 5.0


class OffLoop:
    """The threads on which an engine waits for its store. `is_quick`: the store supports `at_once`."""

    def __init__(self, *, is_quick: bool) -> None:
        self._is_quick = is_quick
        self._threads = _new_threads()

    def submit(self, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Start work on a thread."""
        return asyncio.wrap_future(self._threads.submit(work, *args))

    async def finish(self, work: Callable[..., T], *args: Any) -> T:
        """Do work on a thread; raise a cancellation only after the work has ended."""
        future, cancelled = await self._ended(work, *args)
        if cancelled is not None:
            future.exception()  # mark it as retrieved
            raise cancelled
        return future.result()

    async def _ended(
        self, work: Callable[..., T], *args: Any
    ) -> tuple[Future[T], asyncio.CancelledError | None]:
        """Do work on a thread; return its future, and the cancellation that came in the meantime."""
        future: Future[T] = Future()
        try:
            self._threads.fulfil(future, work, *args)
            return future, await _end_of(future)
        except BaseException as error:  # an interrupt: cancel the work, or wait until it ends
            if not future.cancel() and not future.done():
                if isinstance(error, GeneratorExit):
                    future.exception()
                else:
                    await _end_of(future)
            raise

    async def open(self, work: Callable[..., T]) -> T:
        """Do work on the loop if it does not have to wait, else as `finish` does."""
        if self._is_quick:
            try:
                return work(at_once=True)
            except WouldWait:
                pass
        return await self.finish(work)

    async def conclude(self, works: Generator[Work, Any, T]) -> T:
        """Call the functions that a generator yields; raise a cancellation only after the last one."""
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
        """Let the threads end when they are idle. A run that is cancelled later gets a new one, to end on it."""
        threads, self._threads = self._threads, _new_threads()
        threads.shutdown()


def _new_threads() -> DaemonThreadPool:
    return DaemonThreadPool(most=_MAX_THREADS, idle=_IDLE_SECONDS)


async def _end_of(work: Future[Any]) -> asyncio.CancelledError | None:
    """Wait for work even if the task is cancelled; return that cancellation."""
    loop, cancelled = asyncio.get_running_loop(), None
    ended: asyncio.Future[None] = loop.create_future()

    def notify(_: Future[Any]) -> None:
        try:
            loop.call_soon_threadsafe(ended.set_result, None)
        except RuntimeError:  # the loop is closed
            pass

    work.add_done_callback(notify)
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def before_call(session: Session) -> None:
    """`Session.before_call` that does not block the event loop."""
    if session.off_loop is not None and (session.is_overdue or not session.writer.is_settled):
        await session.off_loop.submit(session.before_call)
    else:
        session.before_call()


async def settle(session: Session) -> None:
    """Return when the records of a session are as durable as configured and their events are sent."""
    writer = session.writer
    if session.off_loop is None:
        writer.ensure()
    elif writer.is_behind:
        mark = writer.mark()
        while not writer.is_past(mark):
            await _catch_up(session, session.off_loop)
    session.send_events()


async def _catch_up(session: Session, off_loop: OffLoop) -> None:
    """Wait for the thread that writes queued records; a session has at most one such thread."""
    job = session.catching_up
    if job is None or job.done():
        job = session.catching_up = off_loop.submit(session.writer.catch_up)
        job.add_done_callback(_retrieve)  # its waiters may be cancelled by then
    await asyncio.wait([job])
    job.result()


def _retrieve(job: asyncio.Future[None]) -> None:
    if not job.cancelled():
        job.exception()
