"""Two values as a diff: instances are shown by class and field, never by forms of the codec."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from clew import StoredObject, register_type
from clew.runtime.review.run_diff import ValueChange
from clew.runtime.review.value_diff import difference, one_line
from clew.state import decode, encode


@register_type
@dataclass
class Paper:
    title: str
    parts: list[Any]


@register_type
class Status(enum.Enum):
    DRAFT = 1
    DONE = 2


@register_type
class Model(BaseModel):
    title: str
    pages: int = 1


def changed(then: Any, now: Any) -> set[str]:
    lines = difference(then, now).splitlines()[2:]
    return {line for line in lines if line[:1] in "+-"}


def test_fields_have_their_names() -> None:
    then, now = Paper("a", [Paper("b", []), 1]), Paper("a", [Paper("c", []), 1])
    assert changed(then, now) == {'-parts[0].title = "b"', '+parts[0].title = "c"'}
    assert changed({"doc": then}, {"doc": now}) == {'-doc.parts[0].title = "b"', '+doc.parts[0].title = "c"'}


def test_other_classes_and_members() -> None:
    assert changed({"x": Status.DRAFT}, {"x": Status.DONE}) == {'-x = Status("DRAFT")', '+x = Status("DONE")'}
    lines = changed({"x": Paper("a", [])}, {"x": Model(title="a")})
    assert {"-x: Paper", "+x: Model"} <= lines


def test_what_was_not_set_is_shown_only_if_nothing_else_differs() -> None:
    assert changed(Model(title="a"), Model(title="b")) == {'-title = "a"', '+title = "b"'}
    assert changed(Model(title="a"), Model(title="a", pages=1)) == {'-_unset[0] = "pages"'}


@pytest.mark.parametrize(
    "value, text",
    [
        (Model(title="a"), 'Model(title="a", pages=1)'),
        ([Status.DONE, {"a": (1,)}], '[Status("DONE"), {"a": {"$tuple": [1]}}]'),
        ("é\n", '"é\\n"'),
    ],
)
def test_in_one_line(value: Any, text: str) -> None:
    assert one_line(value) == text
    assert str(ValueChange("x", value, 1)) == f"x: {text} -> 1"


def test_a_stored_model_prints_its_fields_and_keeps_the_rest() -> None:
    data = encode(Model(title="a"))
    stored = decode(data, classes=False)
    assert isinstance(stored, StoredObject)
    assert repr(stored) == "Model(pages=1, title='a')"
    assert encode(stored) == data
