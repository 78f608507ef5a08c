"""Opening runs: from values, a state, another run or a log to a session that a driver can drive.

Whatever way a run begins or goes on, it ends up the same: a machine that stands somewhere, a ledger that goes on
writing where the log ends, and ownership of the run where the store is one that others may use too.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.engine.machine import Machine
from clew.engine.programs import check_values, complaint, program_of
from clew.engine.rules import Program
from clew.engine.terms import Memory, Options
from clew.errors import ClewError, GraphChangedError, GraphWarning, InputError, StoreError
from clew.graph import Graph
from clew.runtime.archive import Archive, fresh_owner
from clew.runtime.cache import Cache
from clew.runtime.codes import (
    changed_code,
    changed_structure,
    conflict_rule,
    kept_codes,
    warn_of_reducers,
)
from clew.runtime.events import Listener, Listeners
from clew.runtime.ledger import Ledger
from clew.runtime.log import Accepted, Answered, Resumed, RunLog
from clew.runtime.session import Session
from clew.runtime.settings import Settings
from clew.state import GraphState, Position
from clew.stores import RunRow, Store

if TYPE_CHECKING:
    from clew.state.values import Values

NO_ANSWER: Any = object()
_LEFT = 1_000  # runs that are known to be left, while a store is away


class Opener:
    """Opens the runs of one graph in one store."""

    def __init__(
        self, graph: Graph, store: Store, settings: Settings, listeners: tuple[Listener, ...]
    ) -> None:
        self.graph = graph
        self.store = store
        self.settings = settings
        self.archive = Archive(graph, store, settings.on_conflict)
        self._listeners = listeners
        self._cache = Cache() if graph.has_cached_nodes else None
        self._left: dict[
            str, tuple[int, str]
        ] = {}  # runs that could not be released: process and owner's name

    def log(self, run_id: str, *, whole: bool = False, upto: int | None = None) -> RunLog:
        """A run's log: from the last snapshot up to a step, or from its beginning; with a warning of other reducers."""
        log = self.archive.log(run_id, whole=whole, upto=upto)
        if self.store.encodes:
            warn_of_reducers(log.row, self.graph)
        return log

    def state(self, run_id: str, step: int | str | None = None) -> GraphState:
        """The latest state of a run, or S(step); `step` may be a label."""
        if isinstance(step, str) or not self.store.encodes:
            log, number = self._log_at(run_id, step)
            return log.chain(self.program(log.start)).state(number)
        _check_step(step)
        warn_of_reducers(self.archive.accepted(run_id), self.graph)
        return self.archive.state(run_id, step)

    def _log_at(self, run_id: str, step: int | str | None) -> tuple[RunLog, int]:
        """A run's log up to a step, and the number of that step; it may be a label."""
        _check_step(step)
        log = self.log(run_id, upto=step if isinstance(step, int) else None)
        if isinstance(step, str):
            step = log.label(step)
            log = self.archive.log(run_id, upto=step)
        return log, log.step_of(log.chain(self.program(log.start)), step)

    def program(self, start: GraphState) -> Program:
        """The program of a run that started from this state."""
        return program_of(self.graph, start.position.given)

    def new(
        self,
        values: Values | None,
        run_id: str | None,
        listener: Listener | None = None,
        on_conflict: str | None = None,
    ) -> Session:
        """A new run on values, or one that goes on from a state."""
        run_id = _new_id(run_id)
        if isinstance(values, GraphState):
            return self._from_state(values, run_id, None, listener)
        given, seeded = check_values(self.graph, values if type(values) is dict else self._mapping(values))
        seed = self._seed(run_id)
        start = GraphState.assemble(
            values=seeded if seeded is not values else dict(seeded),
            versions=dict.fromkeys(seeded, 0),
            decisions={},
            terminated=False,
            position=Position(seed=seed, given=given),
            history={},
        )
        options, listeners = self._options(seed, listener, on_conflict)
        machine = Machine.begin(program_of(self.graph, given), seeded, options)
        return self._session(run_id, machine, start, seed, listeners, parent=None)

    def _mapping(self, values: Any) -> Mapping[str, Any]:
        """The values that were given, by name: nothing, a mapping, or an instance of the state schema."""
        if values is None:
            return {}
        if isinstance(values, Mapping):
            return values
        schema = self.graph.schema
        if schema is None or not isinstance(values, schema.cls):
            raise InputError(f"values are a mapping of names to values, not {values!r}")
        return schema.given(values)

    def _from_state(
        self,
        state: GraphState,
        run_id: str,
        parent: str | None,
        listener: Listener | None,
        on_conflict: str | None = None,
    ) -> Session:
        wrong = complaint(self.graph, frozenset(state.values))
        if wrong:
            raise InputError(wrong)
        position = state.position
        targets = {**position.selections, **position.sends}
        gates = {gate for pending in position.selections.values() for gate, _ in pending}
        gates.update(gate for pending in position.sends.values() for gate, _, _ in pending)
        for name in sorted({*position.visits, *position.wakes, *targets, *gates, *position.failed}):
            if name not in self.graph.nodes:
                raise InputError(
                    f"the state knows a node {name!r} that this graph does not have: it belongs to another graph"
                )
        seed = state.seed if state.seed is not None else self._seed(run_id)
        options, listeners = self._options(seed, listener, on_conflict)
        machine = Machine.restore(self.program(state), state, options)
        return self._session(run_id, machine, state, seed, listeners, parent=parent)

    def forked(
        self, parent: str, step: int | str | None, values: Mapping[str, Any] | None, run_id: str | None
    ) -> Session:
        """A new run that goes on from a step of another one, with other values."""
        log, number = self._log_at(parent, step)
        state = log.chain(self.program(log.start)).state(number)
        state = self._with(state, values, f"fork of {parent!r}")
        return self._from_state(state, _new_id(run_id), parent, None, self._on_conflict(log))

    def rerun(self, parent: str, values: Mapping[str, Any] | None, run_id: str | None) -> Session:
        """A new run on the values of another one, and some others, that uses again what it can of it."""
        from clew.runtime.reuse import Reuse

        log = self.archive.log(parent, whole=True)  # where a reducer is another, none of its states is used
        start = log.start
        reuse = Reuse(log, self.program(start), self.graph, self.settings)  # before there is a run
        if start.step or log.row.parent is not None:  # it went on from a state, and so does this one
            state = self._with(start, values, f"rerun of {parent!r}")
            session = self._from_state(state, _new_id(run_id), log.row.parent, None, self._on_conflict(log))
        else:
            given = {name: start.get(name) for name in start.position.given}
            values = {} if values is None else values
            _check_mapping(values)
            session = self.new({**given, **values}, run_id, on_conflict=self._on_conflict(log))
        session.use_again(reuse)
        return session

    def _with(self, state: GraphState, values: Mapping[str, Any] | None, what: str) -> GraphState:
        """A state with other values, checked against the schema."""
        if values is None:
            return state
        _check_mapping(values)
        schema = self.graph.schema
        if schema is not None:
            for name in values:
                schema.check_name(name, what)
            try:
                values = {name: schema.validate(name, value) for name, value in values.items()}
            except ValueError as error:
                raise InputError(f"{what}: {error}") from error
        return state.set_multiple(values)

    def again(
        self, run_id: str, answer: Any, answers: Mapping[str, Any] | None, accept_changes: bool
    ) -> Session:
        """Go on with a run."""
        fence, owner = self.claim(run_id)
        try:
            log = self.archive.log(run_id)
            self._check_structure(log.row, accept_changes)  # before an answer is kept: it is asked for again
            on_conflict = self._on_conflict(log)
            if answers is not None and not isinstance(answers, Mapping):
                raise InputError(f"answers maps the paths of questions to answers, not {answers!r}")
            if not isinstance(accept_changes, bool):
                raise InputError(f"accept_changes is True or False, not {accept_changes!r}")
            given = log.check_answers(
                {} if answer is NO_ANSWER else {"answer": answer}, answers or {}, self.graph
            )
            if given:
                answered = [Answered(path, value, log.asked[path].number) for path, value in given.items()]
                self.archive.ledger(log, fence, "sync").write(answered)
                log = self.archive.log(run_id)
            log.on_conflict = on_conflict
            options, listeners = self._options(log.row.seed, None, on_conflict)
            machine = self.machine_at(log, options)
            ledger = self.archive.ledger(log, fence, self.settings.durability)
            ledger.records = None
            self._accept(log, ledger, accept_changes, on_conflict)
            stretch = log.stretch
            if log.row.status == "failed":
                stretch += 1
                ledger.write([Resumed(stretch)])
            session = Session(
                run_id,
                machine,
                ledger,
                self.settings,
                recall=self.archive.recall(run_id, intents=self.settings.on_ambiguous != "retry"),
                stretch=stretch,
                listeners=listeners,
                cache=self._cache,
            )
            session.start, session.fence, session.owner = log.start, fence, owner
            session.hold(log.due)
            self.archive.begin(run_id, fence, self.settings.clock.time())
        except BaseException:
            self.release(run_id, fence, owner)
            raise
        return session

    def _on_conflict(self, log: RunLog) -> str:
        """What a run that is gone on with does about conflicts: once the last one counts, that stays."""
        return "last" if "last" in (log.on_conflict, self.settings.on_conflict) else "error"

    def _accept(self, log: RunLog, ledger: Ledger, accept_changes: bool, on_conflict: str) -> None:
        """Keep what a run goes on with from now on, if it is not what it was made with."""
        row = log.row
        structure, codes = row.structure, dict(row.codes)
        if accept_changes and self.store.encodes:
            structure, codes = self.graph.structure_hash, kept_codes(self.graph, on_conflict)
        elif conflict_rule(codes, "error") != on_conflict:
            codes = {**codes, ":conflict": on_conflict}
        if structure != row.structure or codes != row.codes:
            ledger.write([Accepted(log.accepted, structure, codes)])

    def claim(self, run_id: str) -> tuple[int, str]:
        """Become the owner of a run, where the store is one that others may use too: the fence, and the owner's name.

        Each claim has a name of its own, so two threads of a program, or it and a child that it forked, are two owners.
        """
        if not self.store.encodes:
            return 0, ""
        process, owner = self._left.pop(run_id, (0, ""))
        if process != os.getpid():
            owner = fresh_owner()
        try:
            fence = self.archive.claim(run_id, owner, self.settings.lease, self.settings.clock.time())
        except StoreError:  # it may be this process's all the same
            self.left(run_id, owner)
            raise
        return fence, owner

    def release(self, run_id: str, fence: int, owner: str) -> None:
        """Let others have a run that has not ended. Where the store does not take that, it stays this process's, which
        goes on with it under the same name."""
        try:
            self.archive.release(run_id, fence)
        except ClewError:
            self.left(run_id, owner)

    def left(self, run_id: str, owner: str) -> None:
        """A run could not be released: the next claim of this process has the same name, and gets it."""
        if self.store.encodes:
            self._left[run_id] = (os.getpid(), owner)
            if len(self._left) > _LEFT:  # the lease of the oldest has run out long ago
                del self._left[next(iter(self._left))]

    def _check_structure(self, row: RunRow, accept_changes: bool) -> None:
        """Refuse a changed structure, and warn of changed code."""
        if not row.structure:
            return
        if row.structure != self.graph.structure_hash and not accept_changes:
            raise GraphChangedError(changed_structure(row, self.graph))
        warn_of_reducers(row, self.graph)
        changed = changed_code(row, self.graph)
        if changed:
            told = ", ".join(map(repr, changed))
            warnings.warn(
                f"run {row.run_id!r} goes on with changed code in {told}", GraphWarning, stacklevel=4
            )

    def machine_at(self, log: RunLog, options: Options | None = None) -> Machine:
        """A machine where a run's log ends."""
        program = self.program(log.start)
        chain = log.chain(program)
        memory = Memory(
            journal=log.journal,
            answers=log.answers,
            attempts=log.attempts,
            strands=log.strands,
            errors=[*log.errors, *chain.errors()],
            held=set(log.due),
        )
        options = options or self._options(log.row.seed, None, log.on_conflict)[0]
        return Machine.restore(program, chain.state(chain.last), options, memory)

    def _options(
        self, seed: int, listener: Listener | None, on_conflict: str | None = None
    ) -> tuple[Options, Listeners | None]:
        settings = self.settings
        told = (*self._listeners, listener) if listener is not None else self._listeners
        return (
            Options(
                seed=seed,
                queue_depth=settings.queue_depth,
                max_steps=settings.max_steps,
                on_error=settings.on_error,
                on_conflict=settings.on_conflict if on_conflict is None else on_conflict,  # type: ignore[arg-type]
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
        settings = self.settings
        created = settings.clock.time()
        owner = fresh_owner() if self.store.encodes else ""
        # Whoever listens is told of a run that is on the disk; else its writer thread may wait for that.
        wait = (
            settings.durability != "async"
            or listeners is not None
            or not getattr(self.store, "defers", False)
        )
        try:
            fence = self.archive.create(
                run_id,
                start,
                seed,
                created,
                parent=parent,
                parent_step=None if parent is None else start.step,
                target=settings.target,
                owner=owner,
                lease=settings.lease,
                on_conflict=machine.options.on_conflict,
                wait=wait,
            )
        except StoreError:  # the run may be there all the same, and this process's
            self.left(run_id, owner)
            raise
        ledger = self.archive.fresh_ledger(
            run_id, start, seed, created, fence, settings.durability, owes=not wait
        )
        recall = self.archive.recall(run_id, intents=True) if self.store.encodes else None
        session = Session(
            run_id, machine, ledger, settings, recall=recall, listeners=listeners, cache=self._cache
        )
        session.start, session.fence, session.owner = start, fence, owner
        return session

    def _seed(self, run_id: str) -> int:
        if self.settings.seed is not None:
            return self.settings.seed
        try:
            return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7], "big")
        except UnicodeEncodeError:
            raise InputError(f"run_id is text, and {run_id!r} has half a surrogate pair in it") from None


def _new_id(run_id: str | None) -> str:
    if run_id is None:
        return os.urandom(16).hex()
    if not run_id or type(run_id) is not str:
        raise InputError(f"run_id is a string that is not empty, not {run_id!r}")
    return run_id


def _check_step(step: Any) -> None:
    if not (step is None or type(step) in (int, str)):
        raise InputError(f"a step is a whole number or a label, not {step!r}")


def _check_mapping(values: Any) -> None:
    if not isinstance(values, Mapping):
        raise InputError(f"values are a mapping of names to values, not {values!r}")


def is_text(text: str) -> bool:
    """Whether a string has an encoding: half a surrogate pair has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
