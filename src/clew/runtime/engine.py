"""Engine: the facade that runs graphs and manages their runs.

`RunOpener` opens runs, `RunExecution` drives them, `RunInspection` reads them. A method that runs nodes and its twin
for event loops open the same session; only the driver differs. They raise the error of a failed run unless
``check=False``.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from clew.engine.stops import Nodes, Stops, read_stops
from clew.errors import (
    ClewError,
    InputError,
    RunStateError,
    ThreadBusyError,
)
from clew.graph import Graph
from clew.runtime.drivers.hold import Hold, conclude
from clew.runtime.drivers.session import Session
from clew.runtime.events import Event, Listener
from clew.runtime.execution import RunExecution
from clew.runtime.inside import forked
from clew.runtime.inspection import RunInspection
from clew.runtime.opener import NO_ANSWER
from clew.runtime.progress import showing
from clew.runtime.result import RunResult, SchedulerState, scheduler_state
from clew.runtime.settings import EngineOptions, Settings, graph_of, listeners_of, read_settings, store_of
from clew.runtime.stored_runs import StoredRuns
from clew.runtime.threads import Thread, ThreadOpener, TurnOptions, check_thread, pauses
from clew.stores import MemoryStore, Store
from clew.stores.memory.store import NOWHERE

if TYPE_CHECKING:
    from clew.runtime.handles.handle import RunHandle, RunHandles
    from clew.runtime.review.replay_report import ReplayReport
    from clew.state.input_types import Values


class Engine(StoredRuns):
    """Runs a graph and stores its runs. Without a graph, it inspects and manages the runs of a store.

    Methods that run nodes have a twin for event loops, with the prefix ``a``. The others also work inside a running
    loop (a notebook), which they block. If the run fails, they raise the error of the node (`clew.result_of` gives the
    result behind it), and `RunCancelledError` if it is cancelled. With ``check=False``, which is also an option of the
    engine, they return the result instead.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        store: Store | str | PathLike[str] | None = None,
        listeners: Sequence[Listener] = (),
        **options: Unpack[EngineOptions],
    ) -> None:
        if graph is None and store is None:
            raise InputError(
                "an Engine needs a graph to run, or a store to inspect; pass graph, store or both"
            )
        self.store: Store = MemoryStore() if store is None else store_of(store)
        settings: Settings = read_settings(options, self.store)
        hearing = listeners_of(listeners) if listeners != () else ()
        live: dict[str, Session] = {}
        self._live = live
        self._settings = settings
        self._opener = ThreadOpener(None if graph is None else graph_of(graph), self.store, settings, hearing)
        self._inspection = RunInspection(self.store, self._opener, settings, hearing, live)
        self._execution = RunExecution(self.store, self._opener, settings, self._inspection, live)
        self._made_handles: RunHandles | None = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the running runs, and close the store."""
        for run_id in list(self._live):
            self.cancel(run_id)
        if self._made_handles is not None:
            self._made_handles.background.close()
        self._execution.close()
        self.store.close()

    def __repr__(self) -> str:
        of = f" of {self.graph.name!r}" if self._opener.has_graph else ""
        return f"<Engine{of} on {self.store!r}>"

    @property
    def graph(self) -> Graph:
        """The graph of the engine. Raises InputError if it has none."""
        return self._opener.graph

    # -- running -----------------------------------------------------------------------------------------

    def run(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        thread: str | None = None,
        check: bool | None = None,
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """Run the graph on `values`, or continue from a state, until nothing is left to do.

        With a `thread`, the run continues from the last state of that thread. With `progress`, a terminal or a notebook
        shows what runs. It pauses before a step with a node of `stop_before`, or after one of `stop_after`.
        """
        execution = self._execution
        hold = execution.new_hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        with showing(progress) as listener:
            if thread is None and not turn:
                opening = partial(
                    self._opener.new, values, hold.run_id, listener, owner=hold.owner, stops=stops
                )
                return execution.drive(hold, opening, check)
            for pause in pauses(turn):
                try:
                    return execution.drive(
                        hold, self._turn(thread, values, hold, turn, listener, stops), check
                    )
                except ThreadBusyError:
                    if hold.session is not None:
                        raise  # a node raised it
                time.sleep(pause)
            return execution.drive(hold, self._turn(thread, values, hold, turn, listener, stops), check)

    async def arun(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        thread: str | None = None,
        check: bool | None = None,
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """`run` on the running event loop."""
        import asyncio

        execution = self._execution
        hold = execution.new_hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        with showing(progress) as listener:
            if thread is None and not turn:
                opening = partial(
                    self._opener.new, values, hold.run_id, listener, owner=hold.owner, stops=stops
                )
                return await execution.adrive(hold, opening, check, at_once=True)
            for pause in pauses(turn):
                try:
                    turned = self._turn(thread, values, hold, turn, listener, stops)
                    return await execution.adrive(hold, turned, check)
                except ThreadBusyError:
                    if hold.session is not None:
                        raise  # a node raised it
                await asyncio.sleep(pause)
            return await execution.adrive(
                hold, self._turn(thread, values, hold, turn, listener, stops), check
            )

    def _turn(
        self,
        thread: str | None,
        values: Values | None,
        hold: Hold,
        options: TurnOptions,
        listener: Listener | None,
        stops: Stops | None,
    ) -> Callable[[], Session]:
        if thread is None:
            raise InputError(f"{', '.join(options)}: these options need a thread; pass thread=...")
        return partial(
            self._opener.turn,
            check_thread(thread),
            values,
            hold.run_id,
            hold.owner,
            listener,
            resume=self._resume_here,
            is_live=self._live.__contains__,
            drop=options.get("drop", False),
            stops=stops,
        )

    def _resume_here(self, run_id: str) -> None:
        """Resume a run in this thread, which is not one of an event loop."""
        hold = Hold(run_id)
        self._execution.drive(hold, partial(self._execution.resumed, hold, NO_ANSWER, None, False), False)

    def thread(self, name: str) -> Thread:
        """Return a thread: its state, its history and its runs. Raise UnknownRunError if it does not exist."""
        return Thread(check_thread(name), self._inspection, self.store)

    def start(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunHandle:
        """Start a run in the background and return its handle: on a thread, or as a task of the running event loop."""
        return self._handles.start(values, run_id, read_stops(self.graph, stop_before, stop_after))

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of any run in the store, in this process or another one."""
        return self._handles.handle(run_id)

    @property
    def _handles(self) -> RunHandles:
        if self._made_handles is None:
            from clew.runtime.handles.handle import RunHandles

            self._made_handles = RunHandles(self._execution, self._opener, self._inspection, self._live)
        return self._made_handles

    def stream(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        resume: bool = False,
        check: bool | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> Iterator[Event]:
        """Run, and yield each event as it happens; `engine.result(run_id)` has the result afterwards.

        With `answer`, `answers` or `resume`, continue the run `run_id` instead of starting a new one.
        """
        stops = read_stops(self.graph, stop_before, stop_after)
        return self._handles.stream(values, run_id, answer, answers, resume, check, stops)

    async def astream(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        resume: bool = False,
        check: bool | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> AsyncIterator[Event]:
        """`stream` on the running event loop."""
        stops = read_stops(self.graph, stop_before, stop_after)
        events = self._handles.astream(values, run_id, answer, answers, resume, check, stops)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    def resume(
        self,
        run_id: str,
        *,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
        check: bool | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """Resume a run that failed, waits, is paused or was cancelled; return the result of a completed run."""
        hold = Hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        opening = partial(self._execution.resumed, hold, answer, answers, accept_changes, stops=stops)
        return self._execution.drive(hold, opening, check)

    async def aresume(
        self,
        run_id: str,
        *,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
        check: bool | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """`resume` on the running event loop."""
        hold = Hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        opening = partial(self._execution.resumed, hold, answer, answers, accept_changes, stops=stops)
        return await self._execution.adrive(hold, opening, check)

    def fork(
        self,
        parent: str,
        /,
        *,
        step: int | str | None = None,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        thread: str | None = None,
        path: str | None = None,
        check: bool | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """Start a new run from S(step) of the run `parent`, with changed values.

        With a `thread`, the new run becomes its head. With `path`, start inside that run, with the inner graph.
        """
        hold = self._execution.new_hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        source = (self._opener, self._opener.move_of, parent, path)
        opening = partial(forked, *source, step, values, thread, hold, stops)
        return self._execution.drive(hold, opening, check)

    async def afork(
        self,
        parent: str,
        /,
        *,
        step: int | str | None = None,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        thread: str | None = None,
        path: str | None = None,
        check: bool | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """`fork` on the running event loop."""
        hold = self._execution.new_hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        source = (self._opener, self._opener.move_of, parent, path)
        opening = partial(forked, *source, step, values, thread, hold, stops)
        return await self._execution.adrive(hold, opening, check)

    def rerun(
        self,
        parent: str,
        /,
        *,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        check: bool | None = None,
        force: Sequence[str] = (),
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """Run again from the start, with changed values or code, and reuse the results that are still valid.

        Nodes in `force` run even if nothing has changed; name those of subgraphs by path, ``"sub/ask"``.
        """
        hold = self._execution.new_hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        opening = partial(self._opener.rerun, parent, values, hold.run_id, hold.owner, force, stops)
        return self._execution.drive(hold, opening, check)

    async def arerun(
        self,
        parent: str,
        /,
        *,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        check: bool | None = None,
        force: Sequence[str] = (),
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """`rerun` on the running event loop."""
        hold = self._execution.new_hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        opening = partial(self._opener.rerun, parent, values, hold.run_id, hold.owner, force, stops)
        return await self._execution.adrive(hold, opening, check)

    def update(
        self,
        run_id: str,
        values: Mapping[str, Any] | None = None,
        *,
        as_node: str | None = None,
        decision: Any = None,
    ) -> RunResult:
        """Commit one step by hand: `values` go through the reducers, as if `as_node` had written them.

        The run is paused afterwards. A gate takes a `decision`. Without `as_node`, the values come from outside.
        """
        return self._execution.updated(run_id, {} if values is None else values, as_node, decision)

    async def aupdate(
        self,
        run_id: str,
        values: Mapping[str, Any] | None = None,
        *,
        as_node: str | None = None,
        decision: Any = None,
    ) -> RunResult:
        """`update` on a thread, for use on an event loop."""
        import asyncio

        return await asyncio.to_thread(self.update, run_id, values, as_node=as_node, decision=decision)

    def replay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """Execute the nodes of a run against its recordings, and compare: does the code still do what was recorded?"""
        from clew.runtime.replays import replay

        if not isinstance(strict, bool):
            raise InputError(f"strict must be True or False, got {strict!r}")
        return replay(self._opener, self._settings, run_id, strict=strict)

    async def areplay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """`replay` on a thread, for use on an event loop."""
        import asyncio

        return await asyncio.to_thread(self.replay, run_id, strict=strict)

    def cancel(self, run_id: str) -> bool:
        """Stop a running run, from any thread; return False if it is not running here.

        Async nodes are cancelled. Sync nodes can check ``ctx.cancelled``.
        """
        session = self._live.get(run_id)
        if session is None:
            self.store.row(run_id)
            return False
        self._execution.stop(session)
        return True

    def scheduler_state(self, run_id: str) -> SchedulerState:
        """Return the scheduler of a running run: active nodes, queue, metrics."""
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

    def open_session(
        self,
        values: Values | None = None,
        run_id: str | None = None,
        *,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> Session:
        """Open a run for a driver of your own; `close_session` ends it."""
        execution = self._execution
        hold = execution.new_hold(run_id)
        try:
            stops = read_stops(self.graph, stop_before, stop_after)
            session = hold.session = self._opener.new(values, hold.run_id, owner=hold.owner, stops=stops)
            try:
                session.writer.barrier()  # the caller may rely on the run being stored
            except ClewError:
                self._opener.release(session.run_id, session.fence, session.owner)
                raise
            execution.begin(session)
        except BaseException as error:
            execution.free(hold, error)
            raise
        return session

    def close_session(self, session: Session) -> RunResult:
        """End a session that was opened with `open_session`, and return its result."""
        session.flush()
        return conclude(self._execution.ending(session))


def passing(graph: Graph, options: dict[str, Any]) -> Engine:
    """Return an engine for `Graph.run`. Unless the options name a store, its runs are stored nowhere.

    Without options, the graph keeps the engine for later runs, unless its nodes would share cached results.
    """
    if not options:
        kept: Engine | None = graph._engine
        if kept is None:
            kept = Engine(graph, store=NOWHERE)
            if not graph.has_cached_nodes:
                graph._engine = kept
        return kept
    return Engine(graph, **{"store": NOWHERE, **options})
