"""Turns as the methods of an engine execute them: they wait while another caller runs the thread.

A method takes a place in the line of the thread (``clew.runtime.turns.turn_lines``) and tries to open a turn.
`ThreadBusyError` means that another caller runs the head, or is ahead of it in the line. The method then tries again
after a pause, until `timeout` has passed. It waits in the same place in which it executes the run: in the caller's
thread, on the event loop, or in the background.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import msgspec

from clew.engine.stops import Nodes, read_stops
from clew.errors import InputError, RunCancelledError, ThreadBusyError
from clew.graph.names import similar
from clew.runtime.children.inside import forked
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.session import Session
from clew.runtime.execution import RunExecution
from clew.runtime.log.registration import NewRun
from clew.runtime.opener import NO_ANSWER
from clew.runtime.process.calls_back import await_call, wait_for_call
from clew.runtime.settings import Settings
from clew.runtime.turns.threads import HeadRules, ThreadOpener, check_thread
from clew.runtime.turns.turn_lines import Place, TurnLines
from clew.state.number_checks import is_number
from clew.state.type_names import with_article

if TYPE_CHECKING:
    from clew.state.input_types import Values

T = TypeVar("T")


class TurnOptions(TypedDict, total=False):
    """Options of a method with a thread."""

    timeout: float | None
    """How many seconds to wait for a run of another caller; None waits without limit."""
    on_busy: Literal["wait", "refuse"]
    """What to do while another caller runs the thread."""
    drop: bool
    """Whether to cancel a run that waits or is paused, and to drop its open work."""


_OF_RUNS = ("run_id", "thread", "attributes", "check", "progress", "stop_before", "stop_after")
_ELSEWHERE = {
    "force": "engine.rerun(run_id, force=[...])",
    "step": "engine.fork(run_id, step=...)",
    "answer": "engine.resume(run_id, answer=...)",
    "answers": "engine.resume(run_id, answers={path: ...})",
    "accept_changes": "engine.resume(run_id, accept_changes=True)",
    "as_node": "engine.update(run_id, values, as_node=...)",
    "decision": "engine.update(run_id, as_node=..., decision=...)",
}
"""Options of other methods that people give to `run`."""

_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # seconds between two checks of a run of another caller


class TurnCall(msgspec.Struct):
    """What a caller asks for: the thread, what to do if its last run has not ended, and its place in the line."""

    thread: str
    timeout: float | None = None
    waits: bool = True
    drop: bool = False
    place: Place | None = None

    @property
    def is_first(self) -> bool:
        """Whether no earlier call of the same engine waits for the thread."""
        return self.place is None or self.place.is_first

    def leave(self) -> None:
        """Leave the line: the turn is open, or the call has given up."""
        if self.place is not None:
            self.place.leave()

    def pauses(self) -> Iterator[tuple[float, Place | None]]:
        """Yield how long to wait before each new attempt, and for which place in the line if other calls are first."""
        if not self.waits:
            return
        end = None if self.timeout is None else time.monotonic() + self.timeout
        attempts = 0  # as the first one
        while True:
            is_first = self.is_first
            pause = _PAUSES[min(attempts, len(_PAUSES) - 1)] if is_first else _PAUSES[-1]
            left = pause if end is None else end - time.monotonic()
            if left <= 0:
                return
            yield min(pause, left), None if is_first else self.place
            attempts += is_first


def read_turn(thread: str | None, options: TurnOptions, what: str = "run") -> TurnCall | None:
    """Read the options of a method that may have a thread; return None without one. Raise InputError if one is
    invalid."""
    if thread is None and not options:
        return None
    for name in options:
        if name not in TurnOptions.__optional_keys__:
            meant = similar(name, (*_OF_RUNS, *TurnOptions.__optional_keys__))
            if name in _ELSEWHERE:
                hint = f"it belongs to {_ELSEWHERE[name]}"
            elif name in Settings.__struct_fields__:
                hint = f"it belongs to the engine: Engine(graph, {name}=...)"
            elif meant:
                hint = f"did you mean {meant!r}?"
            else:
                hint = f"give values as one mapping: {{{name!r}: ...}}"
            raise InputError(f"{with_article(what)} has no option {name!r}; {hint}")
    on_busy, timeout = options.get("on_busy", "wait"), options.get("timeout")
    if on_busy not in ("wait", "refuse"):
        raise InputError(f"on_busy must be 'wait' or 'refuse', got {on_busy!r}")
    if timeout is not None and not is_number(timeout, 0):
        raise InputError(f"timeout must be None or a number of seconds >= 0, got {timeout!r}")
    drop = options.get("drop", False)
    if not isinstance(drop, bool):
        raise InputError(f"drop must be True or False, got {drop!r}")
    if thread is None:
        raise InputError(f"{', '.join(options)}: these options need a thread; pass thread=...")
    return TurnCall(check_thread(thread), timeout, on_busy == "wait", drop)


def when_free(
    call: TurnCall, hold: Hold, act: Callable[[], T], is_cancelled: Callable[[], bool] = lambda: False
) -> T:
    """Call a function that opens a turn until no other caller runs the thread, in the caller's thread."""
    try:
        for pause, place in call.pauses():
            try:
                return act()
            except ThreadBusyError:
                if hold.session is not None:
                    raise  # a node raised it
            if place is None:
                time.sleep(pause)
            else:
                wait_for_call(place.when_first, pause)
            _check(call, hold, is_cancelled)
        return act()
    finally:
        call.leave()


