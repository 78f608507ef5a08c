"""The registry of storable classes: one allowlist for the codec and for checkpoints.

A class has a name in stored data (``module:qualname`` by default) and two functions: one converts an instance to values
that the codec knows, the other builds an instance from them. For dataclasses, enums, named tuples, msgspec structs and
pydantic models they are built in (``class_kinds``); for any other class the user passes them.

Rules:

- Only the exact class counts. A subclass is registered separately; otherwise it would be restored as its parent.
- A name belongs to one class. A class that is defined again under the same ``module:qualname`` (a reloaded module, a
  notebook cell that ran twice) is the same class: instances of every definition can be stored, and stored ones become
  instances of the newest. The newest is the one that its module has now; for a class inside a function, it is the last
  one that was registered or stored. A newer definition keeps the name, aliases and functions of the older one unless
  it is registered with others.
- A class of a script that runs as ``__main__`` has the name of the module that others would import
  (``module_names``), so that a worker reads what the script stored.
- Registering a class under another name makes that its name for writing; the old name can still be read.
- An alias takes precedence over a class of the same name.
- Names that begin with ``clew:`` are reserved for Clew.
- A stored object that cannot be built raises ``ClassChangedError``: the class has changed, and the data is intact.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from clew.errors import ClassChangedError, DefinitionError
from clew.module_names import stored_module_name
from clew.state.values.class_kinds import Functions, MissingFields, given, kind_of

C = TypeVar("C", bound=type)
Hook = Callable[[Any], Any]

OWN = "clew:"
"""The prefix of Clew's own classes in stored data. They are part of the format, and every reader builds them."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredType:
    """How the instances of one class are stored."""

    cls: type
    name: str
    functions: Functions
    is_given: bool  # the functions are the user's: they may refer to the class by its global name
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
    """Allow the instances of a class to be stored and restored. Returns the class, so it works as a decorator.

    Args:
        cls: The class. Without it, a decorator is returned: ``@register_type(name="doc")``.
        name: The name of the class in stored data. The default, ``module:qualname``, ties stored data to the location
            of the class; pass a name to be able to move it.
        encode: Takes an instance and returns values that can be stored. Required, together with ``decode``, for a class
            that is not a dataclass, enum, named tuple, msgspec struct or pydantic model.
        decode: Takes the result of ``encode`` and returns an equal instance.
        aliases: Other names of the class in stored data: ``"old.module:Old"`` or ``"old.module.Old"`` for a class that
            was moved or renamed.
        upgrade: Takes the stored fields as a dict and returns the current fields. It is called for every stored
            instance. For an enum it takes and returns the name of the member, for a flag its value, for a class with
            ``encode`` the result of that.

    ``decode``, ``upgrade`` and default factories must be pure: they run whenever an instance is read.
    """
    if cls is None:
        return lambda decorated: register_type(
            decorated, name=name, encode=encode, decode=decode, aliases=aliases, upgrade=upgrade
        )
    if not isinstance(cls, type):
        raise DefinitionError(f"register_type: expected a class, got {cls!r}")
    if cls.__module__ == "builtins":
        raise DefinitionError(f"{cls.__name__} is built in; its stored form cannot be changed")
    if (encode is None) is not (decode is None):
        raise DefinitionError(f"register_type({cls.__name__}) needs both encode and decode, or neither")
    others = _checked_aliases(cls, aliases)
    older = _by_origin.get(origin_of(cls))
    if name is None:
        name = origin_of(cls) if older is None else older.name
    elif type(name) is str and name.startswith(OWN) and not cls.__module__.startswith("clew."):
        raise DefinitionError(
            f"register_type({cls.__name__}): names with {OWN!r} are reserved; give another name"
        )
    elif not _is_name(name):
        raise DefinitionError(f"register_type({cls.__name__}): {name!r} is not a valid class name")
    for table, key in (
        (_by_name, name),
        (_by_alias, _dotted(name)),
        *((_by_alias, alias) for alias in others),
    ):
        held = table.get(key)
        if held is not None and origin_of(held.cls) != origin_of(cls):
            raise DefinitionError(
                f"the name {key!r} is already registered for {origin_of(held.cls)}; "
                f"give {origin_of(cls)} another name with register_type(..., name=...)"
            )
    functions = None if encode is None or decode is None else given(encode, decode)
    _enter(_entry(cls, name, older, functions, others, upgrade))
    return cls


