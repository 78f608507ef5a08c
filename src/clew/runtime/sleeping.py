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
    from clew.runtime.session import Timer

    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    session.sleepers += 1
    session.at(session.clock.monotonic() + seconds, Timer("call", None, 0, action=wake))
    if session.on_tell is not None:
        session.on_tell()
    try:
        await woken
    finally:
        session.sleepers -= 1
