"""What `ctx.run` returns in an async node: an awaitable that says which line forgot to await it.

It is a coroutine in every respect, so that ``asyncio.gather`` and ``create_task`` take it. Using it like the result of
the child is an error that names the line. So is returning from the node without having awaited it: the child did not
run.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

from clew.errors import OutputError

_RESULT = frozenset(
    {
        "blocked",
        "error",
        "failures",
        "get",
        "last_step",
        "metrics",
        "questions",
        "run_id",
        "state",
        "status",
        "values",
    }
)
"""The attributes of a `RunResult` that a node would use."""


class AwaitedRun(Coroutine[Any, Any, Any]):
    """A child that is to be awaited. `line` is the file and line of the call."""

    def __init__(self, coroutine: Any, node: str, line: str) -> None:
        self._coroutine = coroutine
        self._node = node
        self._line = line
        self.has_started = False

    def send(self, value: Any) -> Any:
        """Continue the child."""
        self.has_started = True
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the child."""
        self.has_started = True
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the child."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        self.has_started = True
        found: Generator[Any, Any, Any] = self._coroutine.__await__()
        return found

    def __getitem__(self, name: str) -> Any:
        raise self.forgotten()

    def __getattr__(self, name: str) -> Any:
        if name in _RESULT:
            raise self.forgotten()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def forgotten(self) -> OutputError:
        """Return the error of a node that did not await it."""
        return OutputError(
            f"node {self._node!r} called ctx.run without awaiting it ({self._line}); write `await ctx.run(...)`"
        )
