"""A hold names the run that a method of an engine claims, or is about to claim.

An interrupt can come at any instant, also between a claim and the assignment of its result. So the hold is created
before anything is acquired, with the run id and the owner name. After an error the method releases the run under that
name, again if it was interrupted while it did so. Releasing a run that was never claimed does nothing.

All drivers end a run in the same way, but wait for the store in different places. So the code that ends a run is a
generator that yields functions that use the store. `conclude` calls them in the caller's thread; the one in
``clew.runtime.drivers.off_loop`` calls them for event loops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from clew.errors import ClewError
from clew.runtime.run_ids import checked_run_id

if TYPE_CHECKING:
    from clew.runtime.drivers.session import Session

T = TypeVar("T")
Work = Callable[..., Any]
"""A function that uses the store. With ``at_once=True`` it raises `WouldWait` instead of waiting, without effect."""


class Hold:
    """The hold of one method on one run; `session` is set when the run is open."""

    __slots__ = ("is_freed", "owner", "run_id", "session")

    def __init__(self, run_id: str, owner: str = "") -> None:
        self.run_id = run_id if type(run_id) is str else checked_run_id(run_id)
        self.owner = owner
        self.session: Session | None = None
        self.is_freed = False  # after an interrupt or a cancellation


def conclude(works: Generator[Work, Any, T]) -> T:
    """Call the functions that a generator yields, in the caller's thread; return its result."""
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


def written(session: Session, broken: BaseException | None) -> Generator[Work, Any, BaseException | None]:
    """Write what is left of a run; return the error that has ended it."""
    try:
        if broken is not None:
            session.cancelled = True  # for nodes that still run on threads
            session.flush()
        session.measure()
        yield session.writer.close
    except ClewError as error:
        if broken is None:  # otherwise the first error is already on its way to the caller
            return session.lost or error
    except GeneratorExit:
        raise
    except BaseException:  # the interrupted call raises the interrupt again
        if broken is None:
            raise
    return session.lost if broken is None else broken
