"""How instances of the supported kinds of classes are converted to stored parts and back.

Dataclasses, named tuples, msgspec structs and pydantic models are stored as a dict of their fields, an enum as the name
of the member, a flag as its value.

Rules:

- Building an instance never validates and never runs ``__post_init__``, because the instance was validated before it
  was stored.
- Classes change. A new field takes its default; without a default the instance cannot be built. A field that no longer
  exists is dropped and reported. A dataclass may also become a pydantic model, because both are stored as fields.

msgspec runs ``__post_init__`` whenever it creates a struct, except when it copies one. So one blank instance of the
class is made, and each struct is a copy of it whose fields are then set. The blank instance is made by a subclass
without ``__post_init__``, and then becomes an instance of the class. The subclass is dropped at once, so that it does
not stay among the subclasses of the class.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from clew.state.stored_object import UNSET, StoredObject

Default = Callable[[dict[str, Any]], Any]  # takes the fields before it


class Functions(NamedTuple):
    """How the instances of one class are stored."""

    take_apart: Callable[[Any], Any]
    put_together: Callable[[Any, list[str]], Any]
    """Takes the stored parts and a list; adds the names of lost fields to the list."""
    inner: tuple[str, ...] = ()
    """Parts that are not fields; ``upgrade`` does not receive them."""


class MissingFields(Exception):
    """The stored parts lack fields that have no default."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(", ".join(map(repr, names)))
        self.names = names


# Subclasses of these hold content in addition to their fields, which would be lost.
_HOLDERS = (str, int, float, complex, bytes, bytearray, list, dict, tuple, set, frozenset, BaseException)


def kind_of(cls: type) -> Callable[[Any], Functions] | None:
    """Return the function that makes the `Functions` of such a class; None for other kinds of classes."""
    if issubclass(cls, enum.Flag):
        return _flag
    if issubclass(cls, enum.Enum):
        return _enum
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"):
        return _named_tuple
    if issubclass(cls, _HOLDERS) or cls is StoredObject:
        return None
    if issubclass(cls, msgspec.Struct):
        return _struct
    # never imported here: a model exists only if the program imported it
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(cls, pydantic.BaseModel):
        return _pydantic_model
    return _dataclass if dataclasses.is_dataclass(cls) else None


