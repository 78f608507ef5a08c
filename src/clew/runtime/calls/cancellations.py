"""Nodes that raise CancelledError without having been cancelled; for example, they await a cancelled task."""

from __future__ import annotations

import asyncio

from clew.engine.frame import Item
from clew.errors import NodeError


def own_error(item: Item, error: BaseException) -> BaseException:
    """Return the error of a node; turn a CancelledError that the engine did not cause into a NodeError."""
    if not issubclass(type(error), asyncio.CancelledError):
        return error
    failure = NodeError(
        f"node {item.node.name!r} at {item.path} raised CancelledError, but neither it nor the run was cancelled; "
        f"catch the CancelledError of the task that it awaits"
    )
    failure.__cause__ = error
    return failure
