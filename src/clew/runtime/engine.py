"""Engine: a graph, a store and options; the verbs that run graphs. Those that look at runs are in `Looking`.

Each verb that runs nodes has an async twin with an ``a`` in front. Both make the same session on the same machine;
what differs is who drives it. A run that fails is returned, not raised.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from os import PathLike
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from clew.engine.records import Failure
from clew.errors import (
    ClewError,
    CommitConflictError,
    EncodeError,
    InputError,
    RunError,
    RunOwnedError,
    RunStateError,
    StoreError,
    UnknownRunError,
)
from clew.graph import Graph
from clew.graph.graph import inside_event_loop
from clew.runtime import streaming
from clew.runtime.blocking import Blocking
from clew.runtime.events import Event, Listener
from clew.runtime.heartbeat import Heartbeat
from clew.runtime.looking import Looking
from clew.runtime.metrics import totals_of
from clew.runtime.opening import NO_ANSWER, Opener
from clew.runtime.result import RunResult, SchedulerState, scheduler_state
from clew.runtime.retrieval import StoredRun
from clew.runtime.session import Session
from clew.runtime.settings import Settings, graph_of, listeners_of, read_settings, store_of
from clew.stores import MemoryStore, Store
from clew.stores.memory import NOWHERE

if TYPE_CHECKING:
    from clew.runtime.replay import ReplayReport
    from clew.state.values import Values


_NOT_ENDED = (StoreError, RunOwnedError, UnknownRunError, CommitConflictError)


class Engine(Looking):
    """Runs one graph, and keeps its runs in a store. Without a graph, it inspects the runs of the store."""

    _resuming: ClassVar[set[tuple[int, str]]] = set()  # engine and run: on their way to being live
    _resuming_lock = threading.Lock()

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        store: Store | str | PathLike[str] | None = None,
        listeners: Sequence[Listener] = (),
        **options: Any,
    ) -> None:
        self.store: Store = MemoryStore() if store is None else store_of(store)
        self._settings: Settings = read_settings(options)
        self._listeners = listeners_of(listeners) if listeners != () else ()
        self._live: dict[str, Session] = {}
        made_of = None if graph is None else graph_of(graph)
        self._opener = Opener(made_of, self.store, self._settings, self._listeners)
        self._heartbeat = Heartbeat(self.store, self._settings.lease) if self.store.encodes else None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what runs, and close the store."""
        for run_id in list(self._live):
            self.cancel(run_id)
        if self._heartbeat is not None:
            self._heartbeat.close()
        self.store.close()

    def __repr__(self) -> str:
        of = f" of {self.graph.name!r}" if self._opener.has_graph else ""
        return f"<Engine{of} on {self.store!r}>"

    # -- running -----------------------------------------------------------------------------------------

    def run(self, values: Values | None = None, *, run_id: str | None = None) -> RunResult:
        """Run the graph on `values`, or go on from a state, until nothing is left to do."""
        self._no_loop("run", "arun")
        return self._drive(self._opener.new(values, run_id))

    async def arun(self, values: Values | None = None, *, run_id: str | None = None) -> RunResult:
        """`run` on the running event loop."""
        return await self._adrive(self._opener.new(values, run_id))

    def stream(self, values: Values | None = None, *, run_id: str | None = None) -> Iterator[Event]:
        """Run, and yield each event as it happens; `engine.result(run_id)` has the result afterwards."""
        self._no_loop("stream", "astream")
        told: SimpleQueue[Event | None] = SimpleQueue()
        session = self._opener.new(values, run_id, told.put)
        if self.graph.has_async_nodes:
            import asyncio

            return streaming.from_thread(
                lambda: asyncio.run(self._adrive(session)), told, lambda: self.cancel(session.run_id)
            )
        return streaming.from_driver(self._driving(session), told)

    async def astream(
        self, values: Values | None = None, *, run_id: str | None = None
    ) -> AsyncIterator[Event]:
        """`stream` on the running event loop."""
        import asyncio

        loop, told = asyncio.get_running_loop(), asyncio.Queue[Event | None]()
        session = self._opener.new(
            values, run_id, lambda event: loop.call_soon_threadsafe(told.put_nowait, event)
        )
        events = streaming.from_task(self._adrive(session), told, lambda: self.cancel(session.run_id))
        async with aclosing(events):  # a stream that is closed has cancelled its run by then
            async for event in events:
                yield event

    def resume(
        self,
        run_id: str,
        *,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
    ) -> RunResult:
        """Go on with a run that failed, waits or was cancelled; a finished run is returned as it is."""
        self._no_loop("resume", "aresume")
        found = self._again(run_id, answer, answers, accept_changes)
        return self._drive(found) if isinstance(found, Session) else self._standing(found)

    async def aresume(
        self,
        run_id: str,
        *,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
    ) -> RunResult:
        """`resume` on the running event loop."""
        found = self._again(run_id, answer, answers, accept_changes)
        return await self._adrive(found) if isinstance(found, Session) else self._standing(found)

    def fork(
        self,
        parent: str,
        /,
        *,
        step: int | str | None = None,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> RunResult:
        """A new run that goes on from S(step) of the run `parent`, with other values."""
        self._no_loop("fork", "afork")
        return self._drive(self._opener.forked(parent, step, values, run_id))

    async def afork(
        self,
        parent: str,
        /,
        *,
        step: int | str | None = None,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> RunResult:
        """`fork` on the running event loop."""
        return await self._adrive(self._opener.forked(parent, step, values, run_id))

    def rerun(
        self, parent: str, /, *, values: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> RunResult:
        """Run again from the start, with other values or changed code, using again whatever they do not affect."""
        self._no_loop("rerun", "arerun")
        return self._drive(self._opener.rerun(parent, values, run_id))

    async def arerun(
        self, parent: str, /, *, values: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> RunResult:
        """`rerun` on the running event loop."""
        return await self._adrive(self._opener.rerun(parent, values, run_id))

    def replay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """Call the nodes of a run once more, against its recordings: does today's code do what was recorded?"""
        from clew.runtime.replay import Replayer

        self._no_loop("replay", "areplay")
        if not isinstance(strict, bool):
            raise InputError(f"strict is True or False, not {strict!r}")
        log = self._opener.runs.open(run_id).whole()
        return Replayer(log, self._opener.program(log.start), self._settings, strict=strict).run()

    async def areplay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """`replay` beside a running event loop, on a thread."""
        import asyncio

        return await asyncio.to_thread(self.replay, run_id, strict=strict)

    def cancel(self, run_id: str) -> bool:
        """Stop a run that is running, from any thread: async nodes are cancelled, sync ones told by
        ``ctx.cancelled``. False if it was not running."""
        session = self._live.get(run_id)
        if session is None:
            self.store.row(run_id)
            return False
        session.cancelled = True
        nudge = session.on_tell
        if nudge is not None:
            nudge()
        return True

    def scheduler(self, run_id: str) -> SchedulerState:
        """A running run's scheduler, live."""
        session = self._live.get(run_id)
        if session is None:
            status = self.store.row(run_id).status
            raise RunStateError(
                f"run {run_id!r} is not running in this engine (it is {status}); see engine.result"
            )
        return scheduler_state(
            session.machine, session.elapsed(), lambda: self.cancel(run_id), session.earlier
        )

    # -- sessions ----------------------------------------------------------------------------------------

    def attach(self, values: Values | None = None, run_id: str | None = None) -> Session:
        """For drivers of your own: a session to drive. `detach` ends it."""
        session = self._opener.new(values, run_id)
        try:
            session.ledger.barrier()  # who has it knows of the run
        except ClewError:
            self._opener.release(session.run_id, session.fence, session.owner)
            raise
        self._begin(session)
        return session

    def detach(self, session: Session) -> RunResult:
        """End a session that was driven from outside."""
        session.flush()
        return self._end(session, session.began)

    # -- driving -----------------------------------------------------------------------------------------

    def _drive(self, session: Session) -> RunResult:
        if self.graph.has_async_nodes:
            import asyncio

            return asyncio.run(self._adrive(session))
        began = self._begin(session)
        try:
            for _ in Blocking(session).drive():
                pass
        except EncodeError as error:
            return self._refuse(session, error)
        except BaseException as error:
            self._end(session, began, broken=error)
            raise
        return self._end(session, began)

    async def _adrive(self, session: Session) -> RunResult:
        began = self._begin(session)
        try:
            from clew.runtime.loop import Looping

            await Looping(session).drive()
        except EncodeError as error:
            return self._refuse(session, error)
        except BaseException as error:
            self._end(session, began, broken=error)
            raise
        return self._end(session, began)

    def _driving(self, session: Session) -> Generator[None, None, None]:
        """Drive a session in the caller's thread, pausing whenever events may have come up."""
        began = self._begin(session)
        try:
            yield from Blocking(session, inline=False).drive()
        except EncodeError as error:
            self._refuse(session, error)
        except BaseException as error:
            self._end(session, began, broken=error)
            raise
        else:
            self._end(session, began)

    def _begin(self, session: Session) -> float:
        self._live[session.run_id] = session
        if self._heartbeat is not None:
            self._heartbeat.add(session, session.fence)
        session.thread = threading.get_ident()
        session.began = began = self._settings.clock.monotonic()
        if session.listening:
            session.announce(
                "run_started", session.start.step, graph=self.graph.name, values=session.start.values
            )
        return began

    def _leave(self, session: Session) -> None:
        self._live.pop(session.run_id, None)
        if self._heartbeat is not None:
            self._heartbeat.remove(session.run_id)

    def _refuse(self, session: Session, error: EncodeError) -> RunResult:
        """A node returned what cannot be stored: the run has failed where its chain ends, before that step."""
        self._leave(session)
        run_id, archive = session.run_id, self._opener.archive
        session.cancelled = True  # for nodes that still run on threads
        try:
            session.ledger.close()
        except EncodeError:
            pass
        try:
            archive.close(run_id, session.fence, "failed", self._settings.clock.time(), (Failure(error),))
        except ClewError:
            self._opener.left(run_id, session.owner)
            raise
        result = self.result(run_id)
        result.failures = (Failure(error),)
        if session.listening:
            session.announce(
                "run_finished", result.steps, status="failed", error=error, metrics=result.metrics
            )
        return result

    def _end(self, session: Session, began: float, *, broken: BaseException | None = None) -> RunResult:
        machine, run_id, clock = session.machine, session.run_id, self._settings.clock
        self._leave(session)
        totals = session.earlier.plus(totals_of(machine, clock.monotonic() - began))
        try:
            if broken is not None:
                session.cancelled = True  # for nodes that still run on threads
                session.flush()
            session.measure()
            session.ledger.close()
        except ClewError as error:
            if broken is None:  # else what broke it is on its way to the caller already
                broken = session.lost or error
        if session.lost is not None and broken is None:
            broken = session.lost
        if broken is not None and isinstance(broken, _NOT_ENDED):
            # the run has not ended: whoever can goes on with it
            self._opener.release(run_id, session.fence, session.owner)
            raise broken
        status = "cancelled" if broken is not None else session.status()
        result = self._result(
            run_id,
            machine,
            status,
            session.start,
            totals=lambda: totals,
            records=session.ledger.records,
        )
        try:
            self._opener.archive.close(run_id, session.fence, status, clock.time(), result.failures)
        except ClewError:
            self._opener.left(run_id, session.owner)
            if broken is None:
                raise
        if session.listening:
            session.announce(
                "run_finished", machine.root.step, status=status, error=result.error, metrics=result.metrics
            )
        return result

    def _again(
        self, run_id: str, answer: Any, answers: Mapping[str, Any] | None, accept_changes: bool
    ) -> Session | StoredRun:
        """A session that continues a run, or the run if it has completed; of several threads, one gets it."""
        mine = (id(self), run_id)
        with self._resuming_lock:
            if run_id in self._live or mine in self._resuming:
                raise RunStateError(f"run {run_id!r} is running; wait for it, or cancel it")
            self._resuming.add(mine)
        try:
            found = self._opener.again(run_id, answer, answers, accept_changes, unless_completed=True)
            if isinstance(found, Session):
                self._live[run_id] = found
        finally:
            self._resuming.discard(mine)
        return found

    def _no_loop(self, verb: str, twin: str) -> None:
        if not inside_event_loop():
            return
        raise RunError(f"{verb}() would block the running event loop; await {twin}(...) instead.")


def passing(graph: Graph, options: dict[str, Any]) -> Engine:
    """An engine for one run that nobody will look up: unless a store is among the options it is kept nowhere."""
    if not options:
        return Engine(graph, store=NOWHERE)
    return Engine(graph, **{"store": NOWHERE, **options})
