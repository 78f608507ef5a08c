"""Verification: check that the log of a run is intact. It needs no graph and decodes no values.

It checks the digest of every entry, the chains of step digests, the initial state of a fork against its parent, and
each snapshot against its step. All blobs have to exist; the store checks their digests when it reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.errors import DecodeError, RecordCorruptError, StoreCorruptError, UnknownRunError
from clew.runtime.log.checks.integrity import Chains, missing_entries
from clew.runtime.log.entries.codec import check_entry
from clew.runtime.log.entries.large_values import blobs_of
from clew.runtime.log.entries.records import SNAPSHOT, STEP
from clew.runtime.log.run_rows import opened_row
from clew.runtime.log.snapshots import blobs_of_snapshot, decode_fork, is_fork, is_of_step, step_of_start
from clew.stores import LogEntry, RunRow, Store


def problems(store: Store, row: RunRow) -> Iterator[str]:
    """Yield a message for each problem of a run in a store."""
    if not store.encodes:
        return
    damage = opened_row(row).damage
    if damage:
        yield damage
        return
    try:
        yield from _problems(store, row)
    except (StoreCorruptError, RecordCorruptError) as error:
        yield str(error)
    except Exception as error:  # the other runs are checked in any case
        yield f"run {row.run_id!r} cannot be read: {error}"


def _problems(store: Store, row: RunRow) -> Iterator[str]:
    run_id = row.run_id
    first = step_of(row)
    entries = store.entries(run_id, after=first)
    chains, found = check_log(row, entries)
    if is_fork(row.start):
        found += _fork_damage(store, row)
    yield from found
    _check_blobs(store, row, entries)
    known = chains.digests[""]
    for snapshot in (entry for entry in entries if entry.kind == SNAPSHOT.name):
        at = snapshot.n - first
        is_other = 0 <= at < len(known) and known[at] != bytes(snapshot.digest).hex()
        if is_other or not is_of_step(snapshot):
            yield f"run {run_id!r}: the snapshot at step {snapshot.n} belongs to a different state"
        elif at >= len(known) and not found:
            yield f"run {run_id!r}: step {first + len(known)} is missing, but a snapshot of a later step exists"


def check_log(row: RunRow, entries: Iterable[LogEntry]) -> tuple[Chains, list[str]]:
    """Check the entries of a run and its chains; return the chains and a message for each problem."""
    entries = list(entries)
    for entry in entries:
        if entry.kind != SNAPSHOT.name:
            check_entry(row.run_id, entry)
    chains = Chains(row.run_id, entries, step_of(row), row.start_digest)
    return chains, [*chains.damage(row), *missing_entries(row, entries)]


def step_of(row: RunRow) -> int:
    """Return the step of a run's initial state. Raise StoreCorruptError if it cannot be read."""
    try:
        return decode_fork(row.start).step if is_fork(row.start) else step_of_start(row.start)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StoreCorruptError(f"run {row.run_id!r}: its initial state is damaged ({error})") from error


def _check_blobs(store: Store, row: RunRow, entries: Iterable[LogEntry]) -> None:
    """Raise StoreCorruptError if a blob that the run refers to is missing or damaged."""
    where = "the description of its graph"
    try:
        store.blob(row.description)
        where = "its initial state"
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
    """Compare the initial state of a fork with its parent's state; return a message for each problem."""
    fork = decode_fork(row.start)
    try:
        before = digest_at(store, store.row(fork.parent), fork.step)
    except (UnknownRunError, StoreCorruptError) as error:
        return [f"run {row.run_id!r}: its parent cannot be read: {error}"]
    if fork.digest(before) == row.start_digest:
        return []
    return [
        f"run {row.run_id!r}: its initial state is damaged: it does not match step {fork.step} of {fork.parent!r}"
    ]


def digest_at(store: Store, row: RunRow, step: int) -> str:
    """Return the stored digest of S(step). Raise StoreCorruptError if the step is missing."""
    if step == step_of(row):
        return row.start_digest
    found = store.last(row.run_id, STEP.name, "", step)
    if found is None or found.n != step:
        raise StoreCorruptError(f"run {row.run_id!r}: step {step} is missing")
    return bytes(found.digest).hex()
