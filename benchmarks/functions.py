"""The functions of the chain, as their user would have typed them.

Frameworks that join functions by the names of their parameters need a function of its own for every node:
`x1(x0)`, `x2(x1)` and so on. They are made here from source text, so that the floor, Clew and Hamilton call
the very same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SYNC = "def x{next}(x{this}: int) -> int:\n    return x{this} + 1\n"
ASYNC = "async " + SYNC


def chain_functions(nodes: int, source: str = SYNC) -> list[Callable[..., Any]]:
    """`x1` to `x<nodes>`: each adds one to the value of the one before it; `x0` is given to the run."""
    namespace: dict[str, Any] = {}
    text = "".join(source.format(this=index, next=index + 1) for index in range(nodes))
    exec(compile(text, "<chain>", "exec"), namespace)
    return [namespace[f"x{index + 1}"] for index in range(nodes)]
