"""The four kinds of state schema: how each is recognised, read, instantiated and validated.

`KINDS`, at the end, is the table that `clew.state.schema` uses. Pydantic is optional and never imported here: a program
that passes a model has imported it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple, get_type_hints

import msgspec

from clew.errors import GraphError

Check = Callable[[Any], Any]  # a value -> the value, coerced; ValueError
Make = Callable[[Mapping[str, Any]], Any]  # values -> a read-only instance
Declared = Iterator[tuple[str, Any, Callable[[], Any] | None]]  # name, annotation, default


class SchemaKind(NamedTuple):
    """A kind of class that can be a schema. A kind without ``view`` is a mapping at run time."""

    title: str
    recognises: Callable[[type], bool]
    declared: Callable[[type], Declared]
    view: Callable[[type, tuple[str, ...]], Make] | None = None  # read-only subclass, field names
    # class, field, bare type, metadata, and whether the values are whole or updates
    check: Callable[[type, str, Any, tuple[Any, ...], bool], Check] | None = None
    # class, field: what else decides how a value is validated
    rules: Callable[[type, str], Mapping[str, Any]] = lambda cls, name: {}
    # whether an instance has been validated
    is_valid: Callable[[Any], bool] = lambda instance: False


def unchanged(value: Any) -> Any:
    """Return the value unchecked."""
    return value


def shown(value: Any) -> str:
    """Return a value for an error message: shortened, with its type."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def _described(bare: Any, metadata: tuple[Any, ...]) -> Any:
    return Annotated[(bare, *metadata)] if metadata else bare


# -- TypedDict ----------------------------------------------------------------------------------------------


def _is_typed_dict(cls: type) -> bool:
    # Not typing.is_typeddict: it does not know those of typing_extensions.
    return issubclass(cls, dict) and hasattr(cls, "__total__")


def _typed_dict_fields(cls: type) -> Declared:
    for name, annotation in get_type_hints(cls, include_extras=True).items():
        yield name, annotation, None


# -- dataclass ----------------------------------------------------------------------------------------------


def _dataclass_fields(cls: Any) -> Declared:
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        default: Callable[[], Any] | None = None
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory
        elif field.default is not dataclasses.MISSING:
            default = partial(unchanged, field.default)
        yield field.name, hints[field.name], default


def _dataclass_view(view: Any, names: tuple[str, ...]) -> Make:
    (cls,) = view.__bases__
    # dataclasses.replace(state, x=1) calls the class of its argument: return a plain, mutable instance.
    view.__new__ = lambda _, *args, **kwargs: cls(*args, **kwargs)

    def make(values: Mapping[str, Any]) -> Any:
        made: Any = object.__new__(view)
        for name in names:
            if name in values:
                object.__setattr__(made, name, values[name])  # bypasses the read-only __setattr__
        return made

    return make


# -- msgspec ------------------------------------------------------------------------------------------------


def _struct_fields(cls: Any) -> Declared:
    for field in msgspec.structs.fields(cls):
        default: Any = None
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory
        elif field.default is not msgspec.NODEFAULT:
            default = partial(unchanged, field.default)
        yield field.name, field.type, default


def _struct_view(view: Any, names: tuple[str, ...]) -> Make:
    view.__copy__ = unchanged  # that of a struct rejects missing fields; an immutable object needs no copy
    slots = {name: getattr(view, name) for name in names}

    def make(values: Mapping[str, Any]) -> Any:
        made = view(**{name: values.get(name) for name in names})
        for name in names:
            if name not in values:
                slots[name].__delete__(made)
        return made

    return make


def _struct_check(cls: type, name: str, bare: Any, metadata: tuple[Any, ...], whole: bool) -> Check:
    expected = _described(bare, metadata)
    try:
        msgspec.convert(None, expected)
    except msgspec.ValidationError:
        pass
    except TypeError:  # msgspec cannot describe this type
        return unchanged

    def check(value: Any) -> Any:
        try:
            return msgspec.convert(value, expected)
        except msgspec.ValidationError as error:
            raise ValueError(f"{name}: {str(error).replace('`$', f'`{name}')}") from error

    return check


