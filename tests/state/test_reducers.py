"""Reducers: what each does to a value, and that folding many updates at once changes nothing but the cost."""

from __future__ import annotations

import operator
import sys
from dataclasses import FrozenInstanceError
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.state import reducers
from clew.state.reducers import Overwrite, append, fold, merge, since_overwrite


def test_merge_prefers_the_update() -> None:
    assert merge({"a": 1, "b": 1}, {"b": 2, "c": 2}) == {"a": 1, "b": 2, "c": 2}


def test_append_adds_the_update_as_one_item() -> None:
    assert append(["a"], ["b"]) == ["a", ["b"]]


@pytest.mark.parametrize("reducer, current, update", [(merge, {"a": 1}, {"b": 2}), (append, ["a"], "b")])
def test_neither_argument_changes(reducer: Any, current: Any, update: Any) -> None:
    before = (type(current)(current), type(update)(update))
    assert reducer(current, update) is not current
    assert (current, update) == before


def test_overwrite_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Overwrite([]).value = [1]
    assert Overwrite([1]) == Overwrite([1]) != Overwrite([2])


class Words(list[str]):
    """A list with a + of its own."""

    def __add__(self, other: Any) -> Words:
        return Words([*self, "and", *other])


@pytest.mark.parametrize(
    "reducer, current, updates",
    [
        (append, [], ["a", ["b"], "c"]),
        (append, ("a",), ["b", "c"]),
        (merge, {"a": 1}, [{"b": 1}, {"a": 2}, {}]),
        (operator.add, ["a"], [["b"], [], ["c"]]),
        (operator.add, ("a",), [("b",), ("c",)]),
        (operator.add, "a", ["b", "c"]),
        (operator.add, 1, [2, 3]),
        (operator.add, Words("a"), [["b"], ["c"]]),
        (operator.add, ["a"], [["b"]]),
        (max, 1, [3, 2]),
        (lambda current, update: current - update, 10, [1, 2]),
    ],
)
def test_fold_equals_the_reducer_applied_one_by_one(reducer: Any, current: Any, updates: list[Any]) -> None:
    expected = reduce(reducer, updates, current)
    folded = fold(reducer, current, updates)
    assert folded == expected
    assert type(folded) is type(expected)


@pytest.mark.parametrize(
    "reducer, current, updates",
    [(operator.add, ["a"], [["b"], "c"]), (merge, {}, [{}, [("a", 1)]]), (merge, [("a", 1)], [{}, {}])],
)
def test_fold_refuses_what_the_reducer_refuses(reducer: Any, current: Any, updates: list[Any]) -> None:
    with pytest.raises(TypeError):
        reduce(reducer, updates, current)
    with pytest.raises(TypeError):
        fold(reducer, current, updates)


@given(
    st.lists(st.integers()), st.lists(st.lists(st.integers()) | st.builds(Overwrite, st.lists(st.integers())))
)
def test_fold_with_overwrites_equals_one_by_one(current: list[int], updates: list[Any]) -> None:
    expected = current
    for update in updates:
        expected = update.value if isinstance(update, Overwrite) else expected + update
    assert fold(operator.add, *since_overwrite(current, updates)) == expected


def test_many_updates_of_one_step_are_copied_once() -> None:
    class Counted(list[int]):
        iterated = 0

        def __iter__(self) -> Any:
            Counted.iterated += 1
            return super().__iter__()

    assert len(fold(append, Counted(range(10)), list(range(1000)))) == 1010
    assert Counted.iterated == 1


def test_nothing_grows_in_place_where_counts_of_references_cannot_be_relied_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert reducers._alone() == -1
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert reducers._alone() > 0
