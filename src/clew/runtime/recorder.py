"""Recorded calls: what a node asked of the outside world, and what came back.

A call that succeeded is not made again: a later attempt of the same item, and a resumed run, get the recording, if
call number, name and request are the same. An exception belongs to its attempt. Calls are numbered in program
order when they start, so several at once keep their places.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.strand import Item
from clew.errors import EncodeError
from clew.state import encode

if TYPE_CHECKING:
    from clew.runtime.session import Session


class RecordedCall(msgspec.Struct, frozen=True):
    """One call: the specification's RecordedIO, keyed by path, attempt, number and name."""

    path: str
    attempt: int
    number: int
    name: str
    request: tuple[tuple[Any, ...], Mapping[str, Any]]
    response: Any
    error: BaseException | None
    timestamp: float
    duration: float
    awaited: bool = False  # the function returned an awaitable


class Recorder:
    """The calls of one run."""

    def __init__(self, calls: Iterable[RecordedCall] = ()) -> None:
        self._successes = {(c.path, c.number, c.name): c for c in calls if c.error is None}

    def call(
        self,
        session: Session,
        item: Item,
        number: int,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The recording of this call, or the call itself, recorded."""
        if not callable(fn):
            raise TypeError(
                f"ctx.record({name!r}, ...) takes the function to call, not {fn!r}: pass it, uncalled"
            )
        found = self._successes.get((item.path, number, name))
        if found is not None and _same(found.request, (args, kwargs)):
            session.tell("call_recorded", item, name=name, reused=True)
            return _ready(found.response) if found.awaited else found.response
        if inspect.iscoroutinefunction(fn):
            return self._call_async(session, item, number, name, fn, args, kwargs)
        keep = self._keeper(session, item, number, name, args, kwargs)
        try:
            response = fn(*args, **kwargs)
        except Exception as error:
            keep(None, error)
            raise
        if inspect.isawaitable(response):
            return self._await(response, keep)
        keep(response, None, awaited=False)
        return response

    async def _call_async(
        self, session: Session, item: Item, number: int, name: str, fn: Any, args: Any, kwargs: Any
    ) -> Any:
        return await self._await(fn(*args, **kwargs), self._keeper(session, item, number, name, args, kwargs))

    async def _await(self, awaitable: Any, keep: Callable[..., None]) -> Any:
        try:
            response = await awaitable
        except Exception as error:
            keep(None, error)
            raise
        keep(response, None)
        return response

    def _keeper(
        self, session: Session, item: Item, number: int, name: str, args: Any, kwargs: Any
    ) -> Callable[..., None]:
        attempt, started, began = item.attempt, session.clock.time(), session.clock.monotonic()

        def keep(response: Any, error: BaseException | None, awaited: bool = True) -> None:
            call = RecordedCall(
                path=item.path,
                attempt=attempt,
                number=number,
                name=name,
                request=(args, kwargs),
                response=response,
                error=error,
                timestamp=started,
                duration=session.clock.monotonic() - began,
                awaited=awaited,
            )
            if error is None:
                self._successes[(item.path, number, name)] = call
            session.keep(call)
            session.tell("call_recorded", item, name=name, reused=False)

        return keep


async def _ready(value: Any) -> Any:
    return value


def _same(one: Any, other: Any) -> bool:
    """Whether two requests are the same: by their encodings, or by equality where they have none."""
    try:
        return encode(one) == encode(other)
    except EncodeError:
        return bool(one == other)
