"""Each child costs the same, however many there are: nothing compares the id of a new child with those of others."""

from __future__ import annotations

import difflib
import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from clew import Context, Engine, Graph, node
from clew.errors import UnknownRunError
from clew.stores import Store
from tests.store_fixtures import every_store

store = every_store


@node(output="y")
def plus_one(x: int) -> int:
    return x + 1


leaf = Graph([plus_one], name="leaf")


@node(output="total")
def many(n: int, ctx: Context) -> int:
    return sum(ctx.run(leaf, {"x": i})["y"] for i in range(n))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of ids that each search for similar names compares."""
    counts: list[int] = []
    original = difflib.get_close_matches

    def counting(word: str, possibilities: Sequence[str], *args: Any, **options: Any) -> list[str]:
        counts.append(len(possibilities))
        return original(word, possibilities, *args, **options)

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    return counts


def test_a_new_child_looks_for_no_similar_ids(store: Store, compared: list[int]):
    with Engine(Graph([many]), store=store) as engine:
        assert engine.run({"n": 20}, run_id="r")["total"] == 210
        assert engine.replay("r").ok
    assert compared == []


def test_an_unknown_id_is_compared_with_a_limited_number(store: Store, compared: list[int]):
    with Engine(Graph([plus_one]), store=store) as engine:
        for number in range(120):
            engine.run({"x": 1}, run_id=f"report-{number}")
        with pytest.raises(UnknownRunError) as caught:
            engine.result("reprot-119")
    assert compared == []
    assert caught.value.nearest[0] == "report-119"
    assert "did you mean 'report-119'" in str(caught.value)
    assert compared == [100]


def test_the_error_can_be_pickled():
    error = UnknownRunError("run 'ab1' does not exist", run_id="ab1", recent=("ab2", "zz"))
    again = pickle.loads(pickle.dumps(error))
    assert again.nearest == error.nearest == ("ab2",)
    assert str(again) == str(error)
