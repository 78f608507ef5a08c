"""Ownership of runs: claim them, release them, and remember the runs that could not be released.

Every claim uses a new owner name, so two threads of a program, or a process and its fork, are two owners. If the store
fails while a run is released, this process remembers the name and claims the run under it next time.

Who owns a run owns its children. A child is claimed with a lease of 0 seconds, so the next owner of the run can claim
it at once, and the writes of the previous owner are rejected.
"""

from __future__ import annotations

import os
from contextlib import suppress

from clew.errors import ClewError, RunStateError, StoreCorruptError, StoreError, UnknownRunError
from clew.runtime.log.repository import RunRepository, fresh_owner
from clew.runtime.run_ids import may_be_child
from clew.runtime.settings import Settings
from clew.stores import RunRow, Store

_MAX_UNRELEASED = 1_000


class Ownership:
    """Claims and releases the runs of one store."""

    def __init__(self, store: Store, settings: Settings, repository: RunRepository) -> None:
        self.store = store
        self.settings = settings
        self.repository = repository
        self._unreleased: dict[str, tuple[int, str]] = {}  # run id -> process id and owner name

    def name_for(self, run_id: str) -> str:
        """Return the owner name for a claim: a new one, or the one under which this process still owns the run."""
        if not self.store.encodes:
            return ""
        process, owner = self._unreleased.get(run_id, (0, ""))
        return owner if process == os.getpid() else fresh_owner()

    @staticmethod
    def check_not_cancelled(row: RunRow) -> None:
        """Raise RunStateError if a claimed run was cancelled: an answer that comes late must not continue it."""
        if row.status == "cancelled":
            run = row.run_id
            raise RunStateError(
                f"run {run!r} was cancelled, so it takes no answer; to continue it nevertheless, call "
                f"engine.resume({run!r}, answer=...)"
            )

    def claim(self, run_id: str, owner: str = "") -> tuple[int, str]:
        """Become the owner of a run; return the fence and the owner name. A memory store has no owners.

        Raises RunStateError for a child: it belongs to the owner of the run that contains it.
        """
        if self.repository.child_of is None and may_be_child(run_id):
            self._refuse_child(run_id)
        if not self.store.encodes:
            return 0, ""
        owner = owner or self.name_for(run_id)
        try:
            fence = self.repository.claim(run_id, owner, self.settings.lease)
        except StoreError:  # the claim may have succeeded
            self.left(run_id, owner)
            raise
        except ClewError:  # another process owns it, or it does not exist
            self._unreleased.pop(run_id, None)
            raise
        self._unreleased.pop(run_id, None)
        return fence, owner

    def _refuse_child(self, run_id: str) -> None:
        with suppress(StoreCorruptError):  # a damaged run can still be deleted
            row = self.store.row(run_id)
            if row.child_of is None:
                return
            raise RunStateError(
                f"run {run_id!r} is a child of run {row.child_of!r}, started at {row.place}; it is resumed, changed "
                f"and deleted with its run, so use {root_of(self.store, row)!r}"
            )

    def give_up(self, run_id: str, owner: str) -> None:
        """Release a run that an interrupted method may have claimed under this owner name."""
        if not owner:
            return
        try:
            known = self.store.owner(run_id)
            if known is None or known.name != owner:
                return
            fence = self.repository.claim(run_id, owner, self.settings.lease)
            if self.store.row(run_id).status == "running":
                self.repository.close(run_id, fence, "cancelled", self.settings.clock.time(), ())
            else:
                self.repository.release(run_id, fence)
        except UnknownRunError:
            pass
        except ClewError:
            self.left(run_id, owner)

    def release(self, run_id: str, fence: int, owner: str) -> None:
        """Release a run that has not ended; if the store fails, remember the owner name."""
        try:
            self.repository.release(run_id, fence)
        except ClewError:
            self.left(run_id, owner)

    def left(self, run_id: str, owner: str) -> None:
        """Remember the owner name of a run that could not be released."""
        if self.store.encodes:
            self._unreleased[run_id] = (os.getpid(), owner)
            if len(self._unreleased) > _MAX_UNRELEASED:  # the lease of the oldest has expired
                del self._unreleased[next(iter(self._unreleased))]


def root_of(store: Store, row: RunRow) -> str:
    """Return the id of the run that contains a child, its outer child and so on; of another run, its own id."""
    while row.child_of is not None:
        row = store.row(row.child_of)
    return row.run_id
