"""Run a graph with progress and print the result, for every command that runs something."""

from __future__ import annotations

import os
import re
import secrets
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from clew import Engine, RunResult
from clew.cli.options import engine_of, find_run, store_at
from clew.cli.output import (
    CommandError,
    command,
    count,
    one_line,
    plain,
    plain_values,
    say_json,
    say_line,
    say_values,
)
from clew.engine.records import Failure
from clew.error_text import line_of
from clew.errors import EncodeError, StoreUnavailableError
from clew.runtime.reporting.events import Listener
from clew.runtime.reporting.progress import showing
from clew.runtime.review.json_documents import error_json, failure_json

Make = Callable[[tuple[Listener, ...]], Engine]
Drive = Callable[[Engine], RunResult]


def id_of(given: str | None, name: str) -> str:
    """Return the given id of a new run, or a generated one: a name and six digits."""
    if given is not None:
        if not given:
            raise CommandError("--run-id is empty", "give an id, or leave out --run-id")
        return given
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name).strip('-') or 'run'}-{secrets.token_hex(3)}"


@contextmanager
def progress() -> Iterator[tuple[Listener, ...]]:
    """Return the listeners that show progress: one on a terminal, otherwise none."""
    with showing(progress=True) as listener:
        yield () if listener is None else (listener,)


def drive(run_id: str, make: Make, verb: Drive, as_json: bool) -> int:
    """Run something with progress, print the result and return the exit code."""
    try:
        with progress() as listeners:
            result = verb(make(listeners))
    except KeyboardInterrupt:
        raise CommandError(
            f"run {run_id!r} was interrupted; finished steps are stored",
            f"resume it with: {command('resume', run_id)}",
            code=1,
        ) from None
    except (StoreUnavailableError, EncodeError) as error:
        raise CommandError(
            str(error).partition("; ")[0],
            f"fix the problem, then resume with: {command('resume', run_id)}",
            code=1,
        ) from error
    if as_json:
        say_json(result_json(result))
    else:
        say_result(result)
    return (
        0 if result.status in ("completed", "sleeping", "waiting", "paused") and result.error is None else 1
    )


def result_json(result: RunResult) -> dict[str, Any]:
    return {
        "run_id": result.run_id,
        "status": result.status,
        "steps": result.last_step,
        "values": plain_values(result.values),
        "error": None if result.error is None else error_json(result.error),
        "failures": [failure_json(failure) for failure in result.failures],
        "questions": [
            {"path": q.path, "node": q.node, "step": q.step, "question": plain(q.question)}
            for q in result.questions
        ],
        "digest": _digest(result),
        "metrics": msgspec.to_builtins(result.metrics),
    }


def _digest(result: RunResult) -> str | None:
    try:
        return result.state.digest
    except EncodeError:
        return None


def _failed(result: RunResult) -> CommandError:
    error, reason = result.error, "its error is unknown"
    if error is not None:
        reason = f"{line_of(error)} ({result.failures[0]})"
        if os.environ.get("CLEW_DEBUG"):
            traceback.print_exception(error)
    what = f"run {result.run_id!r} failed after step {result.last_step}: {reason}"
    return CommandError(what, f"fix it, then resume with: {command('resume', result.run_id)}", code=1)


def say_result(result: RunResult) -> None:
    """Print a result. A failure raises CommandError, whose hint names the next command."""
    run_id = result.run_id
    if result.status == "failed":
        raise _failed(result)
    what = "is waiting for an answer" if result.status == "waiting" else result.status
    say_line(f"run {run_id} {what} after {count(result.last_step, 'step')}")
    if result.status == "waiting":
        for question in result.questions:
            say_line(f"  {question.path} asks: {_text(question.question)}")
        option = "--answer JSON" if len(result.questions) == 1 else "--answers FILE"
        say_line(f"answer with: {command('resume', run_id, option)}")
    elif result.status == "paused":
        say_values(result.values)
        say_line(f"continue with: {command('resume', run_id)}")
    elif result.status == "cancelled":
        say_line(f"resume it with: {command('resume', run_id)}")
    else:
        say_values(result.values)
        say_failures(result.failures)
        if result.error is not None:  # confined: the run continued after the failure
            failed = sum(not failure.rescued for failure in result.failures)
            raise CommandError(
                f"run {run_id!r} completed, but {count(failed, 'item')} failed",
                f"fix it, then rerun the affected nodes with: {command('rerun', run_id)}",
                code=1,
            )


def say_failures(failures: Iterable[Failure]) -> None:
    """Print one line for each failure: its place and its error."""
    for failure in failures:
        what = "rescued" if failure.rescued else "failed"
        say_line(f"{what}: {failure}: {line_of(failure.error)}")


def _text(question: Any) -> str:
    return question if isinstance(question, str) else one_line(question, 400)


MakeRun = Callable[[Engine, str, str], RunResult]
"""Starts the new run, given an engine, the id of the parent and the id of the new run."""


def make_run(
    run: str,
    kind: str,
    make: MakeRun,
    *,
    run_id: str | None,
    graph: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Find a run, start a run from it, print the result and return the exit code."""
    with store_at(store) as opened:
        row = find_run(opened, run)
        name = id_of(run_id, f"{row.run_id}-{kind}")
        return drive(
            name,
            lambda listeners: engine_of(opened, row, graph, listeners),
            lambda engine: make(engine, row.run_id, name),
            as_json,
        )
