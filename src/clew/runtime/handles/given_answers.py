"""Answers that were given with handles: each is accepted, or rejected with an error.

On an event loop, a run takes its answer in a task, after `answer` has returned. The error of a rejected answer belongs
to the caller that gave the answer, not to the run. It is raised once: by the next wait that begins on the same handle,
or else by its events. If no caller waits, it is logged. The handle then works as before.

An answer to a run that another process executes is a message to that process. The process reads messages once a second,
and before it lets the run wait. Another answer may be faster. So the sender waits until the message was read, and then
reads the log of the run. If the process has released the run without having read the message, the sender takes over the
run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal

from clew.errors import RunOwnedError
from clew.runtime.drivers.session import Session
from clew.runtime.messages import answer_run, is_unread, refusal_of_sent, send_answer
from clew.runtime.opener import RunOpener
from clew.runtime.result import RunResult

_PAUSE = 0.1  # seconds between two checks of an answer that was sent


class GivenAnswer:
    """One answer to a question at a path, or to the only question."""

    refusal: BaseException | None = None
    is_accepted = False
    is_reported = False

    def __init__(self, run_id: str, path: str, value: Any) -> None:
        self.run_id = run_id
        self.path = path
        self.value = value

    def __del__(self) -> None:
        if self.refusal is not None and not self.is_reported:
            from clew.loggers import logger

            logger("runs").error("an answer to run %r was refused", self.run_id, exc_info=self.refusal)


def refuse(given: Iterable[GivenAnswer], error: BaseException) -> None:
    """Refuse answers that were given together."""
    for each in given:
        each.refusal = error


def refusal_of(given: list[GivenAnswer]) -> BaseException | None:
    """Return the error of a refused answer, and remove the answers that it was given for."""
    error = next((each.refusal for each in given if each.refusal is not None), None)
    if error is not None:
        for each in given:
            each.is_reported = each.refusal is error
        given[:] = [each for each in given if each.refusal is not error]
    return error


def send(opener: RunOpener, given: Iterable[GivenAnswer]) -> None:
    """Send answers to the worker that will execute the run."""
    for each in given:
        answer_run(opener, each.run_id, each.path, each.value)
        each.is_accepted = True


def deliver(
    opener: RunOpener, given: list[GivenAnswer], take_over: Callable[[], Session | RunResult]
) -> Session | RunResult | Literal[True] | None:
    """Send answers to the process that executes their run, and wait until they are read; accept or refuse them.

    Returns True; what `take_over` returns, if the process has not read them; None, without having sent them, if the
    process has released the run.
    """
    run_id = given[0].run_id
    if not _is_owned(opener, run_id):
        return None
    sent = [send_answer(opener, run_id, each.path, each.value) for each in given]
    until = time.monotonic() + opener.settings.lease
    opened: Session | RunResult | Literal[True] = True
    while opened is True and time.monotonic() < until:
        if not any(is_unread(opener, run_id, answer) for answer in sent):
            break
        if _is_owned(opener, run_id):
            time.sleep(_PAUSE)
            continue
        with suppress(RunOwnedError):
            opened = take_over()
    for each, answer in zip(given, sent, strict=True):
        each.refusal = refusal_of_sent(opener, run_id, answer)
        each.is_accepted = each.refusal is None
    return opened


def _is_owned(opener: RunOpener, run_id: str) -> bool:
    owner = opener.store.owner(run_id)
    return owner is not None and owner.holds
