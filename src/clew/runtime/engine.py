"""Engine: a graph, a store and options; the verbs that run graphs. Those that look at runs are in `Looking`;
what they do with a run that they have opened is in `Driving`.

Each verb that runs nodes has an async twin with an ``a`` in front. Both make the same session on the same machine;
what differs is who drives it. A run that fails is returned, not raised.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from clew.errors import (
    ClewError,
    InputError,
    RunError,
    RunStateError,
)
from clew.graph import Graph
from clew.graph.graph import inside_event_loop
from clew.runtime.drivers import streams
from clew.runtime.drivers.hold import Hold, conclude
from clew.runtime.drivers.lease_renewal import LeaseRenewer
from clew.runtime.drivers.session import Session
from clew.runtime.events import Event, Listener
from clew.runtime.execution import Driving
from clew.runtime.log.repository import fresh_owner
from clew.runtime.opener import NO_ANSWER, RunOpener
from clew.runtime.result import RunResult, SchedulerState, scheduler_state
from clew.runtime.run_ids import new_run_id
from clew.runtime.settings import Settings, graph_of, listeners_of, read_settings, store_of
from clew.stores import MemoryStore, Store
from clew.stores.memory.store import NOWHERE

if TYPE_CHECKING:
    from clew.runtime.review.replay import ReplayReport
    from clew.state.input_types import Values


class Engine(Driving):
    """Runs one graph, and keeps its runs in a store. Without a graph, it inspects the runs of the store."""

    _resuming_lock = threading.Lock()

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        store: Store | str | PathLike[str] | None = None,
        listeners: Sequence[Listener] = (),
        **options: Any,
    ) -> None:
        if graph is None and store is None:
            raise InputError(
                "an Engine needs a graph to run, or a store to inspect; pass graph, store or both"
            )
        self.store: Store = MemoryStore() if store is None else store_of(store)
        self._settings: Settings = read_settings(options)
        self._listeners = listeners_of(listeners) if listeners != () else ()
        self._live: dict[str, Session] = {}
        made_of = None if graph is None else graph_of(graph)
        self._opener = RunOpener(made_of, self.store, self._settings, self._listeners)
        self._heartbeat = LeaseRenewer(self.store, self._settings.lease) if self.store.encodes else None

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
        if self._off_loop is not None:
            self._off_loop.close()
        self.store.close()

    def __repr__(self) -> str:
        of = f" of {self.graph.name!r}" if self._opener.has_graph else ""
        return f"<Engine{of} on {self.store!r}>"

    # -- running -----------------------------------------------------------------------------------------

    def run(self, values: Values | None = None, *, run_id: str | None = None) -> RunResult:
        """Run the graph on `values`, or go on from a state, until nothing is left to do."""
        self._no_loop("run", "arun")
        hold = self._new(run_id)
        return self._drive(hold, lambda: self._opener.new(values, hold.run_id, None, None, hold.owner))

    async def arun(self, values: Values | None = None, *, run_id: str | None = None) -> RunResult:
        """`run` on the running event loop."""
        hold = self._new(run_id)
        opening = partial(self._opener.new, values, hold.run_id, owner=hold.owner)
        return await self._adrive(hold, opening, at_once=True)

    def stream(self, values: Values | None = None, *, run_id: str | None = None) -> Iterator[Event]:
        """Run, and yield each event as it happens; `engine.result(run_id)` has the result afterwards."""
        self._no_loop("stream", "astream")
        hold = self._new(run_id)
        told: SimpleQueue[Event | None] = SimpleQueue()
        free = partial(self._free, hold)
        try:
            session = hold.session = self._opener.new(values, hold.run_id, told.put, owner=hold.owner)
            if self.graph.has_async_nodes:
                import asyncio

                return streams.begun(
                    streams.from_thread(
                        lambda: asyncio.run(self._adriven(session)),
                        told,
                        lambda: self.cancel(session.run_id),
                        free,
                    )
                )
            return streams.begun(streams.from_driver(self._driving(session), told, free))
        except BaseException as error:
            free(error)
            raise

    async def astream(
        self, values: Values | None = None, *, run_id: str | None = None
    ) -> AsyncIterator[Event]:
        """`stream` on the running event loop."""
        import asyncio

        loop, told = asyncio.get_running_loop(), asyncio.Queue[Event | None]()
        hold = self._new(run_id)
        opening = partial(
            self._opener.new,
            values,
            hold.run_id,
            lambda event: loop.call_soon_threadsafe(told.put_nowait, event),
            owner=hold.owner,
        )
        events = streams.from_task(
            self._adrive(hold, opening, at_once=True), told, lambda: self._stop(hold.session)
        )
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()  # a stream that is closed has cancelled its run by then

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
        hold = Hold(run_id)
        return self._drive(hold, partial(self._again, hold, answer, answers, accept_changes))

    async def aresume(
        self,
        run_id: str,
        *,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
    ) -> RunResult:
        """`resume` on the running event loop."""
        hold = Hold(run_id)
        return await self._adrive(hold, partial(self._again, hold, answer, answers, accept_changes))

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
        hold = self._new(run_id)
        opening = partial(self._opener.forked, parent, step, values, hold.run_id, hold.owner)
        return self._drive(hold, opening)

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
        hold = self._new(run_id)
        opening = partial(self._opener.forked, parent, step, values, hold.run_id, hold.owner)
        return await self._adrive(hold, opening)

    def rerun(
        self, parent: str, /, *, values: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> RunResult:
        """Run again from the start, with other values or changed code, using again whatever they do not affect."""
        self._no_loop("rerun", "arerun")
        hold = self._new(run_id)
        return self._drive(hold, partial(self._opener.rerun, parent, values, hold.run_id, hold.owner))

    async def arerun(
        self, parent: str, /, *, values: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> RunResult:
        """`rerun` on the running event loop."""
        hold = self._new(run_id)
        return await self._adrive(hold, partial(self._opener.rerun, parent, values, hold.run_id, hold.owner))

    def replay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """Call the nodes of a run once more, against its recordings: does today's code do what was recorded?"""
        from clew.runtime.review.replay import Replayer

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
        self._stop(session)
        return True

    def _stop(self, session: Session | None) -> None:
        if session is not None:
            session.cancelled = True
            nudge = session.on_tell
            if nudge is not None:
                nudge()

    def scheduler(self, run_id: str) -> SchedulerState:
        """A running run's scheduler, live."""
        session = self._live.get(run_id)
        if session is None:
            status = self.store.row(run_id).status
            raise RunStateError(
                f"run {run_id!r} is not running in this engine (it is {status}); see engine.result"
            )
        return scheduler_state(
            session.machine, session.writer.latency, lambda: self.cancel(run_id), session.earlier
        )

    # -- sessions ----------------------------------------------------------------------------------------

    def attach(self, values: Values | None = None, run_id: str | None = None) -> Session:
        """For drivers of your own: a session to drive. `detach` ends it."""
        hold = self._new(run_id)
        try:
            session = hold.session = self._opener.new(values, hold.run_id, owner=hold.owner)
            try:
                session.writer.barrier()  # who has it knows of the run
            except ClewError:
                self._opener.release(session.run_id, session.fence, session.owner)
                raise
            self._begin(session)
        except BaseException as error:
            self._free(hold, error)
            raise
        return session

    def detach(self, session: Session) -> RunResult:
        """End a session that was driven from outside."""
        session.flush()
        return conclude(self._ending(session))

    def _new(self, run_id: str | None) -> Hold:
        """A hold on a new run."""
        return Hold(new_run_id(run_id), fresh_owner() if self.store.encodes else "")

    def _again(
        self, hold: Hold, answer: Any, answers: Mapping[str, Any] | None, accept_changes: bool
    ) -> Session | RunResult:
        """A session that continues a run, or the result of one that has completed. Of several threads that want a
        session, one gets it."""
        run_id = hold.run_id
        mine = (id(self), run_id)
        with self._resuming_lock:
            if run_id in self._live or mine in self._resuming:
                raise RunStateError(f"run {run_id!r} is running; wait for it, or cancel it")
            self._resuming[mine] = hold
        try:
            hold.owner = self._opener.name_for(run_id)
            found = self._opener.again(
                run_id, answer, answers, accept_changes, hold.owner, unless_completed=True
            )
            if isinstance(found, Session):
                hold.session = self._live[run_id] = found
        finally:
            if self._resuming.get(mine) is hold:
                del self._resuming[mine]
        return found if isinstance(found, Session) else self._standing(found)

    def _no_loop(self, verb: str, twin: str) -> None:
        if not inside_event_loop():
            return
        raise RunError(f"{verb}() would block the running event loop; await {twin}(...) instead.")


def passing(graph: Graph, options: dict[str, Any]) -> Engine:
    """An engine for one run that nobody will look up: unless a store is among the options it is kept nowhere."""
    if not options:
        return Engine(graph, store=NOWHERE)
    return Engine(graph, **{"store": NOWHERE, **options})
