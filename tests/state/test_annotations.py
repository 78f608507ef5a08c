"""Annotations: which callable is the reducer, where a type starts, what its items are."""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping, MutableSet, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypeVar

import annotated_types
import msgspec
import pydantic
import pytest
import typing_extensions

from clew.state.annotations import NOTHING, empty_value, find_reducer, item_type
from clew.state.reducers import merge


class Query:
    pass


class CallableObject:
    def __call__(self, current: int, update: int) -> int:
        return current + update


def one(value: int) -> int:
    return value


def three(a: int, b: int, c: int) -> int:
    return a + b + c


def third_optional(a: int, b: int, c: int = 0) -> int:
    return a + b + c


an_object = CallableObject()


@pytest.mark.parametrize(
    "metadata, reducer",
    [
        ((), None),
        (("a note", 3), None),
        ((one, three, operator.add, merge), operator.add),
        ((annotated_types.Gt(0), pydantic.Field(gt=0), msgspec.Meta(gt=0)), None),
        ((pydantic.AfterValidator(one), annotated_types.Predicate(bool)), None),
        ((Query, dict), None),
        ((max,), max),
        ((an_object,), an_object),
        ((third_optional,), third_optional),
        ((one, three), None),
    ],
)
def test_the_reducer_is_the_first_callable_of_two(metadata: tuple[Any, ...], reducer: Any) -> None:
    assert find_reducer(metadata) is reducer


def test_an_unreadable_signature_is_trusted_of_builtins_only() -> None:
    class Unreadable:
        def __call__(self, current: int, update: int) -> int:
            raise AssertionError

        @property
        def __signature__(self) -> Any:
            raise ValueError("none")

    assert find_reducer((Unreadable(),)) is None


class Level(IntEnum):
    LOW = 0


class Pair(NamedTuple):
    a: int


class Stack(list[int]):
    pass


Number = TypeVar("Number")
Log = NewType("Log", list[str])
Alias = typing_extensions.TypeAliasType("Alias", dict[str, int])


@pytest.mark.parametrize(
    "annotation, empty",
    [
        (list[str], []),
        (list, []),
        (dict[str, int], {}),
        (set[int], set()),
        (frozenset[int], frozenset()),
        (tuple[int, ...], ()),
        (tuple, ()),
        (str, ""),
        (bytes, b""),
        (int, 0),
        (float, 0.0),
        (Decimal, Decimal(0)),
        (deque[int], deque()),
        (OrderedDict[str, int], OrderedDict()),
        (Stack, Stack()),
        (Sequence[int], []),
        (Iterable[int], []),
        (Mapping[str, int], {}),
        (MutableSet[int], set()),
        (list[int] | None, []),
        (None | Level | dict[str, int], {}),
        (Annotated[list[int] | None, "note"], []),
        (Annotated[list[int], "inner"] | None, []),
        (Log, []),
        (Alias, {}),
        (Alias | None, {}),
    ],
)
def test_empty_values(annotation: Any, empty: Any) -> None:
    made = empty_value(annotation)
    assert made == empty
    assert type(made) is type(empty)


@pytest.mark.parametrize(
    "annotation",
    [bool, Level, Pair, tuple[int, str], Query, Any, Number, Hashable, None, Literal["a"], Level | bool],
)
def test_types_without_an_empty_value(annotation: Any) -> None:
    assert empty_value(annotation) is NOTHING


@pytest.mark.parametrize(
    "annotation, item",
    [
        (list[int], int),
        (Sequence[str] | None, str),
        (Annotated[list[Annotated[int, 1]], 2], Annotated[int, 1]),
        (list, NOTHING),
        (dict[str, int], NOTHING),
        (Any, NOTHING),
    ],
)
def test_the_type_of_items(annotation: Any, item: Any) -> None:
    assert item_type(annotation) == item
