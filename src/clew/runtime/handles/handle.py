"""RunHandle: follow and steer one run, wherever it runs.

For a run that this engine executes, a handle uses the running session. For any other run it uses the store: it follows
what another process commits, returns what is stored, and resumes a run that waits and has no owner. Signals go to the
inbox of the run, and so do answers and cancellations if another process owns it (``clew.runtime.messages``).

On an event loop, use ``async for`` and ``await``. `status`, `questions` and `cancel` read the store if the run is not
here; call them with `asyncio.to_thread` there.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any, cast

from clew.engine.options import MOVING, Status
from clew.engine.records import Question
from clew.errors import InputError, RunError, RunOwnedError, UnknownRunError
from clew.graph.graph import inside_event_loop
from clew.runtime.execution import RunExecution
from clew.runtime.handles.background import BackgroundRuns, Job
from clew.runtime.handles.change_watch import ChangeWatch
from clew.runtime.handles.event_position import EventPosition
from clew.runtime.handles.follower import EventStream, Follower
from clew.runtime.handles.given_answers import GivenAnswer, refusal_of
from clew.runtime.handles.run_streams import RunStreams, StreamRequest
from clew.runtime.handles.stored_events import open_questions
from clew.runtime.inspection import read_result
from clew.runtime.messages import cancel_run, is_moving, send_signal
from clew.runtime.reporting.events import Event
from clew.runtime.result import RunResult
from clew.runtime.run_ids import checked_run_id
from clew.runtime.turns.turn_calls import TurnCalls
from clew.state.number_checks import is_number


class RunHandles:
    """Everything that the handles and streams of one engine share."""

    def __init__(self, execution: RunExecution, turns: TurnCalls) -> None:
        self.execution = execution
        self.opener = execution.opener
        self.settings = execution.opener.settings
        self.background = BackgroundRuns(execution, turns)
        self._streams = RunStreams(execution, turns)

    def start(self, *run: Any) -> RunHandle:
        """Start a run in the background, given by the arguments of `BackgroundRuns.start`."""
        job = self.background.start(*run)
        return RunHandle(self, job.run_id, job)

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of a run. Whether the run exists shows when the handle is used."""
        return RunHandle(self, checked_run_id(run_id))

    def stream(self, *request: Any) -> Iterator[Event]:
        """Execute a run, given as a `StreamRequest`, in the caller's thread, and yield its events."""
        return self._streams.stream(StreamRequest(*request))

    def astream(self, *request: Any) -> AsyncGenerator[Event, None]:
        """`stream` on the running event loop."""
        return self._streams.astream(StreamRequest(*request))

    def watch(self, run_id: str) -> ChangeWatch:
        """Return a watch for one reader of a run."""
        return ChangeWatch(self.opener.store, run_id, self.settings.lease)


