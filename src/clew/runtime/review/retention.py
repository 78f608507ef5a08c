"""Retention: which runs may go. Nothing is ever dropped unless somebody asks, and says what.

Rules:

- A run that is running or waiting stays, unless its status is asked for; one that a living process owns stays always.
- A run that another one was forked from stays for as long as that one does.
- `keep` counts the newest of the runs that could go; `older_than` looks at when a run last changed. With both, a run
  goes if both say so.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress

from clew.errors import ClewError, DefinitionError, RunError, StoreCorruptError, StoreError, UnknownRunError
from clew.runtime.log.repository import fresh_owner
from clew.runtime.log.run_rows import STATUSES
from clew.stores import RunRow, Store

_UNDER_WAY = ("running", "waiting")
_LEASE = 30.0


def prune(
    store: Store,
    *,
    keep: int | None,
    older_than: float | None,
    status: str | None,
    dry_run: bool,
    now: float,
    spare: Container[str] = (),
    delete: Callable[[str], None] | None = None,
) -> list[str]:
    """Delete runs; their ids, oldest first. With `dry_run` nothing is deleted; `spare` stays in any case.

    `delete` removes one of them: an engine knows its own runs again, should the store not say that it has claimed one.
    """
    _check(keep, older_than, status)
    rows = store.rows()
    candidates = [
        row for row in rows if (row.status == status if status is not None else row.status not in _UNDER_WAY)
    ]
    if keep is not None:
        candidates = candidates[: max(len(candidates) - keep, 0)]
    if older_than is not None:
        candidates = [row for row in candidates if row.updated < now - older_than]
    going = {row.run_id for row in candidates if row.run_id not in spare and not _is_owned(store, row)}
    for row in reversed(rows):  # a fork is younger than its parent
        if row.run_id not in going and row.parent is not None:
            going.discard(row.parent)
    chosen = [row.run_id for row in rows if row.run_id in going]
    if dry_run:
        return chosen
    gone: set[str] = set()
    for run_id in reversed(chosen):
        try:
            if delete is not None:
                delete(run_id)
            else:
                _delete(store, run_id)
        except RunError:
            continue  # somebody else has deleted it, or has it now
        except StoreError:
            if any(row.parent == run_id for row in store.rows()):
                continue  # it was forked meanwhile
            raise
        gone.add(run_id)
    return [run_id for run_id in chosen if run_id in gone]


def _delete(store: Store, run_id: str) -> None:
    """Delete a run that nobody has, and that nobody gets meanwhile."""
    fence = store.claim(run_id, fresh_owner(), lease=_LEASE) if store.encodes else 0
    try:
        store.delete(run_id)
    except BaseException:
        if store.encodes:
            with suppress(ClewError):  # what went wrong first is told
                store.release(run_id, fence)
        raise


def _check(keep: int | None, older_than: float | None, status: str | None) -> None:
    if keep is None and older_than is None and status is None:
        raise DefinitionError(
            "prune deletes runs; say which: keep=..., older_than=... (seconds) or status=..."
        )
    if keep is not None and (type(keep) is not int or keep < 0):
        raise DefinitionError(f"keep is a number of runs, not {keep!r}")
    if older_than is not None and not older_than >= 0:
        raise DefinitionError(f"older_than is a number of seconds, not {older_than!r}")
    if status is not None and status not in STATUSES:
        raise DefinitionError(f"status is one of {', '.join(STATUSES)}, not {status!r}")


def _is_owned(store: Store, row: RunRow) -> bool:
    if row.status not in _UNDER_WAY or not store.encodes:
        return False
    try:
        owner = store.owner(row.run_id)
    except (UnknownRunError, StoreCorruptError):  # nobody can tell
        return True
    return owner is not None and owner.holds
