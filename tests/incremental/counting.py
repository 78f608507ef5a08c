"""Computors that record each call, so that tests can assert what was computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from clew import DependencyGraph, schema
from clew.incremental import NodeSchema


class Calls(list[str]):
    """The nodes whose computors were called, in order."""

    def of(self, function: Callable[..., Any], output: str) -> Callable[..., Any]:
        """A computor that is written down as the node that it computes."""
        name = output.partition("(")[0]

        def computor(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            given = ",".join(map(str, bindings.values()))
            self.append(f"{name}({given})" if given else name)
            return function(inputs, old, bindings)

        return computor

    def schema(
        self, output: str, inputs: Iterable[str], function: Callable[..., Any], **more: Any
    ) -> NodeSchema:
        return schema(output, inputs, self.of(function, output), **more)

    def take(self) -> list[str]:
        """What was called since this was last asked."""
        taken = list(self)
        self.clear()
        return taken


def total(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    return sum(inputs)


def chain(length: int, **options: Any) -> DependencyGraph:
    """n0 <- source, n1 <- n0, and so on; each adds one."""
    schemas = [schema("n0", ["source"], lambda i, o, b: i[0] + 1)]
    schemas += [schema(f"n{n}", [f"n{n - 1}"], lambda i, o, b: i[0] + 1) for n in range(1, length)]
    return DependencyGraph(schemas, **options)
