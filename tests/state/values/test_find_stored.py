"""The search for stored objects in a value: values in memory may be cyclic, deep, or share their parts."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Graph, node
from clew.state import StoredObject
from clew.state.stored_object import find_stored

OBJECT = StoredObject("a:Doc", {"title": "x"})


def cyclic(end: Any) -> Any:
    loop: dict[str, Any] = {}
    loop["self"] = [loop]
    loop["end"] = end
    return loop


def deep(end: Any) -> Any:
    value = [end]
    for _ in range(5_000):
        value = [value]
    return value


def shared(end: Any) -> Any:
    value: Any = [end]
    for _ in range(100):
        value = [value, value]
    return value


SHAPES = [cyclic, deep, shared]


@pytest.mark.parametrize("shape", SHAPES)
def test_cyclic_deep_and_shared_values(shape):
    assert find_stored(shape(1)) is None
    assert find_stored(shape(OBJECT)) is OBJECT


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_in_memory_after_the_first_stored_object(shape):
    @node(output="out")
    def same(value: Any) -> Any:
        return value

    value = shape(1)
    result = Graph([same]).run(value=value)
    assert result.status == "completed"
    assert result["out"] is value


@pytest.mark.parametrize(
    "value",
    [OBJECT, [1, OBJECT], (OBJECT,), {OBJECT: 1}, {"a": {"b": OBJECT}}, {OBJECT}, frozenset([(1, OBJECT)])],
    ids=repr,
)
def test_all_containers_are_searched(value):
    assert find_stored(value) is OBJECT


def test_the_first_is_found():
    other = StoredObject("a:Doc", {"title": "y"})
    assert find_stored([[1, [OBJECT]], other]) is OBJECT
    assert find_stored([other, OBJECT]) is other
