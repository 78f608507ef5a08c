"""Read entries of a run as records, one by one, without their large values: the steps of a range, and the steps after
the last committed one, which ran ahead of a step that is still open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clew.engine.history.provisional_steps import ProvisionalStep, provisional_steps
from clew.engine.records import Step
from clew.errors import ClewError, StoreCorruptError
from clew.runtime.log.checks.integrity import missing
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.snapshots import step_of_start
from clew.stores import LogEntry, Store

_SOME = 2_000  # steps that are read at a time


def counts_of(store: Store, run_id: str) -> Mapping[tuple[str, str], int]:
    """Return how many entries of each kind and path a run has, without its own steps and without reading bodies."""
    return store.log_end(run_id, (), most=1, counts=True).counts


def first_of(run: StoredRun) -> int:
    """Return the number of the state that a run began with."""
    first = run.row.parent_step
    return step_of_start(run.row.start) if first is None else first


def record_of(run: StoredRun, entry: LogEntry) -> Any:
    row = run.row
    return EntryDecoder(row.run_id, run.store.blob, row.created, classes=False).record(entry)


def steps_of(run: StoredRun, first: int, last: int) -> Iterator[Step]:
    """Yield steps of the run itself. Raise StoreCorruptError if one is missing."""
    row = run.row
    decoder = EntryDecoder(row.run_id, run.store.blob, row.created, classes=False, keeps=True)
    for begin in range(first, last + 1, _SOME):
        for number, entry in enumerate(run.own_steps(begin, min(begin + _SOME - 1, last)), start=begin):
            if entry.n != number:
                raise StoreCorruptError(f"run {row.run_id!r}: {missing(number)}")
            yield decoder.record(entry)


def planned_steps(run: StoredRun, log: RunLog) -> list[ProvisionalStep]:
    """Return the steps that are planned after the last state; none if the graph cannot be read."""
    try:
        chain = log.chain(run.program(log.start))
        return provisional_steps(chain.program, chain.state(chain.last), log.finished, log.on_conflict)
    except ClewError:
        return []


def steps_ahead(run: StoredRun) -> list[ProvisionalStep]:
    """Return the steps after the last committed one, up to the last one of which an item has finished."""
    if run.row.status in ("completed", "compensated"):
        return []
    log = run.log()
    if not log.finished:
        return []
    planned = planned_steps(run, log)
    while planned and log.finished.keys().isdisjoint(planned[-1].paths):
        planned.pop()
    return planned
