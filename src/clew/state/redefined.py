"""Convert objects in memory whose class was defined again: a notebook cell that ran twice, a reloaded module.

A store that keeps objects returns them as they are: instances of the definition that made them. Nodes expect the newest
definition. So such an object is taken apart and built again, by the rules of stored objects (``registry``): a new field
takes its default, a lost one is dropped with a warning, and ``upgrade`` applies. An object that the new class does not
accept becomes a `StoredObject`. Lists, tuples, dicts, sets, records of Clew and objects of registered classes are
searched; what holds no such object stays the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from clew.errors import ClassChangedError
from clew.graph_warnings import warn
from clew.state.registry import RegisteredType, build, lost_message, newest_entries, origin_of, own_entry
from clew.state.stored_object import StoredObject


def renewal() -> Callable[[Any], Any] | None:
    """Return a function that converts values to the newest definitions of their classes; None if nothing changed.

    The function converts an object that occurs twice once, and warns once about each lost field.
    """
    newest = newest_entries()
    return _Renewal(newest).renewed if newest else None


class _Renewal:
    def __init__(self, newest: dict[str, RegisteredType]) -> None:
        self._newest = newest  # by origin, of the classes with more than one definition
        # by id: the object, so that it stays alive, and its conversion
        self._known: dict[int, tuple[Any, Any]] = {}
        self._lost: set[tuple[str, str]] = set()

    def renewed(self, value: Any) -> Any:
        cls = type(value)
        if cls in _LEAVES:
            return value
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        self._known[id(value)] = (value, value)  # for a value that contains itself
        converted = self._converted(cls, value)
        self._known[id(value)] = (value, converted)
        return converted

    def _converted(self, cls: type, value: Any) -> Any:
        if cls is dict:
            pairs = [(self.renewed(key), self.renewed(item)) for key, item in value.items()]
            if all(key is old and item is value[old] for old, (key, item) in zip(value, pairs, strict=True)):
                return value
            return dict(pairs)
        if cls in _CONTAINERS:
            items = [self.renewed(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else cls(items)
        if issubclass(cls, msgspec.Struct) and cls.__module__.startswith("clew."):
            fields = {name: getattr(value, name) for name in cls.__struct_fields__}
            changed = {name: new for name, old in fields.items() if (new := self.renewed(old)) is not old}
            return msgspec.structs.replace(value, **changed) if changed else value
        entry = own_entry(cls)
        return value if entry is None else self._object(entry, value)

    def _object(self, entry: RegisteredType, value: Any) -> Any:
        try:
            parts = entry.encode(value)
        except Exception:  # it cannot be taken apart, so it stays as it is
            return value
        newest = self._newest.get(origin_of(entry.cls), entry)
        fields = self.renewed(parts)
        if newest.cls is entry.cls and fields is parts:
            return value
        lost: list[str] = []
        try:
            built = build(newest, newest.name, dict(fields) if type(fields) is dict else fields, lost)
        except ClassChangedError:
            return StoredObject(newest.name, parts)
        for field in lost:
            if (newest.name, field) not in self._lost:
                self._lost.add((newest.name, field))
                warn(lost_message(newest.name, field))
        return built


_LEAVES = frozenset({str, int, float, bool, bytes, type(None)})
_CONTAINERS = frozenset({list, tuple, set, frozenset})
