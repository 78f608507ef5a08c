"""Deltas: applying one gives exactly what the reducer returned, and its size depends only on new data."""

from __future__ import annotations

import operator
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.engine.updates.deltas import SAME, Delta, apply_delta, delta_of, deltas_from, plain_deltas
from clew.state import decode, encode
from clew.state.reducers import (
    ChangedInPlaceError,
    Overwrite,
    append,
    call,
    fold,
    is_own,
    merge,
    since_overwrite,
)

plain = st.none() | st.booleans() | st.integers(0, 3) | st.floats(allow_nan=False) | st.sampled_from("abc")
items = plain | st.lists(plain, max_size=2) | st.dictionaries(st.sampled_from("ab"), plain, max_size=2)
keys = st.sampled_from(["a", "b", "c", 1, 1.0, True, None])
dicts = st.lists(st.tuples(keys, items), max_size=5).map(dict)
values = (
    items
    | st.lists(items, max_size=5)
    | st.lists(items, max_size=4).map(tuple)
    | dicts
    | st.sets(st.integers(0, 3))
)


def exact(value: Any) -> Any:
    """A value in a form that tells everything apart: types, and the order of dicts."""
    if isinstance(value, dict):
        return ("dict", [(exact(key), exact(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [exact(item) for item in value])
    return (type(value).__name__, repr(value))


def check(before: Any, after: Any, updates: list[Any]) -> Delta:
    numbered = list(enumerate(updates))
    delta = delta_of(before, after, numbered)
    kept, wanted = exact(before), exact(after)
    assert exact(apply_delta(before, delta, dict(numbered))) == wanted
    assert exact(before) == kept, "the value before is not changed"
    (again,) = deltas_from(decode(encode(plain_deltas({"v": delta}), ordered=True))).values()
    assert exact(apply_delta(before, again, dict(numbered))) == wanted
    return delta


@given(values, values, st.lists(values, max_size=2))
def test_applying_a_delta_gives_the_value_after(before: Any, after: Any, updates: list[Any]) -> None:
    check(before, after, updates)


@given(
    st.lists(items, max_size=5), st.lists(st.lists(items, max_size=3), min_size=1, max_size=3), st.booleans()
)
def test_a_list_that_takes_its_updates_is_told_by_reference(
    before: list[Any], updates: list[list[Any]], copied: bool
) -> None:
    """Whether the reducer kept the items or made equal ones must not show: digests cover deltas."""
    after = fold(operator.add, before, updates)
    if copied:
        after = decode(encode(after, ordered=True))
    delta = check(before, after, updates)
    if after == before:
        assert delta is SAME
    else:
        assert (delta.kind, delta.keep, delta.value) == ("list", len(before), None)


@given(st.lists(items, max_size=5), st.lists(items, min_size=1, max_size=3))
def test_items_that_are_appended_are_told_by_reference(before: list[Any], updates: list[Any]) -> None:
    delta = check(before, fold(append, before, updates), updates)
    assert (delta.kind, delta.value) == ("list", None)


@given(dicts, st.lists(dicts, min_size=1, max_size=3))
def test_a_dict_that_takes_its_updates_is_told_by_reference(
    before: dict[Any, Any], updates: list[Any]
) -> None:
    delta = check(before, fold(merge, before, updates), updates)
    assert delta is SAME or delta.refs


@pytest.mark.parametrize(
    "before, after, updates, expected",
    [
        ([1, 2], [1, 2], [[3]], ["same"]),
        ([1, 2], [1, 2, 3], [[3]], ["list of", 2, [0], True]),
        ([1, 2], [1, 2, [3]], [[3]], ["list of", 2, [0], False]),
        ([1, 2], [1, 2, 3, 4], [[3], [9], [4]], ["list of", 2, [0, 2], True]),
        ([1, 2], [1, 2, "id"], [[3]], ["list", 2, ["id"]]),
        ([1, 2, 3], [1, 9, 3], [[9]], ["list", 1, [9, 3]]),
        ((1,), (1, 2), [(2,)], ["list of", 1, [0], True]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}, [{"b": 3, "c": 4}], ["dict of", [0], []]),
        ({"a": 1, "b": 2}, {"a": 1, "c": 4}, [{"b": None}], ["dict", {"c": 4}, ["b"]]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [{}], ["whole", {"b": 2, "a": 1}]),
        ({1: "a"}, {True: "a"}, [{}], ["whole", {True: "a"}]),
        ({("t",): 1}, {("t",): 1}, [{}], ["whole", {("t",): 1}]),
        ("a", "ab", ["b"], ["whole", "ab"]),
        (1, 1, [1], ["same"]),
        (1, True, [1], ["whole", True]),
        (Decimal("1.0"), Decimal("1.00"), [1], ["whole", Decimal("1.00")]),
        ([1], (1,), [1], ["whole", (1,)]),
    ],
)
def test_what_a_delta_says(before: Any, after: Any, updates: list[Any], expected: list[Any]) -> None:
    (stored,) = plain_deltas({"v": check(before, after, updates)}).values()
    assert exact(stored) == exact(expected)


def test_an_object_that_a_reducer_returned_may_have_changed() -> None:
    thing = OrderedDict(a=1)
    assert delta_of(thing, thing, []) == Delta("whole", value=thing)


def test_items_that_cannot_be_encoded_are_alike_only_if_they_are_the_same() -> None:
    one, other = object(), object()
    assert delta_of([one], [one, other], [(0, [other])]) == Delta("list", 1, refs=(0,))
    assert delta_of([one], [other], []) == Delta("list", 0, [other])


@pytest.mark.parametrize(
    "before, delta",
    [
        ([1], Delta("list", 2, [])),
        ([1], Delta("list", -1, [])),
        ({}, Delta("list", 0, [])),
        ([1], Delta("list", 1, 7)),
        ([1], Delta("list", 1, refs=(4,))),
        ([1], Delta("dict", value={})),
        ({}, Delta("dict", value={}, removed=("a",))),
        ({}, Delta("dict", value=7)),
    ],
)
def test_a_delta_that_does_not_fit_is_a_value_error(before: Any, delta: Delta) -> None:
    with pytest.raises(ValueError, match="delta"):
        apply_delta(before, delta, {})


@pytest.mark.parametrize(
    "form",
    [
        None,
        7,
        [],
        ["other"],
        ["same", 1],
        ["list", "1", []],
        ["list", 1, {}],
        ["list of", 0, ["a"], True],
        ["list of", 0, [], True],
    ],
)
def test_what_is_not_a_delta_is_a_value_error(form: Any) -> None:
    with pytest.raises(ValueError, match="delta"):
        deltas_from({"v": form})
    with pytest.raises(ValueError, match="delta"):
        deltas_from([form])


# ---- whose reducer it is


class Points(int):
    def __add__(self, other: int) -> Points:
        return Points(int(self) + other)


@pytest.mark.parametrize(
    "reducer, current, updates, own",
    [
        (operator.add, [1], [[2], [3]], True),
        (operator.add, "a", ["b"], True),
        (operator.add, b"a", [b"b", b"c"], True),
        (operator.add, (1,), [(2,)], True),
        (operator.add, 1, [2.5, True], True),
        (operator.add, [1], [(2,)], False),
        (operator.add, Points(1), [1], False),
        (operator.add, 1, [Points(1)], False),
        (operator.add, Decimal(1), [Decimal(2)], False),
        (append, [1], [object()], True),
        (append, (1,), [2], True),
        (append, {1: 2}, [2], False),
        (merge, {"a": 1}, [{"b": 2}], True),
        (merge, {"a": 1}, [{("b",): 2}], False),
        (merge, {"a": 1}, [OrderedDict(b=2)], False),
        (merge, OrderedDict(a=1), [{"b": 2}], False),
        (max, 1, [2], False),
        (max, 1, [], True),
    ],
)
def test_a_reducer_is_own_where_merging_runs_no_user_code(
    reducer: Any, current: Any, updates: list[Any], own: bool
) -> None:
    assert is_own(reducer, current, updates) == own


def test_bytes_are_joined_like_text() -> None:
    assert fold(operator.add, b"a", [b"b", b"c"]) == b"abc"


# ---- a reducer that changes its first argument


class Listed(list[int]):
    def __iter__(self) -> Any:
        raise AssertionError("a method of the user's class")


@pytest.mark.parametrize(
    "value, change",
    [
        ([1, 2], lambda v: v.append(3)),
        ([1, 2], lambda v: operator.setitem(v, 0, 9)),
        ([1, 2], lambda v: v.reverse()),
        (Listed([1, 2]), lambda v: operator.setitem(v, 0, 9)),
        ({"a": 1}, lambda v: operator.setitem(v, "a", 2)),
        ({"a": 1}, lambda v: operator.setitem(v, "b", 2)),
        ({"a": 1, "b": 2}, lambda v: operator.setitem(v, "a", v.pop("a"))),
        ({1, 2}, lambda v: (v.discard(1), v.add(3))),
        (bytearray(b"ab"), lambda v: v.reverse()),
    ],
)
def test_a_change_in_place_is_found_and_put_back(value: Any, change: Any) -> None:
    before = repr(value)
    with pytest.raises(ChangedInPlaceError):
        call(lambda current, update: (change(current), current)[1], value, 0)
    assert repr(value) == before

    def changing(current: Any, update: Any) -> None:
        change(current)
        raise LookupError

    with pytest.raises(LookupError):
        call(changing, value, 0)
    assert repr(value) == before
    assert call(lambda current, update: current, value, 0) is value


def test_overwrites_do_not_count_as_updates() -> None:
    assert fold(max, *since_overwrite(1, [5, Overwrite(2), 3])) == 3