class RunHandle:
    """A handle of one run, in this process or another. ``await handle`` waits for its result, like `result`."""

    def __init__(self, handles: RunHandles, run_id: str, job: Job | None = None) -> None:
        self.run_id = run_id
        self._handles = handles
        self._job = job  # the last one of this handle
        self._given: list[GivenAnswer] = []  # answers that no wait has taken

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id!r}>"

    @property
    def status(self) -> Status:
        """The status of the run now."""
        handles = self._handles
        if handles.background.is_here(self.run_id):
            return "running"
        return cast(Status, handles.opener.store.row(self.run_id).status)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that are open now."""
        return tuple(open_questions(self._handles.opener.runs, self.run_id))

    def events(self, after: str | None = None, *, follow: bool = False) -> EventStream:
        """Return an iterator over the events from the beginning, or after a cursor, and then as they happen.

        Iterate with ``for``, or with ``async for`` on an event loop. The events end when the run stops. With `follow`,
        they continue through questions and pauses until the run is completed, failed or cancelled. The last event is
        `run_finished`; `result` raises the error of a failed run, `events` does not.
        """
        handles, run_id = self._handles, self.run_id
        if not isinstance(follow, bool):
            raise InputError(f"follow must be True or False, got {follow!r}")
        position = EventPosition.after(run_id, after)
        follower = Follower(handles, run_id, position, self._failure, follow=follow)
        return EventStream(follower, handles.execution.elsewhere)

    def _failure(self) -> BaseException | None:
        """Return why the run took no answer of this handle, once, or why this handle could not execute the run."""
        return refusal_of(self._given) or self._job_failure()

    def _job_failure(self) -> BaseException | None:
        """Return why this handle could not execute the run; None if another process executes it now."""
        error = None if self._job is None else self._job.error
        return None if isinstance(error, RunOwnedError) else error

    # -- waiting -----------------------------------------------------------------------------------------

    def result(self, timeout: float | None = None, *, check: bool | None = None) -> RunResult:
        """Wait until the run stops, and return its result, or raise its error as `Engine.run` does.

        Raises TimeoutError after `timeout` seconds. The run then continues.
        """
        if inside_event_loop():
            raise RunError("result() would block the running event loop; await the handle instead")
        if timeout is not None and not is_number(timeout):
            raise InputError(f"timeout must be None or a number of seconds, got {timeout!r}")
        checked = self._handles.execution.check_of(check)
        until = None if timeout is None else time.monotonic() + timeout
        with _Waiting(self) as waiting:
            while (found := waiting.look()) is None:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(
                        f"run {self.run_id!r} has not stopped after {timeout:g} s; it continues"
                    )
                if waiting.job is not None:
                    waiting.job.wait(left)
                else:
                    time.sleep(waiting.delay if left is None else min(left, waiting.delay))
        checked(found)
        return found

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._aresult().__await__()

    async def _aresult(self) -> RunResult:
        import asyncio

        with _Waiting(self) as waiting:
            while True:
                off_loop = self._handles.execution.elsewhere()
                found = waiting.look() if off_loop is None else await off_loop.submit(waiting.look)
                if found is not None:
                    break
                if waiting.job is None:
                    await asyncio.sleep(waiting.delay)
                    continue
                await waiting.job.ended()
        self._handles.execution.check_of(None)(found)
        return found

    # -- steering ----------------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Cancel the run; return False if it has ended.

        A run that is queued, sleeps or waits, or whose process is gone, ends directly. If another process executes it,
        that process gets a message. A cancelled run can be resumed.
        """
        return self._handles.background.cancel(self.run_id) or cancel_run(self._handles.opener, self.run_id)

    def signal(self, name: str, value: Any = None) -> None:
        """Send a signal to the run, wherever it executes: `Engine.signal`."""
        send_signal(self._handles.opener, self.run_id, name, value)

    def answer(self, value: Any, question: str | Question | None = None) -> RunHandle:
        """Answer a question, given by itself or its path, and resume the run in the background; return this handle.

        Without `question`, the run must have one open question. If the run still executes here, it gets the answer as
        soon as it waits; if another process executes it, that process gets it, and if it is in a queue, a worker does.
        Raises RunStateError if the run has no open question. On an event loop, ``await handle.answer(value)`` also
        waits for the run, and returns its result.
        """
        path = getattr(question, "path", question)
        if path is not None and (not isinstance(path, str) or not path):
            raise InputError(f"question must be a Question or its path, got {question!r}")
        given = GivenAnswer(self.run_id, path or "", value)
        self._job = self._handles.background.answer(given)
        self._given = [each for each in self._given if not each.is_accepted] + [given]
        return self


class _Waiting:
    """One wait for the result of a run: here by its job, elsewhere by its store.

    It takes the answers that were given before it began, and raises the refusal of one. If it is given up, it returns
    them to the handle.
    """

    def __init__(self, handle: RunHandle) -> None:
        self._handle = handle
        self._handles = handle._handles
        self._watch = self._handles.watch(handle.run_id)
        self._row: Any = None
        self.job: Job | None = None
        self._given, handle._given = handle._given, []

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._handle._given += self._given

    @property
    def delay(self) -> float:
        """The seconds until the next look makes sense."""
        return self._watch.delay

    def look(self) -> RunResult | None:
        """Return the result if the run has stopped; otherwise `job`, if not None, is the job to wait for."""
        handle, handles = self._handle, self._handles
        run_id = handle.run_id
        if (refusal := refusal_of(self._given)) is not None:
            raise refusal
        self.job = handles.background.job(run_id)
        if self.job is not None:
            handle._job = self.job
            return None
        if (refusal := refusal_of(self._given)) is not None:  # the job has just ended
            raise refusal
        own = handle._job
        if own is not None and (failure := handle._job_failure()) is not None:
            raise failure
        if not self._watch.has_changed():
            if self._row is not None:
                self._watch.check_owner(self._row)
            return None
        try:
            self._row = row = handles.opener.runs.open(run_id).row
        except UnknownRunError:
            if own is None or own.result is None:
                raise
            return own.result  # a memory store has dropped the run
        if own is not None and own.result is not None and own.live.ended == (row.status, row.updated):
            return own.result
        if handles.background.is_here(run_id) or is_moving(handles.opener.store, row):
            return None
        result = read_result(handles.opener, run_id)
        return None if result.status in MOVING else result  # a worker may have taken it between the two reads
