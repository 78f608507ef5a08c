"""Calls in flight: recorded calls that run beside the task of an async node.

A node that asks a question is unwound and runs again with the answer. Calls that other tasks of it have begun must not
be made twice. So before the question counts, they finish and are recorded:

- Each recorded call outside the node's own task runs in a task of its own. If the node asks, a task group cancels its
  other tasks; the call goes on. Any other cancellation cancels the call too.
- When the node has unwound for a question, `finish` waits for the calls. A timeout or a cancelled run ends that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class CallsInFlight:
    """The recorded calls of one attempt that run beside the task of its node."""

    __slots__ = ("_node", "_tasks", "is_asking")

    def __init__(self) -> None:
        self._node = _current_task()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_asking = False  # a question unwinds the node

    async def make(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Make a call; in a task of its own unless the task of the node awaits it."""
        current = _current_task()
        if (
            self._node is None
            or current is None
            or current is self._node
            or current.get_loop() is not self._node.get_loop()
        ):
            return await call()
        task = current.get_loop().create_task(call())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done() and not self.is_asking:
                task.cancel()
                await asyncio.wait([task])
            raise

    async def finish(self) -> None:
        """Wait until no call is in flight, including those that begin while it waits."""
        try:
            while self._tasks:
                done, _ = await asyncio.wait(self._tasks)
                for task in done:  # their exceptions are recorded, and the next attempt gets them
                    task.cancelled() or task.exception()
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            raise


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None
