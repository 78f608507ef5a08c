"""Recorded calls: what a node asked of the outside world, and what came back.

A call that succeeded is not made again: a later attempt of the same item, and a resumed run, get the recording, if
call number, name and request are the same. An exception belongs to its attempt: an attempt that is taken up again
after a crash meets it again; one that is made again because the run had failed does not.
Calls are numbered in program order when they start, so several at once keep their places; those made inside another
recorded call are numbered within that one (``clew.runtime.calls.scopes``).

What happens when, for a crash between any two: all that was written before is durable, the call is made, its recording
is durable, the node goes on. So a call may have been made and have no recording; where that matters, `doubts` knows
about it.

Recordings are looked up item by item, when an item makes its first call, and let go of when it has finished.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.frame import Item
from clew.errors import EncodeError, StoreCorruptError, StoreError
from clew.runtime.calls.ambiguity import Made, check, told_place
from clew.runtime.calls.arguments import check_built
from clew.runtime.calls.scopes import Scope, question_of
from clew.runtime.crash_points import reach
from clew.runtime.log.call_records import WHOLE, CallIntent, Place, Recall, RecordedCall, Request
from clew.state import encode

if TYPE_CHECKING:
    from clew.runtime.calls.host import RecordingHost

OWN = "clew."
"""Names of calls that the library makes itself, such as asking the time: they have no effects."""


class ItemCalls:
    """What was recorded of one item, of all its attempts."""

    def __init__(self, entries: Iterable[RecordedCall | CallIntent] = ()) -> None:
        self.calls: list[RecordedCall] = []
        self.intents: list[CallIntent] = []
        self.own: set[int] = set()  # intents of this session, by their places
        self._at: dict[Place, list[RecordedCall]] = {}
        for entry in sorted(entries, key=lambda entry: entry.n):
            self.add(entry)

    def add(self, entry: RecordedCall | CallIntent) -> None:
        """Something more is recorded."""
        if isinstance(entry, CallIntent):
            self.intents.append(entry)
        else:
            self.calls.append(entry)
            self._at.setdefault(entry.place, []).append(entry)

    def candidates(self, epoch: tuple[int, ...], attempt: int, at: Place) -> Sequence[RecordedCall]:
        """The recordings that may stand for a call, best first: its own, or else successes of other attempts."""
        known = self._at.get(at, ())
        own = [call for call in known if call.attempt == attempt and call.epoch == epoch]
        if own:
            return own[-1:]
        return [call for call in reversed(known) if call.error is None]

    def made(self) -> set[Made]:
        """The calls that have a recording."""
        return {(call.epoch, call.attempt, call.place, call.name) for call in self.calls}


def _next(entries: Sequence[RecordedCall | CallIntent]) -> int:
    """The place of the next entry of a kind."""
    return entries[-1].n + 1 if entries else 0


class _PendingCall(msgspec.Struct):
    """One call of a node under way."""

    item: Item
    attempt: int
    scope: Scope
    name: str
    request: Request
    history: ItemCalls
    started: float = 0.0
    began: float = 0.0


class Recorder:
    """Makes the calls of one run, and records them.

    `recall` looks up what earlier processes recorded; `is_fresh` says that there is none but of this session.
    """

    def __init__(
        self,
        session: RecordingHost,
        recall: Recall | None = None,
        *,
        is_fresh: bool = True,
        resumption: int = 0,
    ) -> None:
        self._session = session
        self._resumption = resumption
        self._recall = recall
        self._is_fresh = is_fresh
        self._histories: dict[str, ItemCalls] = {}
        self._begun: dict[
            str, int
        ] = {}  # nodes that are recorded as a whole, and the attempts that are under way
        self._lock = threading.Lock()

    def call(
        self,
        item: Item,
        attempt: int,
        scope: Scope,
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
        if is_async(fn) and self._session.off_loop is not None and self._must_read(item):
            return self._call_later(item, attempt, scope, name, fn, args, kwargs)
        call = _PendingCall(item, attempt, scope, name, (args, kwargs), self._history(item))
        for found in call.history.candidates(item.frame.epoch, attempt, scope.place):
            if (
                found.name == name
                and same(found.request, call.request)
                and (found.error is None or self._is_met_again(found))
            ):
                self._session.tell("call_recorded", item, name=name, reused=True)
                return answer(found, item, self._session.run_id)
        self._check(call, (args, kwargs), "request")  # better now than after the call
        if is_async(fn):  # whatever stops it is raised where it is awaited
            return self._acall(call, fn)
        settled = self._settled(call)
        if settled:
            self._keep(call, settled[0], None)
            return settled[0]
        if not name.startswith(OWN):
            self._session.brace()
            reach("before-call")
        try:
            with scope:
                response = fn(*args, **kwargs)
        except Exception as error:
            self._keep(call, None, error)
            raise
        except BaseException as error:
            if question_of(error) is not None:
                self._left(call)
            raise
        if inspect.isawaitable(response):
            return self._await(call, response)
        self._keep(call, response, None)
        return response

    async def _call_later(self, item: Item, *call: Any) -> Any:
        """A call that is looked up first, off the loop."""
        await self._ahistory(item)
        value = self.call(item, *call)
        return await value if inspect.isawaitable(value) else value

    def _is_met_again(self, call: RecordedCall) -> bool:
        """Whether an exception of this very attempt is raised again."""
        return call.resumption == self._resumption

    async def _acall(self, call: _PendingCall, fn: Callable[..., Any]) -> Any:
        settled = self._settled(call)
        if settled:
            await self._akeep(call, settled[0], None)
            return settled[0]
        if not call.name.startswith(OWN):
            await self._session.abrace()
            reach("before-call")
        args, kwargs = call.request
        return await self._await(call, fn(*args, **kwargs))

    async def _await(self, call: _PendingCall, awaitable: Any) -> Any:
        try:
            with call.scope:
                response = await awaitable
        except Exception as error:
            await self._akeep(call, None, error)
            raise
        except BaseException as error:
            if question_of(error) is not None:
                self._left(call)
            raise
        await self._akeep(call, response, None)
        return response

    def forget(self, path: str) -> None:
        """An item has finished; should another attempt of what is around it come back to it, it is looked up."""
        self._begun.pop(path, None)
        if self._recall is not None and self._session.writer.is_lasting:
            self._histories.pop(path, None)

    # -- before a call -----------------------------------------------------------------------------------

    def _must_read(self, item: Item) -> bool:
        """Whether the store has to be asked for the recordings of an item."""
        if item.path in self._histories or self._recall is None:
            return False
        return not self._is_fresh or any(item.frame.epoch)

    async def _ahistory(self, item: Item) -> ItemCalls:
        """`_history`, without waiting on the loop."""
        off_loop = self._session.off_loop
        if off_loop is not None and self._must_read(item):
            found: ItemCalls = await off_loop.submit(self._history, item)
            return found
        return self._history(item)

    def _history(self, item: Item) -> ItemCalls:
        path = item.path
        history = self._histories.get(path)
        if history is None:
            entries: Iterable[RecordedCall | CallIntent] = ()
            if self._recall is not None and self._must_read(item):
                self._session.brace()  # so that what this session recorded is found
                try:
                    entries = self._checked(item, list(self._recall(path)))
                except StoreError as error:  # no failure of the node: it must not go on as if it had been one
                    self._session.writer.fail(error)
                    raise
            with self._lock:
                history = self._histories.setdefault(path, ItemCalls(entries))
        return history

    def _checked(
        self, item: Item, entries: list[RecordedCall | CallIntent]
    ) -> list[RecordedCall | CallIntent]:
        """What was recorded of an item; StoreCorruptError if that says that something is lost."""
        if entries:
            from clew.runtime.log.integrity import missing_recordings

            for wrong in missing_recordings(self._session.run_id, item, entries):
                raise StoreCorruptError(wrong)
        return entries

    def _check(self, call: _PendingCall, value: Any, what: str) -> None:
        """Refuse what cannot be stored, so that its node is told."""
        if self._session.writer.encodes:
            try:
                encode(value, at=what)
            except EncodeError as error:
                where = (
                    f"node {call.item.node.name!r} at {call.item.path}, call {told_place(call.scope.place)}"
                )
                raise EncodeError(f"{where} ({call.name!r}) cannot be recorded: {error}") from error

    def _settled(self, call: _PendingCall) -> tuple[Any, ...]:
        """A call begins: () to make it, or what a person has said that it gave, if there was a doubt."""
        session, item, place = self._session, call.item, call.scope.place
        call.started, call.began = session.clock.time(), session.clock.monotonic()
        if call.name.startswith(OWN) or session.settings.on_ambiguous == "retry":
            return ()
        settled = self._cleared_up(call.history, item, call.attempt, place)
        if not settled:
            self._intend(call.history, item, call.attempt, place, call.name)
        return settled

    def _cleared_up(self, history: ItemCalls, item: Item, attempt: int, place: Place) -> tuple[Any, ...]:
        """The response that a person has given for a call, or (); raises if there is a doubt."""
        session = self._session
        policy, answers = session.settings.on_ambiguous, session.machine.answers
        return check(history, policy, item, attempt, place, lambda about: list(answers(item, about).values()))

    def _intend(
        self, history: ItemCalls, item: Item, attempt: int, place: Place, name: str, is_settled: bool = False
    ) -> None:
        """Keep that a call is about to be made; or, if it is settled, that it ended without a result."""
        with self._lock:
            n, epoch = _next(history.intents), item.frame.epoch
            intent = CallIntent(item.path, attempt, place[-1], name, epoch, n, is_settled, place[:-1])
            history.add(intent)
            history.own.add(n)
            self._session.keep(intent)  # in the order of their numbers: a gap says that one is lost

    # -- whole nodes -------------------------------------------------------------------------------------

    def begin(self, item: Item) -> tuple[Any, ...]:
        """An attempt of a node with side effects begins: () to call it, or what a person says that it returned."""
        return self._begin(item, self._history(item))

    async def abegin(self, item: Item) -> tuple[Any, ...]:
        """`begin`, without waiting on the loop."""
        return self._begin(item, await self._ahistory(item))

    def _begin(self, item: Item, history: ItemCalls) -> tuple[Any, ...]:
        given = self._cleared_up(history, item, item.attempt, (WHOLE,))
        if not given:
            self._intend(history, item, item.attempt, (WHOLE,), "")
            self._begun[item.path] = item.attempt
        return given

    def ended(self, item: Item, attempt: int) -> None:
        """An attempt has raised, or has asked something: if it is one that `begin` knows, it is in no doubt."""
        if self._begun.get(item.path) == attempt:
            del self._begun[item.path]
            self._intend(self._history(item), item, attempt, (WHOLE,), "", is_settled=True)

    # -- after a call ------------------------------------------------------------------------------------

    def _left(self, call: _PendingCall) -> None:
        """The call was left with a question, and is made again with the answer: nobody doubts what became of it."""
        if self._session.settings.on_ambiguous != "retry" and not call.name.startswith(OWN):
            self._intend(call.history, call.item, call.attempt, call.scope.place, call.name, is_settled=True)

    def _keep(self, call: _PendingCall, response: Any, error: BaseException | None) -> None:
        """Record a call. It is durable before the node goes on; what the library asks itself need not be: it has no
        effects, and whatever has some comes after it in the log."""
        if self._put(call, response, error):
            if not call.name.startswith(OWN):
                self._session.writer.ensure()
            self._kept(call)

    async def _akeep(self, call: _PendingCall, response: Any, error: BaseException | None) -> None:
        """`_keep`, without waiting on the loop."""
        if self._put(call, response, error, awaited=True):
            await self._session.settle()
            self._kept(call)

    def _put(
        self, call: _PendingCall, response: Any, error: BaseException | None, *, awaited: bool = False
    ) -> bool:
        """Have a recording written, and say whether there is one."""
        session, item, history = self._session, call.item, call.history
        if not call.name.startswith(OWN):
            reach("after-call")
        if error is None:
            self._check(call, response, "response")
        with self._lock:
            made = RecordedCall(
                path=item.path,
                attempt=call.attempt,
                number=call.scope.place[-1],
                name=call.name,
                request=call.request,
                response=response,
                error=error,
                timestamp=call.started,
                duration=session.clock.monotonic() - call.began,
                awaited=awaited,
                epoch=item.frame.epoch,
                resumption=self._resumption,
                n=_next(history.calls),
                within=call.scope.place[:-1],
            )
            history.add(made)
            if self._histories.get(item.path) is not history:
                return False  # of an attempt that took too long, and the item has finished without it
            session.keep(made)  # in the order of their numbers: a gap says that one is lost
        return True

    def _kept(self, call: _PendingCall) -> None:
        if not call.name.startswith(OWN):
            reach("after-journal")
        self._session.tell("call_recorded", call.item, name=call.name, reused=False)


def answer(call: RecordedCall, item: Item, run_id: str) -> Any:
    """What a recording gives: a value or an exception, awaited if the call was."""
    check_built(call.response, item, run_id, f"what its call {call.name!r} returned")
    if call.awaited:
        return _again(call)
    if call.error is not None:
        raise call.error
    return call.response


async def _again(call: RecordedCall) -> Any:
    if call.error is not None:
        raise call.error
    return call.response


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether a callable is known to return an awaitable."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


def same(one: Any, other: Any) -> bool:
    """Whether two requests are the same: by their encodings, or by equality where they have none."""
    try:
        return encode(one) == encode(other)
    except EncodeError:
        return bool(one == other)
