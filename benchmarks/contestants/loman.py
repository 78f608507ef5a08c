"""loman: a computation of named nodes, in memory; inserting a value marks all that depend on it as stale."""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import loman

IMPORTS = "loman"


def incremental_chain(nodes: int) -> Callable[[], Any]:
    graph = loman.Computation()
    graph.add_node("x0", value=0)
    for index in range(nodes):
        graph.add_node(f"x{index + 1}", lambda before: before + 1, kwds={"before": f"x{index}"})
    last, numbers = f"x{nodes}", count(1)
    graph.compute(last)

    def run() -> Any:
        number = next(numbers)
        graph.insert("x0", number)
        graph.compute(last)
        return graph.value(last) - number

    return run


def incremental_fan(nodes: int) -> Callable[[], Any]:
    graph = loman.Computation()
    graph.add_node("source", value=0)
    for index in range(nodes):
        graph.add_node(f"d{index}", lambda source: source + 1)
    graph.compute_all()
    one, numbers = f"d{nodes // 2}", count(1)

    def run() -> Any:
        number = next(numbers)
        graph.insert("source", number)
        graph.compute(one)
        return graph.value(one) - number

    return run
