"""The protocol of a system under test. Any class with these methods will do; it need not inherit.

- `observe()` returns the current state. The same state has the same data, regardless of the path that led to it.
- `checkpoint(name)` returns a token of any type. `name` is a label and need not be unique. Tokens are independent.
- `rollback(token)` restores the state of that checkpoint. The token stays valid and can be restored again.
- `is_valid(token)` returns whether a token can be restored. It is called before any system is rolled back.
- `release(token)` frees the resources of a token. Releasing an unknown token is not an error.
- `ordering` is "any" if tokens can be restored in any order, or "lifo" if restoring a token invalidates all later ones.
  The agent then reaches some states by replay.

What a system shows is an `Observation`. Its `data` identifies the state and needs a canonical encoding. Its `metadata`,
such as timings and sizes, is for readers and never part of the identity. A system that can compute a `digest` of its
data cheaply may return it: equal digests mean equal data, so the explorer does not encode the data again.

Optional methods: `size` limits the use of memory (`clew.explore.search.checkpoints`); `save_baseline`,
`restore_baseline` and `release_baseline` make an exploration resumable after its process was killed
(`clew.explore.search.baseline`).

A system knows nothing about actions, other systems or the explorer.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

import msgspec


class Observation(msgspec.Struct, frozen=True):
    """What one system shows. If `digest` is given, it replaces `data` in the identity of the state."""

    system: str
    data: Any
    metadata: dict[str, Any] = {}
    digest: bytes | None = None


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
