"""Find a question that a node awaits, although `ctx.interrupt` returns the answer itself.

The first time, `ctx.interrupt` leaves the node, so the ``await`` would fail only after a person has answered. The
bytecode of the caller tells before that whether it awaits what the call returns. An ``await`` of a function that
returns the answer is not found.
"""

from __future__ import annotations

import dis
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import FrameType

from clew.engine.frame import Item
from clew.errors import NodeError


def check_not_awaited(item: Item, caller: FrameType) -> None:
    """Raise NodeError if the function that asks a question awaits the answer."""
    code, called = caller.f_code, caller.f_lasti
    if not code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        return
    after = next((each for each in dis.get_instructions(code) if each.offset > called), None)
    if after is not None and after.opname == "GET_AWAITABLE":
        raise NodeError(
            f"node {item.node.name!r} awaits ctx.interrupt ({code.co_filename}:{caller.f_lineno}), which returns the "
            f"answer itself; remove the await"
        )
