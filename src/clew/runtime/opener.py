"""Open a run: turn values, a state, another run or a log into a session that a driver can execute.

Every way of opening gives the same three things: a machine at the current position of the run, a writer that appends to
the log, and ownership of the run if other processes can use the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import Program, check_values, complaint, program_of
from clew.engine.stops import Stops
from clew.errors import ClewError, GraphChangedError, InputError, RunOwnedError, StoreError
from clew.graph import Graph
from clew.graph_warnings import warn
from clew.runtime.calls.cache import cache_for
from clew.runtime.drivers.publisher import last_emitted
from clew.runtime.drivers.session import Session
from clew.runtime.events import Listener, Listeners
from clew.runtime.inner_graphs import check_child_graph
from clew.runtime.log.fingerprints import (
    changed_code,
    changed_structure,
    is_made_with,
    kept_codes,
    warn_of_reducers,
)
from clew.runtime.log.graph_changes import accepted_changes, fill_defaults
from clew.runtime.log.in_memory.repository import repository_of
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.records import AcceptedChanges, AnswerRecord, ResumeRecord
from clew.runtime.log.replacements import replacements
from clew.runtime.log.repository import fresh_owner
from clew.runtime.log.run_checks import check_nodes, check_step, checked_values, input_values
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.schema_changes import gained, with_defaults, without_unknown
from clew.runtime.log.snapshots import is_turn
from clew.runtime.log.stop_records import stops_of_resume
from clew.runtime.log.turn_snapshots import SnapshotDistance
from clew.runtime.log.turns import Turn
from clew.runtime.ownership import Ownership, root_of
from clew.runtime.run_ids import seed_of
from clew.runtime.settings import Settings
from clew.state import GraphState, Position, assemble, position_of
from clew.state.stored_object import have_been_made, holds_stored
from clew.stores import RunRow, Store, ThreadMove

if TYPE_CHECKING:
    from clew.state.input_types import Values

NO_ANSWER: Any = object()


class RunOpener(Ownership):
    """Opens the runs of one graph in one store. Without a graph, runs can only be read.

    The ids of new runs are valid: the caller holds them (`clew.runtime.drivers.hold`).
    """

    def __init__(
        self, graph: Graph | None, store: Store, settings: Settings, listeners: tuple[Listener, ...]
    ) -> None:
        super().__init__(store, settings, repository_of(graph, store, settings.on_conflict))
        self._graph = graph
        self.listeners = listeners
        self._cache = cache_for(graph, store)

    @property
    def runs(self) -> RunReader:
        """Return the reader of the store's runs."""
        return self.repository.runs

    @property
    def has_graph(self) -> bool:
        """Return whether this opener can run nodes."""
        return self._graph is not None

    @property
    def graph(self) -> Graph:
        """Return the graph; raise InputError without one."""
        if self._graph is None:
            raise InputError(
                "this engine has no graph and can only inspect runs; to run nodes, use Engine(graph, store=...)"
            )
        return self._graph

    def state(self, run_id: str, step: int | str | None = None) -> GraphState:
        """Return the latest state of a run, or S(step); `step` may be a label."""
        return self.at(run_id, step)[0]

    def at(self, run_id: str, step: int | str | None) -> tuple[GraphState, StoredRun]:
        """Return a state of a run, by number or label, and the run."""
        check_step(step)
        run = self.runs.open(run_id)
        return run.state(run.log().label(step) if isinstance(step, str) else step), run

    def program(self, start: GraphState) -> Program:
        """Return the program of a run that started from this state."""
        return program_of(self.graph, position_of(start).given)

    def new(
        self,
        values: Values | None,
        run_id: str,
        listener: Listener | None = None,
        on_conflict: str | None = None,
        owner: str = "",
        at_once: bool = False,
        thread: ThreadMove | None = None,
        stops: Stops | None = None,
    ) -> Session:
        """Start a run with values or from a state. With `at_once`, raise WouldWait if the store would have to wait."""
        graph = self.graph
        if isinstance(values, GraphState):
            return self._from_state(
                values, run_id, None, listener, owner=owner, at_once=at_once, thread=thread, stops=stops
            )
        given, seeded = check_values(graph, values if type(values) is dict else input_values(graph, values))
        seed = self._seed(run_id)
        start = assemble(
            values=seeded if seeded is not values else dict(seeded),
            versions=dict.fromkeys(seeded, 0),
            decisions={},
            terminated=False,
            position=Position(seed=seed, given=given),
            history={},
        )
        options, listeners = self._options(seed, listener, on_conflict, start, stops)
        machine = Machine.begin(program_of(graph, given), seeded, options)
        return self._session(
            run_id, machine, start, seed, listeners, parent=None, owner=owner, at_once=at_once, thread=thread
        )

    def _from_state(
        self,
        state: GraphState,
        run_id: str,
        parent: str | None,
        listener: Listener | None,
        on_conflict: str | None = None,
        *,
        owner: str = "",
        at_once: bool = False,
        thread: ThreadMove | None = None,
        stops: Stops | None = None,
        distance: SnapshotDistance | None = None,
    ) -> Session:
        filled = gained(self.graph, state.values)
        state = with_defaults(state, filled)
        problem = complaint(self.graph, frozenset(state.values))
        if problem:
            raise InputError(problem)
        position = position_of(state)
        targets = {**position.selections, **position.sends}
        gates = {gate for pending in position.selections.values() for gate, _ in pending}
        gates.update(gate for pending in position.sends.values() for gate, _, _ in pending)
        for name in sorted({*position.visits, *targets, *gates, *position.failed}):
            if name not in self.graph.nodes:
                raise InputError(
                    f"the state refers to node {name!r}, which this graph does not have; use a state of this graph"
                )
        seed = state.seed if state.seed is not None else self._seed(run_id)
        options, listeners = self._options(seed, listener, on_conflict, state, stops)
        machine = Machine.restore(self.program(state), state, options)
        origin: dict[str, Any] = {"parent": parent, "owner": owner, "thread": thread, "distance": distance}
        session = self._session(run_id, machine, state, seed, listeners, at_once=at_once, **origin)
        if parent is not None:
            self._store_filled(session, filled)
        return session

    def _store_filled(self, session: Session, filled: Mapping[str, Any]) -> None:
        """Store the defaults of new fields: a fork stores only the values that the caller set."""
        if filled:
            graph, rule = self.graph, session.machine.options.on_conflict
            made = (graph.structure_hash, kept_codes(graph, rule), self.repository.describe(graph)[0])
            session.writer.write([AcceptedChanges(0, *made, {"": dict(filled)})])

    def forked(
        self,
        parent: str,
        step: int | str | None,
        values: Mapping[str, Any] | None,
        run_id: str,
        owner: str = "",
        thread: ThreadMove | None = None,
        stops: Stops | None = None,
    ) -> Session:
        """Start a run from a step of another one, with changed values."""
        state, run = self.at(parent, step)
        check_child_graph(self.store, run.accepted, self.graph)
        check_nodes(state, self.graph, parent)
        state = self._known(state.rooted(), parent)
        values = replacements(self.graph, "fork", parent, state, values)
        state = self.with_values(state, values, f"fork of {parent!r}")
        rule = self._on_conflict(run.on_conflict)
        return self._from_state(
            state, run_id, parent, None, rule, owner=owner, thread=thread, stops=stops, distance=run.distance
        )

    def rerun(
        self,
        parent: str,
        values: Mapping[str, Any] | None,
        run_id: str,
        owner: str,
        force: Sequence[str],
        stops: Stops | None = None,
    ) -> Session:
        """Start a run with the input values of another one and changes to them; reuse results that are still valid."""
        from clew.runtime.calls.reuse import ResultReuse, warn_of_edits

        run = self.runs.open(parent)
        check_child_graph(self.store, run.accepted, self.graph)
        log = run.whole()  # its states may have been made with other reducers
        # raises before the new run is created
        reuse = ResultReuse(log, self.program(log.start), self.graph, self.settings, force)
        warn_of_edits(log)
        rule = self._on_conflict(log.on_conflict)
        start = self._known(log.start, parent)
        values = replacements(self.graph, "rerun", parent, start, values)
        if start.step or log.row.parent is not None:  # the parent started from a state, and so does this run
            state = self.with_values(start, values, f"rerun of {parent!r}")
            # the input of a turn is no change of values
            origin = None if is_turn(log.row.start) else log.row.parent
            session = self._from_state(state, run_id, origin, None, rule, owner=owner, stops=stops)
        else:
            given = {name: start.get(name) for name in position_of(start).given}
            given.update(values or {})
            session = self.new(given, run_id, on_conflict=rule, owner=owner, stops=stops)
        session.reuse_results(reuse)
        return session

    def _known(self, state: GraphState, parent: str) -> GraphState:
        """Return a state without the values that the graph no longer has; warn about them."""
        known = without_unknown(self.graph, state)
        if known is not state:
            lost = ", ".join(repr(name) for name in state.values if not known.has(name))
            warn(f"run {parent!r} has values that this graph no longer has; the new run drops {lost}")
        return known

    def with_values(self, state: GraphState, values: Mapping[str, Any] | None, what: str) -> GraphState:
        """Return a state with changed values, after checking them against the schema."""
        return state if values is None else state.set_multiple(checked_values(self.graph, values, what))

    def again(
        self,
        run_id: str,
        answer: Any,
        answers: Mapping[str, Any] | None,
        accept_changes: bool,
        owner: str = "",
        *,
        unless_completed: bool = False,
        unless_cancelled: bool = False,
        listener: Listener | None = None,
        stops: Stops | None = None,
    ) -> Session | StoredRun:
        """Resume a run. With `unless_completed`, return a run that has ended for reading if nothing else was asked for.

        The row is read after the claim, because before it another process may change the row.
        """
        graph = self.graph  # before the run is claimed
        is_plain = unless_completed and answer is NO_ANSWER and not (answers or accept_changes or stops)
        try:
            fence, owner = self.claim(run_id, owner)
        except (RunOwnedError, StoreError):  # reading a completed run does not need ownership
            run = self.runs.open(run_id)
            if is_plain and run.row.status == "completed":
                return run
            raise
        has_begun = is_answered = False
        try:
            run = self.runs.open(run_id)
            row = run.row
            if unless_cancelled:
                self.check_not_cancelled(row)
            if is_plain and run.row.status == "completed":
                self.release(run_id, fence, owner)
                return run
            log = run.log()
            if is_plain and row.status == "failed" and self._has_ended(run, log):
                self.release(run_id, fence, owner)
                return run
            self.check_structure(log.row, accept_changes)  # before an answer is stored
            filled = fill_defaults(log, run.program(log.start), self.program(log.start))
            on_conflict = self._on_conflict(log.on_conflict)
            if answers is not None and not isinstance(answers, Mapping):
                raise InputError(f"answers must map question paths to answers, got {answers!r}")
            if not isinstance(accept_changes, bool):
                raise InputError(f"accept_changes must be True or False, got {accept_changes!r}")
            given = log.check_answers({} if answer is NO_ANSWER else {"answer": answer}, answers or {}, graph)
            accepted, contents = accepted_changes(
                log, filled, graph, on_conflict, self.repository.describe if accept_changes else None
            )
            asked, now = log.asked, self.settings.clock.time()
            answered = [
                AnswerRecord(path, value, asked[path].number, asked[path].position, now)
                for path, value in given.items()
            ]
            if answered:  # an answered run no longer waits, even if resuming fails later
                self.repository.begin(run_id, fence, self.settings.clock.time())
                has_begun = True
            chain = log.chain(run.program(log.start))
            stops, stopping = stops_of_resume(log, chain, stops, is_paused=row.status == "paused")
            if accepted or answered or stopping:
                records = [*accepted, *answered, *stopping]
                self.repository.writer(log, fence, "sync").write(records, contents)
                is_answered = bool(answered)
                run = self.runs.open(run_id) if accepted else run
                log = run.log()
            log.on_conflict = on_conflict
            options, listeners = self._options(
                log.row.seed, listener, on_conflict, log.start, stops, is_new=False
            )
            machine = self.machine_at(log, run.program(log.start), options, self.program(log.start))
            writer = self.repository.writer(log, fence, self.settings.durability)
            resumption = log.resumption
            if log.row.status == "failed":
                resumption += 1
                writer.write([ResumeRecord(resumption)])
            session = Session(
                run_id,
                machine,
                writer,
                self.settings,
                recall=self.runs.recall(run_id, intents=self.settings.on_ambiguous != "retry"),
                resumption=resumption,
                listeners=listeners,
                cache=self._cache,
            )
            session.start, session.fence, session.owner = log.start, fence, owner
            session.earlier = log.totals(self.graph)
            session.measured = max((each.n for each in log.measured), default=-1) + 1
            session.hold(log.due)
            session.emitted = last_emitted(self.store, run_id) if self.settings.publish else 0
            if not has_begun:
                self.repository.begin(run_id, fence, self.settings.clock.time())
        except Exception:
            if is_answered:
                self.give_up(run_id, owner)
            elif has_begun:
                self._restore(row, fence, owner)
            else:
                self.release(run_id, fence, owner)
            raise
        except BaseException:
            self.give_up(run_id, owner)
            raise
        return session

    def _has_ended(self, run: StoredRun, log: RunLog) -> bool:
        """Return whether a failed run has nothing left to do: its failures were confined."""
        machine = self.machine_at(log, run.program(log.start))
        machine.preview()
        return machine.root.state != "running"

    def _restore(self, row: RunRow, fence: int, owner: str) -> None:
        """Reset the row of a run that could not be resumed, and release the run."""
        try:
            self.repository.close(row.run_id, fence, row.status, row.updated, row.failures)
        except ClewError:
            self.left(row.run_id, owner)

    def _on_conflict(self, rule: str) -> str:
        """Return the conflict rule of a resumed run: "last" if the run or the settings say so."""
        return "last" if "last" in (rule, self.settings.on_conflict) else "error"

    def check_structure(self, row: RunRow, accept_changes: bool = False) -> None:
        """Reject a changed structure; warn about changed code."""
        if not accept_changes and not is_made_with(row, self.graph):
            raise GraphChangedError(changed_structure(row, self.graph, root_of(self.store, row)))
        warn_of_reducers(row, self.graph)
        if changed := ", ".join(map(repr, changed_code(row, self.graph))):
            warn(f"run {row.run_id!r} continues with changed code in {changed}")

    def machine_at(
        self, log: RunLog, program: Program, options: Options | None = None, now: Program | None = None
    ) -> Machine:
        """Return a machine at the end of a log. `program` made the recorded steps; the machine continues with `now`."""
        chain = log.chain(program)
        state = chain.state(chain.last)
        if now is not None and now is not program:
            check_nodes(state, now.graph, log.row.run_id)
        prior_work = PriorWork(
            finished=log.finished,
            answers=log.answers,
            answered=log.answered,
            attempts=log.attempts,
            frames=log.frames,
            failures=[
                pair
                for pair in (*log.failures, *chain.failures())
                # a step by hand may have replaced it; a failure inside a subgraph belongs to the outermost node
                if pair[1].rescued or pair[1].path.partition("#")[0] in position_of(state).failed
            ],
            held=set(log.due),
        )
        if options is None:
            known = (log.row.seed, None, log.on_conflict, log.start)
            options = self._options(*known, is_new=False)[0]
        finished = [dict(outcome.update) for outcome in log.finished.values()]
        answers = [dict(answers) for answers in log.answers.values()]
        if log.frames or holds_stored(state.values.values(), finished, answers):
            options = msgspec.structs.replace(options, step_by_step=have_been_made())
        return Machine.restore(now or program, state, options, prior_work)

    def _options(
        self,
        seed: int,
        listener: Listener | None,
        on_conflict: str | None,
        start: GraphState,
        stops: Stops | None = None,
        *,
        is_new: bool = True,
    ) -> tuple[Options, Listeners | None]:
        settings = self.settings
        listeners = (*self.listeners, listener) if listener is not None else self.listeners
        return (
            Options(
                seed=seed,
                queue_depth=settings.queue_depth,
                max_steps=settings.max_steps + position_of(start).began,
                began=position_of(start).began,
                on_error=settings.on_error,
                on_conflict=settings.on_conflict if on_conflict is None else on_conflict,  # type: ignore[arg-type]
                listening=bool(listeners),
                durable=self.store.encodes,
                step_by_step=is_new and holds_stored(start.values.values()),
                stops=stops,
            ),
            Listeners(listeners) if listeners else None,
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
        owner: str,
        at_once: bool = False,
        thread: ThreadMove | None = None,
        turn: Turn | None = None,
        distance: SnapshotDistance | None = None,
    ) -> Session:
        settings = self.settings
        created = settings.clock.time()
        owner = owner or (fresh_owner() if self.store.encodes else "")
        # Listeners get events of a durable run. Without listeners, the background writer may create the run later.
        wait = settings.durability != "async" or listeners is not None or not self.store.defers
        try:
            fence = self.repository.create(
                run_id,
                start,
                seed,
                created,
                parent=parent,
                parent_step=None if parent is None else start.step,
                target=settings.import_string,
                owner=owner,
                lease=settings.lease,
                on_conflict=machine.options.on_conflict,
                stops=machine.options.stops,
                wait=wait,
                at_once=at_once,
                thread=thread,
                turn=turn,
                distance=distance,
            )
        except StoreError:  # the run may exist nevertheless, owned by this process
            self.left(run_id, owner)
            raise
        writer = self.repository.new_writer(run_id, start, created, fence, settings.durability, owes=not wait)
        recall = self.runs.recall(run_id, intents=True)
        session = Session(
            run_id, machine, writer, settings, recall=recall, listeners=listeners, cache=self._cache
        )
        session.start, session.fence, session.owner = start, fence, owner
        return session

    def _seed(self, run_id: str) -> int:
        return seed_of(run_id) if self.settings.seed is None else self.settings.seed
