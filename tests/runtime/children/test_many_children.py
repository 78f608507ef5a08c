"""Each child costs the same, however many there are: none is compared with all others."""

from __future__ import annotations

import asyncio
import difflib
import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from clew import Context, Engine, Graph, node
from clew.errors import UnknownRunError
from clew.runtime.drivers.slots import Slots
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


@node(output="y")
async def plus_one_later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


late_leaf = Graph([plus_one_later], name="leaf")


@node(output="total")
async def gather_many(n: int, ctx: Context) -> int:
    found = await asyncio.gather(*(ctx.run(late_leaf, {"x": i}) for i in range(n)))
    return sum(each["y"] for each in found)


def test_a_child_gets_its_slot_without_a_look_at_all_that_wait(monkeypatch: pytest.MonkeyPatch):
    looks = 0
    used = Slots._used

    def counting(slots: Slots) -> int:
        nonlocal looks
        looks += 1
        return used(slots)

    monkeypatch.setattr(Slots, "_used", counting)
    counts = []
    for n in (50, 200):
        looks = 0
        assert Engine(Graph([gather_many])).run({"n": n})["total"] == n * (n + 1) // 2
        counts.append(looks / n)
    few, many_more = counts
    assert many_more < 2 * few, counts
