from __future__ import annotations

import pytest

from clew.errors import DefinitionError, EncodeError
from clew.explore import WorldContext


def test_values_by_name() -> None:
    context = WorldContext({"user": "ann"})
    context.set("cart", [1])
    context.set("nothing", None)
    assert context.get("user") == "ann"
    assert context.get("missing") is None
    assert context.get("missing", 7) == 7
    assert context.has("nothing")
    assert not context.has("missing")
    assert context.to_dict() == {"user": "ann", "cart": [1], "nothing": None}
    assert "user" in context
    assert len(context) == 3
    assert list(context) == ["user", "cart", "nothing"]
    context.delete("user")
    context.delete("user")
    assert context.get("user") is None
    context.clear()
    assert context.to_dict() == {}


@pytest.mark.parametrize("value", [object(), {"deep": [open]}, lambda: None])
def test_a_value_without_encoding_is_rejected_and_changes_nothing(value: object) -> None:
    context = WorldContext({"x": 1})
    with pytest.raises(EncodeError, match=r"context\['x'\]"):
        context.set("x", value)
    assert context.to_dict() == {"x": 1}


def test_a_name_is_a_string() -> None:
    with pytest.raises(DefinitionError):
        WorldContext().set(1, 2)


def test_a_change_in_place_does_not_reach_a_snapshot() -> None:
    context = WorldContext({"cart": [1], "user": "ann"})
    snapshot = context.snapshot()
    context.get("cart").append(2)
    context.set("user", "bob")
    context.restore(snapshot)
    assert context.to_dict() == {"cart": [1], "user": "ann"}


def test_nor_the_other_way_round() -> None:
    context = WorldContext({"cart": [1]})
    snapshot = context.snapshot()
    for _ in range(2):
        context.restore(snapshot)
        context.get("cart").append(2)
    context.restore(snapshot)
    assert context.get("cart") == [1]


def test_to_dict_is_a_copy() -> None:
    context = WorldContext({"cart": [1]})
    context.to_dict()["cart"].append(2)
    assert context.get("cart") == [1]


def test_what_was_given_at_first_may_be_changed_in_place_and_counts() -> None:
    context = WorldContext({"cart": [1]})
    before = context.identity()
    context.get("cart").append(2)
    assert context.identity() != before


def test_the_order_of_names_survives_a_snapshot_and_does_not_tell_states_apart() -> None:
    one, other = WorldContext({"a": 1, "b": [2]}), WorldContext({"b": [2], "a": 1})
    assert one.identity() == other.identity()
    one.restore(other.snapshot())
    assert list(one) == ["b", "a"]


def test_a_deleted_name_comes_back_and_a_new_one_goes() -> None:
    context = WorldContext({"a": 1})
    snapshot = context.snapshot()
    context.delete("a")
    context.set("new", "value")
    context.restore(snapshot)
    assert context.get("new") is None
    assert context.to_dict() == {"a": 1}
