"""`ctx.sleep` in async nodes: on the loop's clock, or on a virtual one that the driver moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.runtime.session import Session


async def asleep(session: Session, seconds: float) -> None:
    """Sleep for `seconds` of the session's clock."""
    if not session.clock.virtual:
        await asyncio.sleep(seconds)
        return
    if session.on_tell is None:  # nobody drives: it is up to the sleeper
        session.clock.advance(session.clock.monotonic() + seconds)
        return
    from clew.runtime.session import Timer

    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not woken.done():
            session.sleepers -= 1  # now, not when the task gets to go on: it counts as awake
            woken.set_result(None)

    session.sleepers += 1
    timer = Timer("call", None, 0, action=wake)
    session.at(session.clock.monotonic() + seconds, timer)
    session.on_tell()
    try:
        await woken
    finally:
        if woken.cancelled():
            session.sleepers -= 1
            session.forget(timer)