# -- pydantic -----------------------------------------------------------------------------------------------


def _pydantic() -> Any:
    return sys.modules.get("pydantic")


def _is_pydantic(cls: type) -> bool:
    pydantic = _pydantic()
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


def _pydantic_fields(cls: Any) -> Declared:
    cls.model_rebuild()  # does nothing once all annotations are resolved
    for name, info in cls.model_fields.items():
        if getattr(info, "default_factory_takes_validated_data", False):
            raise GraphError(
                f"the default of {name!r} in {cls.__name__} depends on other fields; compute it in a node"
            )
        default = None if info.is_required() else partial(info.get_default, call_default_factory=True)
        yield name, _described(info.annotation, tuple(info.metadata)), default


def _pydantic_view(view: Any, names: tuple[str, ...]) -> Make:
    put = object.__setattr__
    undefined = _pydantic().fields.PydanticUndefined

    def private() -> dict[str, Any] | None:
        made = {
            name: attribute.default_factory() if attribute.default_factory else attribute.get_default()
            for name, attribute in view.__private_attributes__.items()
        }
        return {name: value for name, value in made.items() if value is not undefined} if made else None

    def make(values: Mapping[str, Any]) -> Any:
        made = view.__new__(view)
        present = {name: values[name] for name in names if name in values}
        put(made, "__dict__", present)
        put(made, "__pydantic_fields_set__", set(present))
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", private())
        return made

    return make


def _pydantic_check(cls: Any, name: str, bare: Any, metadata: tuple[Any, ...], whole: bool) -> Check:
    # A model with this one field instead of a TypeAdapter: the class's configuration applies to every type, and the
    # field's validators find what they expect in the ValidationInfo.
    pydantic = _pydantic()
    validators = {}
    if whole:
        discriminator = cls.model_fields[name].discriminator
        if discriminator is not None:
            metadata = (*metadata, pydantic.Field(discriminator=discriminator))
        for key, validator in _validators(cls, name):
            mark = pydantic.field_validator(name, mode=validator.info.mode)
            validators[key] = mark(staticmethod(validator.func))
    model = pydantic.create_model(
        cls.__name__,
        __config__={**cls.model_config, "alias_generator": None},
        __module__=cls.__module__,
        __validators__=validators,
        **{name: (_described(bare, metadata), ...)},
    )
    run = model.__pydantic_validator__.validate_python

    def check(value: Any) -> Any:
        try:
            return getattr(run({name: value}), name)
        except pydantic.ValidationError as error:
            raise ValueError("; ".join(map(_explain, error.errors(include_url=False)))) from error

    return check


def _validators(cls: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the field validators of a field."""
    for key, validator in cls.__pydantic_decorators__.field_validators.items():
        if name in validator.info.fields or "*" in validator.info.fields:
            yield key, validator


def _pydantic_rules(cls: Any, name: str) -> Mapping[str, Any]:
    # a validator is bound to the class, of which only the function matters here
    validators = [(v.info.mode, getattr(v.func, "__func__", v.func)) for _, v in _validators(cls, name)]
    discriminator = cls.model_fields[name].discriminator
    return {"config": dict(cls.model_config), "discriminator": discriminator, "validators": tuple(validators)}


def _is_valid_model(instance: Any) -> bool:
    return bool(instance.model_config.get("revalidate_instances", "never") == "never")


def _explain(problem: Mapping[str, Any]) -> str:
    name, *inside = problem["loc"]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inside)
    return f"{name}{place}: {problem['msg']}; got {shown(problem['input'])}"


KINDS = (
    SchemaKind("TypedDict", _is_typed_dict, _typed_dict_fields),
    SchemaKind(
        *("pydantic model", _is_pydantic, _pydantic_fields, _pydantic_view, _pydantic_check),
        rules=_pydantic_rules,
        is_valid=_is_valid_model,
    ),
    SchemaKind(
        "struct", lambda cls: issubclass(cls, msgspec.Struct), _struct_fields, _struct_view, _struct_check
    ),
    SchemaKind("dataclass", dataclasses.is_dataclass, _dataclass_fields, _dataclass_view),
)
