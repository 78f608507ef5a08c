"""The awaitables that a context gave to a node. If one is never awaited, its call is never made.

Rules:

- A node that returns while one of its recorded calls, sleeps or children has not begun fails with the line to fix.
- At the end of any attempt, they are closed: Python would warn about each of them when it is collected. The task of one
  that has not begun is cancelled.
- Awaitables that have ended are dropped when the next one is added, so a loop that awaits each of them keeps one.
- A child that is used like its result, before it was awaited, raises the same error (`AwaitedRun`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from types import CodeType, FrameType
from typing import Any

from clew.engine.frame import Item
from clew.errors import OutputError

Pending = tuple[Any, str, CodeType, int]
"""A coroutine, the method of the context that made it, and the code and the instruction that called the method."""


def watch(pending: list[Pending], coroutine: Any, method: str, caller: FrameType) -> None:
    """Add an awaitable. This runs at each recorded call, so the line of the call is computed only if it is needed."""
    try:
        while pending[-1][0].cr_frame is None:  # it has ended
            pending.pop()
    except IndexError:
        pass
    pending.append((coroutine, method, caller.f_code, caller.f_lasti))


def close(pending: list[Pending], item: Item) -> OutputError | None:
    """Close the awaitables that have not begun; return an error about the first, or None without any."""
    left = [each for each in pending if inspect.getcoroutinestate(each[0]) == inspect.CORO_CREATED]
    if not left:
        return None
    tasks = _tasks()
    for coroutine, *_ in left:
        if coroutine in tasks:
            tasks[coroutine].cancel()
        else:
            coroutine.close()
    return forgotten(left[0], item)


def forgotten(pending: Pending, item: Item) -> OutputError:
    """Return the error of a node that did not await a call."""
    _, method, code, instruction = pending
    lines = (line for start, end, line in code.co_lines() if start <= instruction < end)
    place = f"{code.co_filename}:{next(lines, None) or code.co_firstlineno}"
    is_sync = item.node.mode in ("sync", "generator")
    fix = "declare the node with `async def` and write" if is_sync else "write"
    return OutputError(
        f"node {item.node.name!r} called ctx.{method} without awaiting it ({place}), so the call was not made; {fix} "
        f"`await ctx.{method}(...)`"
    )


def _tasks() -> dict[Any, Any]:
    """Return the tasks of the running loop, by coroutine."""
    asyncio = sys.modules.get("asyncio")
    try:
        tasks = () if asyncio is None else asyncio.all_tasks()
    except RuntimeError:  # no loop runs in this thread
        return {}
    made = ((task, task.get_coro()) for task in tasks)
    return {getattr(coroutine, "coroutine", coroutine): task for task, coroutine in made}


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
    """What `ctx.run` returns in an async node: a child that is to be awaited. `forgotten` makes the error of a node
    that did not. It is a full coroutine, so ``asyncio.gather`` and ``create_task`` accept it."""

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