def is_storable_kind(cls: type) -> bool:
    """Return whether ``register_type(cls)`` needs no functions, because the kind of class is supported."""
    return kind_of(cls) is not None


def entry_named(name: str) -> RegisteredType | None:
    """Return the entry of a name in stored data, with the newest definition of the class; None if it is unknown."""
    entry = (_by_alias.get(_dotted(name)) if _by_alias else None) or _by_name.get(name)
    if entry is None or entry.is_given:
        return entry
    newest = _defined(entry.cls)
    return entry if newest is None or newest is entry.cls else adopt(newest) or entry


def adopt(cls: type) -> RegisteredType | None:
    """Return the entry of a class; a new definition of a registered class is registered automatically."""
    entry = own_entry(cls)
    if entry is not None and cls not in _by_class:
        _enter(entry)
    return entry


def newest_entries() -> dict[str, RegisteredType]:
    """Return the newest entries of the classes with more than one definition, by ``module:qualname``."""
    found: dict[str, RegisteredType] = {}
    for entry in list(_by_class.values()):
        if not entry.name.startswith(OWN):
            origin = origin_of(entry.cls)
            newest = _by_origin[origin] if entry.is_given else entry_named(entry.name) or entry
            if newest.cls is not entry.cls:
                found[origin] = newest
    return found


def own_entry(cls: type) -> RegisteredType | None:
    """Return the entry of a class; for an older definition that was never registered, one that is not kept."""
    found, older = _by_class.get(cls), _by_origin.get(origin_of(cls))
    if found is not None or older is None or not (older.is_given or is_storable_kind(cls)):
        return found
    return _entry(cls, older.name, older, None, (), None)


def build(entry: RegisteredType, name: str, parts: Any, lost: list[str]) -> Any:
    """Build a stored object.

    Args:
        entry: The entry of its class.
        name: The name of the class in the stored data.
        parts: The stored parts; they may be changed.
        lost: The names of fields that the class no longer has are added to it.
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
    """Raise ClassChangedError if this is an instance of a registered class that is no longer hashable."""
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
    """Make the entry of a class; options that are not given are taken from an older definition."""
    is_given = functions is not None
    if functions is None and older is not None and older.is_given:
        functions, is_given = older.functions, True
    if functions is None:
        kind = kind_of(cls)
        if kind is None:
            raise DefinitionError(
                f"{cls.__name__} cannot be stored: it is not a dataclass, enum, named tuple, msgspec struct or "
                f"pydantic model; give register_type({cls.__name__}, encode=..., decode=...)"
            )
        functions = kind(cls)
    if older is not None:
        aliases, upgrade = aliases or older.aliases, upgrade or older.upgrade
    return RegisteredType(cls, name, functions, is_given, upgrade, aliases, functions.take_apart)


def _enter(entry: RegisteredType) -> None:
    _by_class[entry.cls] = _by_name[entry.name] = _by_origin[origin_of(entry.cls)] = entry
    for alias in entry.aliases:
        _by_alias[alias] = entry


def _checked_aliases(cls: type, aliases: Iterable[str]) -> tuple[str, ...]:
    if isinstance(aliases, str):
        raise DefinitionError(f"register_type({cls.__name__}): give aliases=({aliases!r},), a tuple of names")
    names = tuple(aliases)
    for alias in names:
        if not _is_name(alias):
            raise DefinitionError(f"register_type({cls.__name__}): {alias!r} is not a valid class name")
    return tuple(map(_dotted, names))


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name != "" and name.isprintable()


def _dotted(name: str) -> str:
    return name.replace(":", ".")


def origin_of(cls: type) -> str:
    """Return ``module:qualname``; a script has the name by which others import it."""
    return f"{stored_module_name(cls.__module__)}:{cls.__qualname__}"


def _shown(entry: RegisteredType) -> str:
    return f"the class {origin_of(entry.cls)}"


def _defined(cls: type) -> type | None:
    """Return the current definition of a class in its module, or None. Nothing is imported, and no code runs."""
    place: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        place = getattr(place, "__dict__", {}).get(name)
    return place if isinstance(place, type) and origin_of(place) == origin_of(cls) else None
