"""The schemas of types: what a form needs and msgspec leaves out."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import msgspec
import pytest

from clew.graph.json_schema import json_schema


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"
    AT_ONCE = "at once"


class Number(enum.IntEnum):
    THREE = 3
    ONE = 1


Choice = Literal["low", "high", "at once"]
ORDER = ["low", "high", "at once"]
Named = NewType("Named", Choice)


@dataclass
class Data:
    choice: Choice
    when: datetime | None
    others: list[Data]
    pair: tuple[time, Choice]
    by_name: dict[str, Choice] = field(default_factory=dict)


class Struct(msgspec.Struct, rename="camel"):
    start_time: time
    level: Annotated[Choice, "how urgent"] = "high"


class Keys(TypedDict):
    choice: NotRequired[Choice]


class Row(NamedTuple):
    choice: Choice
    when: datetime


def enums(schema: Any) -> list[Any]:
    """All choices in a schema."""
    if isinstance(schema, list):
        return [found for each in schema for found in enums(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["enum"]] if "enum" in schema else []
    return own + [found for each in schema.values() for found in enums(each)]


@pytest.mark.parametrize(
    "annotation",
    [Choice, Named, Choice | None, int | Choice, Level, Level | None, Struct, Keys, Row, list[Choice]],
    ids=repr,
)
def test_choices_are_in_the_order_of_their_declaration(annotation: Any) -> None:
    assert enums(json_schema(annotation)) == [ORDER]


def test_choices_inside_a_dataclass_that_contains_itself_keep_their_order() -> None:
    schema = json_schema(Data)
    assert enums(schema) == [ORDER] * 3
    assert schema["$defs"]["Data"]["properties"]["when"]["anyOf"][0]["format"] == "date-time-local"
    assert schema["$defs"]["Data"]["properties"]["pair"]["prefixItems"][0]["format"] == "time-local"


def test_choices_of_several_types_keep_their_order() -> None:
    assert enums(json_schema(Literal["b", 1, True, None, "a"])) == [["b", 1, True, None, "a"]]
    assert enums(json_schema(Number)) == [[3, 1]]


@pytest.mark.parametrize(
    "annotation, format_",
    [
        (date, "date"),
        (datetime, "date-time-local"),
        (Annotated[datetime, msgspec.Meta(tz=True)], "date-time"),
        (time, "time-local"),
        (Decimal, "decimal"),
    ],
)
def test_texts_with_a_control_of_their_own_have_a_format(annotation: Any, format_: str) -> None:
    assert json_schema(annotation) == {"type": "string", "format": format_}
