"""State schemas: one interface to TypedDicts, dataclasses, pydantic models and msgspec structs.

`read_schema` reads a class once: its fields, their reducers and defaults, and how to validate values.

Rules:

- The reducer of a field is the first callable in its ``Annotated`` metadata that takes two positional arguments.
  Classes, constraints and other metadata are not reducers. A reducer inside a union, and an async one, is an error.
- ``Field.default()`` is evaluated on each call. A reduced field without a default starts with the empty value of its
  type.
- Fields have their own names; aliases are only for serialization. A name that is not declared is an error.
- Only pydantic and msgspec schemas validate values (``StateSchema.validates``). Pydantic coerces as the model is
  configured; msgspec is strict. Both keep valid instances. A type that msgspec cannot describe, such as a union of two
  classes, is not validated.
- Pydantic's field validators run, but see no other field. Its model validators do not run: they need a complete model,
  and a state may be incomplete during a run. A state that is passed as an instance has been through them.
- An instance of a pydantic model is taken as it is, as in pydantic (``revalidate_instances``): its validators have run.
- An update for a reducer is validated against the field's bare type. Constraints (a minimum length, a maximum value)
  and field validators apply to whole values: inputs, and the value of an `Overwrite`.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, get_args, get_origin

from clew.errors import GraphError, StateError, UnknownValueError
from clew.state.annotations import (
    NOTHING,
    empty_value,
    find_reducer,
    hidden_reducer,
    is_async,
    item_type,
    unwrap,
    with_arguments,
)
from clew.state.reducers import Overwrite, Reducer, append, merge
from clew.state.schema_kinds import KINDS, Check, Make, SchemaKind, shown, unchanged
from clew.state.valid_values import ValidValues


@dataclass(frozen=True)
class Field:
    """A value that a schema declares. Its type is bare: without reducer, constraints or ``NotRequired``."""

    name: str
    type: Any
    reducer: Reducer | None
    has_default: bool
    default: Callable[[], Any]


class StateSchema:
    """The declared values of a state. Made by `read_schema`."""

    def __init__(self, cls: type, kind: SchemaKind, arguments: tuple[Any, ...] = ()) -> None:
        self.cls = cls
        self.validates = kind.check is not None
        self.is_mapping = kind.view is None  # a TypedDict
        self._kind = kind
        self._metadata: dict[str, tuple[Any, ...]] = {}
        self._checks: dict[tuple[str, bool], Check] = {}
        fields = {}
        known = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
        for name, annotation, default in kind.declared(cls):
            bare, metadata = unwrap(with_arguments(annotation, known) if known else annotation)
            reducer = find_reducer(metadata)
            _check_reducer(f"the field {name!r} of {cls.__name__}", bare, reducer)
            start = default or _start_of(partial(_starting_value, cls.__name__, name, bare, reducer))
            fields[name] = Field(name, bare, reducer, default is not None, start)
            self._metadata[name] = metadata
        self.fields: Mapping[str, Field] = types.MappingProxyType(fields)

    @classmethod
    def described(
        cls, name: str, fields: Mapping[str, Field], *, validates: bool, is_mapping: bool
    ) -> StateSchema:
        """Make a schema from a description: it has names and types, and validates nothing."""
        self = cls.__new__(cls)
        self.cls = type(name, (), {})
        self.validates = validates
        self.is_mapping = is_mapping
        self._kind = _DESCRIBED
        self._metadata, self._checks = dict.fromkeys(fields, ()), {}
        self.fields = types.MappingProxyType(dict(fields))
        return self

    def __repr__(self) -> str:
        return f"<Schema of {self._kind.title} {self.cls.__name__}: {', '.join(self.fields)}>"

    def defaults(self, given: Container[str]) -> dict[str, Any]:
        """Return the initial values of all fields that are not given and have a default or a reducer."""
        return {
            name: field.default()
            for name, field in self.fields.items()
            if name not in given and (field.has_default or field.reducer is not None)
        }

    def check_name(self, name: str, where: str) -> None:
        """Raise `UnknownValueError` unless the schema declares ``name``; the message starts with ``where``."""
        if name in self.fields:
            return
        from difflib import get_close_matches

        near = get_close_matches(name, self.fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it declares {', '.join(self.fields) or 'nothing'}"
        raise UnknownValueError(f"{where}: the schema {self.cls.__name__} declares no value {name!r}; {hint}")

    def validate(self, name: str, value: Any) -> Any:
        """Return a whole value, validated and coerced by the schema's library. Raises `ValueError` if it is invalid."""
        return self._check(name, True)(value)

    def validate_update(self, name: str, update: Any) -> Any:
        """Return the update of a field, validated as far as its reducer defines what an update is."""
        if isinstance(update, Overwrite):
            return Overwrite(self._check(name, True)(update.value))
        return self._check(name, self.fields[name].reducer is None)(update)

    def instance(self, values: Mapping[str, Any]) -> Any:
        """Return the values as a read-only instance of the class, or as a mapping for a TypedDict, unvalidated.

        Reading a field without a value raises `AttributeError`. An instance has declared fields only.
        """
        return self._make(values)

    def rules(self, name: str) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
        """Return what decides how a field is validated: its bare type, its metadata, and the rules of its class."""
        return self.fields[name].type, self._metadata[name], self._kind.rules(self.cls, name)

    def given(self, state: Any) -> dict[str, Any]:
        """Return the values of an instance without defaults, which `defaults` adds.

        pydantic knows which fields were set, and has validated them (`ValidValues`). For other classes, a value that
        equals the default of its field counts as the default.
        """
        values = self.dump(state)
        was_set = getattr(state, "model_fields_set", None)
        if was_set is not None:
            given = {
                name: value for name, value in values.items() if name in was_set or name not in self.fields
            }
            return ValidValues(given) if self._kind.is_valid(state) else given
        return {name: value for name, value in values.items() if not self._is_default(name, value)}

    def _is_default(self, name: str, value: Any) -> bool:
        field = self.fields.get(name)
        if field is None or not field.has_default:
            return False
        default = field.default()
        try:
            return type(value) is type(default) and bool(value == default)
        except Exception:
            return False

    def dump(self, state: Any) -> dict[str, Any]:
        """Return the values of an instance or a mapping, without fields that have no value."""
        if isinstance(state, Mapping):
            return dict(state)
        if self._kind.view is None or not isinstance(state, self.cls):
            raise StateError(
                f"state of {self.cls.__name__}: expected an instance or a mapping, got {shown(state)}"
            )
        values = {name: getattr(state, name, NOTHING) for name in self.fields}
        # Undeclared names that pydantic's extra="allow" kept are passed on, so that they are rejected, not lost.
        values.update(getattr(state, "__pydantic_extra__", None) or {})
        return {name: value for name, value in values.items() if value is not NOTHING}

    @cached_property
    def _make(self) -> Make:
        if self._kind.view is None:
            return types.MappingProxyType
        return self._kind.view(_read_only_class(self), tuple(self.fields))

    def _check(self, name: str, whole: bool) -> Check:
        # Built on first use: pydantic takes a millisecond for each, and a run may write only a few fields.
        check = self._checks.get((name, whole))
        if check is None:
            check = self._checks[name, whole] = self._build_check(self.fields[name], whole)
        return check

    def _build_check(self, field: Field, whole: bool) -> Check:
        if self._kind.check is None:
            return unchanged
        if whole:
            return self._kind.check(self.cls, field.name, field.type, self._metadata[field.name], True)
        if field.reducer is append:
            expected = item_type(field.type)
        else:
            expected = field.type if field.reducer is operator.add or field.reducer is merge else NOTHING
        if expected is NOTHING:
            return unchanged
        return self._kind.check(self.cls, field.name, expected, (), False)


