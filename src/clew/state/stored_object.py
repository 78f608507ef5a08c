"""A stored instance whose class is not built: its name in stored data, and what it is made of.

Whoever inspects a run needs no code of the program that made it, and sees these in place of its instances.

Rules:

- It holds plain values and other stored objects only, so comparing, hashing and printing one runs no code
  of the user.
- It encodes to exactly the form that it was read from.
- Two are equal when they are stored alike: the fields are compared with their types, so 1 is not 1.0. They
  can be in sets and be keys of dicts, as the instances were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

UNSET = "_unset"
"""Beside the fields of a pydantic model: the names of those that were not set. No field can be called so."""

_have_been_made = False


def have_been_made() -> bool:
    """Tell whether this process has met a stored instance whose class it did not build: most never do."""
    return _have_been_made


def holds_stored(*groups: Iterable[Any]) -> bool:
    """Tell whether a value in one of these groups holds a stored object: at no cost before the first is made."""
    return _have_been_made and any(find_stored(value) is not None for group in groups for value in group)


def find_stored(value: Any) -> StoredObject | None:
    """Find a stored object in a value that is built of containers; None if there is none."""
    kind = type(value)
    if isinstance(value, StoredObject):
        return value
    if kind is dict:
        return next(
            (found for pair in value.items() for part in pair if (found := find_stored(part)) is not None),
            None,
        )
    if kind in (list, tuple, set, frozenset):
        return next((found for item in value if (found := find_stored(item)) is not None), None)
    return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StoredObject:
    """A stored instance of a class that this process does not build."""

    name: str
    """What the class is called in stored data: ``module:qualname``, or the name that it was registered under."""

    fields: Any
    """Its fields by name; the member's name for an enum; what ``encode`` returned for a class that has one.

    A pydantic model has ``_unset`` beside its fields, which printing leaves out: the fields that were not set."""

    def __post_init__(self) -> None:
        global _have_been_made
        _have_been_made = True
        if type(self.name) is not str or not self.name or not self.name.isprintable():
            raise ValueError(f"{self.name!r} is not the name of a class")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if type(other) is StoredObject else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.name, _key(self.fields)

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "name":  # not yet there: while it is being copied
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
        except Exception:  # content that somebody else put in, or that is nested too deep to print
            return f"{shown}(...)"


def _arguments(fields: Any) -> str:
    if type(fields) is not dict:
        return repr(fields)
    return ", ".join(f"{_label(name)}={item!r}" for name, item in fields.items() if name != UNSET)


def _label(name: Any) -> str:
    return name if type(name) is str and name.isidentifier() else repr(name)


def _key(value: Any) -> Any:
    """What a value is compared by: hashable, and different for values that are stored differently."""
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
    if kind is StoredObject:
        return value._key()
    return (kind, value) if getattr(kind, "__hash__", None) else (kind, id(value))
