"""Threads: conversations over many runs.

A thread is a name with a head, the last run. `turn` starts a new run that continues from the last committed state of
the head (``clew.runtime.log.turns``) and makes it the head, in one transaction. Two callers cannot both continue from
one head: the second one waits for the run of the first.

What a call finds at the head decides what it does:

=====================  ===============================================================================================
no head                starts the first run
queued, sleeping       waits, as for a running one
running                waits up to `timeout`, or with ``on_busy="refuse"`` raises ThreadBusyError
running, owner dead    resumes that run first
waiting, paused        raises RunStateError, unless ``drop=True`` cancels that run and drops its open work
completed              continues
failed, cancelled      continues; a warning lists the work that is dropped
=====================  ===============================================================================================

A fork that becomes the head follows the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from clew.engine.machine import Machine
from clew.engine.program import complaint, program_of
from clew.engine.updates.merge import MergeFailure
from clew.engine.working_state import WorkingState
from clew.errors import (
    ClewError,
    InputError,
    RunOwnedError,
    RunStateError,
    ThreadBusyError,
    ThreadMovedError,
    UnknownRunError,
)
from clew.graph_warnings import warn
from clew.runtime.derived_runs import DerivedRunOpener
from clew.runtime.drivers.session import Session
from clew.runtime.inspection import read_histories
from clew.runtime.log.checks.run_checks import check_nodes, checked_values, input_values
from clew.runtime.log.checks.schema_changes import gained, with_defaults
from clew.runtime.log.registration import NewRun
from clew.runtime.log.repository import FirstState
from clew.runtime.log.snapshots import digest_of_turn
from clew.runtime.log.turns import new_turn, turned
from clew.runtime.opener import RunOpener
from clew.runtime.run_ids import run_id_problem
from clew.state import GraphState, position_of
from clew.stores import RunRow, ThreadMove

if TYPE_CHECKING:
    from clew.runtime.log.checkpoints import Checkpoint
    from clew.state.input_types import Values


_OPEN = ("waiting", "paused")


class HeadRules(NamedTuple):
    """What a call does with a head that has not ended."""

    live: Container[str]
    """The runs that the engine of the call executes."""
    resume: Callable[[str], object] | None = None
    """Continues a run whose owner is dead; None if the call must not execute it."""
    drop: bool = False


def _busy(thread: str, head: str, status: str = "running") -> ThreadBusyError:
    return ThreadBusyError(f"thread {thread!r} is busy: run {head!r} is {status}; wait for it, or cancel it")


def check_thread(name: Any) -> str:
    """Return the name of a thread if it is valid."""
    problem = run_id_problem(name)
    if problem:
        raise InputError(f"thread {problem}; give 1 to 255 characters without control characters")
    return str(name)


class ThreadOpener(DerivedRunOpener):
    """Opens the next run of a thread."""

    def turn(self, thread: str, values: Values | None, run: NewRun, rules: HeadRules) -> Session:
        """Start the next run of a thread. Raise ThreadBusyError while another caller runs the head."""

        def create(move: ThreadMove, status: str) -> Session:
            there = replace(run, registration=replace(run.registration, thread=move))
            if move.expected is None:
                return self.begin(values, there)
            return self._next(move, status, values, there)

        return self.moving(thread, create, rules)

    def moving(self, thread: str, create: Callable[[ThreadMove, str], Session], rules: HeadRules) -> Session:
        """Create a run that becomes the head of a thread, given the move and the status of the head before it."""
        while True:
            head = self.store.head(thread)
            try:
                if head is None:
                    return create(ThreadMove(thread), "")
                status = self._status(thread, head, rules)
                with self._dropped(thread, head) if status in _OPEN else nullcontext():
                    return create(ThreadMove(thread, head), status)
            except ThreadMovedError:
                continue  # another caller was faster

    def _status(self, thread: str, head: str, rules: HeadRules) -> str:
        """Return the status of a head that the thread can continue from. Resume a head whose owner is dead."""
        status = self.store.row(head).status
        if status in ("queued", "sleeping"):
            raise _busy(thread, head, status)
        if status == "running":
            owner = self.store.owner(head)
            if head in rules.live or (owner is not None and owner.holds) or rules.resume is None:
                raise _busy(thread, head)
            try:
                rules.resume(head)
            except (RunOwnedError, RunStateError):  # another caller resumes it
                raise _busy(thread, head) from None
            except Exception:  # the head has failed now: the turn continues from its last state
                pass
            return self._status(thread, head, rules)
        if status in _OPEN and not rules.drop:
            what, more = ("waits for an answer", ", answer=...") if status == "waiting" else ("is paused", "")
            raise RunStateError(
                f"thread {thread!r}: run {head!r} {what}; continue it with engine.resume({head!r}{more}), "
                f"or drop its open work with drop=True"
            )
        return status

    @contextmanager
    def _dropped(self, thread: str, head: str) -> Iterator[None]:
        """Cancel a head that waits or is paused, while its successor is created; restore it if that fails.

        It is cancelled first. So after a crash, the same call continues from the cancelled head.
        """
        try:
            fence, owner = self.claim(head)  # it cannot be answered from now on
        except RunOwnedError:
            raise _busy(thread, head) from None
        try:
            row = self.runs.open(head).row
            if row.status not in _OPEN:  # it was resumed
                raise ThreadMovedError(f"run {head!r} is {row.status}")
        except BaseException:
            self.release(head, fence, owner)
            raise
        now = self.settings.clock.time()
        try:
            self.repository.cancel(head, fence, now)
            yield
        except BaseException:
            self._restore(row, fence, owner)
            raise
        try:
            self.repository.close(head, fence, "cancelled", now, ())
        except ClewError:  # it is cancelled, but not released
            self.left(head, owner)

    def _next(self, move: ThreadMove, status: str, values: Values | None, new: NewRun) -> Session:
        thread, head = move.name, move.expected
        assert head is not None
        graph, what = self.graph, f"thread {thread!r}"
        checked = checked_values(
            graph, values if isinstance(values, Mapping) else input_values(graph, values), what
        )
        state, run = self.at(head, None)
        check_nodes(state, graph, head)
        before = self._known(state.rooted(), head)
        filled = gained(graph, before.values)
        before = with_defaults(before, filled)
        names = position_of(before).given | frozenset(checked)
        problem = complaint(graph, names)
        if problem:
            raise InputError(f"{what}: {problem}")
        program = program_of(graph, names)
        defaults = frozenset[str]() if graph.schema is None else frozenset(graph.schema.defaults(names))
        try:
            turn = new_turn(program, before, checked, names | defaults)
        except MergeFailure as failure:
            raise InputError(f"{what}: cannot merge {failure.value!r}: {failure.error}") from failure.error
        self._warn_of_dropped(thread, head, status, before)
        start: GraphState = turned(before, turn, lambda: digest_of_turn(state.digest, head, start, turn))
        seed = state.seed if state.seed is not None else self._seed(new.run_id)
        rule = self._on_conflict(run.on_conflict)
        options, listeners = self._options(seed, new.listener, rule, start, new.stops)
        machine = Machine.restore(program, start, options)
        begins = FirstState(start, head, turn, run.distance, self._stored_defaults(filled, options))
        return self._session(new, machine, begins, listeners)

    def _warn_of_dropped(self, thread: str, head: str, status: str, state: GraphState) -> None:
        """Warn about the nodes that were due when the last run of a thread stopped."""
        if status == "completed":
            return
        working = WorkingState.restore(self.program(state), state)
        names = ", ".join(repr(working.program.names[node]) for node in sorted(working.due))
        if names:
            warn(
                f"thread {thread!r}: run {head!r} had stopped ({status}); the new run continues from its step "
                f"{state.step} and drops {names}"
            )


class Thread:
    """A thread as it is now: the runs of a conversation, from the first to the head."""

    def __init__(self, name: str, head: str, opener: RunOpener) -> None:
        self.name = name
        self.head = head
        """The id of the last run."""
        self._opener = opener
        self._store = opener.store

    def __repr__(self) -> str:
        return f"<Thread {self.name!r} at run {self.head!r}>"

    @property
    def status(self) -> str:
        """The status of the last run."""
        return self._store.row(self.head).status

    @property
    def state(self) -> GraphState:
        """The last state."""
        return self._opener.state(self.head)

    @property
    def runs(self) -> list[RunRow]:
        """The runs, oldest first. A thread that was moved by a fork begins with the runs before the fork."""
        found = list[RunRow]()
        run_id: str | None = self.head
        while run_id is not None:
            row = self._store.row(run_id)
            found.append(row)
            run_id = row.parent
        return found[::-1]

    def history(self) -> list[Checkpoint]:
        """Return a checkpoint for each state of each run, oldest first."""
        return read_histories(self._opener, (row.run_id for row in self.runs))


def find_thread(name: str, opener: RunOpener) -> Thread:
    """Return a thread. Raise UnknownRunError if it does not exist."""
    store = opener.store
    head = store.head(check_thread(name))
    if head is None:
        near = get_close_matches(name, [known for known, _ in store.threads()], n=3)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?" if near else "list threads with engine.threads()"
        )
        raise UnknownRunError(f"thread {name!r} does not exist; {hint}")
    return Thread(name, head, opener)


def all_threads(opener: RunOpener) -> list[Thread]:
    return [Thread(name, head, opener) for name, head in opener.store.threads()]