def given(encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> Functions:
    """Return the functions that were registered for a class."""
    return Functions(encode, lambda parts, lost: decode(parts))


def _enum(cls: type[enum.Enum]) -> Functions:
    def member(name: Any, lost: list[str]) -> Any:
        if type(name) is not str:
            raise TypeError(f"a member is stored as its name, not as {type(name).__name__}")
        if name not in cls.__members__:
            raise MissingFields((name,))
        return cls[name]

    return Functions(lambda member: member.name, member)


def _flag(cls: type[enum.Flag]) -> Functions:
    # By value: a combination of flags is not a member and has no name.
    return Functions(lambda member: member.value, lambda value, lost: cls(value))


def _named_tuple(cls: Any) -> Functions:
    names: tuple[str, ...] = cls._fields
    defaults = {name: _constant(value) for name, value in cls._field_defaults.items()}

    def put_together(parts: Any, lost: list[str]) -> Any:
        return cls._make(_complete(parts, names, defaults, lost).values())

    return Functions(lambda instance: dict(zip(names, instance, strict=True)), put_together)


def _struct(cls: type[msgspec.Struct]) -> Functions:
    fields = msgspec.structs.fields(cls)
    names = tuple(field.name for field in fields)
    defaults: dict[str, Default] = {}
    for field in fields:
        if field.default is not msgspec.NODEFAULT:
            defaults[field.name] = _constant(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = _made(field.default_factory)
    make = blank_copies(cls) if hasattr(cls, "__post_init__") else cls

    def put_together(parts: Any, lost: list[str]) -> Any:
        return make(**_complete(parts, names, defaults, lost))

    return Functions(_fields_of(names), put_together)


def _dataclass(cls: type) -> Functions:
    names = tuple(field.name for field in dataclasses.fields(cls))
    defaults: dict[str, Default] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = _constant(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = _made(field.default_factory)

    def put_together(parts: Any, lost: list[str]) -> Any:
        instance: Any = object.__new__(cls)
        for name, value in _complete(parts, names, defaults, lost).items():
            object.__setattr__(instance, name, value)  # bypasses the __setattr__ of a frozen class
        return instance

    return Functions(_fields_of(names), put_together)


# Other data of a model is stored under names that no field can have: a field never starts with "_".
# The names that were not set are stored, so that a field which ``upgrade`` adds counts as set.
_UNSET, _EXTRA, _PRIVATE = UNSET, "_extra", "_private"


def _pydantic_model(cls: Any) -> Functions:
    is_root = issubclass(cls, sys.modules["pydantic"].RootModel)  # keeps private attributes among its fields
    fields: Mapping[str, Any] = cls.model_fields
    names = tuple(fields)
    defaults = {name: _model_default(field) for name, field in fields.items() if not field.is_required()}

    def take_apart(model: Any) -> dict[str, Any]:
        inside = model.__getstate__()
        parts = {name: inside["__dict__"][name] for name in names}
        extra = inside.get("__pydantic_extra__") or {}
        unset = {*names, *extra} - inside["__pydantic_fields_set__"]
        if unset:
            parts[_UNSET] = sorted(unset)
        if extra:
            parts[_EXTRA] = extra
        private = (inside["__dict__"] if is_root else inside).get("__pydantic_private__")
        if private:
            parts[_PRIVATE] = private
        return parts

    def put_together(parts: Any, lost: list[str]) -> Any:
        stored = _mapping(parts)
        unset, extra = set(stored.pop(_UNSET, ())), _mapping(stored.pop(_EXTRA, {}))
        private = _mapping(stored.pop(_PRIVATE, {}))
        # Extra values that have become fields.
        stored.update({name: extra.pop(name) for name in names if name in extra and name not in stored})
        if cls.model_config.get("extra") != "allow":
            lost.extend(extra)
            extra = {}
        complete = _complete(stored, names, defaults, lost)
        attributes = _private(cls, private, complete, lost)
        if is_root and attributes is not None:
            complete["__pydantic_private__"] = attributes
        model = cls.__new__(cls)
        model.__setstate__(
            {
                "__dict__": complete,
                "__pydantic_fields_set__": ({*names} & {*stored} | {*extra}) - unset,
                "__pydantic_extra__": extra if cls.model_config.get("extra") == "allow" else None,
                "__pydantic_private__": attributes,
            }
        )
        return model

    return Functions(take_apart, put_together, (_UNSET, _EXTRA, _PRIVATE))


def _private(
    cls: Any, stored: dict[str, Any], fields: dict[str, Any], lost: list[str]
) -> dict[str, Any] | None:
    """Return the private attributes of a model: as stored, or their defaults if they are new."""
    attributes: Mapping[str, Any] = cls.__private_attributes__
    lost.extend(name for name in stored if name not in attributes)
    if not attributes:
        return None
    undefined = sys.modules["pydantic"].fields.PydanticUndefined
    complete: dict[str, Any] = {}
    for name, attribute in attributes.items():
        value = stored[name] if name in stored else _model_default(attribute)({**fields, **complete})
        if value is not undefined:
            complete[name] = value
    return complete


def _model_default(field: Any) -> Default:
    """Return the default of a model's field or private attribute, for all versions of pydantic."""
    if field.default_factory is None:
        return lambda before: field.get_default()  # a copy, if it can be changed
    if getattr(field, "default_factory_takes_validated_data", False):
        return lambda before: field.default_factory(before)
    return lambda before: field.default_factory()


def _fields_of(names: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    return lambda instance: {name: getattr(instance, name) for name in names}


def _mapping(parts: Any) -> dict[str, Any]:
    if type(parts) is not dict:
        raise TypeError(f"its fields are stored as {type(parts).__name__}")
    if not all(type(name) is str for name in parts):
        raise TypeError("a field's name is text")
    return dict(parts)


def _complete(
    parts: Any, names: tuple[str, ...], defaults: Mapping[str, Default], lost: list[str]
) -> dict[str, Any]:
    """Return all fields in order: as stored, or their defaults. Names that are not fields are added to ``lost``."""
    stored = _mapping(parts)
    missing = tuple(name for name in names if name not in stored and name not in defaults)
    if missing:
        raise MissingFields(missing)
    complete: dict[str, Any] = {}
    for name in names:
        complete[name] = stored.pop(name) if name in stored else defaults[name](complete)
    lost.extend(stored)
    return complete


def _constant(value: Any) -> Default:
    return lambda before: value


def _made(factory: Callable[[], Any]) -> Default:
    return lambda before: factory()


_set_class = object.__dict__["__class__"].__set__  # bypasses the __setattr__ of a frozen struct
_copy: Callable[[Any], Any] = msgspec.Struct.__copy__  # type: ignore[attr-defined] # not in its stubs


class _WithoutHooks:
    """Comes before the class, so that its own hooks do not run."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Do nothing: the program does not know the subclass."""

    def __post_init__(self) -> None:
        """Do nothing."""


def blank_copies(cls: type[msgspec.Struct]) -> Callable[..., Any]:
    """Return a function that takes all fields by name and returns an instance, without running ``__post_init__``."""
    blank = _blank(cls)
    setters = {name: getattr(cls, name).__set__ for name in cls.__struct_fields__}

    def make(**fields: Any) -> Any:
        instance = _copy(blank)
        for name, value in fields.items():
            setters[name](instance, value)
        return instance

    return make


def _blank(cls: type[msgspec.Struct]) -> msgspec.Struct:
    subclass: Any = types.new_class(cls.__name__, (_WithoutHooks, cls), {}, lambda body: None)
    # A list in each field: a struct of plain values is hidden from the garbage collector, and so are its copies.
    blank = subclass(**{name: [] for name in cls.__struct_fields__})
    _set_class(blank, cls)
    return blank  # type: ignore[no-any-return]
