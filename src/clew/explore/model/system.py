"""What the explorer needs of a system under test. A class of the user's satisfies it without inheriting.

- `observe` shows the system's state; the same state gives the same data, whatever way led there.
- `checkpoint(name)` returns a token of its own choosing; `name` is a label for people and need not be unique. Tokens
  are independent of each other.
- `rollback(token)` restores exactly what was there at that checkpoint. The token stays valid: it may be restored again.
- `is_valid(token)` is asked before anything is rolled back; `release(token)` frees what a token holds, and is no error
  for one that is not there.
- `ordering` is "any" when tokens may be restored in any order, "lifo" when restoring one ends all later ones (the agent
  then reaches states by replay where it must).

It may have more: `size`, `dump` and `load`, for when memory is short (`keeping`); `keep`, `recover` and `let_go`, for
when its process is killed (`anchor`).

What a system does not do: know of actions, of other systems, or of the explorer.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

from clew.explore.model.observation import Observation


@runtime_checkable
class System(Protocol):
    """A system that can be observed, checkpointed and rolled back."""

    @property
    def ordering(self) -> Literal["any", "lifo"]: ...

    def observe(self) -> Observation: ...

    def checkpoint(self, name: str) -> Any: ...

    def rollback(self, token: Any) -> None: ...

    def is_valid(self, token: Any) -> bool: ...

    def release(self, token: Any) -> None: ...
