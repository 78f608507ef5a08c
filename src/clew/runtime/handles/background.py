"""Runs in the background: on a thread each, or as tasks of the running event loop.

A job executes a run until it stops. Answers that arrive while it executes are queued; if the run then waits for them,
the same job resumes it. An answer that the run does not take is rejected, which is not an error of the job. Only the
engine refers to a job, as long as it executes; handles do not.

Threads are daemons. When the program exits or the engine is closed, running jobs are cancelled, and have five seconds
to store that. A run whose node does not end in that time has no owner afterwards, and can be resumed.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from msgspec.structs import replace

from clew.engine.program import check_values
from clew.errors import RunOwnedError, RunStateError, ThreadBusyError
from clew.graph.graph import inside_event_loop
from clew.held_interrupts import HeldInterrupts, start_thread
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.session import Session
from clew.runtime.execution import RunExecution
from clew.runtime.handles.given_answers import GivenAnswer, deliver, refuse, send
from clew.runtime.handles.live_events import LiveEvents
from clew.runtime.inspection import read_result
from clew.runtime.log.checks.run_checks import input_values
from clew.runtime.log.registration import NewRun
from clew.runtime.messages import answer_run, is_for_others
from clew.runtime.opener import NO_ANSWER
from clew.runtime.process.calls_back import await_call, wait_for_call
from clew.runtime.result import RunResult
from clew.runtime.turns.turn_calls import TurnCall, TurnCalls, awhen_free, when_free
from clew.state import GraphState

if TYPE_CHECKING:
    import asyncio

    from clew.state.input_types import Values

_GRACE = 5.0  # seconds
_CLOSING = 0.01  # seconds between two checks of runs that are ending
_ANY = ""  # stands for the only open question


class Job:
    """The execution of one run in the background, until it stops."""

    _error: BaseException | None = None
    _is_reported = False

    def __init__(self, run_id: str, live: LiveEvents) -> None:
        self.run_id = run_id
        self.live = live
        self.result: RunResult | None = None
        self.is_done = False
        self.is_cancelled = False
        self.thread: Thread | None = None
        self.task: asyncio.Task[None] | None = None
        self.answers: list[GivenAnswer] = []  # that wait until the run waits
        self.refusal: BaseException | None = None  # of the last answers
        self._callbacks: list[Callable[[], object]] = []
        self._lock = Lock()

    def opened(self, session: Session | RunResult) -> Session | RunResult:
        """Take the session of this job; cancel it if that was asked for in the meantime."""
        if isinstance(session, Session):
            session.heard_by = self.live
            self.live.begin(partial(_last_step, session), is_whole=True)
            session.cancelled = session.cancelled or self.is_cancelled
        return session

    @property
    def error(self) -> BaseException | None:
        """Why the run could not be executed: an error of the store, for example, not of a node."""
        self._is_reported = True
        return self._error

    def __del__(self) -> None:
        if isinstance(self._error, Exception) and not self._is_reported:
            from clew.loggers import logger

            logger("runs").error("run %r stopped in the background", self.run_id, exc_info=self._error)

    def end(self, result: RunResult | None, error: BaseException | None) -> None:
        """Store the outcome, and wake everything that waits for it."""
        with self._lock:
            self.result, self._error, self.is_done = result, error, True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        self.live.wake_readers()

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call a function once at the end of the job, from any thread; now if it has ended."""
        with self._lock:
            if not self.is_done:
                self._callbacks.append(callback)
                return
        callback()

    def forget(self, callback: Callable[[], object]) -> None:
        """Do not call a function at the end."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end in the caller's thread; return whether it came in time."""
        return wait_for_call(self.when_done, seconds, forget=self.forget)

    async def ended(self) -> None:
        """Wait for the end on the running event loop."""
        await await_call(self.when_done, forget=self.forget)


