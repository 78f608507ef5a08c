"""Define, change and replay a check; invalid options are rejected."""

from __future__ import annotations

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
    "options, message",
    [
        ({"faults": None}, "faults: expected"),
        ({"faults": ["crsh"]}, "faults: unknown kind 'crsh'"),
        ({"faults": [["crash"]]}, "faults: unknown kind"),
        ({"max_faults": -1}, "max_faults: .* got -1"),
        ({"values": [1]}, "values: expected"),
        ({"invariants": 3}, "invariants: .* got 3"),
        ({"invariants": [3]}, "invariants: .* got 3"),
        ({"invariants": ["terminate"]}, "unknown invariant 'terminate'; did you mean 'terminates'"),
        ({"systems": ["db"]}, "systems: expected"),
        ({"systems": {"run": MemoryStorage()}}, "systems: the name 'run' is reserved"),
        ({"answers": {"approve": True}}, "answers to 'approve': expected a list"),
        ({"answers": {"approve": []}}, "answers to 'approve': the list is empty"),
        ({"answers": {"aprove": [True]}}, "answers: .*'aprove'; did you mean 'approve'"),
        ({"answers": [True]}, "answers: expected"),
        (
            {"systems": {"db": MemoryStorage()}, "node_systems": {"pay": "db"}},
            "node_systems of 'pay': expected a list",
        ),
        ({"node_systems": ["pay"]}, "node_systems: expected"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        check_graph(GRAPH, **{"values": {"x": 1}, **options})


def test_faults_may_be_one_word_or_come_one_by_one() -> None:
    one = check_graph(GRAPH, {"x": 1}, faults="crash")
    assert "(faults: crash; " in str(one)
    assert one.to_dict()["faults"] == ["crash"]
    several = check_graph(GRAPH, {"x": 1}, faults=(kind for kind in ("crash", "store")))
    assert several.to_dict()["faults"] == ["crash", "store"]
    assert several.states > one.states


def test_replace_returns_a_check_with_other_options() -> None:
    check = Check(GRAPH, {"x": 1}, ["terminates"], faults=())
    other = MemoryStorage()
    changed = check.replace(
        systems={"db": other}, invariants=["terminates", "resume_equivalent"], values={"x": 2}
    )
    assert (changed.systems, changed.names, changed.values) == (
        {"db": other},
        ("terminates", "resume_equivalent"),
        {"x": 2},
    )
    assert check.names == ("terminates",)
    assert changed.run().ok


def test_a_replay_can_make_any_choice() -> None:
    """Including an order that the reduction leaves out."""
    one, two = MemoryStorage(), MemoryStorage()
    first = node(output="a", name="first")(lambda x: one.put("k", x))
    second = node(output="b", name="second")(lambda x: two.put("k", x))
    check = Check(
        Graph([first, second]),
        {"x": 1},
        [Invariant("fine", at_end(lambda world: True))],
        faults=(),
        systems={"one": one, "two": two},
        node_systems={"first": ["one"], "second": ["two"]},
    )
    assert check.run().transitions == 2
    assert check.replay(["complete second#0", "complete first#0"]).violated == ()


def test_a_rescued_node_ends_alike_under_every_fault() -> None:
    @node(output="left", rescue=lambda error, x: -x)
    def fails(x: int) -> int:
        raise ValueError("no")

    @node(output="right")
    def beside(x: int) -> int:
        return x

    @node(output="sum")
    def total(left: int, right: int) -> int:
        return left + right

    result = check_graph(Graph([fails, beside, total]), {"x": 1}, faults=("crash", "store"))
    assert not result.violations, result
