"""Answers that arrive while a run is being released.

A process releases a run when the run waits for an answer. Another process may send that answer during the release. If
the run is in a queue, the store makes it due. Otherwise no process would read the answer. So the releasing process
reads the inbox once more after the release, and continues the run if there is an answer. A sender checks the owner
after it has sent the answer (``clew.runtime.messages``), so one of the two processes always notices. The listeners of
the run also get the events of its continuation.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from clew.errors import ClewError, RunOwnedError, RunStateError
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.inbox import ANSWER
from clew.runtime.inspection import read_result
from clew.runtime.opener import NO_ANSWER, RunOpener
from clew.runtime.reporting.events import Listener, Listeners
from clew.runtime.result import RunResult

if TYPE_CHECKING:
    from clew.runtime.drivers.off_loop import OffLoop
    from clew.runtime.drivers.session import Session


class AnswerReader(Protocol):
    """The part of a `RunExecution` that this module uses."""

    opener: RunOpener

    def elsewhere(self) -> OffLoop | None: ...
    def drive_once(self, hold: Hold, opening: Any) -> RunResult: ...
    async def adrive_once(self, hold: Hold, opening: Any) -> RunResult: ...
    def steps_of(self, session: Session) -> Generator[None, None, RunResult]: ...
    def resumed(
        self, hold: Hold, answer: Any, answers: None, accept_changes: bool, listener: Listener | None
    ) -> Session | RunResult: ...


def read_late_answers(execution: AnswerReader, hold: Hold, result: RunResult) -> RunResult:
    """Continue a run that waits, as long as its inbox has answers; return its last result."""
    while result.status == "waiting" and _is_answered(execution.opener, hold):
        result = execution.drive_once(hold, partial(_resumed, execution, hold))
    return result


async def aread_late_answers(execution: AnswerReader, hold: Hold, result: RunResult) -> RunResult:
    """`read_late_answers` on the running event loop, which never waits for the store."""
    off_loop, look = execution.elsewhere(), partial(_is_answered, execution.opener, hold)
    while result.status == "waiting" and (look() if off_loop is None else await off_loop.submit(look)):
        result = await execution.adrive_once(hold, partial(_resumed, execution, hold))
    return result


def steps_with_late_answers(
    execution: AnswerReader, hold: Hold, session: Session
) -> Generator[None, None, RunResult]:
    """`RunExecution.steps_of`, and those of a run that waits, as long as its inbox has answers."""
    result = yield from execution.steps_of(session)
    while result.status == "waiting" and _is_answered(execution.opener, hold):
        opened = _resumed(execution, hold)
        if isinstance(opened, RunResult):
            return opened
        hold.session = opened
        result = yield from execution.steps_of(opened)
    return result


def _is_answered(opener: RunOpener, hold: Hold) -> bool:
    """Return whether a run that no worker takes has an answer: in its inbox, or logged after its driver had stopped."""
    if not opener.repository.keeps or opener.repository.child_of is not None:
        return False  # it has no inbox: a child gets the answers of its run
    waits = None if hold.session is None else hold.session.waits
    is_logged, run_id = waits is not None and bool(waits.mail), hold.run_id
    if waits is not None:
        waits.mail.clear()
    try:
        messages = () if is_logged else opener.store.inbox(run_id)
        is_answered = is_logged or any(message.kind == ANSWER for message in messages)
        return is_answered and opener.store.entry(run_id) is None
    except ClewError:
        return False  # the run has been released, and its result is known


def _resumed(execution: AnswerReader, hold: Hold) -> Session | RunResult:
    """Resume a run with its answers; return its result if another process does, or if none of them is valid."""
    last = hold.session
    heard = () if last is None or last.listeners is None else last.listeners
    others = [each for each in heard if each not in execution.opener.listeners]
    try:
        opened = execution.resumed(hold, NO_ANSWER, None, False, Listeners(others).send if others else None)
    except (RunOwnedError, RunStateError):
        return read_result(execution.opener, hold.run_id)
    if last is not None and not isinstance(opened, RunResult):
        opened.heard_by = last.heard_by
    return opened
