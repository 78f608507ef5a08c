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

    with pytest.raises(GraphError, match="nothing says which comes last"):
        Graph([a, x, y])


def test_two_gates_that_know_nothing_of_each_other_are_not_exclusive() -> None:
    @route(targets=["x", END])
    def a(i: int) -> str:
        return "x"

    @route(targets=["y", END])
    def b(i: int) -> str:
        return "y"

    with pytest.raises(GraphError, match="nothing says which comes last"):
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
