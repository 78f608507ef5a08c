"""The context: values that actions hand to each other, rolled back with the systems.

Rules:

- A value must have a canonical encoding; another one is refused by `set`, with the path to what is wrong in it.
- `get` hands out the value itself, so a list may be changed in place; what counts is what it holds when the world
  is observed. Snapshots are deep both ways: a change in place never reaches a snapshot, nor the other way round.
- Numbers, texts and the like cannot change in place. While there is nothing else, nothing is encoded twice.

What it does not hold: connections, clients, files. They belong to `World.api`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from clew.errors import DefinitionError
from clew.state.codec import decode, encode

_FIXED = frozenset({str, int, float, bool, bytes, type(None)})


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The context at one moment: values that cannot change as they are, others as bytes."""

    fixed: dict[str, Any]
    encoded: dict[str, bytes]
    order: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """The values, built anew."""
        if not self.encoded:
            return dict(self.fixed)
        fixed, encoded = self.fixed, self.encoded
        return {key: decode(encoded[key]) if key in encoded else fixed[key] for key in self.order}


class WorldContext:
    """Values by name that belong to the state of a world."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._loose: set[str] = set()  # names of values that may change in place
        self._snapshot: Snapshot | None = None  # as long as it is still true
        self._identity: bytes | None = None
        for key, value in (values or {}).items():
            self.set(key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or the default."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Give a name a value. EncodeError if the value has no canonical encoding; nothing is changed then."""
        if type(key) is not str:
            raise DefinitionError(f"a name in the context is a text, not {key!r}")
        if type(value) in _FIXED:
            self._loose.discard(key)
        else:
            encode(value, at=f"context[{key!r}]")
            self._loose.add(key)
        self._values[key] = value
        self._snapshot = self._identity = None

    def has(self, key: str) -> bool:
        """Whether there is a value of that name (which may be None)."""
        return key in self._values

    def delete(self, key: str) -> None:
        """Take a name away; no error if it is not there."""
        if key in self._values:
            del self._values[key]
            self._loose.discard(key)
            self._snapshot = self._identity = None

    def clear(self) -> None:
        """Take all names away."""
        self._values.clear()
        self._loose.clear()
        self._snapshot = self._identity = None

    def to_dict(self) -> dict[str, Any]:
        """All values, deeply copied."""
        return self.snapshot().values()

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Context({self._values!r})"

    # -- what the world needs -------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The context as it is now."""
        if self._snapshot is not None:
            return self._snapshot
        values, loose = self._values, self._loose
        if not loose:
            self._snapshot = Snapshot(dict(values), {}, ())
            return self._snapshot
        fixed = {key: value for key, value in values.items() if key not in loose}
        encoded = {key: encode(values[key], at=f"context[{key!r}]", ordered=True) for key in loose}
        return Snapshot(fixed, encoded, tuple(values))

    def restore(self, snapshot: Snapshot) -> None:
        """Be as at that moment; whatever came since is gone."""
        if self._snapshot is snapshot:
            return
        self._values = snapshot.values()
        self._loose = set(snapshot.encoded)
        self._identity = None
        self._snapshot = None if snapshot.encoded else snapshot

    def identity(self, ignored: frozenset[str] = frozenset()) -> bytes:
        """The canonical bytes of all values but the ignored ones."""
        if self._identity is not None:
            return self._identity
        values = self._values
        if ignored:
            values = {key: value for key, value in values.items() if key not in ignored}
        found = encode(values, at="context")
        if not self._loose:
            self._identity = found
        return found
