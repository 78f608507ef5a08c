"""Watch a run that this process does not execute, by polling its store.

A poll is one call of `Store.change_mark`, at most every `mark_interval` seconds (while the run changes, at most four
times a second). The run is read only if the mark has changed. A poll needs no thread: the reader's own thread waits in
between, or a task does.

An owner that is alive renews its lease, which changes the mark in most stores. If the mark does not change for the
length of a lease, the watch asks the store for the owner. If the run is marked as running and has no living owner, the
watch raises RunStateError, because further waiting would be useless.
"""

from __future__ import annotations

import time
from typing import Any

from clew.errors import RunStateError
from clew.runtime.handles.stored_events import FOLLOWED
from clew.stores import RunRow, Store

_SOON = 0.25  # seconds between polls while the run changes
_UNREAD: Any = object()


class ChangeWatch:
    """Tells one reader of a run when to read it again."""

    def __init__(self, store: Store, run_id: str, lease: float) -> None:
        self._store = store
        self._run_id = run_id
        self._lease = lease
        self._mark: Any = _UNREAD
        self._next = 0.0  # time.monotonic() of the next poll
        self._changed = time.monotonic()

    @property
    def delay(self) -> float:
        """The seconds until the next poll."""
        return max(0.0, self._next - time.monotonic())

    def expire(self) -> None:
        """Poll at the next opportunity, and treat the run as changed."""
        self._mark, self._next = _UNREAD, 0.0

    def has_changed(self) -> bool:
        """Return whether the run may have changed since the last call; False without a poll if it is too early."""
        now = time.monotonic()
        if now < self._next:
            return False
        mark = self._store.change_mark(self._run_id, FOLLOWED)
        if mark == self._mark:
            self._next = now + self._store.mark_interval
            return False
        if self._mark is not _UNREAD:
            self._changed = now
        self._mark, self._next = mark, now + min(_SOON, self._store.mark_interval)
        return True

    def check_owner(self, row: RunRow) -> None:
        """Raise RunStateError if a run that is marked as running was silent for a lease and has no living owner. A run
        of a queue is taken by another worker."""
        if row.status != "running" or not self._store.encodes:
            return
        if time.monotonic() - self._changed < self._lease:
            return
        owner = self._store.owner(self._run_id)
        if (owner is None or not owner.holds) and self._store.entry(self._run_id) is None:
            name = "it has no owner" if owner is None else f"its owner, {owner.name}, is gone"
            raise RunStateError(
                f"run {self._run_id!r} is marked as running, but {name}; continue it with "
                f"engine.resume({self._run_id!r})"
            )
        self._changed = time.monotonic()
