"""Read entries of a run as records, one by one: the steps of a range without their large values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clew.engine.records import Step
from clew.errors import StoreCorruptError
from clew.runtime.log.checks.integrity import missing
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.reader import StoredRun
from clew.stores import LogEntry, Store

_SOME = 2_000  # steps that are read at a time


def counts_of(store: Store, run_id: str) -> Mapping[tuple[str, str], int]:
    """Return how many entries of each kind and path a run has, without its own steps and without reading bodies."""
    return store.log_end(run_id, (), most=1, counts=True).counts


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
