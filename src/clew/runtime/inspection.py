"""Read a run of a store without running anything: its result so far, and its checkpoints.

A run stores the description of its own graph, so an opener without a graph can read it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from clew.engine.machine import Machine
from clew.errors import StoreError
from clew.runtime.drivers.inbox import unread_signals
from clew.runtime.log.checkpoints import Checkpoint, History
from clew.runtime.log.metrics import Totals
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.run_log import read_log
from clew.runtime.opener import RunOpener
from clew.runtime.result import RunResult
from clew.state import GraphState
from clew.stores import RunRow
from clew.stores.memory.store import NOWHERE

_ATTEMPTS = 10  # to read a run that another process continues at the same time


def read_result(opener: RunOpener, run_id: str) -> RunResult:
    """Return the result of a run so far."""
    for _ in range(_ATTEMPTS):
        run = opener.runs.open(run_id)
        result = result_so_far(opener, run)
        if run.row.status not in ("sleeping", "waiting", "paused"):
            break
        if opener.store.row(run_id).updated == run.row.updated:
            break  # otherwise another process has continued it between two reads
    return result


def result_so_far(opener: RunOpener, run: StoredRun) -> RunResult:
    """Return the result of a run that was opened."""
    log = run.log()
    machine = opener.machine_at(log, run.program(log.start))
    machine.preview()
    result = build_result(
        opener,
        log.row.run_id,
        machine,
        log.row.status,
        log.start,
        totals=lambda: run.whole().totals(run.graph),
    )
    if log.row.status != "running":
        result.failures = log.row.failures
    result.questions = tuple(log.questions)
    result.signals = (*log.signals.values(), *unread_signals(opener.store, log.messages))
    return result


def build_result(
    opener: RunOpener,
    run_id: str,
    machine: Machine,
    status: Any,
    start: GraphState,
    *,
    totals: Callable[[], Totals],
    records: Sequence[Any] | None = None,
) -> RunResult:
    """Build a result whose state is computed on demand; `records` are those that the store may have dropped."""

    state = partial(_read_state, opener, run_id, machine, start, records)
    return RunResult(run_id, machine, status, state, totals=totals, is_stored=opener.store is not NOWHERE)


def _read_state(
    opener: RunOpener, run_id: str, machine: Machine, start: GraphState, records: Sequence[Any] | None
) -> GraphState:
    if records is None:
        try:
            run = opener.runs.open(run_id)
            log, program = run.log(), run.program(start)
        except StoreError as error:
            raise type(error)(
                f"the state of a result is read from its store: {error}; read result.state before the engine or the "
                f"store is closed"
            ) from error
    else:
        row = RunRow(run_id, seed=machine.options.seed)
        log = read_log(row, start, records, machine.options.on_conflict)
        program = opener.program(start)
    root = machine.root
    return log.chain(program).state_of(root.working_state, root.step)


def read_history(
    opener: RunOpener, run_id: str, before: Callable[[int], GraphState] | None = None, *, nested: bool = False
) -> list[Checkpoint]:
    """Return the checkpoints of a run. `before` returns the states of its parent, if they are known."""
    run = opener.runs.open(run_id)
    log = run.whole(before)
    return log.checkpoints(log.chain(run.program(log.start)), run.graph, nested=nested)


def read_histories(opener: RunOpener, runs: Iterable[str]) -> list[Checkpoint]:
    """Return the checkpoints of runs, each a fork of the one before it; each is read once."""
    found, last = History(), dict[int, GraphState]()
    for run_id in runs:
        chain = read_history(opener, run_id, last.__getitem__ if last else None)
        last = {each.step_id: each.state for each in chain}
        found += chain
    return found
