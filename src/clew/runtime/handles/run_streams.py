"""Streams: start or resume a run, and yield its events with their cursors while it executes.

A stream executes the run, so leaving it early cancels the run. To follow a run without executing it, use a handle.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.stops import Stops
from clew.errors import InputError, RunExistsError, UnknownRunError
from clew.held_interrupts import HeldInterrupts, start_thread
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.session import Session
from clew.runtime.execution import RunExecution
from clew.runtime.handles.event_position import CursorTags
from clew.runtime.late_answers import aread_late_answers, steps_with_late_answers
from clew.runtime.log.registration import NewRun
from clew.runtime.opener import NO_ANSWER
from clew.runtime.reporting.events import Event
from clew.runtime.result import RunResult
from clew.runtime.turns.turn_calls import TurnCall, TurnCalls, awhen_free, when_free

if TYPE_CHECKING:
    import asyncio


class StreamRequest(msgspec.Struct, frozen=True):
    """What to stream: a new run with values, or the continuation of a run."""

    values: Any = None
    run_id: str | None = None
    answer: Any = NO_ANSWER
    answers: Mapping[str, Any] | None = None
    resume: bool = False
    check: bool | None = None
    stops: Stops | None = None
    turn: TurnCall | None = None

    @property
    def continues(self) -> bool:
        """Return whether an existing run is resumed. Raise InputError if the request is contradictory."""
        if not isinstance(self.resume, bool):
            raise InputError(f"resume must be True or False, got {self.resume!r}")
        if not (self.resume or self.answer is not NO_ANSWER or self.answers is not None):
            return False
        if self.run_id is None:
            raise InputError("to stream the continuation of a run, pass its run_id")
        if self.values is not None:
            raise InputError(
                f"run {self.run_id!r} is continued with an answer or resume=True, so it takes no values; pass one of "
                f"the two"
            )
        if self.turn is not None:
            raise InputError(f"run {self.run_id!r} is continued; a thread is for new runs only")
        return True


class RunStreams:
    """Streams the runs of one engine."""

    def __init__(self, execution: RunExecution, turns: TurnCalls) -> None:
        self._execution = execution
        self._opener = execution.opener
        self._turns = turns

    def _opening(
        self, request: StreamRequest, pass_on: Callable[[Event], object]
    ) -> tuple[Hold, Callable[..., Session | RunResult]]:
        execution = self._execution
        if request.continues:
            assert request.run_id is not None
            hold = Hold(request.run_id)
            tags = CursorTags(hold.run_id, pass_on)
            again = (hold, request.answer, request.answers, False, tags, request.stops)
            opening: Callable[..., Session | RunResult] = partial(execution.resumed, *again)
        else:
            hold = execution.new_hold(request.run_id)
            tags = CursorTags(hold.run_id, pass_on)
            run = NewRun(hold.run_id, hold.owner, request.stops, listener=tags)
            if request.turn is not None:
                opening = self._turns.opening(request.turn, request.values, run)
            else:
                opening = partial(self._opener.begin, request.values, run)

        def opened(**options: Any) -> Session | RunResult:
            try:
                session = opening(**options)
            except InputError as error:
                if request.run_id is not None and request.values is None:
                    self._refuse_existing(request.run_id, error)
                raise
            if isinstance(session, Session):
                tags.begin(session.machine.root.step, session.emitted)
            return session

        return hold, opened

    def _refuse_existing(self, run_id: str, error: InputError) -> None:
        """Raise RunExistsError for the id of an existing run without values: its continuation was meant."""
        with suppress(UnknownRunError):
            self._opener.store.row(run_id)
            raise RunExistsError(
                f"run {run_id!r} exists; to stream its continuation, pass answer=... or resume=True, and to stream "
                f"what it did, use engine.handle({run_id!r}).events()"
            ) from error

    def stream(self, request: StreamRequest) -> Iterator[Event]:
        """Execute a run in the caller's thread, and yield its events."""
        execution = self._execution
        check = execution.check_of(request.check)
        events: SimpleQueue[Event | None] = SimpleQueue()
        hold, opening = self._opening(request, events.put)
        free = partial(execution.free, hold)
        try:
            turn = request.turn
            session = opening() if turn is None else when_free(turn, hold, opening)
            if isinstance(session, RunResult):
                check(session)
                return iter(())  # the run has ended
            hold.session = session
            if self._opener.graph.has_async_nodes:
                import asyncio

                return _start(
                    _from_thread(
                        lambda: asyncio.run(_adrive(execution, hold, session)),
                        events,
                        lambda: execution.stop(session),
                        free,
                        check,
                    )
                )
            steps = steps_with_late_answers(execution, hold, session)
            return _start(_from_driver(steps, events, free, check))
        except BaseException as error:
            try:
                free(error)
            except KeyboardInterrupt as again:
                free(again)
                raise
            raise

    async def astream(self, request: StreamRequest) -> AsyncGenerator[Event, None]:
        """Execute a run on the running event loop, and yield its events."""
        import asyncio

        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event | None]()
        execution = self._execution
        hold, opening = self._opening(
            request, lambda event: loop.call_soon_threadsafe(queue.put_nowait, event)
        )
        turn = request.turn
        if turn is None:
            driving = execution.adrive(hold, opening, False, at_once=not request.continues)
        else:
            driving = awhen_free(turn, hold, partial(execution.adrive, hold, opening, False))
        events = _from_task(
            driving, queue, lambda: execution.stop(hold.session), execution.check_of(request.check)
        )
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()  # a closed stream has cancelled its run


