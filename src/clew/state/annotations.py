"""Read annotations of schema fields: the bare type, the reducer, the empty value and the item type."""

from __future__ import annotations

import collections
import collections.abc
import enum
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

NOTHING: Final[Any] = object()  # a missing value, where None would be a value


def unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the bare type and the metadata. ``NotRequired`` and similar may be inside or outside ``Annotated``."""
    metadata: tuple[Any, ...] = ()
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            metadata = (*annotation.__metadata__, *metadata)
            annotation = annotation.__origin__
        elif getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly"):
            (annotation,) = get_args(annotation)
        else:
            return annotation, metadata


def with_arguments(annotation: Any, arguments: Mapping[Any, Any]) -> Any:
    """Return an annotation of a generic class with its type variables replaced."""
    if isinstance(annotation, TypeVar):
        return arguments.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    return annotation[tuple(arguments.get(each, each) for each in parameters)] if parameters else annotation


def find_reducer(metadata: tuple[Any, ...]) -> Callable[[Any, Any], Any] | None:
    """Return the first callable that takes two positional arguments and is not a class."""
    return next((mark for mark in metadata if callable(mark) and _takes_two(mark)), None)


def hidden_reducer(annotation: Any) -> Callable[[Any, Any], Any] | None:
    """Return a reducer that is declared for a member of a union, where it says nothing about the field."""
    bare, _ = unwrap(annotation)
    if get_origin(bare) not in (Union, types.UnionType):
        return None
    found = (find_reducer(unwrap(member)[1]) or hidden_reducer(member) for member in get_args(bare))
    return next(filter(None, found), None)


def is_async(reducer: Callable[[Any, Any], Any]) -> bool:
    """Return whether calling the reducer makes a coroutine or an async generator."""
    func = reducer.func if isinstance(reducer, partial) else reducer
    tests = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(
        test(each) for test in tests for each in (func, inspect.getattr_static(func, "__call__", None))
    )


def _takes_two(mark: Callable[..., Any]) -> bool:
    if isinstance(mark, type):
        return False
    try:
        inspect.signature(mark).bind(None, None)
    except ValueError:  # max, min and other builtins have no signature
        return isinstance(mark, types.BuiltinFunctionType)
    except TypeError:
        return False
    return True


def empty_value(annotation: Any) -> Any:
    """Return a new empty value of the type (of a union: of the first member that has one), or `NOTHING`."""
    return next((value for value in map(_empty, _members(annotation)) if value is not NOTHING), NOTHING)


def item_type(annotation: Any) -> Any:
    """Return the type of the items of a sequence, or `NOTHING` if the annotation does not have it."""
    for member in _members(annotation):
        origin, args = get_origin(member), get_args(member)
        if isinstance(origin, type) and issubclass(origin, collections.abc.Sequence):
            return args[0]
    return NOTHING


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the types inside ``NewType``, aliases and unions, without ``None``."""
    bare, _ = unwrap(annotation)
    named = getattr(bare, "__supertype__", NOTHING)
    if type(bare).__name__ == "TypeAliasType":  # of typing from 3.12 on, of typing_extensions before
        named = bare.__value__
    if named is not NOTHING:
        yield from _members(named)
    elif get_origin(bare) in (Union, types.UnionType):
        for member in get_args(bare):
            yield from _members(member)
    elif bare is not types.NoneType:
        yield bare


_COLLECTIONS = (list, dict, set, frozenset, tuple, str, bytes, bytearray, collections.deque)
_NUMBERS = (int, float, complex, Decimal, Fraction, timedelta)
_ABSTRACT: tuple[tuple[type, type], ...] = (
    (collections.abc.Mapping, dict),
    (collections.abc.Set, set),
    (collections.abc.Iterable, list),
)


def _empty(bare: Any) -> Any:
    origin, args = get_origin(bare) or bare, get_args(bare)
    if not isinstance(origin, type) or issubclass(origin, (bool, enum.Enum)):
        return NOTHING  # a bool has no empty value: "or" starts from False, "and" from True
    if origin is tuple and args and args[-1] is not Ellipsis:
        return NOTHING  # a tuple of fixed length
    if issubclass(origin, _COLLECTIONS + _NUMBERS):
        try:
            return origin()
        except TypeError:  # a subclass that needs arguments
            return NOTHING
    if origin.__module__ == "collections.abc":
        return next((concrete() for abstract, concrete in _ABSTRACT if issubclass(origin, abstract)), NOTHING)
    return NOTHING
