"""Whether a run's log is what was written. No graph is needed for that, and nothing is decoded.

Every entry is checked by its own digest, every chain by the digests of its steps, a fork's beginning against its
parent, a snapshot against the step that it is of. Contents that are kept apart have to be there, and the store checks
them against their digests when it hands them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.errors import DecodeError, RecordCorruptError, StoreCorruptError, UnknownRunError
from clew.runtime.log.codec import check_entry
from clew.runtime.log.integrity import Chains, lost_entries
from clew.runtime.log.large_values import blobs_of
from clew.runtime.log.records import SNAPSHOT, STEP
from clew.runtime.log.run_rows import opened_row
from clew.runtime.log.snapshots import blobs_of_snapshot, decode_fork, is_fork, is_of_step, step_of_start
from clew.stores import LogEntry, RunRow, Store


def complaints(store: Store, row: RunRow) -> Iterator[str]:
    """A sentence for each thing that is wrong with a run in a store."""
    if not store.encodes:
        return
    damage = opened_row(row).damage
    if damage:
        yield damage
        return
    try:
        yield from _complaints(store, row)
    except (StoreCorruptError, RecordCorruptError) as error:
        yield str(error)
    except Exception as error:  # whatever it is, the other runs are looked at
        yield f"run {row.run_id!r} cannot be read: {error}"


def _complaints(store: Store, row: RunRow) -> Iterator[str]:
    run_id = row.run_id
    first = step_of(row)
    entries = store.entries(run_id, after=first)
    chains, wrong = check_log(row, entries)
    if is_fork(row.start):
        wrong += _fork_damage(store, row)
    yield from wrong
    _check_blobs(store, row, entries)
    known = chains.digests[""]
    for snapshot in (entry for entry in entries if entry.kind == SNAPSHOT.name):
        at = snapshot.n - first
        is_other = 0 <= at < len(known) and known[at] != bytes(snapshot.digest).hex()
        if is_other or not is_of_step(snapshot):
            yield f"run {run_id!r}: the snapshot at step {snapshot.n} is not of that step"
        elif at >= len(known) and not wrong:
            yield f"run {run_id!r}: step {first + len(known)} is missing: there is a snapshot of a later one"


def check_log(row: RunRow, entries: Iterable[LogEntry]) -> tuple[Chains, list[str]]:
    """Check the entries of a run, each by itself and all together: its chains, and a sentence for each damage."""
    entries = list(entries)
    for entry in entries:
        if entry.kind != SNAPSHOT.name:
            check_entry(row.run_id, entry)
    chains = Chains(row.run_id, entries, step_of(row), row.start_digest)
    return chains, [*chains.damage(row), *lost_entries(row, entries)]


def step_of(row: RunRow) -> int:
    """The step that a run began at. StoreCorruptError if what it began with cannot be read."""
    try:
        return decode_fork(row.start).step if is_fork(row.start) else step_of_start(row.start)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StoreCorruptError(f"run {row.run_id!r}: what it began with is damaged ({error})") from error


def _check_blobs(store: Store, row: RunRow, entries: Iterable[LogEntry]) -> None:
    """Raise if a content that the run speaks of is not there, or is another."""
    where = "the description of its graph"
    try:
        store.blob(row.description)
        where = "what it began with"
        for _ in blobs_of(row.start, store.blob):
            pass
        for entry in entries:
            where = f"{entry.kind} {entry.n}" + (f" of {entry.path}" if entry.path else "")
            found = (
                blobs_of_snapshot(entry, store.blob)
                if entry.kind == SNAPSHOT.name
                else blobs_of(entry.body, store.blob)
            )
            for _ in found:
                pass
    except (StoreCorruptError, DecodeError, msgspec.MsgspecError) as error:
        raise StoreCorruptError(f"run {row.run_id!r}: {where}: {error}") from error


def _fork_damage(store: Store, row: RunRow) -> list[str]:
    """What is wrong with the beginning of a fork, held against the state of its parent."""
    fork = decode_fork(row.start)
    try:
        before = digest_at(store, store.row(fork.parent), fork.step)
    except (UnknownRunError, StoreCorruptError) as error:
        return [f"run {row.run_id!r}: the run that it was forked from cannot be read: {error}"]
    if fork.digest(before) == row.start_digest:
        return []
    return [
        f"run {row.run_id!r}: what it began with is damaged: it is not made of step {fork.step} of {fork.parent!r}"
    ]


def digest_at(store: Store, row: RunRow, step: int) -> str:
    """The digest of S(step) of a run, as it is kept. StoreCorruptError if there is none."""
    if step == step_of(row):
        return row.start_digest
    found = store.last(row.run_id, STEP.name, "", step)
    if found is None or found.n != step:
        raise StoreCorruptError(f"run {row.run_id!r}: step {step} is missing")
    return bytes(found.digest).hex()
