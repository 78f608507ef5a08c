"""Ownership of runs: claim them, release them, and remember the runs that could not be released.

An engine is one owner (`clew.runtime.log.engine_owner`). Every claim has a new token, and the owner of a run cannot
claim it again without the token. So if two threads of a program claim a run, one of them wins. If the store fails while
a run is released, this process remembers the token. It uses the token when it next claims the run, and releases the run
when it next renews its lease. So other processes need not wait until this one ends.

The owner of a run also owns its children. A claim of a child only raises its fence, so the next owner of the run can
claim it at once, and the writes of the previous owner are rejected. In this module and its callers, `owner` is the
token.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

import msgspec

from clew.errors import ClewError, RunStateError, StoreCorruptError, StoreError, UnknownRunError
from clew.runtime.log.engine_owner import fresh_owner
from clew.runtime.log.repository import RunRepository
from clew.runtime.run_ids import may_be_child
from clew.runtime.settings import Settings
from clew.stores import RunRow, Store

_MAX_UNRELEASED = 1_000


class Claimed(msgspec.Struct):
    """A run that this process claimed, and how far its resume has come: this decides what a failure leaves."""

    run_id: str
    fence: int
    owner: str
    before: RunRow | None = None  # the row of a run that has begun again
    is_answered: bool = False


class Ownership:
    """Claims and releases the runs of one store."""

    def __init__(self, store: Store, settings: Settings, repository: RunRepository) -> None:
        self.store = store
        self.settings = settings
        self.repository = repository
        self._unreleased: dict[str, tuple[int, str]] = {}  # run id -> process id and token
        self._releasing = Lock()  # held while a run is claimed with a remembered token

    def name_for(self, run_id: str) -> str:
        """Return the token for a claim: a new one, or the one with which this process still owns the run."""
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
        """Become the owner of a run; return the fence and the token. In a memory store, only workers are owners.

        Raises RunStateError for a child: it belongs to the owner of the run that contains it.
        """
        if self.repository.child_of is None and may_be_child(run_id):
            self._refuse_child(run_id)
        if not self.store.encodes:
            return self.repository.claim(run_id, "", 0.0), ""
        owner = owner or self.name_for(run_id)
        if self._unreleased.get(run_id) == (os.getpid(), owner):
            with self._releasing:
                return self._claim(run_id, owner), owner
        return self._claim(run_id, owner), owner

    def _claim(self, run_id: str, owner: str) -> int:
        try:
            fence = self.repository.claim(run_id, owner, self.settings.lease)
        except StoreError:  # the claim may have succeeded
            self.left(run_id, owner)
            raise
        except ClewError:  # another process owns it, or it does not exist
            self._unreleased.pop(run_id, None)
            raise
        self._unreleased.pop(run_id, None)
        return fence

    def release_left(self) -> None:
        """Try to release the runs that could not be released."""
        for run_id, (process, owner) in list(self._unreleased.items()):
            if process != os.getpid():
                continue
            with self._releasing:
                if self._unreleased.get(run_id) != (process, owner):
                    continue  # it was claimed in the meantime
                try:
                    self.repository.release(run_id, self.repository.claim(run_id, owner, self.settings.lease))
                except StoreError:
                    return
                except ClewError:  # another process owns it, or it does not exist
                    pass
                self._unreleased.pop(run_id, None)

    def _refuse_child(self, run_id: str) -> None:
        with suppress(StoreCorruptError):  # a damaged run can still be deleted
            row = self.store.row(run_id)
            if row.child_of is None:
                return
            raise RunStateError(
                f"run {run_id!r} is a child of run {row.child_of!r}, started at {row.place}; it is resumed and deleted "
                f"with its run, so use {root_of(self.store, row)!r}; to change it, update the node there that runs it, "
                f"or work on a copy: engine.fork({run_id!r}, ...)"
            )

    def give_up(self, run_id: str, owner: str) -> None:
        """Release a run that an interrupted method may have claimed with this token; in memory, end it."""
        try:
            if not self.store.encodes:
                if self.store.owner(run_id) is None and self.store.row(run_id).status == "running":
                    fence = self.repository.claim(run_id, "", 0.0)
                    self.repository.close(run_id, fence, "cancelled", self.settings.clock.time(), ())
                return
            known = self.store.owner(run_id)
            if known is None or known.token != owner:
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
        """Release a run that has not ended; if the store fails, remember the token."""
        try:
            self.repository.release(run_id, fence)
        except ClewError:
            self.left(run_id, owner)

    @contextmanager
    def returned(self, claimed: Claimed) -> Iterator[None]:
        """Return a claimed run to the store as it was, if it cannot be resumed. A stored answer stays."""
        try:
            yield
        except Exception:
            if claimed.is_answered:
                self.give_up(claimed.run_id, claimed.owner)
            elif claimed.before is not None:
                self._restore(claimed.before, claimed.fence, claimed.owner)
            else:
                self.release(claimed.run_id, claimed.fence, claimed.owner)
            raise
        except BaseException:
            self.give_up(claimed.run_id, claimed.owner)
            raise

    def _restore(self, row: RunRow, fence: int, owner: str) -> None:
        """Reset the row of a run that could not be resumed, and release the run."""
        try:
            self.repository.close(row.run_id, fence, row.status, row.updated, row.failures)
        except ClewError:
            self.left(row.run_id, owner)

    def left(self, run_id: str, owner: str) -> None:
        """Remember the token of a run that could not be released."""
        if self.store.encodes:
            self._unreleased[run_id] = (os.getpid(), owner)
            if len(self._unreleased) > _MAX_UNRELEASED:
                del self._unreleased[next(iter(self._unreleased))]


def root_of(store: Store, row: RunRow) -> str:
    """Return the id of the run that contains a child, its outer child and so on; of another run, its own id."""
    while row.child_of is not None:
        row = store.row(row.child_of)
    return row.run_id
