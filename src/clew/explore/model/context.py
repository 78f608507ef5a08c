"""The context: values that actions pass to each other. They are part of the state and rolled back with the systems.

Rules:

- Every value needs a canonical encoding. `set` rejects other values and names the path to the part that has none.
- `get` returns the value itself, so a list may be changed in place; an observation sees its current content. Snapshots
  are deep copies: later changes do not reach a snapshot, and changes of restored values do not reach it either.
- Numbers, strings and the like cannot change in place, so their encoding is cached.

Connections, clients and files do not belong here. Put them into `World.api`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from clew.errors import DefinitionError
from clew.state.values.codec import decode, encode

_IMMUTABLE = frozenset({str, int, float, bool, bytes, type(None)})


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A copy of the context: immutable values as they are, others encoded."""

    fixed: dict[str, Any]
    encoded: dict[str, bytes]
    order: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """Return the values as new objects."""
        if not self.encoded:
            return dict(self.fixed)
        fixed, encoded = self.fixed, self.encoded
        return {key: decode(encoded[key]) if key in encoded else fixed[key] for key in self.order}


class WorldContext:
    """Named values that are part of the state of a world."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._mutable: set[str] = set()  # names of values that may change in place
        self._snapshot: Snapshot | None = None  # cached while it is up to date
        self._identity: bytes | None = None
        for key, value in (values or {}).items():
            self.set(key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a name, or the default."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Set a value. Raise EncodeError, and change nothing, if it has no canonical encoding."""
        if type(key) is not str:
            raise DefinitionError(f"a name in the context must be a string, got {key!r}")
        if type(value) in _IMMUTABLE:
            self._mutable.discard(key)
        else:
            encode(value, at=f"context[{key!r}]")
            self._mutable.add(key)
        self._values[key] = value
        self._snapshot = self._identity = None

    def has(self, key: str) -> bool:
        """Return whether a name has a value, which may be None."""
        return key in self._values

    def delete(self, key: str) -> None:
        """Delete a name, if it exists."""
        if key in self._values:
            del self._values[key]
            self._mutable.discard(key)
            self._snapshot = self._identity = None

    def clear(self) -> None:
        """Delete all names."""
        self._values.clear()
        self._mutable.clear()
        self._snapshot = self._identity = None

    def to_dict(self) -> dict[str, Any]:
        """Return a deep copy of all values."""
        return self.snapshot().values()

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"WorldContext({self._values!r})"

    # -- used by the world ----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return a copy of the current values."""
        if self._snapshot is not None:
            return self._snapshot
        values, mutable = self._values, self._mutable
        if not mutable:
            self._snapshot = Snapshot(dict(values), {}, ())
            return self._snapshot
        fixed = {key: value for key, value in values.items() if key not in mutable}
        encoded = {key: encode(values[key], at=f"context[{key!r}]", ordered=True) for key in mutable}
        return Snapshot(fixed, encoded, tuple(values))

    def restore(self, snapshot: Snapshot) -> None:
        """Replace all values by those of a snapshot."""
        if self._snapshot is snapshot:
            return
        self._values = snapshot.values()
        self._mutable = set(snapshot.encoded)
        self._identity = None
        self._snapshot = None if snapshot.encoded else snapshot

    def identity(self, ignored: frozenset[str] = frozenset()) -> bytes:
        """Return the canonical encoding of all values except the ignored ones."""
        if self._identity is not None:
            return self._identity
        values = self._values
        if ignored:
            values = {key: value for key, value in values.items() if key not in ignored}
        encoded = encode(values, at="context")
        if not self._mutable:
            self._identity = encoded
        return encoded