async def awhen_free(
    call: TurnCall,
    hold: Hold,
    act: Callable[[], Awaitable[T]],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> T:
    """`when_free` on the running event loop."""
    import asyncio

    try:
        for pause, place in call.pauses():
            try:
                return await act()
            except ThreadBusyError:
                if hold.session is not None:
                    raise
            if place is None:
                await asyncio.sleep(pause)
            else:
                await await_call(place.when_first, pause)
            _check(call, hold, is_cancelled)
        return await act()
    finally:
        call.leave()


def _check(call: TurnCall, hold: Hold, is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise RunCancelledError(
            f"run {hold.run_id!r} was cancelled while it waited for thread {call.thread!r}; it has not started"
        )


def _open_first(call: TurnCall, opening: Callable[..., Session], **options: Any) -> Session:
    """Open a turn if no earlier call waits for the thread."""
    if not call.is_first:
        raise ThreadBusyError(
            f"thread {call.thread!r} is busy: earlier calls of this engine wait for it; wait for them, or cancel them"
        )
    session = opening(**options)
    call.leave()
    return session


class TurnCalls:
    """Opens the turns of one engine's threads."""

    def __init__(self, execution: RunExecution, opener: ThreadOpener) -> None:
        self._execution = execution
        self._opener = opener
        self._lines = TurnLines()

    def _in_line(self, call: TurnCall, opening: Callable[..., Session]) -> Callable[..., Session]:
        """Take a place in the line of a thread, if the call has none; return a function that opens its turn there."""
        if call.place is None:
            call.place = self._lines.join(call.thread)
        return partial(_open_first, call, opening)

    def new(
        self, thread: str | None, options: TurnOptions, values: Values | None, run: NewRun
    ) -> tuple[TurnCall, Callable[..., Session]]:
        """Return how to wait for the thread of a new run, if it has one, and a function that opens the run."""
        call = read_turn(thread, options)
        if call is None:
            return NOT_IN_THREAD, partial(self._opener.begin, values, run)
        return call, self.opening(call, values, run)

    def opening(
        self, call: TurnCall, values: Values | None, run: NewRun, *, resumes: bool = True
    ) -> Callable[..., Session]:
        """Return a function that opens a turn, or raises ThreadBusyError.

        Without `resumes`, a run whose owner is dead counts as busy: the caller must not execute it.
        """
        rules = HeadRules(self._execution.live, self._resume if resumes else None, call.drop)
        return self._in_line(call, partial(self._opener.turn, call.thread, values, run, rules))

    def fork(
        self,
        thread: str | None,
        options: TurnOptions,
        parent: str,
        path: str | None,
        step: int | str | None,
        values: Mapping[str, Any] | None,
        run: NewRun,
        stops: tuple[Nodes, Nodes],
    ) -> tuple[TurnCall, Callable[..., Session]]:
        """Return how to wait for the thread of a fork, and a function that opens the fork."""
        if path is None:
            read_stops(self._opener.graph, *stops)  # raises before a thread is changed
        opening = partial(forked, self._opener, parent, path, step, values, run, stops)
        call = read_turn(thread, options, "fork")
        if call is None:
            return NOT_IN_THREAD, opening
        rules = HeadRules(self._execution.live, self._resume, call.drop)
        moving = partial(self._opener.moving, call.thread, lambda move, _: opening(move), rules)
        return call, self._in_line(call, moving)

    def _resume(self, run_id: str) -> None:
        """Resume a run in this thread, which is not one of an event loop."""
        hold = Hold(run_id)
        self._execution.drive(hold, partial(self._execution.resumed, hold, NO_ANSWER, None, False), False)


NOT_IN_THREAD = TurnCall("", waits=False)
"""Of a run in no thread, which nothing waits for."""
