"""The asyncio driver: execute a session on the caller's event loop.

If only one item can run, it runs inline: an async node is awaited without a task, and a sync node runs on the thread of
the loop. If several items can run, async nodes become tasks and sync nodes go to an executor. All deadlines share one
timer, because a timer for each item would cost more than the rest of the engine.

A sync node never finds the running loop, inline or on a thread: so it may call ``asyncio.run``, or a library that
refuses to work inside a loop.

The loop does not wait for the store. If a write would wait, a thread does it, in order, and the driver awaits it before
it starts dependent work; running tasks continue. Exceptions, which wait on the loop: sync nodes that run inline, and
sync recorded calls and transactions of async nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from clew.engine.fast_path import general, sizes_of, steps
from clew.engine.frame import Item
from clew.runtime.calls.cancellations import own_error
from clew.runtime.calls.forgotten_await import RISKY, holds_pending, know_futures
from clew.runtime.calls.mutation_check import changed, error_of
from clew.runtime.calls.scopes import Asking, Leaving
from clew.runtime.drivers.dispatch import submit
from clew.runtime.drivers.inbox import has_answers, may_have_answers
from clew.runtime.drivers.off_loop import settle
from clew.runtime.drivers.session import Session
from clew.runtime.drivers.timers import Timer
from clew.runtime.log.writer import LONG
from clew.runtime.process.thread_pool import DaemonThreadPool

_NEVER = float("inf")

know_futures()


class AsyncioDriver:
    """Executes one session on an event loop."""

    _wakeup: asyncio.Future[None] | None = None
    _threads: DaemonThreadPool | None = None
    _driver: asyncio.Task[Any] | None = None
    _began = 0.0  # start of the inline call
    _limit: float | None = None  # timeout of the inline call
    _inline: tuple[Item, int] | None = None  # the attempt of the inline call
    _cancelling = 0  # earlier cancellations of the caller's task
    _broken: BaseException | None = None  # an error that no node raised

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loop = loop = asyncio.get_running_loop()
        # without a task factory, loop.create_task would only add a call
        self._new_task: Callable[..., asyncio.Task[Any]] = (
            partial(asyncio.Task, loop=loop) if loop.get_task_factory() is None else loop.create_task
        )
        self._epoch = session.clock.time() - session.clock.monotonic()
        self._tasks: dict[Item, asyncio.Future[Any]] = {}
        self._is_hidden = False  # the running loop, from a sync node
        self._alarm: tuple[float, asyncio.TimerHandle] | None = None
        self._interrupted = (
            False  # this driver cancelled the inline call, because of a timeout or a cancellation
        )
        self._crosses = session.settings.crosses
        self._allows_fast_path = not (
            session.settings.check_mutation or session.clock.virtual or session.reuse or self._crosses
        )

    async def drive(self) -> None:
        """Run until no item can start and none is running."""
        session = self._session
        machine, most = session.machine, session.settings.max_concurrent_nodes
        tasks, outbox, writer = self._tasks, machine.outbox, session.writer
        if session.off_loop is not None:
            writer.never_wait()
        self._driver = asyncio.current_task()
        assert self._driver is not None
        if self._driver.cancelling():
            # Raises now if a cancellation, for example by Ctrl-C, has not been delivered yet.
            await asyncio.sleep(0)
        self._cancelling = self._driver.cancelling()
        session.wake_driver = self._nudge
        if session.clock.virtual:
            from clew.runtime.drivers.sleep import SleepingNodes

            session.sleeping_nodes = SleepingNodes(session, self._nudge)
        try:
            while not session.cancelled:
                if self._broken is not None:
                    raise self._broken
                if outbox:
                    session.flush()
                if writer.is_behind:
                    await settle(session)
                is_free = not tasks and not session.timers and not session.is_stopping
                is_free = is_free and (session.observed is None or session.observed.allows_fast_path)
                if is_free and self._allows_fast_path and machine.enter_fast_path():
                    await self._run_fast_path()
                    if machine.root.state != "running":
                        break
                    if outbox:  # for example a retry, which becomes a timer in flush
                        continue
                may_start = len(tasks) < most and not session.is_stopping
                item = session.take() if may_start else None
                if item is not None:
                    if outbox:  # send the start event before events of the node
                        await self._flush()
                    if not tasks and (
                        most == 1 or not (machine.has_more or session.next_timer() is not None)
                    ):
                        await self._run_inline(item)
                    else:
                        self._start(item)
                        while len(tasks) < most and (item := session.take()) is not None:
                            if outbox:
                                await self._flush()
                            self._start(item)  # start the whole fan-out at once
                elif outbox:
                    continue  # a subgraph failed on entry; its retry becomes a timer in flush
                elif tasks or session.stays() or (may_have_answers(session) and await self._has_answers()):
                    await self._wait()
                else:
                    break
        finally:
            if self._is_hidden:  # an interrupt came before it was shown
                self._show_loop()
            session.wake_driver = None
            if session.sleeping_nodes is not None:
                session.sleeping_nodes.close()
            await self._stop()
        await self._flush()

    async def _has_answers(self) -> bool:
        """Receive the answers in the inbox; return whether there is one."""
        off_loop = self._session.off_loop
        if off_loop is None:
            return has_answers(self._session)
        return await off_loop.submit(has_answers, self._session)

    async def _flush(self) -> None:
        self._session.flush()
        await settle(self._session)

    # -- inline ------------------------------------------------------------------------------------------

    async def _run_inline(self, item: Item) -> None:
        node, session = item.node, self._session
        if self._is_looked_up(item) or self._leaves(item):
            self._start(item)
        elif node.mode in ("async", "async_generator"):
            await self._await_inline(item)
        elif node.policy.timeout is not None or (node.mode == "generator" and session.listening):
            self._start(item)  # an inline generator would block consumers of its chunks on this loop
        else:
            clock, attempt = session.clock, item.attempt
            started, began = clock.time(), clock.monotonic()
            try:
                try:
                    self._hide_loop()
                    value = session.call(item)
                finally:
                    self._show_loop()
            except (Exception, Asking, Leaving) as error:
                session.raised(item, attempt, error, started, clock.monotonic() - began)
            else:
                session.returned(item, attempt, value, started, clock.monotonic() - began)

    async def _run_fast_path(self) -> None:
        """Run consecutive steps of one plain item each; await async functions inline."""
        session = self._session
        machine, monotonic = session.machine, session.clock.monotonic
        epoch = session.clock.time() - monotonic()
        default = session.settings.default_node_timeout
        limit = _NEVER if default is None else default
        fast_steps = steps(machine, epoch)
        outbox, writer, often = machine.outbox, session.writer, session.writer.often
        sync = machine.root.program.sync_functions
        if session.observed is not None and session.observed.surrounds:
            often = 1  # observers that surround calls end a step at its record
        began, flushed = 0.0, monotonic()
        try:
            func, args, sizes = next(fast_steps)
            while not session.is_stopping:
                began = monotonic()
                try:
                    if sync and (id(func) in sync) is not self._is_hidden:  # once for consecutive sync nodes
                        if self._is_hidden:
                            self._show_loop()
                        else:
                            self._hide_loop()
                    value = func(*args)
                    if type(value) is CoroutineType:
                        if getattr(func, "__code__", value.cr_code) is not value.cr_code:
                            item = general(machine)  # a sync function that returned a coroutine
                            session.returned(item, item.attempt, value, epoch + began, monotonic() - began)
                            return
                        self._began, self._limit = began, limit
                        if self._alarm is None or self._alarm[0] > began + limit:
                            self._watch(began + limit)
                        value = await value
                        if self._interrupted:
                            raise asyncio.CancelledError
                        self._limit = None
                        if type(value) in RISKY and holds_pending(value):
                            item = general(machine)
                            session.returned(item, item.attempt, value, epoch + began, monotonic() - began)
                            return
                except (Exception, asyncio.CancelledError, Asking, Leaving) as error:
                    ended = monotonic()
                    item = general(machine)
                    self._inline_raised(
                        item, error_of(item, args, sizes, error), epoch + began, ended - began
                    )
                    return
                if sizes is not None and sizes_of(args) != sizes:
                    item = general(machine)
                    failure = changed(item, args, sizes)
                    session.raised(item, item.attempt, failure, epoch + began, monotonic() - began)
                    return
                args = ()  # drop the references, so that a list can grow in place
                ended = monotonic()
                func, args, sizes = fast_steps.send((value, began, ended))
                if often and (len(outbox) >= often or ended - flushed > LONG):
                    if self._is_hidden:
                        self._show_loop()
                    session.flush()
                    flushed = ended
                    if writer.is_behind:
                        await settle(session)
        except StopIteration:
            pass
        finally:
            if self._is_hidden:
                self._show_loop()

    def _hide_loop(self) -> None:
        """Let code find no running loop, until it is shown again before the next `await`."""
        self._is_hidden = True
        asyncio._set_running_loop(None)

    def _show_loop(self) -> None:
        asyncio._set_running_loop(self._loop)
        self._is_hidden = False

    async def _await_inline(self, item: Item) -> None:
        session = self._session
        clock = session.clock
        started, began = clock.time(), clock.monotonic()
        if clock.virtual:
            self._start(item)  # as a task, so that the driver can advance the clock while it sleeps
            return
        own = session.timeout_of(item)
        limit = _NEVER if own is None else own
        self._began, self._limit, self._inline = began, limit, (item, item.attempt)
        self._watch(began + limit)
        try:
            try:
                value = session.call(item)
                if isawaitable(value):  # a wrapper of an async function may return a plain value
                    value = await value
            finally:
                if session.children is not None:
                    await session.children.aend((item, item.attempt))
            if self._interrupted:
                raise asyncio.CancelledError
        except (Exception, asyncio.CancelledError, Asking, Leaving) as error:
            self._inline_raised(item, error, started, clock.monotonic() - began)
        else:
            self._limit = None
            session.returned(item, item.attempt, value, started, clock.monotonic() - began)

    def _inline_raised(self, item: Item, error: BaseException, started: float, duration: float) -> None:
        """Handle an exception of an inline call: of the node, of a timeout, or of a cancellation by the caller."""
        session, limit, driver = self._session, self._limit, self._driver
        self._limit = None
        assert driver is not None
        was_interrupted, self._interrupted = self._interrupted, False
        if was_interrupted:
            driver.uncancel()
        if issubclass(type(error), asyncio.CancelledError) and driver.cancelling() > self._cancelling:
            raise error
        if not was_interrupted:
            session.raised(item, item.attempt, own_error(item, error), started, duration)
        elif not session.cancelled:
            session.expire(Timer("deadline", item, item.attempt, limit or 0.0))

    def _watch(self, when: float) -> None:
        """Set the alarm to `when`, unless it goes off earlier anyway."""
        if when == _NEVER:
            return
        if self._alarm is not None:
            if self._alarm[0] <= when:
                return
            self._alarm[1].cancel()
        delay = max(0.0, when - self._session.clock.monotonic())
        self._alarm = (when, self._loop.call_later(delay, self._ring))

    def _ring(self) -> None:
        self._alarm = None
        if self._limit is None:
            self._wake()
            return
        deadline = self._began + self._limit
        children = self._session.children
        if children is not None and self._inline is not None:
            self._limit += children.owed(self._inline)
            deadline = self._began + self._limit
        if self._session.clock.monotonic() >= deadline:
            self._interrupt()
        else:
            self._watch(deadline)

    def _interrupt(self) -> None:
        """Cancel the inline call by cancelling the caller's task; `_inline_raised` calls `uncancel`."""
        if not self._interrupted:
            self._interrupted = True
            assert self._driver is not None
            self._driver.cancel()

    # -- tasks -------------------------------------------------------------------------------------------

    def _start(self, item: Item) -> None:
        session = self._session
        node = item.node
        if node.cache is not None and self._is_looked_up(item):
            assert session.cache is not None
            work = session.cache.on_loop(session, item, partial(self._called, item))
            self._tasks[item] = self._new_task(self._run(item, work), name=node.name)
        elif node.mode in ("async", "async_generator") and not (self._crosses and self._leaves(item)):
            self._tasks[item] = self._new_task(self._run(item), name=node.name)
        else:
            try:
                future = self._submitted(item)
            except Exception as error:  # the executor was shut down, or cannot pickle the item
                session.raised(item, item.attempt, error, session.clock.time(), 0.0)
                return
            self._tasks[item] = self._loop.create_task(self._run(item, future))
        session.watch(item)

    def _is_looked_up(self, item: Item) -> bool:
        """Return whether a cached result of the item may have to be awaited."""
        return item.node.cache is not None and self._session.off_loop is not None

    def _leaves(self, item: Item) -> bool:
        """Return whether the executor runs the node in another process."""
        return self._crosses and item.node.on != "driver"

    def _called(self, item: Item) -> Any:
        is_async = item.node.mode in ("async", "async_generator")
        return self._session.call(item) if is_async and not self._leaves(item) else self._submitted(item)

    def _submitted(self, item: Item) -> asyncio.Future[Any]:
        executor: Executor | None = self._session.settings.executor
        return asyncio.wrap_future(
            submit(self._session, item, executor or self._own_threads(), self._own_threads)
        )

    def _own_threads(self) -> DaemonThreadPool:
        if self._threads is None:
            self._threads = DaemonThreadPool()
        return self._threads

    async def _run(self, item: Item, future: Awaitable[Any] | None = None) -> None:
        session = self._session
        clock, attempt = session.clock, item.attempt
        began = clock.monotonic()
        started = self._epoch + began
        try:
            try:
                value = session.call(item) if future is None else future
                if type(value) is CoroutineType or isawaitable(value):
                    try:
                        value = await value
                    finally:
                        if session.children is not None and future is None:
                            await session.children.aend((item, attempt))
            except (Exception, asyncio.CancelledError, Asking, Leaving) as error:
                if item.attempt == attempt and not session.cancelled:
                    self._tasks.pop(item, None)
                    session.raised(item, attempt, own_error(item, error), started, clock.monotonic() - began)
            else:
                if item.attempt == attempt:
                    self._tasks.pop(item, None)
                    session.returned(item, attempt, value, started, clock.monotonic() - began)
        except BaseException as error:  # not an error of the node; the driver raises it
            self._broken = error
        wakeup = self._wakeup
        if wakeup is not None and not wakeup.done():
            wakeup.set_result(None)

    # -- waiting -----------------------------------------------------------------------------------------

    def _nudge(self) -> None:
        """Wake the driver, from any thread."""
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._limit is not None and self._session.cancelled:
            self._interrupt()
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def _wait(self) -> None:
        session = self._session
        clock = session.clock
        when = session.next_timer()
        if clock.virtual:
            await self._wait_virtual()
        elif session.cancelled:
            return  # since the driver last looked, while it waited for the store
        elif when is None or when > clock.monotonic():
            self._wakeup = self._loop.create_future()
            if when is not None:
                self._watch(when)
            await self._wakeup
            self._wakeup = None
        for timer in session.due_timers():
            if session.expire(timer):
                for item in [item for item in self._tasks if not item.live or not item.is_wanted]:
                    self._tasks.pop(item).cancel()
        if session.listening:
            session.flush()

    async def _wait_virtual(self) -> None:
        """Let tasks run until they end or sleep; advance the clock only if all of them sleep."""
        session, tasks = self._session, len(self._tasks)
        assert session.sleeping_nodes is not None
        for _ in range(50):  # iterations of the loop for tasks that are about to sleep, end or be cancelled
            await asyncio.sleep(0)
            if len(self._tasks) < tasks or session.cancelled or self._broken is not None:
                return
            if session.sleepers + session.sleeping_nodes.count(self._tasks) >= tasks:
                break
        if session.sleepers + session.sleeping_nodes.count(self._tasks) < tasks:
            self._wakeup = self._loop.create_future()
            await self._wakeup
            self._wakeup = None
        elif (when := session.next_timer()) is not None:
            session.clock.advance(when)
        elif session.timers and not session.cancelled:  # it waits for a signal
            self._wakeup = self._loop.create_future()
            await self._wakeup
            self._wakeup = None

    async def _stop(self) -> None:
        if self._alarm is not None:
            self._alarm[1].cancel()
        tasks = list(self._tasks.values())
        if tasks:
            self._session.cancelled = True  # ignore their results from now on
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=5.0)
        if self._threads is not None:
            self._threads.shutdown()
