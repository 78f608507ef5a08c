"""Stored instances whose class is not built: the class name and the fields.

They replace instances when a run is inspected without the code of the program that recorded it.

Rules:

- A stored object contains only plain values and other stored objects, so comparing, hashing and printing it runs no
  user code.
- It encodes to exactly the form that it was read from.
- Two are equal if their stored forms are equal: types are compared too, so 1 differs from 1.0. They can be members of
  sets and keys of dicts, as the instances were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from clew.state.values.libraries import BY_TAG, format_of

UNSET = "_unset"
"""Beside the fields of a pydantic model: the names of those that were not set. No field can be called so."""

_have_been_made = False


def have_been_made() -> bool:
    """Return whether this process has created a stored object; most never do."""
    return _have_been_made


def holds_stored(*groups: Iterable[Any]) -> bool:
    """Return whether a value in one of these groups contains a stored object; free before the first is created."""
    return _have_been_made and any(find_stored(value) is not None for group in groups for value in group)


_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})


def find_stored(value: Any) -> StoredObject | None:
    """Return the first stored object in a value or its containers, or None. Search each container once, in a loop:
    values in memory may be cyclic, deep, or share their parts."""
    if isinstance(value, StoredObject):
        return value
    if type(value) not in _CONTAINERS:
        return None
    seen = {id(value)}
    pending = [_parts(value)]
    while pending:
        for part in pending[-1]:
            if isinstance(part, StoredObject):
                return part
            if type(part) in _CONTAINERS and id(part) not in seen:
                seen.add(id(part))
                pending.append(_parts(part))
                break
        else:
            pending.pop()
    return None


def _parts(container: Any) -> Iterator[Any]:
    return iter(container) if type(container) is not dict else chain.from_iterable(container.items())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StoredObject:
    """A stored instance whose class this process cannot build."""

    name: str
    """The name of the class in stored data: ``module:qualname``, or the name that it was registered under."""

    fields: Any
    """The fields by name; for an enum the member's name; for a class with ``encode``, the result of that.

    A pydantic model also has ``_unset``, the fields that were not set. Printing leaves it out."""

    def __post_init__(self) -> None:
        global _have_been_made
        _have_been_made = True
        if type(self.name) is not str or not self.name or not self.name.isprintable():
            raise ValueError(f"{self.name!r} is not the name of a class")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.name, _key(self.fields)

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "name":  # not set yet, while the object is being copied
            raise AttributeError(attribute)
        raise AttributeError(
            f"a stored {self.name!r} has no attribute {attribute!r}, because its class is not registered; "
            "register the class with clew.register_type, or read its fields from .fields"
        )

    def __repr__(self) -> str:
        last = self.name.rpartition(":")[2].rpartition(".")[2]
        shown = last if last.isidentifier() else repr(self.name)
        try:
            return f"{shown}({_arguments(self.fields)})"
        except Exception:  # foreign content, or nested too deep to print
            return f"{shown}(...)"


class StoredContent(StoredObject):
    """A stored value of a library that is not installed: ``name`` is its format, ``fields`` its content."""

    __slots__ = ()
    __hash__ = StoredObject.__hash__

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "name":
            raise AttributeError(attribute)
        raise AttributeError(f"{self!r} has no attribute {attribute!r}; {self.why()}")

    def __repr__(self) -> str:
        return f"<stored {BY_TAG[self.name].name}>"

    def why(self) -> str:
        """Say why the value was not built, and what to do."""
        return f"install {' and '.join(BY_TAG[self.name].libraries)}, and read it again"


def _arguments(fields: Any) -> str:
    if type(fields) is not dict:
        return repr(fields)
    return ", ".join(f"{_label(name)}={item!r}" for name, item in fields.items() if name != UNSET)


def _label(name: Any) -> str:
    return name if type(name) is str and name.isidentifier() else repr(name)


def _key(value: Any) -> Any:
    """Return a hashable key that differs for values with different stored forms."""
    kind = type(value)
    if kind is dict:
        return dict, frozenset([(_key(key), _key(item)) for key, item in value.items()])
    if kind is list or kind is tuple:
        return kind, tuple(map(_key, value))
    if kind is set or kind is frozenset:
        return kind, frozenset(map(_key, value))
    if kind is float:
        return float, repr(value)  # NaN equals itself here, and 0.0 is not -0.0
    if kind is bytearray:
        return bytearray, bytes(value)
    if kind is StoredObject or kind is StoredContent:
        return value._key()
    form = format_of(kind)
    if form is not None:
        return kind, str(form.encoded(value)) if form.is_tree else form.encoded(value)
    return (kind, value) if getattr(kind, "__hash__", None) else (kind, id(value))