_DESCRIBED = SchemaKind("description", lambda cls: False, lambda cls: iter(()))


def read_schema(cls: type) -> StateSchema:
    """The schema of a TypedDict, dataclass, pydantic v2 model or msgspec struct; `GraphError` for others.

    A generic class may have arguments: ``Page[int]``.
    """
    origin = get_origin(cls)
    if isinstance(origin, type) and _kind_of(origin) is not None:
        return _read(origin, get_args(cls))
    if not isinstance(cls, type):
        raise GraphError(f"a state schema is a class; got {shown(cls)}")
    return _read(cls)


def _kind_of(cls: type) -> SchemaKind | None:
    return next((kind for kind in KINDS if kind.recognises(cls)), None)


@lru_cache(maxsize=256)  # a view is pickled as class and values, and finds its schema again here
def _read(cls: type, arguments: tuple[Any, ...] = ()) -> StateSchema:
    kind = _kind_of(cls)
    if kind is None:
        raise GraphError(
            f"{cls.__name__} cannot be a state schema: use a TypedDict, a dataclass, a pydantic v2 model"
            " or a msgspec.Struct"
        )
    try:
        return StateSchema(cls, kind, arguments)
    except NameError as error:
        raise GraphError(
            f"an annotation of the state schema {cls.__name__} cannot be resolved ({error}): define or import"
            " it in the module of the class, outside of functions and of `if TYPE_CHECKING`"
        ) from error


