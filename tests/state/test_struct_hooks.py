"""A msgspec struct is built again as it was: its ``__post_init__`` runs once, when the program creates it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pytest

from clew import Engine, Graph, interrupt, node
from clew.state import decode, encode, register_type

T = TypeVar("T")
SUBCLASSES: list[str] = []


class Counted:
    """Raises a field with each run of the hook, also if the struct is frozen."""

    __slots__ = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "n", self.n + 1)


class Plain(Counted, msgspec.Struct):
    n: int
    more: Any = None


class Frozen(Counted, msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    more: Any = None
    n: int


class Tagged(Counted, msgspec.Struct, tag="t", array_like=True, rename="camel", dict=True, weakref=True):
    n: int
    more: Any = None


class Small(Counted, msgspec.Struct, gc=False):
    n: int
    more: Any = None


class Box(Counted, msgspec.Struct, Generic[T]):
    n: int
    more: T | None = None


class Below(Frozen, frozen=True):
    extra: list[int] = []


class Listed(msgspec.Struct):
    n: int

    def __init_subclass__(cls) -> None:
        SUBCLASSES.append(cls.__name__)

    def __post_init__(self) -> None:
        self.n += 1


ALL = [Plain, Frozen, Tagged, Small, Box, Below]


def round_trip(value: Any) -> Any:
    return decode(encode(value))


@pytest.fixture(autouse=True, scope="module")
def _registered() -> None:
    for cls in [*ALL, Listed]:
        register_type(cls)


@pytest.mark.parametrize("cls", ALL)
def test_the_hook_does_not_run_again(cls):
    value = cls(n=1)
    back = round_trip(value)
    assert type(back) is cls
    assert back == value
    assert back.n == 2
    assert cls(n=1).n == 2  # the class itself has not changed


@pytest.mark.parametrize("outer", ALL)
def test_nested_structs(outer):
    value = outer(n=1, more=[Frozen(n=1, more={"a": Plain(n=1)})])
    back = round_trip(value)
    assert back == value
    assert back.more[0].more["a"].n == 2


def test_copies_are_independent_and_collected():
    one, other = round_trip(Plain(n=1)), round_trip(Plain(n=5))
    assert (one.n, other.n, one.more) == (2, 6, None)
    loop = round_trip(Tagged(n=1))
    loop.more = [loop]
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


def test_frozen_structs_stay_frozen_and_hash_alike():
    value = Frozen(n=1)
    back = round_trip(value)
    assert hash(back) == hash(value)
    with pytest.raises(AttributeError):
        back.n = 3


def test_new_fields_take_their_defaults():
    old = encode(Below(n=1)).replace(b'"extra":[],', b"")
    assert b"extra" not in old
    first, second = decode(old), decode(old)
    assert (first.n, first.extra) == (2, [])
    assert first.extra is not second.extra


def test_the_class_gets_no_subclass():
    assert round_trip(Listed(1)).n == 2
    assert SUBCLASSES == []
    gc.collect()
    assert Listed.__subclasses__() == []


def test_a_resumed_run_continues_with_the_same_struct(tmp_path: Path):
    @node(output="order")
    def make(n: int) -> Plain:
        return Plain(n)

    @interrupt(output="ok")
    def ask(order: Plain) -> str:
        return "ok?"

    @node(output="paid")
    def pay(order: Plain, ok: bool) -> int:
        return order.n

    graph = Graph([make, ask, pay])
    with Engine(graph, store=tmp_path / "runs.db") as engine:
        engine.run({"n": 1}, run_id="r")
    with Engine(graph, store=tmp_path / "runs.db") as engine:
        assert engine.resume("r", answer=True)["paid"] == 2
