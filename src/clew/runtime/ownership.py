"""Who owns a run, as an engine sees it: claiming it, releasing it, and knowing what could not be released.

A claim has a name of its own each time, so two threads of a program are two owners. A run that the store did not take
back stays this process's, under that name, until the store answers again.
"""

from __future__ import annotations

import os

from clew.errors import ClewError, StoreError, UnknownRunError
from clew.runtime.log.repository import RunRepository, fresh_owner
from clew.runtime.settings import Settings
from clew.stores import Store

_LEFT = 1_000  # runs that are known to be left, while a store is away


class Ownership:
    """Claims and releases the runs of one store."""

    def __init__(self, store: Store, settings: Settings, repository: RunRepository) -> None:
        self.store = store
        self.settings = settings
        self.repository = repository
        self._left: dict[
            str, tuple[int, str]
        ] = {}  # runs that could not be released: process and owner's name

    def name_for(self, run_id: str) -> str:
        """The name under which to claim a run: another one each time, so two threads of a program, or it and a child
        that it forked, are two owners. What this process could not release, it claims under the name that has it."""
        if not self.store.encodes:
            return ""
        process, owner = self._left.get(run_id, (0, ""))
        return owner if process == os.getpid() else fresh_owner()

    def claim(self, run_id: str, owner: str = "") -> tuple[int, str]:
        """Become the owner of a run, where the store is one that others may use too: the fence, and the name."""
        if not self.store.encodes:
            return 0, ""
        owner = owner or self.name_for(run_id)
        try:
            fence = self.repository.claim(run_id, owner, self.settings.lease)
        except StoreError:  # it may be this process's all the same
            self.left(run_id, owner)
            raise
        except ClewError:  # it is somebody else's, or not there
            self._left.pop(run_id, None)
            raise
        self._left.pop(run_id, None)
        return fence, owner

    def give_up(self, run_id: str, owner: str) -> None:
        """Release what an interrupted verb may have claimed: nobody knows how far it got, but its name is known."""
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
        """Let others have a run that has not ended. Where the store does not take that, it stays this process's, which
        goes on with it under the same name."""
        try:
            self.repository.release(run_id, fence)
        except ClewError:
            self.left(run_id, owner)

    def left(self, run_id: str, owner: str) -> None:
        """A run could not be released: the next claim of this process has the same name, and gets it."""
        if self.store.encodes:
            self._left[run_id] = (os.getpid(), owner)
            if len(self._left) > _LEFT:  # the lease of the oldest has run out long ago
                del self._left[next(iter(self._left))]
