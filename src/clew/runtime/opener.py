"""Open a run: turn values, a state, another run or a log into a session that a driver can execute.

Every way of opening a run creates the same three things: a machine at the current position of the run, a writer that
appends to the log, and ownership of the run if other processes can use the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import Program, check_values, complaint, program_of
from clew.engine.stops import Stops
from clew.errors import GraphChangedError, InputError, RunOwnedError, StoreError
from clew.graph import Graph
from clew.graph_warnings import warn
from clew.runtime.calls.cache import cache_for
from clew.runtime.drivers.durable_waits import restore_waits, waits_of
from clew.runtime.drivers.inbox import collect, receive_answers
from clew.runtime.drivers.publisher import last_emitted
from clew.runtime.drivers.session import Session
from clew.runtime.log.checks.answer_checks import answer_records, check_answers
from clew.runtime.log.checks.fingerprints import (
    changed_code,
    changed_structure,
    is_made_with,
    kept_codes,
    warn_of_reducers,
)
from clew.runtime.log.checks.graph_changes import accepted_changes, check_used_nodes, fill_defaults
from clew.runtime.log.checks.run_checks import check_step, checked_values, input_values
from clew.runtime.log.checks.schema_changes import gained, with_defaults
from clew.runtime.log.entries.records import AcceptedChanges, ResumeRecord
from clew.runtime.log.entries.stop_records import stops_of_resume
from clew.runtime.log.in_memory.repository import repository_of
from clew.runtime.log.persons import this_user
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.registration import NewRun
from clew.runtime.log.repository import FirstState
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.snapshots import SnapshotDistance
from clew.runtime.ownership import Claimed, Ownership, root_of
from clew.runtime.reporting.events import Listener, Listeners
from clew.runtime.reporting.observers import Followers, split
from clew.runtime.run_ids import seed_of
from clew.runtime.settings import Settings
from clew.state import GraphState, Position, assemble, position_of
from clew.state.stored_object import have_been_made, holds_stored
from clew.stores import RunRow, Store

if TYPE_CHECKING:
    from clew.state.input_types import Values

NO_ANSWER: Any = object()


class RunOpener(Ownership):
    """Opens the runs of one graph in one store. Without a graph, runs can only be read.

    The ids of new runs are valid: the caller holds them (`clew.runtime.drivers.hold`).
    """

    def __init__(self, graph: Graph | None, store: Store, settings: Settings, listeners: Followers) -> None:
        super().__init__(store, settings, repository_of(graph, store, settings.on_conflict))
        self._graph = graph
        self.listeners, self.observers = split(listeners)
        self._cache = cache_for(graph, store)

    @property
    def runs(self) -> RunReader:
        """Return the reader of the store's runs."""
        return self.repository.runs

    @property
    def has_graph(self) -> bool:
        """Return whether this opener can run nodes."""
        return self._graph is not None

    @cached_property
    def graph(self) -> Graph:
        """The graph. Raises InputError without one."""
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
        self, values: Values | None, run_id: str, *, owner: str = "", stops: Stops | None = None
    ) -> Session:
        """Start a plain run with values or from a state."""
        return self.begin(values, NewRun(run_id, owner, stops))

    def begin(
        self, values: Values | None, run: NewRun, *, on_conflict: str | None = None, at_once: bool = False
    ) -> Session:
        """Start a run with values or from a state. With `at_once`, raise WouldWait if the store would have to wait."""
        graph = self.graph
        if isinstance(values, GraphState):
            return self._from_state(values, run, None, at_once=at_once)
        given, seeded = check_values(graph, values if type(values) is dict else input_values(graph, values))
        seed = self._seed(run.run_id)
        start = assemble(
            values=seeded if seeded is not values else dict(seeded),
            versions=dict.fromkeys(seeded, 0),
            decisions={},
            terminated=False,
            position=Position(seed=seed, given=given),
            history={},
        )
        options, listeners = self._options(seed, run.listener, on_conflict, start, run.stops)
        machine = Machine.begin(program_of(graph, given), seeded, options)
        return self._session(run, machine, FirstState(start), listeners, at_once=at_once)

    def _from_state(
        self,
        state: GraphState,
        run: NewRun,
        parent: str | None,
        on_conflict: str | None = None,
        *,
        at_once: bool = False,
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
        seed = state.seed if state.seed is not None else self._seed(run.run_id)
        options, listeners = self._options(seed, run.listener, on_conflict, state, run.stops)
        machine = Machine.restore(self.program(state), state, options)
        first = None if parent is None else self._stored_defaults(filled, options)
        begins = FirstState(state, parent, distance=distance, changes=first)
        return self._session(run, machine, begins, listeners, at_once=at_once)

    def _stored_defaults(self, filled: Mapping[str, Any], options: Options) -> AcceptedChanges | None:
        """Return the record of the defaults of new fields: a fork stores only the values that the caller set."""
        if not filled:
            return None
        graph, rule = self.graph, options.on_conflict
        made = (graph.structure_hash, kept_codes(graph, rule), self.repository.describe(graph)[0])
        return AcceptedChanges(0, *made, {"": dict(filled)})

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
        fence: int = 0,
    ) -> Session | StoredRun:
        """Resume a run. With `unless_completed`, return a run that has ended for reading if nothing else was asked for.
        With a `fence`, this process has taken the run from a queue.

        The row is read after the claim, because before it another process may change the row.
        """
        graph = self.graph  # before the run is claimed
        is_plain = unless_completed and answer is NO_ANSWER and not (answers or accept_changes or stops)
        is_taken = fence != 0
        try:
            fence, owner = (fence, owner) if is_taken else self.claim(run_id, owner)
        except (RunOwnedError, StoreError):  # reading a completed run does not need ownership
            if is_plain and (run := self.runs.open(run_id)).row.status == "completed":
                return run
            raise
        claimed = Claimed(run_id, fence, owner)
        with self.returned(claimed):
            run = self.runs.open(run_id)
            row = run.row
            if unless_cancelled:
                self.check_not_cancelled(row)
            if is_plain and run.row.status == "completed":
                self.release(run_id, fence, owner)
                return run
            log = run.log()
            messages = log.messages
            if is_plain and row.status == "failed" and self._has_ended(run, log):
                self.release(run_id, fence, owner)
                return run
            self._check_graph(run, log, accept_changes)  # before an answer is received or stored
            log, refused = receive_answers(self.runs, log, fence, graph, self.settings.clock.time())
            given = ({} if answer is NO_ANSWER else {"answer": answer}, {} if answers is None else answers)
            run, log, stops = self._changed(claimed, run, log, given, accept_changes, stops)
            session = self._resumed(run, log, fence, owner, listener, stops)
            if messages:
                waits_of(session).mail += refused
                collect(session, self.runs)
            if claimed.before is None and not is_taken:
                self.repository.begin(run_id, fence, self.settings.clock.time())
        return session

    def _check_graph(self, run: StoredRun, log: RunLog, accept_changes: bool) -> None:
        if accept_changes:
            check_used_nodes(log, run.program(log.start), self.graph)
        self.check_structure(log.row, accept_changes)

    def _changed(
        self,
        claimed: Claimed,
        run: StoredRun,
        log: RunLog,
        given: tuple[Mapping[str, Any], Mapping[str, Any]],
        accept_changes: bool,
        stops: Stops | None,
    ) -> tuple[StoredRun, RunLog, Stops | None]:
        """Check and store what a resume changes: the graph, answers and stops. Return the run after that."""
        filled = fill_defaults(log, run.program(log.start), self.program(log.start))
        on_conflict = self._on_conflict(log.on_conflict)
        if not isinstance(accept_changes, bool):
            raise InputError(f"accept_changes must be True or False, got {accept_changes!r}")
        answered = answer_records(log, check_answers(log, *given, self.graph), self.settings.clock.time())
        accepted, contents = accepted_changes(
            log, filled, self.graph, on_conflict, self.repository.describe if accept_changes else None
        )
        if answered:  # an answered run no longer waits, even if resuming fails later
            self.repository.begin(claimed.run_id, claimed.fence, self.settings.clock.time())
            claimed.before = run.row
        chain = log.chain(run.program(log.start))
        stops, stopping = stops_of_resume(log, chain, stops, is_paused=run.row.status == "paused")
        if records := [*accepted, *answered, *stopping]:
            self.repository.writer(log, claimed.fence, "sync").write(records, contents)
            claimed.is_answered = bool(answered)
            run = self.runs.open(claimed.run_id) if accepted else run
            log = run.log()
        log.on_conflict = on_conflict
        return run, log, stops

    def _resumed(
        self,
        run: StoredRun,
        log: RunLog,
        fence: int,
        owner: str,
        listener: Listener | None,
        stops: Stops | None,
    ) -> Session:
        """Return a session at the end of a log."""
        options, listeners = self._options(
            log.row.seed, listener, log.on_conflict, log.start, stops, is_new=False
        )
        machine = self.machine_at(log, run.program(log.start), options, self.program(log.start))
        writer = self.repository.writer(log, fence, self.settings.durability)
        resumption = log.resumption
        if log.row.status == "failed":
            resumption += 1
            writer.write([ResumeRecord(resumption, self.settings.clock.time(), this_user())])
        session = Session(
            log.row.run_id,
            machine,
            writer,
            self.settings,
            self.runs,
            log.start,
            fence=fence,
            owner=owner,
            created=log.row.created,
            resumption=resumption,
            listeners=listeners,
            cache=self._cache,
        )
        session.earlier = log.totals(self.graph)
        session.measured = max((each.n for each in log.measured), default=-1) + 1
        session.hold(log.due)
        session.has_children = log.has_children
        restore_waits(session, log)
        session.emitted = last_emitted(self.store, log.row.run_id) if self.settings.publish else 0
        return session

    def _has_ended(self, run: StoredRun, log: RunLog) -> bool:
        """Return whether a failed run has nothing left to do: its failures were confined."""
        machine = self.machine_at(log, run.program(log.start))
        machine.preview()
        return machine.root.state != "running"

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
            options = replace(options, step_by_step=have_been_made())
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
        settings, began = self.settings, position_of(start).began
        listeners = (*self.listeners, listener) if listener is not None else self.listeners
        return (
            Options(
                seed=seed,
                queue_depth=settings.queue_depth,
                max_steps=settings.max_steps + began,
                began=began,
                on_error=settings.on_error,
                on_conflict=settings.on_conflict if on_conflict is None else on_conflict,
                listening=bool(listeners),
                durable=self.store.encodes,
                step_by_step=is_new and have_been_made() and holds_stored(start.values.values()),
                stops=stops,
            ),
            Listeners(listeners) if listeners else None,
        )

    def _session(
        self,
        run: NewRun,
        machine: Machine,
        begins: FirstState,
        listeners: Listeners | None,
        *,
        at_once: bool = False,
    ) -> Session:
        """Create a run, and return its session. A queued run is not executed here: the caller drops the session."""
        settings, is_queued = self.settings, run.registration.queue is not None
        created = settings.clock.time()
        # Listeners get events of a durable run. Without listeners, the background writer may create the run later.
        wait = settings.durability != "async" or listeners is not None or not self.store.defers
        wait = wait or is_queued
        repository, fence = self.repository, 0
        if repository.keeps:
            if not run.owner:
                run = replace(run, owner=self.name_for(run.run_id))
            if self.store.encodes:  # the row and the log need the digest
                begins = replace(begins, state=begins.state.with_digest(begins.state.digest))
            try:
                made = (machine.options, settings, created)
                fence = repository.create(run, begins, *made, wait=wait, at_once=at_once)
            except StoreError:  # the run may exist nevertheless, owned by this process
                self.left(run.run_id, run.owner)
                raise
        run_id, start = run.run_id, begins.state
        session = Session(
            run_id,
            machine,
            repository.new_writer(run_id, start, created, fence, settings.durability, owes=not wait),
            settings,
            repository.runs,
            start,
            fence=fence,
            owner=run.owner,
            created=created,
            listeners=listeners,
            cache=self._cache,
        )
        if begins.changes is not None and not is_queued:
            session.writer.write([begins.changes])
        return session

    def _seed(self, run_id: str) -> int:
        return seed_of(run_id) if self.settings.seed is None else self.settings.seed
