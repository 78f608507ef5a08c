"""Registered classes: what comes back, what is refused, and how names and fields may change."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections import namedtuple
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from clew.errors import DecodeError, DefinitionError, EncodeError
from clew.state.registry import is_storable_kind, register_type
from clew.state.stored_object import StoredObject
from clew.state.values.codec import decode, encode, from_tree


@dataclass
class Doc:
    title: str
    tags: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    length: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", float(self.x))


class Color(enum.Enum):
    RED = "r"
    GREEN = object()  # a value that itself cannot be stored


class Level(enum.IntEnum):
    LOW = 1


class Mood(enum.StrEnum):
    GOOD = "good"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Pair(NamedTuple):
    left: Any
    right: Any = 0


Old = namedtuple("Old", "a b")


class Move(msgspec.Struct, frozen=True, kw_only=True):
    to: str
    cost: int | msgspec.UnsetType = msgspec.UNSET
    path: list[str] = []


class User(pydantic.BaseModel):
    name: str = pydantic.Field(alias="userName")
    age: int = 0

    @cached_property
    def shout(self) -> str:
        return self.name.upper()


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int = 1
    _seen: list[int] = pydantic.PrivateAttr(default_factory=list)


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and other.degrees == self.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)


def round_trip(value: Any) -> Any:
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(value)
    assert decode(encode(value, ordered=True)) == value
    return back


@pytest.mark.parametrize(
    "value",
    [
        Doc("a", ("b",), ["c"]),
        Point(3),
        Color.RED,
        Color.GREEN,
        Level.LOW,
        Mood.GOOD,
        Access.READ,
        Access.READ | Access.WRITE,
        Access(0),
        Pair(1, (2,)),
        Old(1, [2]),
        Move(to="x"),
        Move(to="x", cost=5, path=["y"]),
        User(userName="ann"),
        Open(a=2),
    ],
    ids=lambda value: f"{type(value).__name__} {value}",
)
def test_known_kinds_come_back_equal_and_of_the_same_type(value):
    with pytest.raises(EncodeError, match=r"register it with clew.register_type|convert it to"):
        encode(value)
    assert register_type(type(value)) is type(value)
    assert is_storable_kind(type(value))
    round_trip(value)
    round_trip([{"nested": {"deep": (value,)}}])


def test_the_form_has_the_name_of_the_class_and_its_fields():
    register_type(Doc, name="doc")
    register_type(Color, name="color")
    register_type(Access, name="access")
    register_type(Pair, name="pair")
    assert encode(Doc("a")) == b'{"$object":["doc",{"notes":[],"tags":{"$tuple":[]},"title":"a"}]}'
    assert encode(Color.RED) == b'{"$object":["color","RED"]}'
    assert encode(Access.WRITE) == b'{"$object":["access",2]}'
    assert encode(Pair(1)) == b'{"$object":["pair",{"left":1,"right":0}]}'


def test_the_default_name_is_where_the_class_lives():
    register_type(Doc)
    assert f'"{__name__}:Doc"'.encode() in encode(Doc("a"))


def test_members_of_an_enum_are_themselves_again_and_may_be_keys():
    register_type(Color)
    assert decode(encode(Color.GREEN)) is Color.GREEN
    register_type(Mood)
    assert decode(encode({Mood.GOOD: {Mood.GOOD}})) == {Mood.GOOD: {Mood.GOOD}}
    assert type(next(iter(decode(encode({Mood.GOOD: 1}))))) is Mood


def test_post_init_does_not_run_again():
    register_type(Point)
    point = Point(3)
    object.__setattr__(point, "length", 99.0)
    assert round_trip(point).length == 99.0


def test_pydantic_keeps_what_was_set_what_is_extra_and_what_is_private():
    register_type(User)
    user = User(userName="ann")
    assert user.shout == "ANN"
    back = round_trip(user)
    assert back.model_fields_set == {"name"}
    assert back.model_dump(exclude_unset=True) == {"name": "ann"}
    assert back.shout == "ANN"

    register_type(Open)
    model = Open(a=2, extra=[1])
    model._seen.append(5)
    back = round_trip(model)
    assert back.model_extra == {"extra": [1]}
    assert back._seen == [5]
    assert round_trip(Open(a=1)).model_extra == {}


def test_pydantic_is_not_needed(monkeypatch):
    monkeypatch.delitem(sys.modules, "pydantic")
    assert is_storable_kind(Doc)
    assert not is_storable_kind(User)


def test_any_class_with_two_functions():
    register_type(Celsius, encode=lambda c: (c.degrees,), decode=lambda parts: Celsius(*parts))
    assert round_trip({Celsius(1.5)}) == {Celsius(1.5)}
    register_type(
        Celsius, encode=lambda c: {"$tuple": c.degrees}, decode=lambda parts: Celsius(parts["$tuple"])
    )
    round_trip(Celsius(2.5))


def test_as_a_decorator():
    @register_type
    @dataclass
    class One:
        x: int

    @register_type(name="two")
    @dataclass
    class Two:
        x: int

    assert round_trip(One(1)).x == 1
    assert encode(Two(1)) == b'{"$object":["two",{"x":1}]}'


class TestRefusals:
    def test_a_class_of_unknown_kind_needs_functions(self):
        with pytest.raises(DefinitionError, match=r"register_type\(Celsius, encode=\.\.\., decode=\.\.\.\)"):
            register_type(Celsius)
        assert not is_storable_kind(Celsius)

    def test_both_functions_or_neither(self):
        with pytest.raises(DefinitionError, match="both encode and decode"):
            register_type(Celsius, encode=lambda c: c.degrees)

    @pytest.mark.parametrize("not_a_class", [Doc("a"), "Doc", len])
    def test_only_classes(self, not_a_class):
        with pytest.raises(DefinitionError, match="expected a class"):
            register_type(not_a_class)

    @pytest.mark.parametrize("built_in", [int, str, object])
    def test_not_what_is_built_in(self, built_in):
        with pytest.raises(DefinitionError, match="is built in"):
            register_type(built_in)

    @pytest.mark.parametrize("name", ["", "a\nb", "\ud800"])
    def test_names_are_printable(self, name):
        with pytest.raises(DefinitionError, match="is not a valid class name"):
            register_type(Doc, name=name)

    def test_one_name_stands_for_one_class(self):
        register_type(Doc, name="doc")
        with pytest.raises(
            DefinitionError, match=r"'doc' is already registered for .*:Doc; give .*:Point another"
        ):
            register_type(Point, name="doc")
        assert register_type(Doc, name="doc") is Doc

    def test_a_subclass_is_not_its_parent(self):
        class Paper(Doc):
            pass

        register_type(Doc)
        with pytest.raises(EncodeError, match="a Paper cannot be stored"):
            encode(Paper("a"))

    def test_a_dataclass_that_holds_more_than_its_fields(self):
        @dataclass
        class Bag(dict):
            x: int = 0

        with pytest.raises(DefinitionError, match=r"register_type\(Bag, encode="):
            register_type(Bag)

    def test_the_path_goes_through_fields(self):
        register_type(Doc)
        with pytest.raises(EncodeError, match=r"^state\.docs\[1\]\.title: an object cannot be stored"):
            encode({"docs": [1, Doc(object())]}, at="state")

    def test_an_instance_that_cannot_be_taken_apart(self):
        register_type(Doc)
        doc = Doc("a")
        del doc.title
        with pytest.raises(EncodeError, match=r"a Doc .*AttributeError") as caught:
            encode([doc])
        assert isinstance(caught.value.__cause__, AttributeError)

    def test_an_instance_that_contains_itself(self):
        register_type(Doc)
        doc = Doc("a")
        doc.notes.append(doc)
        with pytest.raises(EncodeError, match="contains itself"):
            encode(doc)

    def test_functions_that_never_end(self):
        register_type(Celsius, encode=lambda c: c, decode=lambda c: c)
        with pytest.raises(EncodeError, match="contains itself"):
            encode(Celsius(1))

    def test_reading_what_is_not_registered(self):
        assert decode(b'{"$object":["doc",{"title":"a"}]}') == StoredObject("doc", {"title": "a"})
        with pytest.raises(DecodeError, match=r"'doc' is not registered; call clew\.register_type"):
            from_tree({"$object": ["doc", {"title": "a"}]})


class TestNames:
    def test_a_reloaded_class_replaces_the_old_one(self):
        old = dataclasses.make_dataclass("Note", ["x"], namespace={"__qualname__": "Note"})
        new = dataclasses.make_dataclass("Note", ["x"], namespace={"__qualname__": "Note"})
        old.__module__ = new.__module__ = "notebook"
        register_type(old)
        register_type(new)
        assert type(decode(encode(new(1)))) is new
        assert type(decode(encode(old(1)))) is new

    def test_a_class_may_move_to_a_new_name(self):
        register_type(Doc, name="old")
        data = encode(Doc("a"))
        register_type(Doc, name="new")
        assert b'"new"' in encode(Doc("a"))
        assert decode(data) == Doc("a")

    def test_registering_it_again_without_options_changes_nothing(self):
        """A graph does that with every class in its annotations."""
        register_type(Doc, name="doc", upgrade=lambda fields: {**fields, "title": "upgraded"})
        register_type(Doc)
        assert encode(Doc("a")).startswith(b'{"$object":["doc"')
        assert decode(encode(Doc("a"))).title == "upgraded"