class BackgroundRuns:
    """The runs that one engine executes in the background."""

    def __init__(self, execution: RunExecution, turns: TurnCalls) -> None:
        self._execution = execution
        self._turns = turns
        self._opener = execution.opener
        self._sessions = execution.live
        self._jobs: dict[str, Job] = {}
        self._live_events: WeakValueDictionary[str, LiveEvents] = WeakValueDictionary()
        self._lock = Lock()
        _open.add(self)

    # -- what is here ------------------------------------------------------------------------------------

    def job(self, run_id: str) -> Job | None:
        """Return the job that executes a run."""
        return self._jobs.get(run_id)

    def is_here(self, run_id: str) -> bool:
        """Return whether this engine executes the run, or is about to."""
        return run_id in self._jobs or run_id in self._sessions

    def live_events(self, run_id: str) -> LiveEvents | None:
        """Return the events of a run that this engine executes or has executed.

        If no handle has asked before, this starts to listen to the session of the run.
        """
        job = self._jobs.get(run_id)
        if job is not None:
            return job.live
        session = self._sessions.get(run_id)
        with self._lock:
            live = self._live_events.get(run_id)
            if session is not None and (live is None or session.heard_by is not live):
                live = live or self._new_events(run_id)
                live.begin(partial(_last_step, session), is_whole=session.listening)
                session.heard_by = live
                session.listen(live)
            return live

    def _new_events(self, run_id: str) -> LiveEvents:
        live = self._live_events[run_id] = LiveEvents(run_id)
        return live

    # -- starting ----------------------------------------------------------------------------------------

    def start(self, values: Values | None, hold: Hold, run: NewRun, turn: TurnCall | None = None) -> Job:
        """Start a new run, in a thread if `turn` names one."""
        job = Job(run.run_id, LiveEvents(run.run_id))
        run = replace(run, listener=job.live)
        if turn is not None:
            return self._start_turn(turn, values, job, hold, run)
        opening = partial(self._opener.begin, values, run)
        if not inside_event_loop():
            return self._on_thread(job, hold, opening)
        graph = self._opener.graph
        if not isinstance(values, GraphState):
            check_values(graph, input_values(graph, values))  # raise now, not in the task
        return self._as_task(job, hold, opening, is_new=True)

    def _start_turn(self, turn: TurnCall, values: Values | None, job: Job, hold: Hold, run: NewRun) -> Job:
        """Start the next run of a thread. If another caller runs the thread, wait for it in the background."""
        opens = partial(self._turns.opening, turn, values, run)
        opening = opens()
        if inside_event_loop():
            return self._as_task(job, hold, opening, turn=turn)
        try:
            try:
                return self._on_thread(job, hold, opens(resumes=False))
            except ThreadBusyError:
                if not turn.waits:
                    raise
            wait = partial(when_free, turn, hold, opening, lambda: job.is_cancelled)
            return self._on_thread(job, hold, wait, is_patient=True)
        except BaseException:
            turn.leave()
            raise

    def answer(self, given: GivenAnswer) -> Job:
        """Answer a question of a run that waits, and resume it; if it runs here, as soon as it waits."""
        run_id, path = given.run_id, given.path
        with self._lock:
            job = self._jobs.get(run_id)
            if job is not None:
                if self._is_taken_now(given):
                    return job
                if job.answers and (path == _ANY or any(each.path in (_ANY, path) for each in job.answers)):
                    raise RunStateError(
                        f"run {run_id!r} has an answer that it has not used yet; to answer several questions, "
                        f"pass question= with each answer"
                    )
                job.answers.append(given)
                return job
            live = self._live_events.get(run_id) or self._new_events(run_id)
            job = Job(run_id, live)
        hold = Hold(run_id)
        opening = partial(self._resumed, hold, job, [given])
        if inside_event_loop():
            return self._as_task(job, hold, opening)
        try:
            job = self._on_thread(job, hold, opening)
            if given.refusal is not None:
                raise given.refusal
        except BaseException:
            given.is_reported = True
            raise
        return job

    def _is_taken_now(self, given: GivenAnswer) -> bool:
        """Send an answer to a run that asks now and also waits for something else; return False for another run."""
        session = self._sessions.get(given.run_id)
        if session is None or session.waits is None:
            return False
        asked = self._opener.runs.open(given.run_id).log().asked
        if given.path not in asked and (given.path or len(asked) != 1):
            return False
        answer_run(self._opener, given.run_id, given.path, given.value)
        given.is_accepted = True
        return True

    def _resumed(self, hold: Hold, job: Job, given: list[GivenAnswer]) -> Session | RunResult:
        answers = {each.path: each.value for each in given}
        single = answers.pop(_ANY, NO_ANSWER)
        try:
            if is_for_others(self._opener, job.run_id):
                send(self._opener, given)
                return read_result(self._opener, job.run_id)
            resume = partial(self._execution.resumed, hold, single, answers or None, False, job.live)
            try:
                opened = resume(unless_cancelled=True)
            except RunOwnedError:
                take_over = partial(
                    self._execution.resumed, hold, NO_ANSWER, None, False, job.live, unless_cancelled=True
                )
                found = deliver(self._opener, given, take_over)
                if found is not None:
                    return read_result(self._opener, job.run_id) if isinstance(found, bool) else found
                opened = resume(unless_cancelled=True)  # it was released in the meantime
        except Exception as error:
            if len(given) > 1:  # one of them is invalid: take them one by one
                with self._lock:
                    job.answers[:0] = given[1:]
                return self._resumed(hold, job, given[:1])
            job.refusal = error
            refuse(given, error)
            raise
        for each in given:
            each.is_accepted = True
        return opened

    def _register(self, job: Job) -> None:
        with self._lock:
            if job.run_id in self._jobs:
                raise RunStateError(f"run {job.run_id!r} is running; wait for it, or cancel it")
            self._jobs[job.run_id] = job
            self._live_events[job.run_id] = job.live

    def _on_thread(
        self, job: Job, hold: Hold, opening: Callable[[], Session | RunResult], *, is_patient: bool = False
    ) -> Job:
        """Open the run here, so that the caller gets the errors, and execute it on a thread.

        With `is_patient`, open it on the thread: that has to wait.
        """
        try:
            if is_patient:
                first = partial(_opened_by, job, opening)
            else:
                opened = opening()  # a run that exists, or is owned, is not a job yet
                if isinstance(opened, Session):
                    hold.session = opened
                first = partial(job.opened, opened)
            self._register(job)
            context = copy_context()
            job.thread = Thread(
                target=context.run, args=(self._work, job, hold, first), name="clew-run", daemon=True
            )
            start_thread(job.thread)
        except BaseException as error:
            try:
                with HeldInterrupts(error):
                    self._remove(job)
            finally:
                self._execution.free(hold, error)
            raise
        return job

    def _work(self, job: Job, hold: Hold, opening: Callable[[], Session | RunResult]) -> None:
        result: RunResult | None = None
        try:
            answers = None
            while answers is None or answers:
                try:
                    result = self._execution.drive(hold, opening, False)
                except Exception as error:
                    if error is not job.refusal:
                        raise
                answers = self._more_answers(job, result)
                hold, opening = self._again(job, answers)
        except BaseException as error:
            self._end(job, result, error)
        else:
            self._end(job, result, None)

    def _again(self, job: Job, answers: list[GivenAnswer]) -> tuple[Hold, Callable[[], Session | RunResult]]:
        """Return how to resume the run with answers."""
        hold = Hold(job.run_id)
        return hold, partial(_opened_by, job, partial(self._resumed, hold, job, answers))

    def _as_task(
        self,
        job: Job,
        hold: Hold,
        opening: Callable[..., Session | RunResult],
        *,
        is_new: bool = False,
        turn: TurnCall | None = None,
    ) -> Job:
        """Execute the run as a task, which also opens it, because the loop must not wait for the store."""
        import asyncio

        opened = partial(_opened_by, job, opening)
        drive = partial(self._execution.adrive, hold, opened, False, at_once=is_new)
        if turn is not None:
            drive = partial(awhen_free, turn, hold, drive, lambda: job.is_cancelled)
        self._register(job)
        job.task = asyncio.get_running_loop().create_task(self._awork(job, drive))
        if turn is not None:
            leave = turn.leave
            job.task.add_done_callback(lambda _: leave())  # also if it is cancelled before it begins
        return job

    async def _awork(self, job: Job, drive: Callable[[], Awaitable[RunResult]]) -> None:
        result: RunResult | None = None
        try:
            answers = None
            while answers is None or answers:
                try:
                    result = await drive()
                except Exception as error:
                    if error is not job.refusal:
                        raise
                answers = self._more_answers(job, result)
                drive = partial(self._execution.adrive, *self._again(job, answers), False)
        except BaseException as error:
            self._end(job, result, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._end(job, result, None)

    def _more_answers(self, job: Job, result: RunResult | None) -> list[GivenAnswer]:
        """Return the answers that arrived while the run executed, for the run to take or refuse; else remove the job.

        A run that failed or was cancelled is not resumed by them.
        """
        with self._lock:
            answers, job.answers = job.answers, []
            has_ended = result is not None and result.status in ("failed", "cancelled")
            if has_ended or not answers:
                self._jobs.pop(job.run_id, None)
                return []
            return answers

    def _end(self, job: Job, result: RunResult | None, error: BaseException | None) -> None:
        self._remove(job)
        if isinstance(error, Exception):
            refuse(job.answers, error)
        job.end(result, error)

    def _remove(self, job: Job) -> None:
        with self._lock:
            if self._jobs.get(job.run_id) is job:
                del self._jobs[job.run_id]

    # -- stopping ----------------------------------------------------------------------------------------

    def cancel(self, run_id: str) -> bool:
        """Cancel a run that is here, from any thread; return whether it is."""
        job, session = self._jobs.get(run_id), self._sessions.get(run_id)
        if job is not None:
            job.is_cancelled = True
        self._execution.stop(session)
        return job is not None or session is not None

    def leave_to_parent(self) -> None:
        """Forget all runs in a forked child: their threads belong to the parent."""
        self._lock = Lock()
        self._jobs = {}
        self._sessions.clear()

    async def aclose(self, close: Callable[[], None]) -> None:
        """Cancel all runs of the engine, wait on the running event loop until they have ended, and close the engine."""
        import asyncio

        for run_id in {*self._jobs, *self._sessions}:
            self.cancel(run_id)
        until = time.monotonic() + _GRACE
        while (self._jobs or self._sessions) and time.monotonic() < until:
            await asyncio.sleep(_CLOSING)
        await asyncio.to_thread(close)

    def close(self) -> None:
        """Cancel all jobs, and wait for their threads; a loop cancels its tasks itself."""
        jobs = [job for job in list(self._jobs.values()) if job.thread is not None]
        for job in jobs:
            self.cancel(job.run_id)
        until = time.monotonic() + _GRACE
        for job in jobs:
            if job.thread is not threading.current_thread():
                job.wait(until - time.monotonic())


def _opened_by(job: Job, opening: Callable[..., Session | RunResult], **options: Any) -> Session | RunResult:
    return job.opened(opening(**options))


def _last_step(session: Session) -> int:
    return session.machine.root.step


_open: WeakSet[BackgroundRuns] = WeakSet()


@atexit.register
def _close_all() -> None:
    for runs in list(_open):
        runs.close()


def _after_fork() -> None:
    for runs in list(_open):
        runs.leave_to_parent()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
