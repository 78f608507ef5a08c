"""The log records that Clew writes to loggers of the standard library, below the logger ``clew``.

- A failed run is one record at level ERROR, with its traceback, in the logger ``clew.runs``. A child is part of its
  run. A run that is resumed and fails again is reported again.
- A retry is one record at level WARNING, in the logger ``clew.nodes``.
- A run whose nodes wait for a cluster without workers is one record at level WARNING, in the logger ``clew.executors``.
- Nothing else is logged, except for problems that a person has to solve (``clew.worker``, ``clew.events``).
- The fields `run_id`, `graph`, `step`, `path`, `node` and `attempt` of a record (`extra`) say where it happened, for
  example for a JSON formatter.
"""

from __future__ import annotations

from logging import ERROR
from traceback import format_exception

from clew.engine.records import Failure, Retry
from clew.error_text import line_of, native, safely
from clew.loggers import logger


def report_failure(run_id: str, graph: str | None, failure: Failure) -> None:
    """Report that a run has failed."""
    log = logger("runs")
    if not log.isEnabledFor(ERROR):
        return
    error = failure.error
    # it looks for the place in a group of any depth
    place = safely(lambda: str(failure), f"in step {failure.step}")
    fields = {
        "run_id": run_id,
        "graph": graph or "",
        "step": failure.step,
        "path": failure.path,
        "node": failure.node,
        "attempt": failure.attempts,
    }
    is_printable = safely(lambda: _is_printable(error, 100), False)
    trace = (type(error), error, native(error, "__traceback__")) if is_printable else None
    log.error("run %r failed: %s: %s", run_id, place, line_of(error), extra=fields, exc_info=trace)


def report_retry(run_id: str, graph: str | None, retry: Retry) -> None:
    """Report that an attempt failed and another one follows."""
    item, error = retry.item, line_of(retry.error)
    fields = {
        "run_id": run_id,
        "graph": graph or "",
        "step": item.step,
        "path": retry.path,
        "node": item.node.name,
        "attempt": retry.attempt,
    }
    message = "run %r: node %r at %s failed in attempt %d, next attempt in %.3g s: %s"
    values = (run_id, item.node.name, retry.path, retry.attempt, retry.delay, error)
    logger("nodes").warning(message, *values, extra=fields)


def report_no_workers(run_id: str, graph: str | None, waiting: int) -> None:
    """Report that nodes of a run wait for a cluster that has no workers."""
    nodes = "1 node waits" if waiting == 1 else f"{waiting} nodes wait"
    fields = {"run_id": run_id, "graph": graph or ""}
    message = "run %r: %s for a cluster that has no workers; start workers, or cancel the run"
    logger("executors").warning(message, run_id, nodes, extra=fields)


def _is_printable(error: BaseException, deeper: int) -> bool:
    """Return whether a handler can print an exception, some calls deeper than this; a deep group may be too deep."""
    if deeper:
        return _is_printable(error, deeper - 1)
    return bool("".join(format_exception(error)).encode())
