"""State schemas: one view of a TypedDict, a dataclass, a pydantic model and a msgspec struct.

`read_schema` reads a class once: its fields, their reducers and defaults, and how values are checked.

Rules:

- The reducer of a field is the first callable in its ``Annotated`` metadata that takes two positional
  arguments. Classes, constraints and other libraries' marks are not reducers.
- ``Field.default()`` is evaluated anew each time. A reduced field without default starts from its type's
  empty value.
- Names are the fields' own: aliases belong to serialization. A name that is not declared is an error, never
  dropped.
- Only pydantic and msgspec can check values, so only their schemas do (``StateSchema.validates``). Pydantic
  coerces as the model is configured to; msgspec is strict. Both keep instances that are right already. A type
  that msgspec cannot describe, such as a union of two classes, is not checked.
- Pydantic's field validators run, but see no other field. Its model validators do not run: they speak of a
  whole model, and a state in the middle of a run is rightly partial. For a state given as an instance they
  have run already.
- An update that a reducer will add is checked against the field's bare type. Constraints (a least length, a
  greatest value) and field validators speak of whole values: of inputs, and of what an `Overwrite` holds.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from clew.errors import GraphError, StateError, UnknownValueError
from clew.state.annotations import NOTHING, empty_value, find_reducer, item_type, unwrap
from clew.state.reducers import Overwrite, Reducer, append, merge
from clew.state.schema_kinds import KINDS, Check, Make, SchemaKind, shown, unchanged


@dataclass(frozen=True)
class Field:
    """One value that a schema declares. Its type is bare: without reducer, constraints or ``NotRequired``."""

    name: str
    type: Any
    reducer: Reducer | None
    has_default: bool
    default: Callable[[], Any]


class StateSchema:
    """What a state may hold. Made by `read_schema`."""

    def __init__(self, cls: type, kind: SchemaKind) -> None:
        self.cls = cls
        self.validates = kind.check is not None
        self.is_mapping = kind.view is None  # a TypedDict
        self._kind = kind
        self._metadata: dict[str, tuple[Any, ...]] = {}
        self._checks: dict[tuple[str, bool], Check] = {}
        fields = {}
        for name, annotation, default in kind.declared(cls):
            bare, metadata = unwrap(annotation)
            reducer = find_reducer(metadata)
            start = default or _start_of(partial(_starting_value, cls.__name__, name, bare, reducer))
            fields[name] = Field(name, bare, reducer, default is not None, start)
            self._metadata[name] = metadata
        self.fields: Mapping[str, Field] = types.MappingProxyType(fields)

    @classmethod
    def described(
        cls, name: str, fields: Mapping[str, Field], *, validates: bool, is_mapping: bool
    ) -> StateSchema:
        """Make a schema of a description of one: it has names and types, and checks nothing."""
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
        """The values that seed S(0): of each field that is not given and has a default or a reducer."""
        return {
            name: field.default()
            for name, field in self.fields.items()
            if name not in given and (field.has_default or field.reducer is not None)
        }

    def check_name(self, name: str, where: str) -> None:
        """Raise `UnknownValueError` unless the schema declares ``name``; ``where`` opens the message."""
        if name in self.fields:
            return
        from difflib import get_close_matches

        near = get_close_matches(name, self.fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it declares {', '.join(self.fields) or 'nothing'}"
        raise UnknownValueError(f"{where}: the schema {self.cls.__name__} declares no value {name!r}; {hint}")

    def validate(self, name: str, value: Any) -> Any:
        """A whole value, checked and coerced as the schema's library does; `ValueError` if it is wrong."""
        return self._check(name, True)(value)

    def validate_update(self, name: str, update: Any) -> Any:
        """What a node returned for a field: checked as far as the field's reducer says what an update is."""
        if isinstance(update, Overwrite):
            return Overwrite(self._check(name, True)(update.value))
        return self._check(name, self.fields[name].reducer is None)(update)

    def instance(self, values: Mapping[str, Any]) -> Any:
        """The values as a read-only instance of the class; for a TypedDict, as a mapping. Nothing is checked.

        Reading a field that has no value raises `AttributeError`. An instance shows declared fields only.
        """
        return self._make(values)

    def given(self, state: Any) -> dict[str, Any]:
        """The values of an instance that somebody gave; those that are only defaults are left to `defaults`.

        pydantic knows which fields were set. For other classes a value equal to its field's default counts as the
        default, which it might as well be.
        """
        values = self.dump(state)
        was_set = getattr(state, "model_fields_set", None)
        if was_set is not None:
            return {
                name: value for name, value in values.items() if name in was_set or name not in self.fields
            }
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
        """The values of an instance, or of a mapping; fields that have none are left out."""
        if isinstance(state, Mapping):
            return dict(state)
        if self._kind.view is None or not isinstance(state, self.cls):
            raise StateError(
                f"a state of {self.cls.__name__} is an instance or a mapping; got {shown(state)}"
            )
        values = {name: getattr(state, name, NOTHING) for name in self.fields}
        # Undeclared names that pydantic's extra="allow" kept: passed on, so that they are refused, not lost.
        values.update(getattr(state, "__pydantic_extra__", None) or {})
        return {name: value for name, value in values.items() if value is not NOTHING}

    @cached_property
    def _make(self) -> Make:
        if self._kind.view is None:
            return types.MappingProxyType
        return self._kind.view(_read_only_class(self), tuple(self.fields))

    def _check(self, name: str, whole: bool) -> Check:
        # Built when first needed: pydantic takes a millisecond for each, and a run writes few of many fields.
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
    """The schema of a TypedDict, dataclass, pydantic v2 model or msgspec struct; `GraphError` for others."""
    if not isinstance(cls, type):
        raise GraphError(f"a state schema is a class; got {shown(cls)}")
    return _read(cls)


