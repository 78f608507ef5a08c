"""Threads: conversations over many runs.

A thread is a name with a head, the last run. `turn` starts a new run that continues from the last committed state of
the head (``clew.runtime.log.turns``) and makes it the head, in one transaction. Two callers cannot both continue from
one head: the second one waits for the run of the first.

What a call finds at the head decides what it does:

=====================  ===============================================================================================
no head                starts the first run
running                waits up to `timeout`, or with ``on_busy="refuse"`` raises ThreadBusyError
running, owner dead    resumes that run first
waiting, paused        raises RunStateError, unless ``drop=True`` drops the open work
completed              continues
failed, cancelled      continues; a warning lists the work that is dropped
=====================  ===============================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from clew.engine.machine import Machine
from clew.engine.merge import MergeFailure
from clew.engine.program import complaint, program_of
from clew.engine.stops import Stops
from clew.engine.working_state import WorkingState
from clew.errors import (
    InputError,
    RunOwnedError,
    RunStateError,
    ThreadBusyError,
    ThreadMovedError,
    UnknownRunError,
)
from clew.graph.names import similar
from clew.graph_warnings import warn
from clew.runtime.drivers.session import Session
from clew.runtime.events import Listener
from clew.runtime.log.run_checks import check_nodes, checked_values, input_values
from clew.runtime.log.schema_changes import gained, with_defaults
from clew.runtime.log.snapshots import digest_of_turn
from clew.runtime.log.turns import new_turn, turned
from clew.runtime.opener import RunOpener
from clew.runtime.run_ids import run_id_problem
from clew.runtime.settings import Settings
from clew.state import GraphState
from clew.stores import RunRow, Store, ThreadMove

if TYPE_CHECKING:
    from clew.runtime.inspection import RunInspection
    from clew.runtime.log.checkpoints import Checkpoint
    from clew.state.input_types import Values


class TurnOptions(TypedDict, total=False):
    """Options of `Engine.run` with a thread."""

    timeout: float | None
    """How many seconds to wait for a run of another caller; None waits without limit."""
    on_busy: Literal["wait", "refuse"]
    """What to do while another caller runs the thread."""
    drop: bool
    """Whether to drop the open work of a run that waits or is paused."""


_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # seconds between two looks at a run of another caller


_ELSEWHERE = {
    "force": "engine.rerun(run_id, force=[...])",
    "step": "engine.fork(run_id, step=...)",
    "answer": "engine.resume(run_id, answer=...)",
    "answers": "engine.resume(run_id, answers={path: ...})",
    "accept_changes": "engine.resume(run_id, accept_changes=True)",
    "as_node": "engine.update(run_id, values, as_node=...)",
    "decision": "engine.update(run_id, as_node=..., decision=...)",
}


def pauses(options: TurnOptions) -> Iterator[float]:
    """Yield how long to wait before each new attempt to continue a busy thread."""
    for name in options:
        if name not in TurnOptions.__optional_keys__:
            meant = similar(name, ("run_id", "thread", "progress", *TurnOptions.__optional_keys__))
            if name in _ELSEWHERE:
                hint = f"it belongs to {_ELSEWHERE[name]}"
            elif name in Settings.__struct_fields__:
                hint = f"it belongs to the engine: Engine(graph, {name}=...)"
            else:
                hint = (
                    f"did you mean {meant!r}?" if meant else f"give values as one mapping: {{{name!r}: ...}}"
                )
            raise InputError(f"a run has no option {name!r}; {hint}")
    on_busy, timeout = options.get("on_busy", "wait"), options.get("timeout")
    if on_busy not in ("wait", "refuse"):
        raise InputError(f"on_busy must be 'wait' or 'refuse', got {on_busy!r}")
    if timeout is not None and not timeout >= 0:
        raise InputError(f"timeout must be a number of seconds or None, got {timeout!r}")
    if on_busy == "refuse":
        return
    end = None if timeout is None else time.monotonic() + timeout
    for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            return
        yield min(pause, left)


def check_thread(name: Any) -> str:
    """Return the name of a thread if it is valid."""
    problem = run_id_problem(name)
    if problem:
        raise InputError(f"thread {problem}; give 1 to 255 characters without control characters")
    return str(name)


class ThreadOpener(RunOpener):
    """Opens the next run of a thread."""

    def move_of(self, thread: str | None) -> ThreadMove | None:
        """Return the move that makes a new run the head of a thread, from its head now."""
        return None if thread is None else ThreadMove(check_thread(thread), self.store.head(thread))

    def turn(
        self,
        thread: str,
        values: Values | None,
        run_id: str,
        owner: str,
        listener: Listener | None = None,
        *,
        resume: Callable[[str], object],
        is_live: Callable[[str], bool],
        drop: bool = False,
        stops: Stops | None = None,
    ) -> Session:
        """Start the next run of a thread. `resume` continues a run whose owner is dead.

        Raise ThreadBusyError while another caller runs the head.
        """
        while True:
            head = self.store.head(thread)
            try:
                if head is None:
                    move = ThreadMove(thread)
                    return self.new(values, run_id, listener, owner=owner, thread=move, stops=stops)
                if self._is_busy(thread, head, resume, is_live, drop):
                    raise ThreadBusyError(
                        f"thread {thread!r} is busy: run {head!r} is running; wait for it, or cancel it"
                    )
                return self._next(thread, head, values, run_id, owner, listener, stops)
            except ThreadMovedError:
                continue  # another caller was faster

    def _is_busy(
        self,
        thread: str,
        head: str,
        resume: Callable[[str], object],
        is_live: Callable[[str], bool],
        drop: bool,
    ) -> bool:
        """Return whether another caller runs the head. Resume a head whose owner is dead."""
        status = self.store.row(head).status
        if status == "running":
            owner = self.store.owner(head)
            if is_live(head) or (owner is not None and owner.holds):
                return True
            try:
                resume(head)
            except (RunOwnedError, RunStateError):  # another caller resumes it
                return True
            except Exception:  # the head has failed now: the turn continues from its last state
                pass
            return self._is_busy(thread, head, resume, is_live, drop)
        if status in ("waiting", "paused") and not drop:
            what = "waits for an answer" if status == "waiting" else "is paused"
            raise RunStateError(
                f"thread {thread!r}: run {head!r} {what}; continue it with engine.resume({head!r}), "
                f"or drop its open work with drop=True"
            )
        return False

    def _next(
        self,
        thread: str,
        head: str,
        values: Values | None,
        run_id: str,
        owner: str,
        listener: Listener | None,
        stops: Stops | None,
    ) -> Session:
        graph, what = self.graph, f"thread {thread!r}"
        checked = checked_values(
            graph, values if isinstance(values, Mapping) else input_values(graph, values), what
        )
        state, run = self.at(head, None)
        check_nodes(state, graph, head)
        before = self._known(state.rooted(), head)
        filled = gained(graph, before.values)
        before = with_defaults(before, filled)
        names = before.position.given | frozenset(checked)
        problem = complaint(graph, names)
        if problem:
            raise InputError(f"{what}: {problem}")
        program = program_of(graph, names)
        defaults = frozenset[str]() if graph.schema is None else frozenset(graph.schema.defaults(names))
        try:
            turn = new_turn(program, before, checked, names | defaults)
        except MergeFailure as failure:
            raise InputError(f"{what}: cannot merge {failure.value!r}: {failure.error}") from failure.error
        self._warn_of_dropped(thread, head, run.row.status, before)
        start: GraphState = turned(before, turn, lambda: digest_of_turn(state.digest, head, start, turn))
        seed = state.seed if state.seed is not None else self._seed(run_id)
        rule = self._on_conflict(run.on_conflict)
        options, listeners = self._options(seed, listener, rule, start, stops, in_thread=True)
        machine = Machine.restore(program, start, options)
        session = self._session(
            run_id,
            machine,
            start,
            seed,
            listeners,
            parent=head,
            owner=owner,
            thread=ThreadMove(thread, head),
            turn=turn,
        )
        self._store_filled(session, filled)
        return session

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

    def __init__(self, name: str, inspection: RunInspection, store: Store) -> None:
        head = store.head(name)
        if head is None:
            raise UnknownRunError(
                f"thread {name!r} does not exist; start it with engine.run(values, thread={name!r})"
            )
        self.name = name
        self.head = head
        """The id of the last run."""
        self._inspection = inspection
        self._store = store

    def __repr__(self) -> str:
        return f"<Thread {self.name!r} at run {self.head!r}>"

    @property
    def state(self) -> GraphState:
        """The last state."""
        return self._inspection.state(self.head)

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
        return [checkpoint for row in self.runs for checkpoint in self._inspection.history(row.run_id)]
