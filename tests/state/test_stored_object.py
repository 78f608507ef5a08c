"""Stored objects: instances without their class."""

from __future__ import annotations

import copy
import enum
import pickle
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

import clew
from clew.errors import DecodeError, DefinitionError
from clew.state import StoredObject, decode, encode, register_type
from clew.state.registry import is_storable_kind


class Mood(enum.Enum):
    GOOD = 1


@dataclass(frozen=True)
class Doc:
    title: Any
    inner: Any = None


@dataclass(eq=False)
class Loud:
    """A class whose every hook is noticed."""

    x: int = 0

    def __repr__(self) -> str:
        raise AssertionError("code of the user ran")

    __eq__ = __hash__ = __repr__


def test_it_is_public():
    assert clew.StoredObject is StoredObject


def test_no_class_is_built_unless_asked_for():
    register_type(Loud, name="loud", upgrade=lambda fields: fields["missing"])
    data = encode({"a": [Loud(3)]})
    assert decode(data, classes=False) == {"a": [StoredObject("loud", {"x": 3})]}


def test_inside_a_stored_object_no_class_is_built():
    register_type(Doc, name="doc")
    data = b'{"$object":["gone",{"inner":{"$object":["doc",{"title":"a"}]}}]}'
    assert decode(data) == StoredObject("gone", {"inner": StoredObject("doc", {"title": "a"})})
    assert decode(b'[{"$object":["gone",1]},{"$object":["doc",{"title":"a"}]}]') == [
        StoredObject("gone", 1),
        Doc("a"),
    ]


@pytest.mark.parametrize(
    "name, fields, shown",
    [
        ("app.models:Doc", {"title": "a", "tags": (1, 2)}, "Doc(title='a', tags=(1, 2))"),
        ("app:make.<locals>.Doc", {}, "Doc()"),
        ("app:Outer.Inner", {"x": None}, "Inner(x=None)"),
        ("app:Color", "RED", "Color('RED')"),
        ("doc", {"not a name": 1, 2: 3}, "doc('not a name'=1, 2=3)"),
        ("two words", {"x": 1}, "'two words'(x=1)"),
        ("app:Doc", {"inner": StoredObject("b:In", {"x": 1})}, "Doc(inner=In(x=1))"),
    ],
)
def test_how_it_prints(name, fields, shown):
    assert repr(StoredObject(name, fields)) == shown


def test_it_prints_whatever_it_holds():
    assert repr(StoredObject("a:Doc", {"x": Loud()})) == "Doc(...)"
    endless: list[Any] = []
    for _ in range(100_000):
        endless = [endless]
    assert repr(StoredObject("a:Doc", endless)) == "Doc(...)"


def test_equal_means_stored_alike():
    def of(fields: Any, name: str = "a:Doc") -> StoredObject:
        return StoredObject(name, fields)

    assert of({"a": 1, "b": [{2}]}) == of({"b": [{2}], "a": 1})
    assert hash(of({"a": 1, "b": [{2}]})) == hash(of({"b": [{2}], "a": 1}))
    assert of({"x": float("nan")}) == of({"x": float("nan")})
    different = [
        of(x) for x in (1, 1.0, True, -0.0, 0.0, "1", [1], (1,), {1}, frozenset({1}), {"1": 1}, {1: 1})
    ]
    different += [of(b"a"), of(bytearray(b"a")), of(1, "b:Doc"), of(of(1)), of(object())]
    assert len(set(different)) == len(different)
    assert of(1) != 1
    assert all(one == one for one in different)
    assert of({"a": {"b": bytearray(b"x")}}) in {of({"a": {"b": bytearray(b"x")}})}


def test_in_sets_and_as_keys():
    register_type(Doc, name="doc")
    register_type(Mood, name="mood")
    value = {Mood.GOOD: {Doc("a"), Doc(("b", Doc(1)))}}
    data = encode(value, ordered=True)
    plain = decode(data, classes=False)
    assert encode(plain, ordered=True) == data
    assert plain[StoredObject("mood", "GOOD")] >= {StoredObject("doc", {"title": "a", "inner": None})}


def test_it_is_frozen_and_can_be_copied():
    stored = StoredObject("a:Doc", {"x": [1]})
    with pytest.raises(FrozenInstanceError):
        stored.name = "b"
    for other in (copy.copy(stored), copy.deepcopy(stored), pickle.loads(pickle.dumps(stored))):
        assert other == stored


def test_an_attribute_of_the_class_says_what_to_do():
    with pytest.raises(AttributeError, match=r"'a:Doc'.*'title'.*register_type"):
        StoredObject("a:Doc", {"title": "x"}).title
    with pytest.raises(AttributeError):
        object.__new__(StoredObject).name


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "\ud800", 5, None])
def test_names(name):
    with pytest.raises(ValueError, match="not the name of a class"):
        StoredObject(name, {})
    if isinstance(name, str) and name.isascii():
        with pytest.raises(DecodeError):
            decode(encode({"$object": [name, {}], "": 0}).replace(b'{"":0,', b"{"))


def test_it_is_not_a_class_to_register():
    assert not is_storable_kind(StoredObject)
    with pytest.raises(DefinitionError):
        register_type(StoredObject)
