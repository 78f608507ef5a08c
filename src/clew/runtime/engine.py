"""Engine: the facade that runs graphs and manages their runs.

`RunOpener` opens runs, `RunExecution` drives them, `RunInspection` reads them. A method that runs nodes and its twin
for event loops open the same session; only the driver differs. They raise the error of a failed run unless
``check=False``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from clew.engine.options import Status
from clew.engine.stops import Nodes, read_stops
from clew.errors import InputError, RunStateError
from clew.graph import Graph, Node
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.session import Session
from clew.runtime.events import Event, Listener
from clew.runtime.execution import RunExecution
from clew.runtime.inspection import RunInspection
from clew.runtime.opener import NO_ANSWER
from clew.runtime.progress import showing
from clew.runtime.result import RunResult, SchedulerState, scheduler_state
from clew.runtime.settings import EngineOptions, Settings, graph_of, listeners_of, read_settings, store_of
from clew.runtime.threads import Thread, ThreadOpener, all_threads, find_thread
from clew.runtime.turn_calls import TurnCalls, TurnOptions, awhen_free, read_turn, when_free
from clew.stores import MemoryStore, RunRow, Store

if TYPE_CHECKING:
    from clew.engine.reasons import Why
    from clew.engine.records import WorkItem
    from clew.runtime.handles.handle import RunHandle, RunHandles
    from clew.runtime.log.checkpoints import Checkpoint
    from clew.runtime.review.replay_report import ReplayReport
    from clew.runtime.review.run_diff import RunDiff
    from clew.state import GraphState
    from clew.state.input_types import Values


class Engine:
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
        self._turns = TurnCalls(self._execution, self._opener, live.__contains__)
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

    async def aclose(self) -> None:
        """`close` on the running event loop, which goes on so that its runs can end."""
        await self._handles.background.aclose(self.close)

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
                new = (values, hold.run_id, listener)
                opening = partial(self._opener.new, *new, owner=hold.owner, stops=stops)
                return execution.drive(hold, opening, check)
            call = read_turn(thread, turn)
            turning = self._turns.opening(call, values, hold, listener, stops)
            return when_free(call, hold, partial(execution.drive, hold, turning, check))

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
        execution = self._execution
        hold = execution.new_hold(run_id)
        stops = read_stops(self.graph, stop_before, stop_after)
        with showing(progress) as listener:
            if thread is None and not turn:
                new = (values, hold.run_id, listener)
                opening = partial(self._opener.new, *new, owner=hold.owner, stops=stops)
                return await execution.adrive(hold, opening, check, at_once=True)
            call = read_turn(thread, turn)
            turning = self._turns.opening(call, values, hold, listener, stops)
            return await awhen_free(call, hold, partial(execution.adrive, hold, turning, check))

    def thread(self, name: str) -> Thread:
        """Return a thread: its state, its history and its runs. Raise UnknownRunError if it does not exist."""
        return find_thread(name, self._inspection, self.store)

    def threads(self) -> list[Thread]:
        """Return the threads of the store, by name."""
        return all_threads(self._inspection, self.store)

    def start(
        self,
        values: Values | None = None,
        *,
        run_id: str | None = None,
        thread: str | None = None,
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunHandle:
        """Start a run in the background and return its handle: on a thread, or as a task of the running event loop.

        With a `thread`, it waits there for the runs of other callers.
        """
        call = read_turn(thread, turn) if thread is not None or turn else None
        return self._handles.start(values, run_id, read_stops(self.graph, stop_before, stop_after), call)

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of any run in the store, in this process or another one."""
        return self._handles.handle(run_id)

    @property
    def _handles(self) -> RunHandles:
        if self._made_handles is None:
            from clew.runtime.handles.handle import RunHandles

            self._made_handles = RunHandles(
                self._execution, self._opener, self._inspection, self._live, self._turns
            )
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
        call = read_turn(thread, turn) if thread is not None or turn else None
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
        call = read_turn(thread, turn) if thread is not None or turn else None
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
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """Start a new run from S(step) of the run `parent`, with changed values.

        With a `thread`, the new run becomes its head. With `path`, start inside that run, with the inner graph.
        """
        hold = self._execution.new_hold(run_id)
        stops = (stop_before, stop_after)
        call, opening = self._turns.fork(thread, turn, parent, path, step, values, hold, stops)
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
        stop_before: Nodes = None,
        stop_after: Nodes = None,
        **turn: Unpack[TurnOptions],
    ) -> RunResult:
        """`fork` on the running event loop."""
        hold = self._execution.new_hold(run_id)
        stops = (stop_before, stop_after)
        call, opening = self._turns.fork(thread, turn, parent, path, step, values, hold, stops)
        return await awhen_free(call, hold, partial(self._execution.adrive, hold, opening, check))

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

    # -- stored runs -------------------------------------------------------------------------------------

    def result(self, run_id: str) -> RunResult:
        """Return the result of a run so far, without running anything."""
        return self._inspection.result(run_id)

    def state(self, run_id: str, step: int | str | None = None, *, path: str | None = None) -> GraphState:
        """Return the latest state of a run, or S(step); `step` can be a label.

        With `path`, the state is that of a child (``outer#0!0``) or of a subgraph (``sub#0``) inside the run.
        """
        return self._inspection.state(run_id, step, path=path)

    def history(self, run_id: str, *, nested: bool = False, path: str | None = None) -> list[Checkpoint]:
        """Return a checkpoint for each S(k), of the run or of what is inside it at `path`.

        With `nested`, the steps of subgraphs are under their items.
        """
        return self._inspection.history(run_id, nested=nested, path=path)

    def label_checkpoint(self, run_id: str, label: str, *, step: int | None = None) -> Checkpoint:
        """Give S(step), by default the latest, a label."""
        return self._inspection.label_checkpoint(run_id, label, step=step)

    def why(self, run_id: str, target: str, *, path: str | None = None) -> Why:
        """Explain why a node ran last, or an item (``load#0[1]``), or which node wrote a value; `path` looks inside."""
        return self._inspection.why(run_id, target, path=path)

    def diff(self, a: str, b: str) -> RunDiff:
        """Compare two runs: where `b` diverges from `a`, and which values differ. The result prints as text."""
        return self._inspection.diff(a, b)

    def frontier(self, run_id: str, step: int | str | None = None) -> list[WorkItem]:
        """Return the items that would run next at the latest state, or at S(step)."""
        return self._inspection.frontier(run_id, step)

    def runs(self, *, status: Status | None = None, children: bool = False) -> list[RunRow]:
        """Return the runs of the store, oldest first, or those with one status; with `children`, also children."""
        return self._inspection.runs(status=status, children=children)

    def delete(self, run_id: str) -> None:
        """Delete a run. Raise RunOwnedError if it has a living owner."""
        self._inspection.delete(run_id)

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: float | None = None,
        status: Status | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Delete old runs and return their ids. Runs that can go on are kept unless `status` selects them."""
        return self._inspection.prune(keep=keep, older_than=older_than, status=status, dry_run=dry_run)

    def clear_cache(self, node: str | None = None) -> int:
        """Delete the cached results of all nodes with a name, or of all nodes; return how many there were."""
        if node is not None and not isinstance(node, str):
            raise InputError(f"node: expected the name of a node or None, got {node!r}")
        return self.store.clear_cache(node)

    def export_run(self, run_id: str, *, latest: bool = False) -> dict[str, Any]:
        """Return a run as a JSON document, with a checkpoint of each state, or of the `latest` only."""
        return self._inspection.export_run(run_id, latest=latest)

    def import_run(self, document: Mapping[str, Any]) -> RunRow:
        """Import a run that `export_run` wrote, from this store or another one."""
        return self._inspection.import_run(document)
