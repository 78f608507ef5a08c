"""What a node costs does not depend on how many there are: from ten to ten thousand, in a chain and in a loop.

Calls of Python functions are counted, which is exact. What happens below them shows in time, and so in the
benchmarks.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pytest

from clew import END, Graph, node, route

SIZES = (10, 100, 1_000, 10_000)


@cache
def chain(length: int) -> Graph:
    """Nodes that each read what the one before wrote."""
    nodes = [
        node(name=f"n{i}", output=f"v{i + 1}")(lambda v: v + 1).rename(inputs={"v": f"v{i}"})
        for i in range(length)
    ]
    return Graph(nodes)


@cache
def loop(turns: int) -> Graph:
    @node(output="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def again(n: int) -> Any:
        return "count" if n < turns else END

    return Graph([count, again], entry="count")


def calls_in(graph: Graph, given: dict[str, Any]) -> int:
    """How many Python functions one run calls."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        graph.run(given, max_steps=100_000)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("make, given", [(chain, {"v0": 0}), (loop, {"n": 0})])
def test_a_node_costs_the_same_in_graphs_and_runs_of_any_size(make: Any, given: dict[str, Any]) -> None:
    for size in SIZES:
        make(size).run(given, max_steps=100_000)  # what is made once for a graph is made
    calls = {size: calls_in(make(size), given) for size in SIZES}
    per_node = {size: (calls[size] - calls[10]) / (size - 10) for size in SIZES[1:]}
    assert max(per_node.values()) <= min(per_node.values()) * 1.05, per_node
