"""Retention: select and delete old runs.

Rules:

- Runs that have not ended are kept unless `status` selects them. A run that a live process owns is always kept.
- The head of a thread is always kept: a thread neither moves back nor ends.
- The parent of a fork is kept as long as the fork exists. A turn of a thread does not keep the turns before it: the
  oldest turn that is kept gets a full initial state instead of a parent (`detach`).
- Children are kept and deleted with the run that contains them. They do not count.
- `keep` keeps the newest of the candidates; `older_than` compares the time of the last change. With both, a run is
  deleted only if both select it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from clew.engine.options import OPEN
from clew.errors import ClewError, DefinitionError, RunError, StoreCorruptError, StoreError, UnknownRunError
from clew.runtime.log.run_rows import STATUSES
from clew.runtime.log.snapshots import begins_turn
from clew.runtime.ownership import Ownership
from clew.state.number_checks import is_number
from clew.stores import RunRow, Store


def prune(
    opener: Ownership,
    live: Container[str],
    *,
    keep: int | None,
    older_than: float | None,
    status: str | None,
    dry_run: bool,
) -> list[str]:
    """Delete runs and return their ids, oldest first. With `dry_run`, delete nothing. The runs that the engine executes
    (`live`) are always kept."""
    _check(keep, older_than, status)
    store, now = opener.store, opener.settings.clock.time()
    rows = store.rows()
    heads = {head for _, head in store.threads()}
    going = {
        row.run_id
        for row in _candidates(rows, keep, status)
        if older_than is None or row.updated < now - older_than
        if row.run_id not in live and row.run_id not in heads and not _is_owned(store, row)
    }
    _keep_parents(going, rows, lambda row: _is_detached(opener, live, row, dry_run=dry_run))
    chosen = [row.run_id for row in rows if row.run_id in going]
    if dry_run:
        return chosen
    gone = _deleted(opener, chosen)
    return [run_id for run_id in chosen if run_id in gone]


def _candidates(rows: Sequence[RunRow], keep: int | None, status: str | None) -> list[RunRow]:
    """Return the runs that have ended, or have this status, without the newest ones that `keep` keeps."""
    found = [
        row
        for row in rows
        if row.child_of is None and (row.status not in OPEN if status is None else row.status == status)
    ]
    return found if keep is None else found[: max(len(found) - keep, 0)]


def delete(opener: Ownership, run_id: str) -> None:
    """Delete a run. Raise RunOwnedError if it has a living owner."""
    fence, owner = opener.claim(run_id)  # recognises a run of this engine whose claim was not confirmed
    try:
        opener.store.delete(run_id)
    except StoreError as error:
        opener.release(run_id, fence, owner)
        turn = next((row for row in opener.store.rows() if row.parent == run_id), None)
        if turn is None or not begins_turn(turn.start):
            raise
        raise StoreError(
            f"run {run_id!r} is followed by the turn {turn.run_id!r} of its thread; delete the later turns first, "
            f"or drop old ones with engine.prune(...)"
        ) from error
    except BaseException:
        opener.release(run_id, fence, owner)
        raise


def _keep_parents(going: set[str], rows: Sequence[RunRow], is_detached: Callable[[RunRow], bool]) -> None:
    """Remove the parents of kept forks, unless the fork is a turn that can be detached."""
    roots = _roots(rows)
    for row in reversed(rows):  # a fork is newer than its parent
        if row.parent is None or roots[row.run_id] in going:
            continue
        parent = roots.get(row.parent, row.parent)
        if parent in going and not is_detached(row):
            going.discard(parent)


def _deleted(opener: Ownership, chosen: Sequence[str]) -> set[str]:
    """Delete runs, the newest first; return those that could be deleted."""
    gone: set[str] = set()
    for run_id in reversed(chosen):
        try:
            delete(opener, run_id)
        except RunError:
            continue  # another process deleted or claimed it
        except StoreError:
            rows = opener.store.rows()
            roots = _roots(rows)
            if any(row.parent is not None and roots.get(row.parent) == run_id for row in rows):
                continue  # it was forked in the meantime
            raise
        gone.add(run_id)
    return gone


def _is_detached(opener: Ownership, live: Container[str], row: RunRow, *, dry_run: bool) -> bool:
    """Detach a turn from the runs before it: it gets a full initial state. Return False if it is not a turn, or if it
    is executed."""
    if row.damage or row.child_of is not None or not begins_turn(row.start):
        return False
    if not dry_run:
        try:
            if row.run_id in live:
                return False
            fence, owner = opener.claim(row.run_id)
            try:
                opener.repository.detach(row.run_id, fence)
            finally:
                opener.release(row.run_id, fence, owner)
        except ClewError:  # it is owned or damaged: the runs before it are kept
            return False
    return True


def _roots(rows: Sequence[RunRow]) -> dict[str, str]:
    """Return the outermost run of each run: the run that contains a child, otherwise the run itself."""
    roots: dict[str, str] = {}
    for row in rows:  # a child is newer than its run
        roots[row.run_id] = row.run_id if row.child_of is None else roots.get(row.child_of, row.child_of)
    return roots


def _check(keep: int | None, older_than: float | None, status: str | None) -> None:
    if keep is None and older_than is None and status is None:
        raise DefinitionError(
            "prune needs a selection; give keep=..., older_than=... (seconds) or status=..."
        )
    if keep is not None and (type(keep) is not int or keep < 0):
        raise DefinitionError(f"keep: expected an int >= 0, got {keep!r}")
    if older_than is not None and not is_number(older_than, 0):
        raise DefinitionError(
            f"older_than: expected seconds >= 0, got {older_than!r}; 30 days are 30 * 86_400"
        )
    if status is not None and status not in STATUSES:
        raise DefinitionError(f"status: expected one of {', '.join(STATUSES)}, got {status!r}")


def _is_owned(store: Store, row: RunRow) -> bool:
    if row.status not in OPEN or not store.encodes:
        return False
    try:
        owner = store.owner(row.run_id)
    except (UnknownRunError, StoreCorruptError):  # unknown: keep the run
        return True
    return owner is not None and owner.holds
