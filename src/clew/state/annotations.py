"""What an annotation says about a value: its bare type, its reducer, where it starts, what its items are."""

from __future__ import annotations

import collections
import collections.abc
import enum
import inspect
import types
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, Union, get_args, get_origin

NOTHING: Final[Any] = object()  # "there is none", where None would be a value


def unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The bare type and the metadata. ``NotRequired`` and its kin may stand inside or outside."""
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


def find_reducer(metadata: tuple[Any, ...]) -> Callable[[Any, Any], Any] | None:
    """The first callable that takes two positional arguments; classes are marks, not reducers."""
    return next((mark for mark in metadata if callable(mark) and _takes_two(mark)), None)


def _takes_two(mark: Callable[..., Any]) -> bool:
    if isinstance(mark, type):
        return False
    try:
        inspect.signature(mark).bind(None, None)
    except ValueError:  # max, min and other builtins do not tell their signature
        return isinstance(mark, types.BuiltinFunctionType)
    except TypeError:
        return False
    return True


def empty_value(annotation: Any) -> Any:
    """A new empty value of the type (of a union: of the first member that has one), or `NOTHING`."""
    return next((value for value in map(_empty, _members(annotation)) if value is not NOTHING), NOTHING)


def item_type(annotation: Any) -> Any:
    """What the items of a list, or of another sequence, are. `NOTHING` if the annotation does not say."""
    for member in _members(annotation):
        origin, args = get_origin(member), get_args(member)
        if isinstance(origin, type) and issubclass(origin, collections.abc.Sequence):
            return args[0]
    return NOTHING


def _members(annotation: Any) -> Iterator[Any]:
    """The types that an annotation stands for, through ``NewType``, aliases and unions; never ``None``."""
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
        return NOTHING  # neither bool is the empty one: "or" starts from False, "and" from True
    if origin is tuple and args and args[-1] is not Ellipsis:
        return NOTHING  # a tuple of fixed length
    if issubclass(origin, _COLLECTIONS + _NUMBERS):
        try:
            return origin()
        except TypeError:  # a subclass that wants arguments
            return NOTHING
    if origin.__module__ == "collections.abc":
        return next((concrete() for abstract, concrete in _ABSTRACT if issubclass(origin, abstract)), NOTHING)
    return NOTHING
