"""The classes that may be stored: one allowlist, for the codec and for checkpoints alike.

A class is stored under a name (``module:qualname`` unless one is given) together with two functions: one
takes an instance apart into values that the codec knows, the other puts it together again. For dataclasses,
enums, named tuples, msgspec structs and pydantic models both are known (``class_kinds``); for any other
class they are given.

Rules:

- Only the exact class counts: a subclass is registered by itself, or it would come back as its parent.
- One name stands for one class. A class that is defined again under the same ``module:qualname`` (a reloaded
  module, a notebook cell that ran twice) is the same class: instances of every definition can be stored, and
  stored ones become instances of the newest. The newest is the one that its module holds now; a class
  inside a function is in no module, so there the latest one that was registered or stored counts. The newer
  definition keeps the name, aliases and functions of the older one unless others are given.
- Registering a class under another name makes that its name for writing; the old name is still read.
- An alias is read as the class that has it, whatever else has that name.
- Names that begin with ``clew:`` are Clew's own.
- A stored object that cannot be built is a ``ClassChangedError``: the class changed, the data is sound.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from clew.errors import ClassChangedError, DefinitionError
from clew.state.class_kinds import Functions, MissingFields, given, kind_of

C = TypeVar("C", bound=type)
Hook = Callable[[Any], Any]

OWN = "clew:"
"""Begins the names of Clew's own classes in stored data: parts of the format, which every reader builds."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredType:
    """How the instances of one class are stored."""

    cls: type
    name: str
    functions: Functions
    is_given: bool  # the user gave the functions: they may refer to the class by its global name
    upgrade: Hook | None
    aliases: tuple[str, ...]
    encode: Hook


_by_class: dict[type, RegisteredType] = {}
_by_name: dict[str, RegisteredType] = {}
_by_origin: dict[str, RegisteredType] = {}  # by module:qualname: the newest definition
_by_alias: dict[str, RegisteredType] = {}  # by dotted name: an alias may be spelt with a colon or with a dot

entry_of: Callable[[type], RegisteredType | None] = _by_class.get


@overload
def register_type(
    cls: C,
    *,
    name: str | None = None,
    encode: Hook | None = None,
    decode: Hook | None = None,
    aliases: Iterable[str] = (),
    upgrade: Hook | None = None,
) -> C: ...
@overload
def register_type(
    *,
    name: str | None = None,
    encode: Hook | None = None,
    decode: Hook | None = None,
    aliases: Iterable[str] = (),
    upgrade: Hook | None = None,
) -> Callable[[C], C]: ...
def register_type(
    cls: Any = None,
    *,
    name: str | None = None,
    encode: Hook | None = None,
    decode: Hook | None = None,
    aliases: Iterable[str] = (),
    upgrade: Hook | None = None,
) -> Any:
    """Allow the instances of a class to be stored and restored; returns the class, so it works as a
    decorator.

    Args:
        cls: The class. Left out, a decorator is returned: ``@register_type(name="doc")``.
        name: What the class is called in stored data. The default, ``module:qualname``, ties stored data to
            where the class lives; give a name to be free to move it.
        encode: Takes an instance, returns values that can be stored. Needed, with ``decode``, for a class
            that is not a dataclass, enum, named tuple, msgspec struct or pydantic model.
        decode: Takes what ``encode`` returned, returns an equal instance.
        aliases: Other names under which instances may be stored: ``"old.module:Old"`` or ``"old.module.Old"``
            for a class that was moved or renamed.
        upgrade: Takes the stored fields as a dict, returns the fields of today. It is called for every
            stored instance, also for one that needs no change. For an enum it takes and returns the name of
            the member, for a flag its value, for a class with ``encode`` what that returned.

    ``decode``, ``upgrade`` and default factories have to be pure: they run whenever an instance is read.
    """
    if cls is None:
        return lambda decorated: register_type(
            decorated, name=name, encode=encode, decode=decode, aliases=aliases, upgrade=upgrade
        )
    if not isinstance(cls, type):
        raise DefinitionError(f"register_type takes a class, not {cls!r}")
    if cls.__module__ == "builtins":
        raise DefinitionError(f"{cls.__name__} is built in: how it is stored is fixed")
    if (encode is None) is not (decode is None):
        raise DefinitionError(f"register_type({cls.__name__}) needs both encode and decode, or neither")
    others = _checked_aliases(cls, aliases)
    older = _by_origin.get(_origin(cls))
    if name is None:
        name = _origin(cls) if older is None else older.name
    elif type(name) is str and name.startswith(OWN) and not cls.__module__.startswith("clew."):
        raise DefinitionError(
            f"register_type({cls.__name__}): names with {OWN!r} are reserved; give another name"
        )
    elif not _is_name(name):
        raise DefinitionError(f"register_type({cls.__name__}): {name!r} is no name for a class")
    for table, key in (
        (_by_name, name),
        (_by_alias, _dotted(name)),
        *((_by_alias, alias) for alias in others),
    ):
        held = table.get(key)
        if held is not None and _origin(held.cls) != _origin(cls):
            raise DefinitionError(
                f"the name {key!r} already stands for {_origin(held.cls)}; "
                f"give {_origin(cls)} another with register_type(..., name=...)"
            )
    functions = None if encode is None or decode is None else given(encode, decode)
    _enter(_entry(cls, name, older, functions, others, upgrade))
    return cls


