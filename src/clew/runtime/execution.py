"""Driving runs: what every verb that runs nodes does with a run, whoever opens it and whatever drives it.

A verb opens a run, drives it and ends it under one `try`, with a `Hold` that is made before. So after an interrupt or a
cancellation at any instant this engine and any other can go on with the run at once. A verb on an event loop does the
same, but waits for the store on a thread. A new run is opened at once where that is possible; a log is read there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from clew.engine.records import Failure
from clew.errors import (
    ClewError,
    CommitConflictError,
    EncodeError,
    RunOwnedError,
    StoreError,
    UnknownRunError,
)
from clew.runtime.drivers.blocking import BlockingDriver
from clew.runtime.drivers.hold import Hold, Work, conclude
from clew.runtime.drivers.lease_renewal import LeaseRenewer
from clew.runtime.drivers.session import Session
from clew.runtime.inspection import RunInspection
from clew.runtime.log.metrics import Totals, totals_of
from clew.runtime.result import RunResult
from clew.stores import WouldWait

if TYPE_CHECKING:
    from clew.runtime.drivers.off_loop import OffLoop

Opening = Callable[..., Session | RunResult]
"""Opens a run; or finds that it is finished."""

_NOT_ENDED = (StoreError, RunOwnedError, UnknownRunError, CommitConflictError)


class Driving(RunInspection):
    """How an engine drives runs."""

    _resuming: ClassVar[dict[tuple[int, str], Hold]] = {}  # by engine and run: on their way to being live
    _heartbeat: LeaseRenewer | None
    _off_loop: OffLoop | None = None  # where verbs on an event loop wait for the store
    _waits: bool | None = None  # whether they ever have to; None if nobody has asked yet

    def _drive(self, hold: Hold, opening: Opening) -> RunResult:
        """Open a run, drive it and end it, in the caller's thread."""
        try:
            opened = opening()
            if isinstance(opened, RunResult):
                return opened
            hold.session = opened
            if self.graph.has_async_nodes:
                import asyncio

                return asyncio.run(self._adriven(opened))
            self._begin(opened)
            try:
                for _ in BlockingDriver(opened).drive():
                    pass
            except EncodeError as error:
                return conclude(self._refusing(opened, error))
            except BaseException as error:
                conclude(self._ending(opened, error))
                raise
            return conclude(self._ending(opened)) if opened.writer.encodes else self._ended(opened)
        except BaseException as error:
            self._free(hold, error)
            raise

    async def _adrive(self, hold: Hold, opening: Opening, *, at_once: bool = False) -> RunResult:
        """`_drive` on the running event loop, which never waits for the store."""
        off_loop = self._elsewhere()
        try:
            if off_loop is None:
                opened = opening()
            elif at_once:
                opened = await off_loop.open(opening)
            else:
                opened = await off_loop.finish(opening)
            if isinstance(opened, RunResult):
                return opened
            hold.session = opened
            return await self._adriven(opened)
        except BaseException as error:
            if off_loop is None or isinstance(error, (Exception, GeneratorExit)):
                self._free(hold, error)
            else:
                await off_loop.finish(self._free, hold, error)
            raise

    async def _adriven(self, session: Session) -> RunResult:
        from clew.runtime.drivers.asyncio_driver import AsyncioDriver

        off_loop = session.off_loop = self._elsewhere()
        self._begin(session)
        try:
            await AsyncioDriver(session).drive()
        except EncodeError as error:
            ending = self._refusing(session, error)
        except BaseException as error:
            ending = self._ending(session, error)
            if off_loop is None or isinstance(error, GeneratorExit):
                conclude(ending)
            else:
                await off_loop.conclude(ending)
            raise
        else:
            ending = self._ending(session)
        return conclude(ending) if off_loop is None else await off_loop.conclude(ending)

    def _elsewhere(self) -> OffLoop | None:
        """Where an event loop waits for the store; None if there is nothing to wait for."""
        if self._off_loop is None and self._waits is not False:
            at_once = getattr(self.store, "at_once", None)
            try:
                self._waits = at_once is None or at_once() is not self.store
            except WouldWait:
                self._waits = True
            if self._waits:
                from clew.runtime.drivers.off_loop import OffLoop

                self._off_loop = OffLoop(is_quick=at_once is not None)
        return self._off_loop

    def _driving(self, session: Session) -> Generator[None, None, None]:
        """Drive a session in the caller's thread, pausing whenever events may have come up."""
        self._begin(session)
        try:
            yield from BlockingDriver(session, inline=False).drive()
        except EncodeError as error:
            conclude(self._refusing(session, error))
        except BaseException as error:
            conclude(self._ending(session, error))
            raise
        else:
            conclude(self._ending(session))

    def _begin(self, session: Session) -> None:
        self._live[session.run_id] = session
        if self._heartbeat is not None:
            self._heartbeat.add(session, session.fence)
        session.thread = threading.get_ident()
        if session.listening:
            session.announce(
                "run_started", session.start.step, graph=self.graph.name, values=session.start.values
            )

    def _leave(self, session: Session) -> None:
        if self._heartbeat is not None:
            self._heartbeat.remove(session)
        if self._live.get(session.run_id) is session:
            del self._live[session.run_id]

    def _refusing(self, session: Session, error: EncodeError) -> Generator[Work, Any, RunResult]:
        """A node returned what cannot be stored: the run has failed where its chain ends, before that step."""
        run_id, repository, clock = session.run_id, self._opener.repository, self._settings.clock
        session.cancelled = True  # for nodes that still run on threads
        try:
            try:
                yield session.writer.close
            except EncodeError:
                pass
            try:
                yield partial(
                    repository.close, run_id, session.fence, "failed", clock.time(), (Failure(error),)
                )
            except ClewError:
                self._opener.left(run_id, session.owner)
                raise
            result: RunResult = yield partial(self._read_result, run_id)
        finally:
            self._leave(session)
        result.failures = (Failure(error),)
        if session.listening:
            session.tell_rest()
            session.announce(
                "run_finished", result.steps, status="failed", error=error, metrics=result.metrics
            )
        return result

    def _ending(
        self, session: Session, broken: BaseException | None = None
    ) -> Generator[Work, Any, RunResult]:
        """The driver has stopped: write what is left, and how the run stands. What uses the store is yielded."""
        run_id = session.run_id
        try:
            try:
                if broken is not None:
                    session.cancelled = True  # for nodes that still run on threads
                    session.flush()
                session.measure()
                yield session.writer.close
            except ClewError as error:
                if broken is None:  # else what broke it is on its way to the caller already
                    broken = session.lost or error
            except GeneratorExit:
                raise
            except BaseException:  # what interrupted the run is told again by what it interrupted
                if broken is None:
                    raise
            if session.lost is not None and broken is None:
                broken = session.lost
            if broken is not None and isinstance(broken, _NOT_ENDED):
                # the run has not ended: whoever can goes on with it
                yield partial(self._release, session)
                session.is_released = True
                raise broken
            status = "cancelled" if broken is not None else session.status()
            result = self._outcome(session, status)
            close, now = self._opener.repository.close, self._settings.clock.time()
            try:
                yield partial(close, run_id, session.fence, status, now, result.failures)
            except ClewError:
                self._opener.left(run_id, session.owner)
                if broken is None:
                    raise
            session.is_released = True
        finally:
            self._leave(session)
        self._tell_end(session, result)
        return result

    def _ended(self, session: Session) -> RunResult:
        """`_ending` of a run in memory that nothing has broken: it uses nothing that could be waited for, or fail."""
        session.measure()
        result = self._outcome(session, session.status())
        now = self._settings.clock.time()
        self._opener.repository.close(session.run_id, session.fence, result.status, now, result.failures)
        self._leave(session)
        self._tell_end(session, result)
        return result

    def _outcome(self, session: Session, status: str) -> RunResult:
        machine = session.machine
        writer, earlier, counted = session.writer, session.earlier, totals_of(machine, 0)

        def totals() -> Totals:
            return replace(earlier.plus(counted), latency=earlier.latency + writer.latency)

        whole = None if writer.encodes or session.is_resumed else writer.records
        return self._result(session.run_id, machine, status, session.start, totals=totals, records=whole)

    def _tell_end(self, session: Session, result: RunResult) -> None:
        if session.listening:
            session.tell_rest()
            step = session.machine.root.step
            session.announce(
                "run_finished", step, status=result.status, error=result.error, metrics=result.metrics
            )

    def _release(self, session: Session, *, at_once: bool = False) -> None:
        if at_once:
            raise WouldWait(session.run_id)
        self._opener.release(session.run_id, session.fence, session.owner)

    def _read_result(self, run_id: str, *, at_once: bool = False) -> RunResult:
        if at_once and self.store.encodes:
            raise WouldWait(run_id)
        return self.result(run_id)

    def _free(self, hold: Hold, error: BaseException) -> None:
        """A verb ends with an error: leave nothing behind that keeps anybody from the run, whatever was interrupted."""
        try:
            self._give_back(hold, error)
        except BaseException as interrupt:
            self._give_back(hold, interrupt)
            raise

    def _give_back(self, hold: Hold, error: BaseException) -> None:
        session, mine = hold.session, (id(self), hold.run_id)
        if self._resuming.get(mine) is hold:
            del self._resuming[mine]
        if session is not None:
            self._leave(session)
        if not isinstance(error, Exception):  # else whoever raised it has released the run, or knows why not
            if session is not None:
                session.cancelled = True  # for nodes that still run on threads
                session.writer.abandon(error)
            if session is None or not session.is_released:
                self._opener.give_up(hold.run_id, hold.owner)
