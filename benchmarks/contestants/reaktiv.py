"""reaktiv: signals, in memory. A pull recurses: a long chain needs a higher limit of recursion than Python's own."""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, untyped-decorator"

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from reaktiv import Computed, Signal

IMPORTS = "reaktiv"


def _after(before: Any) -> Any:
    return Computed(lambda: before() + 1)


def incremental_chain(nodes: int) -> Callable[[], Any]:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20 * nodes))
    head = Signal(0)
    chain = [head]
    for _ in range(nodes):
        chain.append(_after(chain[-1]))
        chain[-1]()
    numbers = count(1)

    def run() -> Any:
        number = next(numbers)
        head.set(number)
        return chain[-1]() - number

    return run


def _dependents(nodes: int) -> tuple[Any, list[Any]]:
    source = Signal(0)
    dependents = [_after(source) for _ in range(nodes)]
    for each in dependents:
        each()
    return source, dependents


def incremental_fan(nodes: int) -> Callable[[], Any]:
    source, dependents = _dependents(nodes)
    one, numbers = dependents[nodes // 2], count(1)

    def run() -> Any:
        number = next(numbers)
        source.set(number)
        return one() - number

    return run


def incremental_idle(nodes: int, pulls: int) -> Callable[[], Any]:
    _source, dependents = _dependents(nodes)
    other, some, numbers = Signal(0), dependents[:: nodes // pulls][:pulls], count(1)

    def run() -> Any:
        other.set(next(numbers))
        total = 0
        for one in some:
            total += one()
        return total

    return run
