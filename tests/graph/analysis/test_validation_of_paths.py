"""Two writers of one value are fine where gates choose between them on every way."""

from __future__ import annotations

import pytest

from clew import END, Graph, Send, node, route
from clew.errors import GraphError


@node(output="o")
def x(i: int) -> int:
    return i


@node(output="o")
def y(i: int) -> int:
    return -i


def test_a_diamond_of_gates_is_exclusive() -> None:
    @route(targets=["b", "x"])
    def a(i: int) -> str:
        return "b" if i else "x"

    @route(targets=["x", "y"])
    def b(i: int) -> str:
        return "x" if i > 1 else "y"

    graph = Graph([a, b, x, y])
    assert [graph.run(i=i)["o"] for i in (0, 1, 2)] == [0, -1, 2]


def test_a_gate_that_may_choose_both_is_not_exclusive() -> None:
    @route(targets=["x", "y", END], multi=True)
    def a(i: int) -> tuple[str, ...]:
        return ("x", "y")

    with pytest.raises(GraphError, match="in no defined order"):
        Graph([a, x, y])


def test_two_gates_that_know_nothing_of_each_other_are_not_exclusive() -> None:
    @route(targets=["x", END])
    def a(i: int) -> str:
        return "x"

    @route(targets=["y", END])
    def b(i: int) -> str:
        return "y"

    with pytest.raises(GraphError, match="in no defined order"):
        Graph([a, b, x, y])


def test_a_long_row_of_gates_is_not_followed_for_ever() -> None:
    def gate(number: int) -> object:
        def decide(i: int) -> str:
            return f"g{number + 1}" if number < 299 else "x"

        following = f"g{number + 1}" if number < 299 else "x"
        return route(targets=[following, "y"] if number == 299 else [following, END], name=f"g{number}")(
            decide
        )

    assert Graph([*(gate(n) for n in range(300)), x, y]).run(i=1)["o"] == 1


def test_an_annotation_of_object_may_mean_sends() -> None:
    from typing import TypedDict

    class State(TypedDict):
        n: int
        o: int

    @route(targets=["x"])
    def fan(n: int) -> object:
        return [Send("x", {"i": n})]

    assert Graph([fan, x], state=State).run(n=3)["o"] == 3


def test_where_too_many_ways_lead_to_a_node_nothing_is_concluded() -> None:
    """Sixty-five gates, each of which may choose `x` or `y`: that they never do both is not found out."""
    gates = [route(name=f"g{i}", targets=["x", "y"])(lambda i: "x") for i in range(65)]
    with pytest.raises(GraphError, match="in no defined order"):
        Graph([*gates, x, y])


def test_where_a_way_is_too_long_nothing_is_concluded() -> None:
    """The diamond of gates above, with a chain of nodes between the two: a choice too far back is forgotten."""

    def diamond(length: int) -> Graph:
        a = route(name="a", targets=["c0", "x"])(lambda i: "c0" if i else "x")
        chain = [
            node(name=f"c{n}", output=f"c{n}", after=[f"c{n - 1}"] if n else [])(lambda i: i)
            for n in range(length)
        ]
        b = route(name="b", targets=["x", "y"], after=[f"c{length - 1}"])(lambda i: "x" if i > 1 else "y")
        return Graph([a, *chain, b, x, y])

    assert [diamond(5).run(i=i)["o"] for i in (0, 1, 2)] == [0, -1, 2]
    with pytest.raises(GraphError, match="in no defined order"):
        diamond(70)
