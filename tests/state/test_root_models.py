"""Pydantic root models, which hold one value instead of fields."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pydantic
import pytest

from clew import Engine, Graph, node
from clew.errors import ClassChangedError
from clew.state import StoredObject, decode, encode, register_type


class Tags(pydantic.RootModel[list[str]]):
    pass


class Noted(pydantic.RootModel[dict[str, Any]]):
    model_config = pydantic.ConfigDict(frozen=True)
    root: dict[str, Any] = {"a": 1}
    _note: str = pydantic.PrivateAttr(default="-")


class Shelf(pydantic.BaseModel):
    tags: Tags
    noted: Noted | None = None


@pytest.fixture(autouse=True, scope="module")
def _registered() -> None:
    for cls in (Tags, Noted, Shelf):
        register_type(cls)


def round_trip(value: Any) -> Any:
    back = decode(encode(value))
    assert type(back) is type(value)
    assert back == value
    assert vars(back) == vars(value)
    assert back.model_fields_set == value.model_fields_set
    return back


def test_round_trip():
    assert round_trip(Tags(["a", "b"])).root == ["a", "b"]
    assert round_trip(Noted()).model_fields_set == set()
    assert round_trip(Shelf(tags=Tags(["a"]), noted=Noted({}))).model_dump() == {"tags": ["a"], "noted": {}}


def test_private_attributes_are_kept():
    value = Noted({"b": 2})
    value._note = "mine"
    back = round_trip(value)
    assert back._note == "mine"
    assert copy.deepcopy(back)._note == "mine"


def test_what_was_stored_is_not_validated_again():
    value = Tags(["a"])
    value.root.append(5)
    assert decode(encode(value)).root == ["a", 5]


def test_a_class_that_becomes_or_was_a_root_model():
    was = encode(Tags(["a"]))
    with pytest.raises(ClassChangedError) as caught:
        decode(was.replace(b'"root"', b'"names"'))
    assert caught.value.missing == ("root",)
    register_type(Tags, upgrade=lambda fields: {"root": fields["names"]})
    try:
        assert decode(was.replace(b'"root"', b'"names"')) == Tags(["a"])
    finally:
        register_type(Tags)


def test_a_new_private_attribute_takes_its_default():
    stored = encode(Noted({"b": 2}))
    without = stored.replace(b'"_private":{"_note":"-"},', b"")
    assert without != stored
    assert decode(without)._note == "-"


def test_inspection_without_the_class():
    assert decode(encode(Tags(["a"])), classes=False) == StoredObject(f"{__name__}:Tags", {"root": ["a"]})


def test_a_durable_run(tmp_path: Path):
    @node(output="tags")
    def first(x: str) -> Tags:
        return Tags([x])

    @node(output="n")
    def count(tags: Tags) -> int:
        return len(tags.root)

    graph = Graph([first, count])
    with Engine(graph, store=tmp_path / "runs.db") as engine:
        assert engine.run({"x": "a"}, run_id="r")["n"] == 1
    with Engine(graph, store=tmp_path / "runs.db") as engine:
        assert engine.result("r")["tags"] == Tags(["a"])
        assert engine.replay("r").ok
