"""`ResettableSystem`: a system that cannot be rolled back, only reset.

The explorer reaches its states by executing the actions again. A checkpoint of the initial state can be restored, by
resetting. No other token is valid, so an agent goes back to the initial state and replays the path. So `ordering` is
"lifo".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from clew.errors import RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.system import Observation
from clew.state.values.codec import encode


class ResettableSystem:
    """A system that is observed and reset by user functions.

    Args:
        observe: Return a value that identifies the current state: any value that can be encoded, or an `Observation`.
        reset: Reset the system to its initial state. Also called before the first checkpoint, unless `is_fresh`.
        is_fresh: The system is already in its initial state.
    """

    ordering: Literal["lifo"] = "lifo"

    def __init__(
        self, observe: Callable[[], Any], reset: Callable[[], object], *, is_fresh: bool = False
    ) -> None:
        for name, function in (("observe", observe), ("reset", reset)):
            if not callable(function):
                raise SystemSetupError(f"{name}: expected a function, got {function!r}")
        self._observe = observe
        self._reset = reset
        self._is_ready = is_fresh
        self._initial: bytes | None = None
        self._made = 0
        self._restorable: set[int] = set()

    def observe(self) -> Observation:
        self._make_ready()
        return self._read()

    def checkpoint(self, name: str) -> int:
        self._make_ready()
        self._made += 1
        if _identity(self._read()) == self._initial:
            self._restorable.add(self._made)
        return self._made

    def rollback(self, token: int) -> None:
        if token not in range(1, self._made + 1):
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        if token not in self._restorable:
            raise RollbackError(
                f"cannot restore checkpoint {token}: a ResettableSystem can only restore its initial state; "
                "use World.replay_to or an Agent, which repeat the actions"
            )
        self._reset()
        if _identity(self._read()) != self._initial:
            raise RollbackError(
                "reset did not restore the initial state: the observation differs from the first one; fix reset"
            )

    def is_valid(self, token: Any) -> bool:
        return token in self._restorable

    def release(self, token: Any) -> None:
        self._restorable.discard(token)

    def _read(self) -> Observation:
        seen = self._observe()
        return seen if isinstance(seen, Observation) else Observation("replayed", seen)

    def _make_ready(self) -> None:
        if not self._is_ready:
            self._reset()
            self._is_ready = True
        if self._initial is None:
            self._initial = _identity(self._read())


def _identity(seen: Observation) -> bytes:
    return encode(seen.data, at="observation") if seen.digest is None else seen.digest
