"""How a check is described, changed and replayed, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from clew import Graph, interrupt, node
from clew.errors import DefinitionError
from clew.explore import Check, Invariant, at_end, check_graph
from clew.explore.systems import MemoryStorage


@interrupt(output="ok")
def approve(x: int) -> str:
    return "pay?"


@node(output="paid")
def pay(ok: bool) -> bool:
    return ok


GRAPH = Graph([approve, pay])


@pytest.mark.parametrize(
    "options, told",
    [
        (
            {"faults": None},
            "faults are some of 'crash', 'fail', 'timeout', 'store', or () for none, not None",
        ),
        ({"faults": ["crsh"]}, "there is no fault 'crsh'"),
        ({"faults": [["crash"]]}, "there is no fault ['crash']"),
        ({"max_faults": -1}, "max_faults is a number from 0, not -1"),
        ({"values": [1]}, "values are given by name, as a mapping, not [1]"),
        ({"invariants": 3}, "invariants are a list of names and Invariant(name, check), not 3"),
        ({"systems": ["db"]}, "systems are {\"name\": system}, not ['db']"),
        ({"answers": {"approve": True}}, "the answers to 'approve' are a list, not True; write [True]"),
        ({"answers": {"approve": []}}, "there is no answer to 'approve'"),
        (
            {"answers": {"aprove": [True]}},
            "answers name a node 'aprove', and there is none; did you mean 'approve'",
        ),
        ({"answers": [True]}, 'answers are {"node": [answer, ...]}, not [True]'),
        (
            {"systems": {"db": MemoryStorage()}, "touches": {"pay": "db"}},
            "touches of 'pay' is a list of names",
        ),
        ({"touches": ["pay"]}, 'touches is {"node": ["system", ...]}, not [\'pay\']'),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(told)):
        check_graph(GRAPH, **{"values": {"x": 1}, **options})


def test_faults_may_be_one_word_or_come_one_by_one() -> None:
    one = check_graph(GRAPH, {"x": 1}, faults="crash")
    assert "(faults: crash; " in str(one)
    assert one.to_dict()["faults"] == ["crash"]
    several = check_graph(GRAPH, {"x": 1}, faults=(kind for kind in ("crash", "store")))
    assert several.to_dict()["faults"] == ["crash", "store"]
    assert several.states > one.states


def test_anything_of_a_check_can_be_changed() -> None:
    check = Check(GRAPH, {"x": 1}, ["ends"], faults=())
    other = MemoryStorage()
    changed = check.but(systems={"db": other}, invariants=["ends", "resume"], values={"x": 2})
    assert (changed.systems, changed.names, changed.values) == ({"db": other}, ("ends", "resume"), {"x": 2})
    assert check.names == ("ends",)
    assert changed.run().ok


def test_a_replay_makes_whatever_can_be_chosen() -> None:
    """Also an order that a search would leave out."""
    one, two = MemoryStorage(), MemoryStorage()
    first = node(output="a", name="first")(lambda x: one.put("k", x))
    second = node(output="b", name="second")(lambda x: two.put("k", x))
    check = Check(
        Graph([first, second]),
        {"x": 1},
        [Invariant("fine", at_end(lambda world: True))],
        faults=(),
        systems={"one": one, "two": two},
        touches={"first": ["one"], "second": ["two"]},
    )
    assert check.run().transitions == 2
    assert check.replay(["complete second#0", "complete first#0"]).wrong == ()
