"""Engine: the facade that runs graphs and manages their runs.

`RunOpener` opens runs, `RunExecution` drives them, and `StoredRuns` manages them. A method that runs nodes and its
async twin open the same session; only the driver differs. Both raise the error of a failed run unless ``check=False``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, Unpack

from msgspec.structs import replace

from clew.engine.stops import Nodes, read_stops
from clew.errors import InputError, RunStateError
from clew.graph import Graph, Node
from clew.runtime.drivers.hold import Hold
from clew.runtime.execution import RunExecution
from clew.runtime.log.registration import NewRun, registered
from clew.runtime.messages import cancel_run
from clew.runtime.opener import NO_ANSWER
from clew.runtime.reporting.events import Event
from clew.runtime.reporting.observers import Followers
from clew.runtime.reporting.progress import showing
from clew.runtime.result import RunResult, SchedulerState, scheduler_state
from clew.runtime.run_ids import checked_run_id
from clew.runtime.settings import EngineOptions, Settings, graph_of, listeners_of, read_settings, store_of
from clew.runtime.stored_runs import StoredRuns
from clew.runtime.turns.threads import ThreadOpener
from clew.runtime.turns.turn_calls import (
    NOT_IN_THREAD,
    TurnCalls,
    TurnOptions,
    awhen_free,
    read_turn,
    when_free,
)
from clew.stores import MemoryStore, Store

if TYPE_CHECKING:
    from datetime import datetime

    from clew.runtime.handles.handle import RunHandle, RunHandles
    from clew.runtime.review.replay_report import ReplayReport
    from clew.state.input_types import Values


class Engine(StoredRuns):
    """An engine: it runs a graph and stores the runs. Without a graph, it inspects and manages the runs of a store.

    Each method that runs nodes has an async version, with the prefix ``a``. The sync version also works inside a
    running event loop (a notebook), which it blocks. If the run fails, these methods raise the error of the node
    (`clew.result_of` returns the result of that run); if it is cancelled, `RunCancelledError`. With ``check=False``,
    here or in the engine, they return the result. With ``progress=True``, a terminal or a notebook shows what runs.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        store: Store | str | PathLike[str] | None = None,
        listeners: Followers = (),
        **options: Unpack[EngineOptions],
    ) -> None:
        if graph is None and store is None:
            raise InputError(
                "an Engine needs a graph to run, or a store to inspect; pass graph, store or both"
            )
        opened: Store = MemoryStore() if store is None else store_of(store)
        settings: Settings = read_settings(options, opened)
        hearing = listeners_of(listeners) if listeners != () else ()
        opener = ThreadOpener(None if graph is None else graph_of(graph), opened, settings, hearing)
        super().__init__(opened, opener, {})
        self._execution = RunExecution(opener, self._live)
        self._turns = TurnCalls(self._execution, opener)
        self._made_handles: RunHandles | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Cancel the running runs, and close the store."""
        for run_id in list(self._live):
            self.cancel(run_id)
        if self._made_handles is not None:
            self._made_handles.background.close()
        self._execution.close()
        self.store.close()

    async def aclose(self) -> None:
        """Close the engine on the running event loop, so that its runs can end."""
        await self._handles.background.aclose(self.close)

    def __repr__(self) -> str:
        name = self.graph.name if self._opener.has_graph else None
        return f"<Engine{'' if name is None else f' of {name!r}'} on {self.store!r}>"

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
        attributes: Mapping[str, str] | None = None,
        check: bool | None = None,
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """Run the graph on `values`, or continue from a state, until nothing is left to do.

        With a `thread`, the run continues from the last state of that thread. It pauses before a step with a node of
        `stop_before`, or after one of `stop_after`.
        """
        execution = self._execution
        hold, run = self._new(run_id, attributes, stop_before, stop_after)
        if thread is None and not turn and progress is False:  # most runs
            return execution.drive(hold, partial(self._opener.begin, values, run), check)
        with showing(progress) as listener:
            call, opening = self._turns.new(thread, turn, values, replace(run, listener=listener))
            return when_free(call, hold, partial(execution.drive, hold, opening, check))

    async def arun(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        thread: str | None = None,
        attributes: Mapping[str, str] | None = None,
        check: bool | None = None,
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """`run` on the running event loop."""
        execution = self._execution
        hold, run = self._new(run_id, attributes, stop_before, stop_after)
        with showing(progress) as listener:
            call, opening = self._turns.new(thread, turn, values, replace(run, listener=listener))
            if call is NOT_IN_THREAD:
                return await execution.adrive(hold, opening, check, at_once=True)
            return await awhen_free(call, hold, partial(execution.adrive, hold, opening, check))

    def _new(
        self,
        run_id: str | None,
        attributes: Mapping[str, str] | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> tuple[Hold, NewRun]:
        """Return the hold of a run that is to be created, and what its caller has decided about it."""
        hold = self._execution.new_hold(run_id)
        stops = read_stops(self._opener.graph, stop_before, stop_after)
        return hold, NewRun(hold.run_id, hold.owner, stops, registered(attributes))

    def start(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        thread: str | None = None,
        attributes: Mapping[str, str] | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunHandle:
        """Start a run in the background and return its handle: on a thread, or as a task of the running event loop.

        With a `thread`, the run first waits for the runs of other callers in that thread.
        """
        call = read_turn(thread, turn)
        return self._handles.start(values, *self._new(run_id, attributes, stop_before, stop_after), call)

    def submit(
        self,
        values: Values | None = None,
        *,
        queue: str = "default",
        priority: int = 0,
        at: datetime | float | None = None,
        run_id: str | None = None,
        thread: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> RunHandle:
        """Put a run into a queue, for a `Worker` to execute, and return its handle at once.

        The lowest `priority` number goes first. The run is due now, or `at` a time: a datetime with a time zone, or
        seconds since the epoch. With a `thread`, raise ThreadBusyError if its last run has not stopped.
        """
        from clew.runtime.submission import put

        place = (queue, priority, at)
        return self._handles.handle(put(self._opener, self._live, values, *place, run_id, thread, attributes))

    async def asubmit(
        self,
        values: Values | None = None,
        *,
        queue: str = "default",
        priority: int = 0,
        at: datetime | float | None = None,
        run_id: str | None = None,
        thread: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> RunHandle:
        """`submit` on a thread, for use on an event loop."""
        import asyncio

        where: Any = {"queue": queue, "priority": priority, "at": at, "run_id": run_id}
        return await asyncio.to_thread(self.submit, values, **where, thread=thread, attributes=attributes)

    def resubmit(
        self,
        run_id: str,
        *,
        queue: str | None = None,
        priority: int | None = None,
        at: datetime | float | None = None,
    ) -> RunHandle:
        """Put a run that failed, was cancelled or is paused into a queue: a worker continues it.

        Without `queue` and `priority`, a run that has a place in a queue keeps it.
        """
        from clew.runtime.submission import put_again

        return self._handles.handle(put_again(self._opener, run_id, queue, priority, at, live=self._live))

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of any run in the store, in this process or another one."""
        return self._handles.handle(run_id)

    @property
    def _handles(self) -> RunHandles:
        if self._made_handles is None:
            from clew.runtime.handles.handle import RunHandles

            self._made_handles = RunHandles(self._execution, self._turns)
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
        thread: str | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> Iterator[Event]:
        """Run, and yield each event as it happens; `engine.result(run_id)` has the result afterwards.

        With `answer`, `answers` or `resume`, continue the run `run_id` instead of starting a new one.
        """
        stops = read_stops(self.graph, stop_before, stop_after)
        call = read_turn(thread, turn)
        return self._handles.stream(values, run_id, answer, answers, resume, check, stops, call)

    async def astream(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        resume: bool = False,
        check: bool | None = None,
        thread: str | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> AsyncIterator[Event]:
        """`stream` on the running event loop."""
        stops = read_stops(self.graph, stop_before, stop_after)
        call = read_turn(thread, turn)
        events = self._handles.astream(values, run_id, answer, answers, resume, check, stops, call)
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
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """Resume a run that failed, waits, is paused or was cancelled; return the result of a completed run."""
        hold = Hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        given = (answer, answers, accept_changes)
        with showing(progress) as listener:
            opening = partial(self._execution.resumed, hold, *given, listener, stops)
            return self._execution.drive(hold, opening, check)

    async def aresume(
        self,
        run_id: str,
        *,
        answer: Any = NO_ANSWER,
        answers: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
        check: bool | None = None,
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """`resume` on the running event loop."""
        hold = Hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        given = (answer, answers, accept_changes)
        with showing(progress) as listener:
            opening = partial(self._execution.resumed, hold, *given, listener, stops)
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
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """Start a new run from S(step) of the run `parent`, with changed values.

        With a `thread`, the new run becomes its head. With `path`, start inside that run, with the inner graph.
        """
        hold = self._execution.new_hold(run_id)
        with showing(progress) as listener:
            run = NewRun(hold.run_id, hold.owner, listener=listener)
            start = (parent, path, step, values, run, (stop_before, stop_after))
            call, opening = self._turns.fork(thread, turn, *start)
            return when_free(call, hold, partial(self._execution.drive, hold, opening, check))

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
        progress: bool = False,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """`fork` on the running event loop."""
        hold = self._execution.new_hold(run_id)
        with showing(progress) as listener:
            run = NewRun(hold.run_id, hold.owner, listener=listener)
            start = (parent, path, step, values, run, (stop_before, stop_after))
            call, opening = self._turns.fork(thread, turn, *start)
            return await awhen_free(call, hold, partial(self._execution.adrive, hold, opening, check))

    def rerun(
        self,
        parent: str,
        /,
        *,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        check: bool | None = None,
        progress: bool = False,
        force: Sequence[str] = (),
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """Run again from the start, with changed values or code, and reuse the results that are still valid.

        Nodes in `force` run even if nothing has changed; name those of subgraphs by path, ``"sub/ask"``.
        """
        hold, run = self._new(run_id, None, stop_before, stop_after)
        with showing(progress) as listener:
            opening = partial(self._opener.rerun, parent, values, replace(run, listener=listener), force)
            return self._execution.drive(hold, opening, check)

    async def arerun(
        self,
        parent: str,
        /,
        *,
        values: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        check: bool | None = None,
        progress: bool = False,
        force: Sequence[str] = (),
        stop_before: Nodes = None,
        stop_after: Nodes = None,
    ) -> RunResult:
        """`rerun` on the running event loop."""
        hold, run = self._new(run_id, None, stop_before, stop_after)
        with showing(progress) as listener:
            opening = partial(self._opener.rerun, parent, values, replace(run, listener=listener), force)
            return await self._execution.adrive(hold, opening, check)

    def update(
        self,
        run_id: str,
        values: Mapping[str, Any] | None = None,
        *,
        as_node: str | Node | None = None,
        decision: Any = None,
    ) -> RunResult:
        """Commit one step by hand: `values` go through the reducers, as if `as_node` (``sub/tool``) had written them.

        The run is paused afterwards. A gate takes a `decision`. Without `as_node`, the values come from outside.
        """
        return self._execution.updated(run_id, {} if values is None else values, as_node, decision)

    async def aupdate(
        self,
        run_id: str,
        values: Mapping[str, Any] | None = None,
        *,
        as_node: str | Node | None = None,
        decision: Any = None,
    ) -> RunResult:
        """`update` on a thread, for use on an event loop."""
        import asyncio

        return await asyncio.to_thread(self.update, run_id, values, as_node=as_node, decision=decision)

    def replay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """Execute the nodes of a run against its recordings, and report what differs from them."""
        from clew.runtime.review.replays import replay

        if not isinstance(strict, bool):
            raise InputError(f"strict must be True or False, got {strict!r}")
        return replay(self._opener, self._settings, run_id, strict=strict)

    async def areplay(self, run_id: str, *, strict: bool = True) -> ReplayReport:
        """`replay` on a thread, for use on an event loop."""
        import asyncio

        return await asyncio.to_thread(self.replay, run_id, strict=strict)

    def cancel(self, run_id: str) -> bool:
        """Cancel a run, wherever it executes, from any thread; return False if it has ended.

        Async nodes are cancelled. Sync nodes can check ``ctx.cancelled``. A run that no process executes ends at once.
        """
        session = self._live.get(checked_run_id(run_id))
        if session is None:
            return cancel_run(self._opener, run_id)
        self._execution.stop(session)
        return True

    def scheduler_state(self, run_id: str) -> SchedulerState:
        """Return the scheduler of a running run: active nodes, queue, metrics."""
        session = self._live.get(checked_run_id(run_id))
        if session is None:
            status = self.store.row(run_id).status
            raise RunStateError(
                f"run {run_id!r} is not running in this engine (it is {status}); see engine.result"
            )
        return scheduler_state(
            session.machine, session.writer.latency, lambda: self.cancel(run_id), session.earlier
        )
