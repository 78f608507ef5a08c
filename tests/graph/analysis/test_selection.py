"""Running only what some values need."""

from __future__ import annotations

import pytest

from clew.errors import GraphError
from clew.graph import END, Graph, Node, ifelse, node, route
from tests.messages import mentions


def make(name: str, *inputs: str, output: str | None = None, after: tuple[str, ...] = ()) -> Node:
    """A node that reads ``inputs`` and writes ``output``."""
    func = eval(f"lambda {', '.join(inputs)}: None")
    return node(func, name=name, output=output or name.lower(), after=after)


A, B, C = make("A", "x"), make("B", "a"), make("C", "a")


def test_what_a_value_does_not_need_is_left_out() -> None:
    assert list(Graph([A, B, C]).select("b").nodes) == ["A", "B"]


def test_inputs_are_those_of_what_is_left() -> None:
    assert Graph([A, B, make("D", "y")]).select("b").inputs == ("x",)


def test_several_values_can_be_selected() -> None:
    assert Graph([A, B, C]).select("c", "b", "c").outputs == ("c", "b")


def test_what_a_node_runs_after_is_needed() -> None:
    late = make("D", "x", after=("C",))
    assert list(Graph([A, B, C, late]).select("d").nodes) == ["A", "C", "D"]


def test_edges_are_needed() -> None:
    selected = Graph([A, B, C], edges=[("C", "B"), ("B", "A")], entry=["A", "C"]).select("a")
    assert (list(selected.nodes), selected.edges) == (["A", "B", "C"], (("C", "B"), ("B", "A")))


def test_edges_and_entries_of_what_is_left_out_go_with_it() -> None:
    selected = Graph([A, B, C], edges=[("B", "C")], entry=["A", "C"]).select("b")
    assert (selected.edges, selected.entry) == ((), ("A",))


@route(targets=["B", "C", END])
def decide(a): ...


def test_a_gate_comes_without_the_targets_that_are_not_needed() -> None:
    gate = Graph([A, decide, B, C]).select("b").nodes["decide"]
    assert (gate.targets, gate.pruned) == (("B", "END"), ("C",))


def test_a_gate_whose_targets_are_all_needed_stays_as_it_is() -> None:
    assert Graph([A, decide, B, C]).select("b", "c").nodes["decide"] is decide


def test_an_ifelse_keeps_both_sides() -> None:
    @ifelse(when_true="B", when_false="C")
    def good(a): ...

    gate = Graph([A, good, B, C]).select("c").nodes["good"]
    assert (gate.when, gate.targets, gate.pruned) == (("B", "C"), ("C",), ("B",))


def test_what_is_bound_stays_bound() -> None:
    assert dict(Graph([A, B]).bind(x=1).select("a").bound) == {"x": 1}


def test_a_selection_can_be_narrowed_down() -> None:
    assert list(Graph([A, B, C]).select("a", "b").select("a").nodes) == ["A"]


def test_an_unknown_value_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        Graph([make("answer", "x")]).select("anwser")
    assert mentions(str(caught.value), "'anwser'", "'answer'")


def test_selecting_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match=r"select\(\)"):
        Graph([A]).select()
