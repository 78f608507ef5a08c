"""Answers that handles have given: each is accepted, or refused with an error.

On an event loop, a run takes its answer in a task, after `answer` has returned. A refusal belongs to whoever gave the
answer, not to the run. It is raised once: by the next wait that begins on the same handle, or else by its events. If
nobody waits, it is logged. The handle then works as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


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
            import logging

            log = logging.getLogger("clew.runs")
            log.error("an answer to run %r was refused", self.run_id, exc_info=self.refusal)


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