@lru_cache(maxsize=256)  # a view is pickled as class and values, and finds its schema again here
def _read(cls: type) -> StateSchema:
    kind = next((kind for kind in KINDS if kind.recognises(cls)), None)
    if kind is None:
        raise GraphError(
            f"{cls.__name__} cannot be a state schema: use a TypedDict, a dataclass, a pydantic v2 model"
            " or a msgspec.Struct"
        )
    try:
        return StateSchema(cls, kind)
    except NameError as error:
        raise GraphError(
            f"an annotation of the state schema {cls.__name__} cannot be resolved ({error}): define or import"
            " it in the module of the class, outside of functions and of `if TYPE_CHECKING`"
        ) from error


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
        # Not when the schema is read: a TypedDict cannot declare a default, but a run can be given the value.
        said = bare.__name__ if isinstance(bare, type) else repr(bare)
        raise GraphError(
            f"the field {name!r} of {schema} has a reducer, but its type {said} has no empty value to start"
            " from: give it a default, or a value in the run"
        )
    return value


def _read_only_class(schema: StateSchema) -> type:
    """A subclass whose instances cannot be changed, and say so. It goes by the name of its parent."""
    cls = schema.cls
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__post_init__": unchanged,  # a struct would run its parent's; values are taken as they are
    }
    view = types.new_class(cls.__name__, (cls,), {}, lambda body: body.update(namespace))

    def refuse(self: Any, name: str, value: Any = None) -> None:
        raise AttributeError(f"cannot change {name!r}: the state is read-only; return an update instead")

    def look_further(self: Any, name: str) -> Any:
        if name in schema.fields:
            raise AttributeError(f"the state has no value {name!r}: it was not given, nor written so far")
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
        setattr(view, name, method)  # not in the namespace: a frozen struct puts its own __setattr__ over it
    return view


def _unpack(cls: type, values: dict[str, Any]) -> Any:
    return read_schema(cls).instance(values)
