"""The classes that may be stored: one allowlist, for the codec and for checkpoints alike.

A class is stored under a name (``module:qualname`` unless one is given) together with two functions: one
takes an instance apart into values that the codec knows, the other puts it together again. For dataclasses,
enums, named tuples, msgspec structs and pydantic models both are known here; for any other class they are
given.

Rules:

- Only the exact class counts: a subclass is registered by itself, or it would come back as its parent.
- Putting together never validates and never runs ``__post_init__`` (msgspec structs excepted: they cannot
  be made otherwise), because a stored instance has been through that already.
- A field that was added since, and has a default, gets it; any other difference in fields is an error.
- One name stands for one class. The same ``module:qualname`` again is the same class reloaded, as notebooks
  do, and replaces it; instances of the older one can still be stored. Registering a class again under
  another name makes that its name for writing, and the old one goes on being read.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from clew.errors import DefinitionError

C = TypeVar("C", bound=type)
Functions = tuple[Callable[[Any], Any], Callable[[Any], Any]]  # take apart, put together

# Subclasses of these hold content beside their fields, which taking fields apart would lose.
_HOLDERS = (str, int, float, complex, bytes, bytearray, list, dict, tuple, set, frozenset, BaseException)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """How the instances of one class are stored."""

    cls: type
    name: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_by_class: dict[type, Entry] = {}
_by_name: dict[str, Entry] = {}

entry_of: Callable[[type], Entry | None] = _by_class.get
entry_named: Callable[[str], Entry | None] = _by_name.get


@overload
def register_type(
    cls: C,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> C: ...
@overload
def register_type(
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[C], C]: ...
def register_type(
    cls: Any = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
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
    """
    if cls is None:
        return lambda decorated: register_type(decorated, name=name, encode=encode, decode=decode)
    if not isinstance(cls, type):
        raise DefinitionError(f"register_type takes a class, not {cls!r}")
    if cls.__module__ == "builtins":
        raise DefinitionError(f"{cls.__name__} is built in: how it is stored is fixed")
    if (encode is None) is not (decode is None):
        raise DefinitionError(f"register_type({cls.__name__}) needs both encode and decode, or neither")
    origin = f"{cls.__module__}:{cls.__qualname__}"
    if name is None:
        name = origin
    elif not name or not name.isprintable():
        raise DefinitionError(f"register_type({cls.__name__}): {name!r} is no name for a class")
    held = _by_name.get(name)
    if (
        held is not None
        and held.cls is not cls
        and f"{held.cls.__module__}:{held.cls.__qualname__}" != origin
    ):
        raise DefinitionError(
            f"the name {name!r} already stands for {held.cls.__module__}:{held.cls.__qualname__}; "
            f"give {origin} another with register_type(..., name=...)"
        )
    if encode is None or decode is None:
        encode, decode = _known(cls)
    _by_class[cls] = _by_name[name] = Entry(cls, name, encode, decode)
    return cls


def is_storable_kind(cls: type) -> bool:
    """Whether ``register_type(cls)`` needs no functions: the class is of a kind that is known here."""
    return _kind(cls) is not None


def _known(cls: type) -> Functions:
    kind = _kind(cls)
    if kind is None:
        raise DefinitionError(
            f"how to store a {cls.__name__} is not known: it is not a dataclass, enum, named tuple, "
            f"msgspec struct or pydantic model; give register_type({cls.__name__}, encode=..., decode=...)"
        )
    return kind(cls)


def _kind(cls: type) -> Callable[[Any], Functions] | None:
    if issubclass(cls, enum.Flag):
        return _flag
    if issubclass(cls, enum.Enum):
        return _enum
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"):
        return _named_tuple
    if issubclass(cls, _HOLDERS):
        return None
    if issubclass(cls, msgspec.Struct):
        return _struct
    pydantic = sys.modules.get("pydantic")  # never imported here: a model can only exist if somebody else did
    if pydantic is not None and issubclass(cls, pydantic.BaseModel):
        return _pydantic_model
    return _dataclass if dataclasses.is_dataclass(cls) else None


