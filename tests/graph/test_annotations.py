"""What the types in signatures and schemas tell a graph."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, Protocol, TypedDict, TypeVar, Union

import msgspec
import pydantic
import pytest

from clew.graph import Send
from clew.graph.annotations import fits, function_name, mentions, register_classes, shown
from clew.state.registry import entry_of


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Inner:
    color: Color


class Point(NamedTuple):
    x: int


class Struct(msgspec.Struct):
    inner: Inner


class Model(pydantic.BaseModel):
    point: Point


class Movie(TypedDict):
    struct: Struct


class Sized(Protocol):
    def __len__(self) -> int: ...


class Client: ...


T = TypeVar("T")


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]


@dataclasses.dataclass
class Wrong:
    field: NoSuchClass  # noqa: F821


@pytest.mark.parametrize("cls", [Color, Inner, Point, Struct, Model])
@pytest.mark.parametrize("annotation", [Movie, Model, dict[str, list[Movie | Model]]])
def test_classes_are_registered_through_generics_and_fields(cls: type, annotation: Any) -> None:
    register_classes([Movie, Model] if annotation in (Movie, Model) else [annotation])
    assert entry_of(cls) is not None


def test_a_generic_class_with_arguments_is_registered() -> None:
    register_classes([list[Page[int]]])
    assert entry_of(Page) is not None


@pytest.mark.parametrize("annotation", [Client, int, Any, None, "text", Sized])
def test_what_cannot_be_stored_is_left_alone(annotation: Any) -> None:
    register_classes([annotation])
    assert entry_of(Client) is None


def test_a_class_whose_fields_cannot_be_found_is_registered_itself() -> None:
    register_classes([Wrong])
    assert entry_of(Wrong) is not None


@pytest.mark.parametrize("annotation, found", [(Send, True), (list[Send | str], True), (str, False)])
def test_a_class_is_found_inside_an_annotation(annotation: Any, found: bool) -> None:
    assert mentions(annotation, Send) is found


FITTING = [
    (int, int),
    (bool, int),
    (int, float),
    (bool, complex),
    (Any, int),
    (int, Any),
    (int, object),
    (None, None),
    (int, int | None),
    (None, Optional[int]),  # noqa: UP045
    (int | str, Union[str, int, None]),  # noqa: UP007
    (Annotated[int, "unit"], int),
    (int, Annotated[int, "unit"]),
    (list[int], list),
    (list, list[int]),
    (list[int], list[int]),
    (list[bool], list[int]),
    (list[int], Sequence[int]),
    (dict[str, int], Mapping[str, int]),
    (tuple[int, str], tuple[int, str]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int, ...], tuple[int, ...]),
    (tuple[int, ...], tuple[int, int, int]),
    (tuple, tuple[int, ...]),
    (Literal["a"], str),
    (Literal["a"], Literal["a", "b"]),
    (Literal[1], float),
    (Movie, dict),
    (dict[str, int], Movie),
    (Movie, Movie),
    (list[int], Sized),
    (T, int),
    (int, T),
    (Callable[[int], str], Callable[[int], str]),
]
CLASHING = [
    (str, int),
    (int, bool),
    (float, int),
    (int | str, int),
    (int | None, int),
    (None, int),
    (str, int | None),
    (list[str], list[int]),
    (list[int], dict[str, int]),
    (tuple[int, str], tuple[int, int]),
    (tuple[int, int], tuple[int, int, int]),
    (tuple[int, str], tuple[int, ...]),
    (Literal["c"], Literal["a", "b"]),
    (str, Literal["a"]),
    (Literal["a"], int),
    (Movie, list),
    (list[int], Movie),
]


@pytest.mark.parametrize("produced, wanted", FITTING, ids=str)
def test_types_that_fit(produced: Any, wanted: Any) -> None:
    assert fits(produced, wanted)


@pytest.mark.parametrize("produced, wanted", CLASHING, ids=str)
def test_types_that_do_not(produced: Any, wanted: Any) -> None:
    assert not fits(produced, wanted)


@pytest.mark.parametrize(
    "annotation, text",
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (list[int], "list[int]"),
        (typing.List[int], "list[int]"),  # noqa: UP006
        (str | None | int, "None | int | str"),
        (Optional[str], "None | str"),  # noqa: UP045
        (Literal["a", 1], "Literal['a', 1]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Callable[[int, str], bool], "Callable[[int, str], bool]"),
        (Annotated[int, "unit"], "int"),
        (Inner, "Inner"),
        (T, "T"),
        ("Later", "Later"),
        (3, "int"),
    ],
)
def test_a_type_is_shown_the_same_in_every_process(annotation: Any, text: str) -> None:
    assert shown(annotation) == text


@pytest.mark.parametrize(
    "func, name", [(len, "builtins:len"), (max, "builtins:max"), (fits, "clew.graph.annotations:fits")]
)
def test_a_function_is_named_with_its_module(func: Callable[..., Any], name: str) -> None:
    assert function_name(func) == name


def test_a_function_without_module_counts_as_built_in() -> None:
    assert function_name([].append) == "builtins:list.append"