async def _adrive(execution: RunExecution, hold: Hold, session: Session) -> RunResult:
    result = await execution.adrive_session(session)
    return await aread_late_answers(execution, hold, result)


# -- events as they come -----------------------------------------------------------------------------------------

_STARTED: Any = None  # the first value of a stream; `_start` consumes it
_GRACE = 5.0  # seconds for a thread to end

Check = Callable[[Any], None]
"""Called with the result after the last event; raises the error of the run."""

Free = Callable[[BaseException], None]
"""Called if a stream is left before its run has ended, to release the run."""


def _start(events: Generator[Event, None, None]) -> Generator[Event, None, None]:
    """Start a stream, so that its cleanup runs even if the caller never iterates over it."""
    next(events)
    return events


def _from_driver(
    driving: Generator[None, None, Any], events: SimpleQueue[Event | None], free: Free, check: Check
) -> Generator[Event, None, None]:
    """Yield the events of a run that the caller's thread executes."""
    try:
        yield _STARTED
        while True:
            try:
                next(driving)
            except StopIteration as stop:
                result = stop.value
                break
            yield from _queued(events)
    except BaseException as error:
        try:
            with HeldInterrupts(error):
                driving.close()
        finally:
            free(error)
        raise
    yield from _queued(events)
    check(result)


def _queued(events: SimpleQueue[Event | None]) -> Iterator[Event]:
    while not events.empty():
        event = events.get()
        assert event is not None
        yield event


def _from_thread(
    run: Callable[[], Any],
    events: SimpleQueue[Event | None],
    cancel: Callable[[], Any],
    free: Free,
    check: Check,
) -> Generator[Event, None, None]:
    """Yield the events of a run with async nodes, whose event loop runs in a separate thread."""
    failures: list[BaseException] = []
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(run())
        except BaseException as error:
            failures.append(error)
        finally:
            events.put(None)

    def stop(error: BaseException) -> None:
        with HeldInterrupts(error):
            if thread.is_alive():
                cancel()
                thread.join(_GRACE)
            if not thread.is_alive():
                free(error)

    thread = Thread(target=copy_context().run, args=(work,), name="clew-stream", daemon=True)
    try:
        yield _STARTED
        start_thread(thread)
        while (event := events.get()) is not None:
            yield event
    except BaseException as error:
        try:
            stop(error)
        except KeyboardInterrupt:
            stop(error)
            raise
        raise
    if failures:
        raise failures[0]
    check(results[0])


async def _from_task(
    run: Coroutine[Any, Any, Any],
    events: asyncio.Queue[Event | None],
    cancel: Callable[[], Any],
    check: Check,
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run that is a task on the caller's event loop."""
    import asyncio

    loop = asyncio.get_running_loop()

    async def drive() -> Any:
        try:
            return await run
        finally:
            loop.call_soon_threadsafe(events.put_nowait, None)

    task: asyncio.Task[Any] | None = None
    try:
        task = asyncio.ensure_future(drive())
        while (event := await events.get()) is not None:
            yield event
        result = await task
    finally:
        if task is not None and not task.done():
            cancel()
            task.cancel()
            await asyncio.wait([task])
        run.close()  # has an effect only if the task never started
    check(result)
