"""Checkpoints after sign-ups and logins, so that an actor signs in once in a state and not once for each call.

A sign-up and a login hash a password, which is slow on purpose: a service that answers in a millisecond otherwise needs
a quarter of a second. A call whose actor has not signed in in the current state therefore starts from the checkpoint
after an earlier login in the same state. It has the same rows, the same credentials and the same context as a repeated
one, except for what is random or depends on the time.
"""

from __future__ import annotations

from clew.explore.model.world import World

_LIMIT = 100  # checkpoints


class SignedInStates:
    """The checkpoints, by state and actor."""

    def __init__(self) -> None:
        self.is_active = False
        self._checkpoints: dict[tuple[bytes, str], str] = {}

    def restore(self, world: World, state: bytes, actor: str) -> bool:
        """Go to the checkpoint after a login; return whether there is one."""
        found = self._checkpoints.get((state, actor))
        if found is None or not world.is_valid(found):
            return False
        world.rollback(found)
        return True

    def add(self, world: World, state: bytes, actor: str) -> None:
        """Remember the current state as the one after a login."""
        if len(self._checkpoints) < _LIMIT:
            self._checkpoints[state, actor] = world.checkpoint(f"{actor} has signed in")

    def release(self, world: World) -> None:
        """Discard all checkpoints."""
        for each in self._checkpoints.values():
            world.release(each)
        self._checkpoints.clear()
        self.is_active = False
