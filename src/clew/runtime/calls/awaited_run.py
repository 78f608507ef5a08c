"""What `ctx.run` returns in an async node: an awaitable whose error names the line that did not await it.

It is a full coroutine, so ``asyncio.gather`` and ``create_task`` accept it. Using it like the result of the child
raises an error that names the line. If the node returns without having awaited it, the child did not run, which is an
error too (``clew.runtime.calls.pending_awaits``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
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
    """A child that is to be awaited. `forgotten` makes the error of a node that did not."""

    def __init__(self, coroutine: Any, forgotten: Callable[[], OutputError]) -> None:
        self.coroutine = coroutine
        self._forgotten = forgotten

    def send(self, value: Any) -> Any:
        """Continue the child."""
        return self.coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the child."""
        return self.coroutine.throw(*error)

    def close(self) -> None:
        """End the child."""
        self.coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        found: Generator[Any, Any, Any] = self.coroutine.__await__()
        return found

    def __getitem__(self, name: str) -> Any:
        raise self._forgotten()

    def __getattr__(self, name: str) -> Any:
        if name in _RESULT:
            raise self._forgotten()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
