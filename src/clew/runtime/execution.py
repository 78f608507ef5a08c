"""Execution: the code that all methods of an engine share that run nodes.

A method opens a run, drives it and ends it inside one `try`, with a `Hold` that is created before. So any engine can
resume the run right after an interrupt or a cancellation, whenever it happens. Methods on an event loop do the same,
but wait for the store on a thread. They open a new run on the loop itself if the store does not have to wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from clew.engine.records import Failure
from clew.engine.stops import Stops
from clew.engine.updates.unstorable import refused_failure
from clew.errors import (
    ClewError,
    CommitConflictError,
    EncodeError,
    RunOwnedError,
    RunStateError,
    StoreError,
    UnknownRunError,
)
from clew.graph import Graph
from clew.graph_warnings import with_this_line
from clew.held_interrupts import HeldInterrupts
from clew.runtime.children.ended_children import end_children
from clew.runtime.drivers.blocking import BlockingDriver
from clew.runtime.drivers.hold import Hold, Work, conclude, written
from clew.runtime.drivers.lease_renewal import LeaseRenewer
from clew.runtime.drivers.session import Session
from clew.runtime.drivers.take import announce_end, begin_take, leave_take
from clew.runtime.inspection import build_result, read_result, result_so_far
from clew.runtime.late_answers import aread_late_answers, read_late_answers
from clew.runtime.log.engine_owner import fresh_owner
from clew.runtime.log.metrics import Totals, totals_of
from clew.runtime.opener import RunOpener
from clew.runtime.process import forks
from clew.runtime.reporting.events import Listener
from clew.runtime.result import RunResult, raiser
from clew.runtime.run_ids import new_run_id
from clew.runtime.settings import Settings
from clew.stores import WouldWait

if TYPE_CHECKING:
    from clew.engine.machine import Machine
    from clew.runtime.drivers.off_loop import OffLoop
    from clew.runtime.log.writer import LogWriter

Opening = Callable[..., Session | RunResult]
"""Opens a run, or returns its result if it is finished."""

_NOT_ENDED = (StoreError, RunOwnedError, UnknownRunError, CommitConflictError)


class RunExecution:
    """Drives the runs of one engine. `live` holds the sessions that it is executing."""

    _resuming: ClassVar[dict[tuple[int, str], Hold]] = {}  # by engine and run: about to be live
    _resuming_lock = threading.Lock()

    def __init__(
        self, opener: RunOpener, live: dict[str, Session], *, lease_renewer: LeaseRenewer | None = None
    ) -> None:
        self.opener = opener
        self._store = store = opener.store
        self._settings = settings = opener.settings
        self._check = raiser(settings.check)
        self.live = live
        self.lease_renewer = lease_renewer  # of a worker, for all of its graphs
        # the owner of the outer run also owns the child
        if lease_renewer is None and store.encodes and opener.repository.child_of is None:
            owner = opener.repository.owner
            self.lease_renewer = LeaseRenewer(
                store, settings.lease, owner, opener.release_left, opener.observers
            )
        self._off_loop: OffLoop | None = None  # where methods on an event loop wait for the store
        self._waits: bool | None = None  # whether they ever have to; None while unknown
        self._outer: RunExecution | None = None  # of a child: the execution of the run that contains it
        if opener.repository.child_of is None:
            forks.watch(self)

    def close(self) -> None:
        """Stop renewing leases, and end the threads."""
        if self.lease_renewer is not None:
            self.lease_renewer.close()
        if self._off_loop is not None:
            self._off_loop.close()

    def new_hold(self, run_id: str | None) -> Hold:
        return Hold(new_run_id(run_id), fresh_owner() if self._store.encodes else "")

    def open_session(self, values: Any, run_id: str | None, stops: Stops | None = None) -> Session:
        """Open a new run for a driver that the caller has; `close_session` ends it."""
        hold = self.new_hold(run_id)
        try:
            session = hold.session = self.opener.new(values, hold.run_id, owner=hold.owner, stops=stops)
            try:
                session.writer.barrier()  # the caller may rely on the run being stored
            except ClewError:
                self.opener.release(session.run_id, session.fence, session.owner)
                raise
            self.begin(session)
        except BaseException as error:
            self.free(hold, error)
            raise
        return session

    def close_session(self, session: Session) -> RunResult:
        """End a session that `open_session` opened, and return the result."""
        session.flush()
        return conclude(self.ending(session))

    def stop(self, session: Session | None) -> None:
        """Cancel a session, from any thread."""
        if session is not None:
            session.stop()

    def resumed(
        self,
        hold: Hold,
        answer: Any,
        answers: Mapping[str, Any] | None,
        accept_changes: bool,
        listener: Listener | None = None,
        stops: Stops | None = None,
        *,
        unless_cancelled: bool = False,
    ) -> Session | RunResult:
        """Open a run again, or return the result of a completed one. Only one of several threads gets the session."""
        run_id = hold.run_id
        mine = (id(self), run_id)
        with self._resuming_lock:
            if run_id in self.live or mine in self._resuming:
                raise RunStateError(f"run {run_id!r} is running; wait for it, or cancel it")
            self._resuming[mine] = hold
        try:
            hold.owner = self.opener.name_for(run_id)
            found = self.opener.again(
                run_id,
                answer,
                answers,
                accept_changes,
                hold.owner,
                unless_completed=True,
                unless_cancelled=unless_cancelled,
                listener=listener,
                stops=stops,
            )
            if isinstance(found, Session):
                hold.session = self.live[run_id] = found
                found.accepts_changes = accept_changes
        finally:
            if self._resuming.get(mine) is hold:
                del self._resuming[mine]
        return found if isinstance(found, Session) else result_so_far(self.opener, found)

    def updated(self, run_id: str, values: Any, as_node: Any, decision: Any) -> RunResult:
        """Commit a step by hand to a run that is not running, and return its result so far."""
        from clew.runtime.updates import update_run

        hold = Hold(run_id)
        mine = (id(self), run_id)
        try:
            with self._resuming_lock:
                if run_id in self.live or mine in self._resuming:
                    raise RunStateError(f"run {run_id!r} is running; cancel it, or wait until it stops")
                self._resuming[mine] = hold
            hold.owner = self.opener.name_for(run_id)
            update_run(self.opener, run_id, values, as_node, decision, hold.owner)
            del self._resuming[mine]
        except BaseException as error:
            self.free(hold, error)
            raise
        return read_result(self.opener, run_id)

    def check_of(self, check: bool | None) -> Callable[[RunResult], None]:
        """Return the function that raises the error of a result, or does nothing, given the argument of a method."""
        return self._check if check is None else raiser(check)

    def drive(self, hold: Hold, opening: Opening, check: bool | None = None) -> RunResult:
        """Open a run, drive it and end it, in the caller's thread; raise its error if it is to be checked."""
        checked = self.check_of(check)
        try:
            result = self.drive_once(hold, opening)
        except KeyboardInterrupt as error:
            self.free(hold, error)
            raise
        if result.status != "completed":
            if result.status == "waiting":
                result = read_late_answers(self, hold, result)
            checked(result)
        return result

    def drive_once(self, hold: Hold, opening: Opening) -> RunResult:
        """Open a run, drive it and end it, in the caller's thread."""
        try:
            opened = opening()
            if isinstance(opened, RunResult):
                return opened
            hold.session = opened
            if opened.machine.root.program.graph.has_async_nodes:
                from clew.runtime.process.own_loop import run_coroutine  # it imports asyncio

                return run_coroutine(partial(self.adrive_session, opened))
            self.begin(opened)
            try:
                for _ in BlockingDriver(opened).drive():
                    pass
            except EncodeError as error:
                return conclude(self._refusing(opened, error))
            except BaseException as error:
                with HeldInterrupts(error):
                    conclude(self.ending(opened, error))
                raise
            is_disturbed = opened.writer.waits or opened.is_stopping
            return conclude(self.ending(opened)) if is_disturbed else self._ended(opened)
        except BaseException as error:
            self.free(hold, error)
            raise

    async def adrive(
        self, hold: Hold, opening: Opening, check: bool | None = None, *, at_once: bool = False
    ) -> RunResult:
        """`drive` on the running event loop, which never waits for the store."""
        checked = self.check_of(check)
        try:
            result = await self.adrive_once(hold, opening, at_once)
        except KeyboardInterrupt as error:
            self.free(hold, error)
            raise
        if result.status != "completed":
            if result.status == "waiting":
                result = await aread_late_answers(self, hold, result)
            checked(result)
        return result

    async def adrive_once(self, hold: Hold, opening: Opening, at_once: bool = False) -> RunResult:
        """`drive_once` on the running event loop."""
        off_loop = self.elsewhere()
        try:
            if off_loop is None:
                opened = opening()
            elif at_once:
                opened = await off_loop.open(opening)
            else:
                opened = await off_loop.finish(with_this_line(opening))
            if isinstance(opened, RunResult):
                return opened
            hold.session = opened
            return await self.adrive_session(opened)
        except BaseException as error:
            with HeldInterrupts(error):
                if off_loop is None or isinstance(error, (Exception, GeneratorExit)):
                    self.free(hold, error)
                else:
                    await off_loop.finish(self.free, hold, error)
            raise

    async def adrive_session(self, session: Session) -> RunResult:
        from clew.runtime.drivers.asyncio_driver import AsyncioDriver

        off_loop = session.off_loop = self.elsewhere()
        self.begin(session)
        try:
            await AsyncioDriver(session).drive()
        except EncodeError as error:
            ending = self._refusing(session, error)
        except BaseException as error:
            if session.is_disowned:
                forks.end_child(error)
            with HeldInterrupts(error):
                ending = self.ending(session, error)
                if off_loop is None or isinstance(error, GeneratorExit):
                    conclude(ending)
                else:
                    await off_loop.conclude(ending)
            raise
        else:
            if session.is_disowned:
                forks.end_child(session.lost)
            if not (session.writer.waits or session.is_stopping):
                return self._ended(session)
            ending = self.ending(session)
        return conclude(ending) if off_loop is None else await off_loop.conclude(ending)

    def elsewhere(self) -> OffLoop | None:
        """Return where an event loop waits for the store; None if it never has to wait."""
        if self._outer is not None:
            return self._outer.elsewhere()
        if self._off_loop is None and self._waits is not False:
            is_quick = True
            try:
                prompt = self._store.at_once()
                self._waits, is_quick = prompt is not self._store, prompt is not None
            except WouldWait:
                self._waits = True
            if self._waits:
                from clew.runtime.drivers.off_loop import OffLoop

                self._off_loop = OffLoop(is_quick=is_quick)
        return self._off_loop

    def steps_of(self, session: Session) -> Generator[None, None, RunResult]:
        """Drive a session in the caller's thread, pausing whenever there may be events; return its result."""
        self.begin(session, attaches=False)  # the caller's code runs in between
        try:
            yield from BlockingDriver(session, inline=False).drive()
        except EncodeError as error:
            return conclude(self._refusing(session, error))
        except BaseException as error:
            with HeldInterrupts(error):
                conclude(self.ending(session, error))
            raise
        return conclude(self.ending(session))

    def begin(self, session: Session, *, attaches: bool = True) -> None:
        self.live[session.run_id] = session
        if self.lease_renewer is not None:
            self.lease_renewer.add(session)
        session.thread, session.start_child = threading.get_ident(), self._start_child
        observers = self.opener.observers
        if observers or session.listening:
            begin_take(session, observers, attaches=attaches)

    def _start_child(self, session: Session, *call: Any, blocks: bool = False) -> Any:
        """Run a graph in a node of a session: `ctx.run`."""
        from clew.runtime.children.child_runs import ChildRun

        return ChildRun(self, session, *call).start(blocks=blocks)

    def for_child(
        self, graph: Graph, settings: Settings, listeners: tuple[Listener, ...], child_of: tuple[str, str]
    ) -> RunExecution:
        """Return the execution of a child in the same store."""
        opener = RunOpener(graph, self._store, settings, (*listeners, *self.opener.observers))
        opener.repository.child_of, opener.repository.owner = child_of, self.opener.repository.owner
        execution = RunExecution(opener, self.live)
        execution._outer = self
        return execution

    def leave(self, session: Session) -> None:
        if not session.is_disowned:
            if session.children is not None:
                session.children.stop()  # those of abandoned threads
            if session.observed is not None:
                leave_take(session, session.observed)
            if self.lease_renewer is not None:
                self.lease_renewer.remove(session)
        if self.live.get(session.run_id) is session:
            del self.live[session.run_id]

    def _refusing(self, session: Session, error: EncodeError) -> Generator[Work, Any, RunResult]:
        """End a run whose node returned a value that cannot be stored: it failed before that step."""
        run_id, repository, clock = session.run_id, self.opener.repository, self._settings.clock
        if session.is_disowned:
            self.leave(session)
            raise session.lost or error
        session.cancelled = True  # for nodes that still run on threads
        refused = session.writer.refused
        failure = Failure(error) if refused is None else refused_failure(session.machine, error, *refused)
        failures = (failure, *(each for each in session.machine.failures() if each.rescued))
        try:
            try:
                yield session.writer.close
            except EncodeError:
                pass
            now = clock.time()
            try:
                yield partial(repository.close, run_id, session.fence, "failed", now, failures)
            except ClewError:
                self.opener.left(run_id, session.owner)
                raise
            result: RunResult = yield partial(self._read_result, run_id)
            result.failures, session.result = failures, result
        finally:
            self.leave(session)
        announce_end(session, result, result.last_step, now)
        return result

    def ending(
        self, session: Session, broken: BaseException | None = None
    ) -> Generator[Work, Any, RunResult]:
        """End a run: write what is left, and its status. Work that uses the store is yielded."""
        run_id = session.run_id
        if session.is_disowned:
            self.leave(session)
            raise broken or session.lost or RunOwnedError(run_id)
        try:
            broken = yield from written(session, broken)
            if isinstance(broken, _NOT_ENDED):
                # the run has not ended: another process can resume it
                yield partial(self._release, session)
                session.is_released = True
                raise broken
            status = "cancelled" if broken is not None else session.status()
            if status == "completed" and (session.has_children or session.children is not None):
                yield partial(end_children, self.opener, run_id, session.owner)
            result = self._outcome(session, status)
            if session.is_drained:
                yield partial(self._return_to_queue, session)
                session.is_released = True
                return result
            close, now = self.opener.repository.close, self._settings.clock.time()
            due = session.due(status)
            try:
                yield partial(close, run_id, session.fence, status, now, result.failures, due=due)
            except ClewError:
                self.opener.left(run_id, session.owner)
                if broken is None:
                    raise
            session.is_released = True
        finally:
            self.leave(session)
        announce_end(session, result, session.machine.root.step, now)
        return result

    def _ended(self, session: Session) -> RunResult:
        """`ending` of an undisturbed run in memory, which neither waits nor fails: 5% fewer instructions for a run of
        one node."""
        session.measure()
        run_id, status, repository = session.run_id, session.status(), self.opener.repository
        result = self._outcome(session, status)
        if status == "completed" and (session.has_children or session.children is not None):
            end_children(self.opener, run_id, session.owner)
        now = self._settings.clock.time()
        if repository.keeps:
            due = session.due(status)
            repository.close(run_id, session.fence, status, now, result.failures, due=due)
        self.leave(session)
        announce_end(session, result, session.machine.root.step, now)
        return result

    def _outcome(self, session: Session, status: str) -> RunResult:
        machine, writer = session.machine, session.writer
        result = build_result(
            self.opener,
            session.run_id,
            machine,
            status,
            session.start,
            totals=partial(_totals, session.earlier, machine, writer),
            records=None if session.is_resumed else writer.records,
        )
        if session.waits is not None:
            result.signals = session.waits.signals()
        session.result = result
        return result

    def _release(self, session: Session, *, at_once: bool = False) -> None:
        if at_once:
            raise WouldWait(session.run_id)
        self.opener.release(session.run_id, session.fence, session.owner)

    def _return_to_queue(self, session: Session, *, at_once: bool = False) -> None:
        """Release a run that a worker has drained, for another one to take."""
        if at_once:
            raise WouldWait(session.run_id)
        try:
            self._store.enqueue(session.run_id, session.fence, status="queued")
        except ClewError:
            self.opener.left(session.run_id, session.owner)

    def _read_result(self, run_id: str, *, at_once: bool = False) -> RunResult:
        if at_once and self._store.at_once() is not self._store:
            raise WouldWait(run_id)
        return read_result(self.opener, run_id)

    def free(self, hold: Hold, error: BaseException) -> None:
        """Give up a run after an error, so that any process can resume it."""
        try:
            with HeldInterrupts(error):
                self._give_back(hold, error)
        except BaseException as interrupt:  # it came before the block
            with HeldInterrupts(interrupt):
                self._give_back(hold, interrupt)
            raise

    def _give_back(self, hold: Hold, error: BaseException) -> None:
        if hold.is_freed:
            return
        session, mine = hold.session, (id(self), hold.run_id)
        if self._resuming.get(mine) is hold:
            del self._resuming[mine]
        if session is not None:
            self.leave(session)
        if not isinstance(error, Exception):  # an Exception was raised by code that has released the run
            if session is not None:
                session.cancelled = True  # for nodes that still run on threads
                session.writer.abandon(error)
            if hold.run_id not in self.live and (session is None or not session.is_released):
                self.opener.give_up(hold.run_id, hold.owner)
            hold.is_freed = True


def _totals(earlier: Totals, machine: Machine, writer: LogWriter) -> Totals:
    return earlier.plus(totals_of(machine, writer.latency))
