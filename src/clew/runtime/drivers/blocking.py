"""The blocking driver: execute a session in the caller's thread, with other threads only for concurrent items.

If only one item can run, it runs inline. Concurrent items, and nodes with their own timeout, go to an executor. `drive`
is a generator. It yields when there may be new events, so that a stream can return them in the caller's thread; `run`
exhausts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from clew.engine.fast_path import general, sizes_of, steps
from clew.engine.frame import Item
from clew.errors import NodeError
from clew.runtime.calls.forgotten_await import PENDING
from clew.runtime.calls.mutation_check import changed, error_of
from clew.runtime.drivers.inbox import has_answers, may_have_answers
from clew.runtime.drivers.session import Session
from clew.runtime.log.writer import LONG

if TYPE_CHECKING:  # concurrent.futures costs more to import than a run without threads takes
    from concurrent.futures import Future

    from clew.runtime.process.thread_pool import DaemonThreadPool

    Done = tuple[Item, int, float, float, Future[Any]] | None


class BlockingDriver:
    """Executes one session in the calling thread."""

    def __init__(self, session: Session, *, inline: bool = True) -> None:
        self._session = session
        self._inline = inline
        self._crosses = session.settings.crosses
        self._done: SimpleQueue[Done] = SimpleQueue()
        self._in_flight: dict[Item, Future[Any]] = {}
        self._threads: DaemonThreadPool | None = None

    def drive(self) -> Iterator[None]:
        """Run until no item can start and none is running."""
        session = self._session
        machine, most = session.machine, session.settings.max_concurrent_nodes
        in_flight, outbox = self._in_flight, machine.outbox
        session.wake_driver = self._nudge
        if session.clock.virtual:
            from clew.runtime.drivers.sleep import SleepingNodes

            session.sleeping_nodes = SleepingNodes(session, self._nudge)
        try:
            while not session.cancelled:
                if outbox:
                    session.flush()
                if (
                    self._inline
                    and not self._crosses
                    and not in_flight
                    and not session.timers
                    and session.reuse is None
                    and (session.observed is None or session.observed.allows_fast_path)
                    and not session.is_stopping
                    and machine.enter_fast_path()
                ):
                    self._run_fast_path()
                    if machine.root.state != "running":
                        break
                    if outbox:  # for example a retry, which becomes a timer in flush
                        continue
                may_start = len(in_flight) < most and not session.is_stopping
                item = session.take() if may_start else None
                if item is not None:
                    if outbox:  # send the start event before events of the node
                        session.flush()
                        if not self._inline:
                            yield
                    if self._is_alone(item):
                        self._run_inline(item)
                    else:
                        self._submit(item)
                elif outbox:
                    continue  # a subgraph failed on entry; its retry becomes a timer in flush
                elif in_flight or session.stays() or (may_have_answers(session) and has_answers(session)):
                    self._wait()
                    yield
                else:
                    break
        finally:
            session.wake_driver = None
            if session.sleeping_nodes is not None:
                session.sleeping_nodes.close()
            if self._threads is not None:
                self._threads.shutdown()
            for future in in_flight.values():
                future.cancel()
        session.flush()

    def _run_fast_path(self) -> None:
        """Run consecutive steps of one plain item each."""
        session = self._session
        if session.settings.check_mutation:
            session.machine.open(session.machine.root)
            return
        machine, monotonic = session.machine, session.clock.monotonic
        epoch = session.clock.time() - monotonic()
        fast_steps = steps(machine, epoch)
        outbox, often, write = machine.outbox, session.writer.often, session.writer.write
        if session.observed is not None and session.observed.surrounds:
            often = 1  # observers that surround calls end a step at its record
        is_direct = often == 1 and session.observed is None
        began, flushed = 0.0, monotonic()
        try:
            func, args, sizes = next(fast_steps)
            while not session.is_stopping:
                began = monotonic()
                try:
                    value = func(*args)
                except Exception as error:
                    ended = monotonic()
                    item = general(machine)
                    failure = error_of(item, args, sizes, error)
                    session.raised(item, item.attempt, failure, epoch + began, ended - began)
                    return
                if sizes is not None and sizes_of(args) != sizes:
                    item = general(machine)
                    failure = changed(item, args, sizes)
                    session.raised(item, item.attempt, failure, epoch + began, monotonic() - began)
                    return
                if type(value) in PENDING:
                    item = general(machine)
                    session.returned(item, item.attempt, value, epoch + began, monotonic() - began)
                    return
                args = ()  # drop the references, so that a list can grow in place
                ended = monotonic()
                func, args, sizes = fast_steps.send((value, began, ended))
                if not often:
                    continue
                if is_direct and len(outbox) == 1:
                    write((outbox.pop(),))
                elif len(outbox) >= often or ended - flushed > LONG:
                    session.flush()
                    flushed = ended
        except StopIteration:
            pass

    def _is_alone(self, item: Item) -> bool:
        session = self._session
        if not self._inline or self._in_flight or item.node.policy.timeout is not None:
            return False
        if self._crosses and item.node.on != "driver":
            return False
        if session.settings.max_concurrent_nodes == 1:
            return True
        return not session.machine.has_more and session.next_timer() is None

    def _run_inline(self, item: Item) -> None:
        session = self._session
        clock, attempt = session.clock, item.attempt
        started, began = clock.time(), clock.monotonic()
        if session.executing is not None:
            session.executing[item] = started
        try:
            try:
                value = session.call(item)
            finally:
                if session.executing is not None:
                    session.executing.pop(item, None)
        except Exception as error:
            session.raised(item, attempt, error, started, clock.monotonic() - began)
        except BaseException as error:
            if not _is_unwinding(error):
                raise  # KeyboardInterrupt and the like belong to the caller
            session.raised(item, attempt, error, started, clock.monotonic() - began)
        else:
            session.returned(item, attempt, value, started, clock.monotonic() - began)

    def _submit(self, item: Item) -> None:
        from clew.runtime.drivers.dispatch import submit

        session = self._session
        clock, attempt = session.clock, item.attempt
        started, began = clock.time(), clock.monotonic()

        try:
            future = submit(
                session, item, session.settings.executor or self._own_threads(), self._own_threads
            )
        except Exception as error:  # the executor was shut down, or cannot pickle the item
            session.raised(item, attempt, error, started, clock.monotonic() - began)
            return
        self._in_flight[item] = future
        if session.executing is not None:
            session.executing[item] = started
        session.watch(item)
        future.add_done_callback(lambda f: self._done.put((item, attempt, started, began, f)))

    def _own_threads(self) -> DaemonThreadPool:
        if self._threads is None:
            from clew.runtime.process.thread_pool import DaemonThreadPool

            self._threads = DaemonThreadPool()
        return self._threads

    def _nudge(self) -> None:
        self._done.put(None)

    def _wait(self) -> None:
        """Wait for a result or a timer."""
        session = self._session
        when = session.next_timer()
        done = self._next_done(when)
        while done is not _NOTHING:
            if done is not None:
                self._settle(*done)
            try:
                done = self._done.get_nowait()
            except Empty:
                break
        for timer in session.due_timers():
            if session.expire(timer):
                for item in [item for item in self._in_flight if not item.live or not item.is_wanted]:
                    self._in_flight.pop(
                        item
                    ).cancel()  # an executor may drop a queued call, and Processes kills a running one
        if session.listening:
            session.flush()

    def _next_done(self, when: float | None) -> Any:
        session = self._session
        clock = session.clock
        if clock.virtual:
            assert session.sleeping_nodes is not None
            asleep = session.sleeping_nodes.count(self._in_flight)
            when = session.next_timer()
            if asleep < len(self._in_flight) and self._done.empty() and not self._all_overdue(when):
                return self._done.get()
            if self._done.empty() and when is None and session.timers:
                return self._done.get()  # it waits for a signal
            if self._done.empty() and when is not None:
                clock.advance(when)
            return _NOTHING if self._done.empty() else self._done.get()
        if when is None:
            return self._done.get()
        try:
            return self._done.get(timeout=max(0.0, when - clock.monotonic()))
        except Empty:
            return _NOTHING

    def _all_overdue(self, when: float | None) -> bool:
        """Return whether the next timer of a virtual clock is already due."""
        return when is not None and when <= self._session.clock.monotonic()

    def _settle(self, item: Item, attempt: int, started: float, began: float, future: Future[Any]) -> None:
        session = self._session
        if self._in_flight.get(item) is future:
            del self._in_flight[item]
            if session.executing is not None:
                session.executing.pop(item, None)
        duration = session.clock.monotonic() - began
        error = _cancelled(item) if future.cancelled() else future.exception()
        if error is None:
            session.returned(item, attempt, future.result(), started, duration)
        elif not isinstance(error, Exception) and not _is_unwinding(error):
            raise error  # KeyboardInterrupt and the like belong to the caller
        else:
            session.raised(item, attempt, error, started, duration)


_NOTHING = object()


def _cancelled(item: Item) -> NodeError:
    return NodeError(
        f"node {item.node.name!r} at {item.path} was cancelled by its executor; shut an executor down only after the "
        f"runs that use it"
    )


def _is_unwinding(error: BaseException) -> bool:
    from clew.runtime.calls.scopes import Asking, Leaving

    return issubclass(type(error), (Asking, Leaving))
