"""`ResettableSystem`: a system that cannot be rolled back, only reset.

The explorer reaches its states by executing the actions again.

A checkpoint of the state that `reset` makes (it shows the same) can be restored, by resetting. All other tokens are
never valid, so an agent that wants such a state goes back to the initial one and replays the way from there.
`ordering` is "lifo" for that reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from clew.errors import RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.observation import Observation
from clew.state.codec import encode


class ResettableSystem:
    """A system that is observed and reset by functions of yours.

    Args:
        observe: Returns what identifies the present state: anything that can be encoded, or an `Observation`.
        reset: Brings the system to its initial state. It is called before the first checkpoint too, unless `is_fresh`.
        is_fresh: The system is in its initial state already.
    """

    ordering: Literal["lifo"] = "lifo"

    def __init__(
        self, observe: Callable[[], Any], reset: Callable[[], object], *, is_fresh: bool = False
    ) -> None:
        for name, function in (("observe", observe), ("reset", reset)):
            if not callable(function):
                raise SystemSetupError(f"ResettableSystem: {name} is {function!r}, which cannot be called")
        self._observe = observe
        self._reset = reset
        self._is_ready = is_fresh
        self._initial: bytes | None = None
        self._made = 0
        self._restorable: set[int] = set()

    def observe(self) -> Observation:
        self._make_ready()
        return self._look()

    def checkpoint(self, name: str) -> int:
        self._make_ready()
        self._made += 1
        if _identity(self._look()) == self._initial:
            self._restorable.add(self._made)
        return self._made

    def rollback(self, token: int) -> None:
        if token not in range(1, self._made + 1):
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        if token not in self._restorable:
            raise RollbackError(
                f"checkpoint {token} of a ResettableSystem cannot be restored: only its initial state can. "
                "Go back to that and do the actions again (World.replay_to, or an Agent, does)"
            )
        self._reset()
        if _identity(self._look()) != self._initial:
            raise RollbackError(
                "reset did not bring back the initial state: it shows something else than the first time"
            )

    def is_valid(self, token: Any) -> bool:
        return token in self._restorable

    def release(self, token: Any) -> None:
        self._restorable.discard(token)

    def _look(self) -> Observation:
        seen = self._observe()
        return seen if isinstance(seen, Observation) else Observation("replayed", seen)

    def _make_ready(self) -> None:
        if not self._is_ready:
            self._reset()
            self._is_ready = True
        if self._initial is None:
            self._initial = _identity(self._look())


def _identity(seen: Observation) -> bytes:
    return encode(seen.data, at="observation") if seen.digest is None else seen.digest