def _check_reducer(field: str, bare: Any, reducer: Reducer | None) -> None:
    """Raise `GraphError` for a reducer that would not be called, or whose result nothing would await."""
    hidden = hidden_reducer(bare) if reducer is None else None
    if hidden is not None:
        name = getattr(hidden, "__name__", "reducer")
        raise GraphError(
            f"{field} declares the reducer {name} for a member of a union, where it would not be called; write"
            f" Annotated[T, {name}], which starts with an empty T, or Annotated[T | None, {name}] for a reducer"
            " that accepts None"
        )
    if reducer is not None and is_async(reducer):
        raise GraphError(
            f"{field} has an async reducer; a reducer is called when a step is committed, and nothing awaits it:"
            " make it a plain function, and await in a node"
        )


def _start_of(first: Callable[[], Any]) -> Callable[[], Any]:
    """Makes the value that `first` makes, a new one each time: what the annotation says is read once."""
    makes: list[type] = []

    def start() -> Any:
        if makes:
            return makes[0]()
        value = first()
        makes.append(type(value))
        return value

    return start


def _starting_value(schema: str, name: str, bare: Any, reducer: Reducer | None) -> Any:
    if reducer is None:
        raise GraphError(f"the field {name!r} of {schema} has no default")
    value = empty_value(bare)
    if value is NOTHING:
        # Not raised when the schema is read: a TypedDict cannot declare a default, but a run can pass the value.
        kind = bare.__name__ if isinstance(bare, type) else repr(bare)
        raise GraphError(
            f"the field {name!r} of {schema} has a reducer, but its type {kind} has no empty value to start"
            " with; pass a value to the run, or give it a default (a TypedDict has none; a dataclass has"
            " field(default_factory=...))"
        )
    return value


def _read_only_class(schema: StateSchema) -> type:
    """Make a read-only subclass with the name of its parent."""
    cls = schema.cls
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__post_init__": unchanged,  # a struct would run that of its parent; values are not validated
    }
    view = types.new_class(cls.__name__, (cls,), {}, lambda body: body.update(namespace))

    def refuse(self: Any, name: str, value: Any = None) -> None:
        raise AttributeError(f"the state is read-only, so {name!r} cannot be set; return an update instead")

    def look_further(self: Any, name: str) -> Any:
        if name in schema.fields:
            raise AttributeError(
                f"the state has no value {name!r}; it was neither given nor written. If the graph binds it, it is not "
                f"part of the state: take it as a parameter {name!r} of the node"
            )
        inherited = getattr(super(view, self), "__getattr__", None)
        if inherited is None:
            raise AttributeError(f"{cls.__name__} has no attribute {name!r}")
        return inherited(name)

    def show(self: Any) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in schema.dump(self).items())
        return f"{cls.__name__}({values})"

    def pack(self: Any) -> tuple[Any, ...]:
        return _unpack, (cls, schema.dump(self))

    methods: dict[str, Any] = {
        "__setattr__": refuse,
        "__delattr__": refuse,
        "__getattr__": look_further,
        "__repr__": show,
        "__reduce__": pack,
    }
    for name, method in methods.items():
        setattr(view, name, method)  # not in the namespace, where a frozen struct would override __setattr__
    return view


def _unpack(cls: type, values: dict[str, Any]) -> Any:
    return read_schema(cls).instance(values)
