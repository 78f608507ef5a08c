"""A hold on a run: what a verb of an engine has, or may have, of a run from its first moment to its last.

An interrupt can come at any instant, also between a claim and the line that takes note of it. So a hold is made before
anything is acquired, and names what will be: the run and its owner. Whatever happens, the verb gives back by that name,
once more if it was interrupted while it did so, and giving back what was never taken does nothing.

How a run ends is the same for all drivers; where the store is waited for is not. So an ending yields what uses the
store to whoever concludes it: here, in the caller's thread; for event loops in ``clew.runtime.drivers.off_loop``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from clew.runtime.drivers.session import Session

T = TypeVar("T")
Work = Callable[..., Any]
"""Something that uses the store. With ``at_once=True`` it raises `WouldWait` rather than wait, and has done nothing."""


class Hold:
    """One verb's hold on one run; the session is known when there is one."""

    __slots__ = ("owner", "run_id", "session")

    def __init__(self, run_id: str, owner: str = "") -> None:
        self.run_id = run_id
        self.owner = owner
        self.session: Session | None = None


def conclude(works: Generator[Work, Any, T]) -> T:
    """Do one work after the other, in the caller's thread."""
    try:
        work = next(works)
        while True:
            try:
                answer = work()
            except BaseException as error:
                work = works.throw(error)
            else:
                work = works.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
