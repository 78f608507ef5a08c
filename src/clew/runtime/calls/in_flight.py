"""Calls in flight: recorded calls that run concurrently with the task of an async node.

A node that asks a question is unwound and runs again with the answer. Calls that its other tasks have begun must not be
made twice. So they finish and are recorded before the question is asked:

- Each recorded call outside the node's own task runs in a separate task. If the node asks a question, a task group
  cancels its other tasks, but the call continues. Any other cancellation cancels the call too.
- When the node has unwound for a question, `finish` waits for the calls. A timeout or a cancelled run ends this wait.
- Children are such calls. If several of them wait for a person, the node asks all of their questions together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from clew.runtime.calls.scopes import Asking
from clew.runtime.log.entries.call_records import Place

if TYPE_CHECKING:
    from clew.runtime.calls.context import RunContext


class CallsInFlight:
    """The recorded calls of one attempt that run concurrently with the task of its node."""

    __slots__ = ("_context", "_node", "_tasks", "asked")

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._node = _current_task()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.asked: list[tuple[Place, Asking]] = []  # the questions of children, and where each was started

    async def make(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Make a call; in a separate task, unless the task of the node awaits it."""
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
            if not task.done() and self._context.unwound_by is None:
                task.cancel()
                await asyncio.wait([task])
            raise

    async def finish(self, asking: Asking) -> Asking:
        """Wait until no call is in flight, including those that begin while it waits; return all questions as one.

        `asking` unwinds the node. The questions of children follow in the order of the calls.
        """
        try:
            while self._tasks:
                done, _ = await asyncio.wait(self._tasks)
                for task in done:  # their exceptions are recorded, and the next attempt gets them
                    task.cancelled() or task.exception()
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            raise
        children = [each for _, each in sorted(self.asked, key=lambda each: each[0])]
        if not any(each is asking for each in children):
            children.insert(0, asking)  # a question of the node itself
        first, *others = children
        first.others = (*first.others, *(question for each in others for question in each.questions))
        first.refusal = next((each.refusal for each in children if each.refusal is not None), None)
        return first


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None