def _enum(cls: type[enum.Enum]) -> Functions:
    return lambda member: member.name, lambda name: cls[name]


def _flag(cls: type[enum.Flag]) -> Functions:
    # By value: a combination of flags is no member, and has no name of its own.
    return lambda member: member.value, cls


def _named_tuple(cls: Any) -> Functions:
    names: tuple[str, ...] = cls._fields
    defaults = {name: _constant(value) for name, value in cls._field_defaults.items()}

    def decode(given: Any) -> Any:
        return cls._make(_complete(given, names, defaults).values())

    return lambda instance: dict(zip(names, instance, strict=True)), decode


def _struct(cls: type[msgspec.Struct]) -> Functions:
    fields = msgspec.structs.fields(cls)
    names = tuple(field.name for field in fields)
    defaults = {field.name: _no_default for field in fields if not field.required}

    def decode(given: Any) -> Any:
        # The struct fills in its own defaults.
        complete = _complete(given, names, defaults)
        return cls(**{name: value for name, value in complete.items() if value is not msgspec.NODEFAULT})

    return _take_apart(names), decode


def _dataclass(cls: type) -> Functions:
    names = tuple(field.name for field in dataclasses.fields(cls))
    defaults: dict[str, Callable[[], Any]] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = _constant(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory

    def decode(given: Any) -> Any:
        instance: Any = object.__new__(cls)
        for name, value in _complete(given, names, defaults).items():
            object.__setattr__(instance, name, value)  # past a frozen class's own __setattr__
        return instance

    return _take_apart(names), decode


# What a model keeps beside its fields goes under names that no field can have: a field never starts with "_".
_FIELDS_SET, _EXTRA, _PRIVATE = "_set", "_extra", "_private"


def _pydantic_model(cls: Any) -> Functions:
    fields: Mapping[str, Any] = cls.model_fields
    names = tuple(fields)
    everything = set(names)
    defaults = {
        name: (lambda field=field: field.get_default(call_default_factory=True))
        for name, field in fields.items()
        if not field.is_required()
    }

    def encode(model: Any) -> dict[str, Any]:
        inside = model.__getstate__()
        parts = {name: inside["__dict__"][name] for name in names}
        if inside["__pydantic_fields_set__"] != everything:
            parts[_FIELDS_SET] = sorted(inside["__pydantic_fields_set__"])
        if inside["__pydantic_extra__"]:
            parts[_EXTRA] = inside["__pydantic_extra__"]
        if inside["__pydantic_private__"]:
            parts[_PRIVATE] = inside["__pydantic_private__"]
        return parts

    def decode(given: Any) -> Any:
        parts = _mapping(given)
        fields_set = set(parts.pop(_FIELDS_SET, names))
        extra = parts.pop(_EXTRA, {} if cls.model_config.get("extra") == "allow" else None)
        private = parts.pop(_PRIVATE, {} if cls.__private_attributes__ else None)
        model = cls.__new__(cls)
        model.__setstate__(
            {
                "__dict__": _complete(parts, names, defaults),
                "__pydantic_fields_set__": fields_set,
                "__pydantic_extra__": extra,
                "__pydantic_private__": private,
            }
        )
        return model

    return encode, decode


def _take_apart(names: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    return lambda instance: {name: getattr(instance, name) for name in names}


def _mapping(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise TypeError(f"its fields are stored as {type(given).__name__}")
    return dict(given)


def _complete(
    given: Any, names: tuple[str, ...], defaults: Mapping[str, Callable[[], Any]]
) -> dict[str, Any]:
    """All fields in their order; the stored ones must be fields, and the missing ones must have defaults."""
    stored = _mapping(given)
    complete = {}
    for name in names:
        if name in stored:
            complete[name] = stored.pop(name)
        elif name in defaults:
            complete[name] = defaults[name]()
        else:
            raise ValueError(f"its field {name!r} is missing, and has no default")
    if stored:
        raise ValueError(f"it has no field {next(iter(stored))!r}")
    return complete


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


_no_default = _constant(msgspec.NODEFAULT)
