"""Engine: a graph, a store and options; the verbs that run graphs and look at runs.

Each verb that runs nodes has an async twin with an ``a`` in front. Both make the same session on the same machine;
what differs is who drives it. A run that fails is returned, not raised.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from queue import SimpleQueue
from typing import Any

from clew.engine.machine import Machine
from clew.engine.programs import check_values, complaint, program_of
from clew.engine.reasons import Why, why
from clew.engine.terms import Memory, Options
from clew.errors import InputError, RunError, RunStateError
from clew.graph import Graph
from clew.graph.graph import inside_event_loop
from clew.runtime import streaming
from clew.runtime.blocking import Blocking
from clew.runtime.cache import Cache
from clew.runtime.events import Event, Listener, Listeners
from clew.runtime.log import Answered, Labelled, RunLog, read_log, story_of
from clew.runtime.result import Checkpoint, RunResult, SchedulerState, scheduler_state
from clew.runtime.session import Session
from clew.runtime.settings import Settings, read_settings
from clew.state import GraphState, Position
from clew.stores import MemoryStore, RunRow, Store

_NO_ANSWER: Any = object()


class Engine:
    """Runs one graph, and keeps its runs in a store."""

    def __init__(
        self,
        graph: Graph,
        *,
        store: Store | None = None,
        listeners: Sequence[Listener] = (),
        **options: Any,
    ) -> None:
        self.graph = graph
        self.store: Store = MemoryStore() if store is None else store
        self._settings: Settings = read_settings(options)
        self._listeners = tuple(listeners)
        self._live: dict[str, Session] = {}
        self._cache = Cache() if graph.has_cached_nodes else None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what runs, and close the store."""
        for run_id in list(self._live):
            self.cancel(run_id)
        self.store.close()

    def __repr__(self) -> str:
        return f"<Engine of {self.graph.name!r} on {self.store!r}>"

    def run(
        self, values: Mapping[str, Any] | GraphState | None = None, *, run_id: str | None = None
    ) -> RunResult:
        """Run the graph on `values`, or go on from a state, until nothing is left to do."""
        self._no_loop("run", "arun")
        return self._drive(self._new(values, run_id))

    async def arun(
        self, values: Mapping[str, Any] | GraphState | None = None, *, run_id: str | None = None
    ) -> RunResult:
        """`run` on the running event loop."""
        return await self._adrive(self._new(values, run_id))

    def stream(
        self, values: Mapping[str, Any] | GraphState | None = None, *, run_id: str | None = None
    ) -> Iterator[Event]:
        """Run, and yield each event as it happens; `engine.result(run_id)` has the result afterwards."""
        self._no_loop("stream", "astream")
        told: SimpleQueue[Event | None] = SimpleQueue()
        session = self._new(values, run_id, told.put)
        if self.graph.has_async_nodes:
            import asyncio

            return streaming.from_thread(
                lambda: asyncio.run(self._adrive(session)), told, lambda: self.cancel(session.run_id)
            )
        return streaming.from_driver(self._driving(session), told)

    async def astream(
        self, values: Mapping[str, Any] | GraphState | None = None, *, run_id: str | None = None
    ) -> AsyncIterator[Event]:
        """`stream` on the running event loop."""
        import asyncio

        loop, told = asyncio.get_running_loop(), asyncio.Queue[Event | None]()
        session = self._new(values, run_id, lambda event: loop.call_soon_threadsafe(told.put_nowait, event))
        events = streaming.from_task(self._adrive(session), told, lambda: self.cancel(session.run_id))
        async with aclosing(events):  # a stream that is closed has cancelled its run by then
            async for event in events:
                yield event

    def resume(
        self, run_id: str, *, answer: Any = _NO_ANSWER, answers: Mapping[str, Any] | None = None
    ) -> RunResult:
        """Go on with a run that failed, waits or was cancelled; a finished run is returned as it is."""
        self._no_loop("resume", "aresume")
        return self._drive(self._again(run_id, answer, answers))

    async def aresume(
        self, run_id: str, *, answer: Any = _NO_ANSWER, answers: Mapping[str, Any] | None = None
    ) -> RunResult:
        """`resume` on the running event loop."""
        return await self._adrive(self._again(run_id, answer, answers))

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
        return self._drive(self._forked(parent, step, values, run_id))

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
        return await self._adrive(self._forked(parent, step, values, run_id))

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

    # -- looking -----------------------------------------------------------------------------------------

    def result(self, run_id: str) -> RunResult:
        """The result of a run as it stands, without running anything."""
        log = self._log(run_id)
        machine = self._machine_at(log)
        while machine.take() is not None:
            pass  # what was journaled is recalled on the way; the rest is not executed
        result = self._result(run_id, machine, log.row.status, log.row.start, elapsed=0.0)
        result.error, result.questions = log.row.error, tuple(log.questions)
        return result

    def state(self, run_id: str, step: int | str | None = None) -> GraphState:
        """The latest state of a run, or S(step); `step` may be a label."""
        log = self._log(run_id)
        chain = log.chain(self._program(log.row.start))
        return chain.state(log.step_of(chain, step))

    def history(self, run_id: str, *, nested: bool = False) -> list[Checkpoint]:
        """One checkpoint for each S(k); with `nested`, subgraphs' steps are under their items."""
        log = self._log(run_id)
        chain = log.chain(self._program(log.row.start))
        return log.checkpoints(chain, self.graph, nested=nested)

    def checkpoint(self, run_id: str, label: str, *, step: int | None = None) -> Checkpoint:
        """Give S(step), the latest by default, a name."""
        log = self._log(run_id)
        chain = log.chain(self._program(log.row.start))
        number = log.step_of(chain, step)
        known = log.labels.get(label)
        if known is not None and known != number:
            raise RunStateError(
                f"run {run_id!r} has a label {label!r} at step {known} already; choose another"
            )
        self.store.append(run_id, [Labelled(label, number)])
        if self._listeners:
            event = Event("checkpoint", run_id, number, "", self._settings.clock.time(), {"label": label})
            Listeners(self._listeners).tell(event)
        return next(c for c in self.history(run_id) if c.step_id == number)

    def why(self, run_id: str, target: str) -> Why:
        """Which change made a node run last, or made the value that it wrote."""
        log = self._log(run_id)
        return why(self._program(log.row.start), story_of(log, self._log), target)

    def scheduler(self, run_id: str) -> SchedulerState:
        """A running run's scheduler, live."""
        session = self._live.get(run_id)
        if session is None:
            status = self.store.row(run_id).status
            raise RunStateError(
                f"run {run_id!r} is not running in this engine (it is {status}); see engine.result"
            )
        return scheduler_state(session.machine, session.elapsed(), lambda: self.cancel(run_id))

    def runs(self, *, status: str | None = None) -> list[RunRow]:
        """The runs in the store, oldest first."""
        return self.store.rows(status)

    def delete(self, run_id: str) -> None:
        """Forget a run."""
        if run_id in self._live:
            raise RunStateError(f"run {run_id!r} is running; cancel it first")
        self.store.delete(run_id)

    # -- sessions ----------------------------------------------------------------------------------------

    def _program(self, start: GraphState) -> Any:
        return program_of(self.graph, start.position.given)

    def _new(
        self,
        values: Mapping[str, Any] | GraphState | None,
        run_id: str | None,
        listener: Listener | None = None,
    ) -> Session:
        run_id = _new_id(run_id)
        if isinstance(values, GraphState):
            return self._from_state(values, run_id, None, listener)
        if values is None:
            values = {}
        elif not isinstance(values, Mapping):
            schema = self.graph.schema
            if schema is None or not isinstance(values, schema.cls):
                raise InputError(f"values are a mapping of names to values, not {values!r}")
            values = schema.given(values)
        given, seeded = check_values(self.graph, values)
        seed = self._seed(run_id)
        start = GraphState.assemble(
            values=seeded if seeded is not values else dict(seeded),
            versions=dict.fromkeys(seeded, 0),
            decisions={},
            terminated=False,
            position=Position(seed=seed, given=given),
            history={},
        )
        options, listeners = self._options(seed, listener)
        machine = Machine.begin(program_of(self.graph, given), seeded, options)
        return self._session(run_id, machine, start, seed, listeners, parent=None)

    def _from_state(
        self, state: GraphState, run_id: str, parent: str | None, listener: Listener | None
    ) -> Session:
        wrong = complaint(self.graph, frozenset(state.values))
        if wrong:
            raise InputError(wrong)
        position = state.position
        sent = {gate for items in position.sends.values() for gate, _ in items}
        for name in sorted({*position.visits, *position.wakes, *position.sends, *sent, *position.failed}):
            if name not in self.graph.nodes:
                raise InputError(
                    f"the state knows a node {name!r} that this graph does not have: it belongs to another graph"
                )
        seed = state.seed if state.seed is not None else self._seed(run_id)
        options, listeners = self._options(seed, listener)
        machine = Machine.restore(self._program(state), state, options)
        return self._session(run_id, machine, state, seed, listeners, parent=parent)

    def _forked(
        self, parent: str, step: int | str | None, values: Mapping[str, Any] | None, run_id: str | None
    ) -> Session:
        state = self.state(parent, step)
        schema = self.graph.schema
        if values:
            if schema is not None:
                for name in values:
                    schema.check_name(name, f"fork of {parent!r}")
                try:
                    values = {name: schema.validate(name, value) for name, value in values.items()}
                except ValueError as error:
                    raise InputError(f"fork of {parent!r}: {error}") from error
            state = state.set_multiple(values)
        return self._from_state(state, _new_id(run_id), parent, None)

    def _again(self, run_id: str, answer: Any, answers: Mapping[str, Any] | None) -> Session:
        if run_id in self._live:
            raise RunStateError(f"run {run_id!r} is running; wait for it, or cancel it")
        log = self._log(run_id)
        given = log.check_answers(
            {} if answer is _NO_ANSWER else {"answer": answer}, answers or {}, self.graph
        )
        if given:
            self.store.append(run_id, [Answered(path, value) for path, value in given.items()])
            log = self._log(run_id)
        options, listeners = self._options(log.row.seed, None)
        machine = self._machine_at(log, options)
        session = Session(
            run_id,
            machine,
            self.store,
            self._settings,
            entries=None,
            calls=log.calls,
            listeners=listeners,
            cache=self._cache,
        )
        session.start = log.row.start
        self.store.update(run_id, status="running", updated=self._settings.clock.time(), error=None)
        return session

    def _machine_at(self, log: RunLog, options: Options | None = None) -> Machine:
        program = self._program(log.row.start)
        chain = log.chain(program)
        memory = Memory(
            journal=log.journal,
            answers=log.answers,
            attempts=log.attempts,
            strands=log.strands,
            errors=chain.errors(),
        )
        return Machine.restore(
            program, chain.state(chain.last), options or self._options(log.row.seed, None)[0], memory
        )

    def _options(self, seed: int, listener: Listener | None) -> tuple[Options, Listeners | None]:
        settings = self._settings
        told = (*self._listeners, listener) if listener is not None else self._listeners
        return (
            Options(
                seed=seed,
                queue_depth=settings.queue_depth,
                max_steps=settings.max_steps,
                on_error=settings.on_error,
                on_conflict=settings.on_conflict,
                listening=bool(told),
            ),
            Listeners(told) if told else None,
        )

    def _session(
        self,
        run_id: str,
        machine: Machine,
        start: GraphState,
        seed: int,
        listeners: Listeners | None,
        *,
        parent: str | None,
    ) -> Session:
        now = self._settings.clock.time()
        row = RunRow(run_id, self.graph.name or "", start, seed, "running", now, now, parent)
        entries = self.store.create(row)
        session = Session(
            run_id,
            machine,
            self.store,
            self._settings,
            entries=entries,
            listeners=listeners,
            cache=self._cache,
        )
        session.start = start
        return session

    def _seed(self, run_id: str) -> int:
        if self._settings.seed is not None:
            return self._settings.seed
        return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7], "big")

    def attach(
        self, values: Mapping[str, Any] | GraphState | None = None, run_id: str | None = None
    ) -> Session:
        """For drivers of your own: a session to drive. `detach` ends it."""
        session = self._new(values, run_id)
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
        except BaseException:
            self._end(session, began, broken=True)
            raise
        return self._end(session, began)

    async def _adrive(self, session: Session) -> RunResult:
        began = self._begin(session)
        try:
            from clew.runtime.loop import Looping

            await Looping(session).drive()
        except BaseException:
            self._end(session, began, broken=True)
            raise
        return self._end(session, began)

    def _driving(self, session: Session) -> Generator[None, None, None]:
        """Drive a session in the caller's thread, pausing whenever events may have come up."""
        began = self._begin(session)
        finished = False
        try:
            yield from Blocking(session, inline=False).drive()
            finished = True
        finally:
            self._end(session, began, broken=not finished)

    def _begin(self, session: Session) -> float:
        self._live[session.run_id] = session
        session.thread = threading.get_ident()
        session.began = began = self._settings.clock.monotonic()
        if session.listening:
            session.announce(
                "run_started", session.start.step, graph=self.graph.name, values=session.start.values
            )
        return began

    def _end(self, session: Session, began: float, *, broken: bool = False) -> RunResult:
        machine = session.machine
        if broken:
            session.cancelled = True  # for nodes that still run on threads
            session.flush()
        status = "cancelled" if broken else session.status()
        clock = self._settings.clock
        self._live.pop(session.run_id, None)
        result = self._result(
            session.run_id,
            machine,
            status,
            session.start,
            elapsed=clock.monotonic() - began,
            entries=session.entries,
        )
        self.store.update(session.run_id, status=status, updated=clock.time(), error=result.error)
        if session.listening:
            session.announce("run_finished", machine.root.step, status=status, error=result.error)
        return result

    def _result(
        self,
        run_id: str,
        machine: Machine,
        status: Any,
        start: GraphState,
        *,
        elapsed: float,
        entries: Sequence[Any] | None = None,
    ) -> RunResult:
        def state() -> GraphState:
            kept = self.store.entries(run_id) if entries is None else entries  # the store may have dropped it
            row = RunRow(run_id, "", start, machine.options.seed)
            log = read_log(row, kept, self._settings.on_conflict)
            chain = log.chain(self._program(start))
            root = machine.root
            return chain.state_of(root.view, root.step)

        return RunResult(run_id, machine, status, state, elapsed=elapsed)

    def _log(self, run_id: str) -> RunLog:
        return read_log(self.store.row(run_id), self.store.entries(run_id), self._settings.on_conflict)

    def _no_loop(self, verb: str, twin: str) -> None:
        if not inside_event_loop():
            return
        raise RunError(
            f"{verb} was called inside a running event loop, which it would block; await {twin} instead"
        )


def _new_id(run_id: str | None) -> str:
    if run_id is None:
        return os.urandom(16).hex()
    if not run_id or type(run_id) is not str:
        raise InputError(f"run_id is a string that is not empty, not {run_id!r}")
    return run_id