def is_storable_kind(cls: type) -> bool:
    """Whether ``register_type(cls)`` needs no functions: the class is of a kind that is known here."""
    return kind_of(cls) is not None


def entry_named(name: str) -> RegisteredType | None:
    """Find the class that stored data calls by this name, in its newest definition."""
    entry = (_by_alias.get(_dotted(name)) if _by_alias else None) or _by_name.get(name)
    if entry is None or entry.is_given:
        return entry
    newest = _defined(entry.cls)
    return entry if newest is None or newest is entry.cls else adopt(newest) or entry


def adopt(cls: type) -> RegisteredType | None:
    """Find how a class is stored that is a definition of a registered one, and not registered itself."""
    found = _by_class.get(cls)
    older = _by_origin.get(_origin(cls))
    if found is not None or older is None or not (older.is_given or is_storable_kind(cls)):
        return found
    entry = _entry(cls, older.name, older, None, (), None)
    _enter(entry)
    return entry


def build(entry: RegisteredType, name: str, parts: Any, lost: list[str]) -> Any:
    """Put a stored object together again.

    Args:
        entry: How its class is stored.
        name: What stored data calls the class.
        parts: What it is made of; not used any more afterwards.
        lost: The names of fields that the class has lost are added to it.
    """
    try:
        if entry.upgrade is not None:
            parts = _upgraded(entry, parts)
        return entry.functions.put_together(parts, lost)
    except RecursionError:
        raise
    except MissingFields as error:
        what = f"a stored {name!r} cannot be built; {_shown(entry)} "
        has_members = not isinstance(parts, dict)
        raise ClassChangedError(
            f"{what}has no member {error}; add it, or give register_type an upgrade function that renames it"
            if has_members
            else f"{what}needs {error}, which was not stored; give each a default, or give register_type an "
            f"upgrade function that adds it",
            name=name,
            missing=error.names,
        ) from None
    except Exception as error:
        raise ClassChangedError(
            f"a stored {name!r} cannot be built as {_shown(entry)}: {type(error).__name__}: {error}; "
            f"change the class, or give register_type an upgrade function",
            name=name,
        ) from error


def refuse_unhashable(instance: Any, cause: Exception) -> None:
    """Raise if this is an instance of a registered class that has no hash, though one was stored in a set."""
    entry = _by_class.get(type(instance))
    if entry is None:
        return
    try:
        hash(instance)
    except Exception:
        raise ClassChangedError(
            f"a stored {entry.name!r} is in a set or a key of a dict, and {_shown(entry)} cannot be hashed; "
            "make it hashable again, for example with frozen=True",
            name=entry.name,
        ) from cause


def lost_message(name: str, field: str) -> str:
    return (
        f"a stored {name!r} has a field {field!r} that its class has lost, and it is dropped; "
        "to keep it, give register_type an upgrade function"
    )


def _upgraded(entry: RegisteredType, parts: Any) -> Any:
    assert entry.upgrade is not None
    if not isinstance(parts, dict):
        return entry.upgrade(parts)
    inner = {name: parts.pop(name) for name in entry.functions.inner if name in parts}
    upgraded = entry.upgrade(parts)
    if not isinstance(upgraded, dict):
        raise TypeError(f"its upgrade function returned {type(upgraded).__name__}, and not a dict")
    return {**upgraded, **inner}


def _entry(
    cls: type,
    name: str,
    older: RegisteredType | None,
    functions: Functions | None,
    aliases: tuple[str, ...],
    upgrade: Hook | None,
) -> RegisteredType:
    """The entry of a class; what is not given is taken from an older definition of it."""
    is_given = functions is not None
    if functions is None and older is not None and older.is_given:
        functions, is_given = older.functions, True
    if functions is None:
        kind = kind_of(cls)
        if kind is None:
            raise DefinitionError(
                f"how to store a {cls.__name__} is not known: it is not a dataclass, enum, named tuple, "
                f"msgspec struct or pydantic model; give register_type({cls.__name__}, encode=..., decode=...)"
            )
        functions = kind(cls)
    if older is not None:
        aliases, upgrade = aliases or older.aliases, upgrade or older.upgrade
    return RegisteredType(cls, name, functions, is_given, upgrade, aliases, functions.take_apart)


def _enter(entry: RegisteredType) -> None:
    _by_class[entry.cls] = _by_name[entry.name] = _by_origin[_origin(entry.cls)] = entry
    for alias in entry.aliases:
        _by_alias[alias] = entry


def _checked_aliases(cls: type, aliases: Iterable[str]) -> tuple[str, ...]:
    if isinstance(aliases, str):
        raise DefinitionError(f"register_type({cls.__name__}): give aliases=({aliases!r},), a tuple of names")
    names = tuple(aliases)
    for alias in names:
        if not _is_name(alias):
            raise DefinitionError(f"register_type({cls.__name__}): {alias!r} is no name for a class")
    return tuple(map(_dotted, names))


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name != "" and name.isprintable()


def _dotted(name: str) -> str:
    return name.replace(":", ".")


def _origin(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _shown(entry: RegisteredType) -> str:
    return f"the class {_origin(entry.cls)}"


def _defined(cls: type) -> type | None:
    """The class that now stands where this one was defined, if any; nothing is imported, no code runs."""
    place: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        place = getattr(place, "__dict__", {}).get(name)
    return place if isinstance(place, type) and _origin(place) == _origin(cls) else None
