"""Checks of answers: whether the run asks, which question an answer is for, and whether the schema accepts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.display import brief
from clew.engine.records import Question
from clew.errors import InputError, RunStateError
from clew.graph import Graph
from clew.runtime.log.entries.records import AnswerRecord
from clew.runtime.log.entries.wait_records import has_open_waits
from clew.runtime.log.frames import checked_answer
from clew.runtime.log.persons import this_user
from clew.runtime.log.run_log import RunLog
from clew.stores import RunRow


def check_answers(
    log: RunLog, single: Mapping[str, Any], answers: Mapping[str, Any], graph: Graph, *, is_json: bool = False
) -> dict[str, Any]:
    """Check answers and return them by path. `single` holds the answer given without a path, if any. With
    `is_json`, they are converted to the types of the values that they become.

    Raises:
        RunStateError: If an answer or its question is missing.
        InputError: If the state schema rejects an answer.
    """
    if not isinstance(answers, Mapping):
        raise InputError(f"answers must map question paths to answers, got {answers!r}")
    run, asked = log.row.run_id, log.asked
    if single and not asked:
        raise RunStateError(f"run {run!r} {_why_nothing_is_open(log.row, bool(log.answers))}")
    if single and (answers or len(asked) > 1):
        raise RunStateError(f"run {run!r}{_which_answer(run, asked, bool(answers))}")
    given = {next(iter(asked)): single["answer"]} if single else dict(answers)
    for path in given:
        if path not in asked:
            raise RunStateError(f"run {run!r} has no question at {path!r}; open questions: {_open(asked)}")
        given[path] = checked_answer(graph, asked[path], given[path], is_json=is_json)
    # otherwise its process died right after the answer, or it also waits for something else
    if log.row.status == "waiting" and asked and not given and not has_open_waits(log):
        raise RunStateError(
            f"run {run!r} waits for an answer ({_open(asked)}); answer with "
            f"engine.resume({run!r}, {'answer=...' if len(asked) == 1 else 'answers={path: ...}'})"
        )
    return given


def answer_records(log: RunLog, given: Mapping[str, Any], now: float) -> list[AnswerRecord]:
    """Return the records of checked answers of this user."""
    return [
        AnswerRecord(path, value, log.asked[path].number, log.asked[path].position, now, this_user())
        for path, value in given.items()
    ]


def _open(asked: Mapping[str, Question]) -> str:
    return "; ".join(f"{path}: {brief(asked[path].question)}" for path in sorted(asked)) or "none"


def _why_nothing_is_open(row: RunRow, has_answers: bool) -> str:
    if row.status == "completed":
        return (
            f"is completed and has no open question; to change an answer, change the value with "
            f"engine.update({row.run_id!r}, ...), or start from a step before it with "
            f"engine.fork({row.run_id!r}, step=...)"
        )
    if has_answers and row.status != "failed":
        return (
            f"has no open question: its last answer is stored, and the run has not continued yet; "
            f"continue it with engine.resume({row.run_id!r})"
        )
    return "has no open question; resume it without an answer"


def _which_answer(run: str, asked: Mapping[str, Question], has_both: bool) -> str:
    if has_both:
        return (
            f": answer= and answers= were both given; give answer= for a single question, or "
            f"answers={{path: ...}} for all; open questions: {_open(asked)}"
        )
    return (
        f" asks several questions ({_open(asked)}); answer with engine.resume({run!r}, answers={{path: ...}})"
    )
