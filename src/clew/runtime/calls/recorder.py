"""Recorded calls: the calls of a node to the outside world, and their responses.

- A call that succeeded is not repeated. A later attempt of the item, or a resumed run, gets the recorded response if
  place, name and request are the same.
- A recorded exception belongs to its attempt. If the attempt is repeated after a crash, the exception is raised again.
  If the run had failed and is resumed, the call is made again.
- Calls are numbered in program order when they start, so concurrent calls keep their places. Calls inside another
  recorded call are numbered within it (``clew.runtime.calls.scopes``).
- The order is: earlier records become durable, the call is made, its recording becomes durable, the node continues.
  After a crash in between, a call may have been made without a recording (``clew.runtime.calls.ambiguity``).

The recordings of an item are read when it makes its first call and dropped when it finishes.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from clew.engine.frame import Item
from clew.errors import EncodeError, RunCancelledError, StoreCorruptError, StoreError
from clew.runtime.calls.ambiguity import Made, check, place_text
from clew.runtime.calls.arguments import check_built
from clew.runtime.calls.scopes import Asking, NodeCall, Scope
from clew.runtime.log.entries.call_records import WHOLE, CallIntent, Place, Recall, RecordedCall, Request
from clew.runtime.process.crash_points import reach
from clew.runtime.reporting.observers import NO_OBSERVER, CallObserver
from clew.state import same

if TYPE_CHECKING:
    from clew.runtime.calls.host import RecordingHost

OWN = "clew."
"""Prefix of calls that Clew makes itself, such as reading the clock; they have no effects."""


class ItemCalls:
    """The recorded calls and intents of all attempts of one item."""

    def __init__(self, entries: Iterable[RecordedCall | CallIntent] = ()) -> None:
        self.calls: list[RecordedCall] = []
        self.intents: list[CallIntent] = []
        self.own: set[int] = set()  # numbers of the intents of this session
        self._at: dict[Place, list[RecordedCall]] = {}
        for entry in sorted(entries, key=lambda entry: entry.n):
            self.add(entry)

    def add(self, entry: RecordedCall | CallIntent) -> None:
        if isinstance(entry, CallIntent):
            self.intents.append(entry)
        else:
            self.calls.append(entry)
            self._at.setdefault(entry.place, []).append(entry)

    def candidates(self, epoch: tuple[int, ...], attempt: int, at: Place) -> Sequence[RecordedCall]:
        """Return recordings that can answer a call, best first: of this attempt, else successes of other attempts."""
        known = self._at.get(at, ())
        own = [call for call in known if call.attempt == attempt and call.epoch == epoch]
        if own:
            return own[-1:]
        return [call for call in reversed(known) if call.error is None]

    def made(self) -> set[Made]:
        """Return the calls that have a recording."""
        return {(call.epoch, call.attempt, call.place, call.name) for call in self.calls}


def _next(entries: Sequence[RecordedCall | CallIntent]) -> int:
    """Return the number of the next entry of a kind."""
    return entries[-1].n + 1 if entries else 0


class _PendingCall(msgspec.Struct):
    """A call that is running."""

    item: Item
    attempt: int
    scope: Scope
    name: str
    request: Request
    history: ItemCalls
    around: CallObserver = NO_OBSERVER
    started: float = 0.0
    began: float = 0.0
    awaited: bool = False


class Recorder:
    """Makes and records the calls of one run.

    `recall` reads recordings from the store. With `is_fresh`, only this session has recorded calls.
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
        self._begun: dict[str, int] = {}  # path -> running attempt, of nodes that are recorded as a whole
        self._lock = threading.Lock()

    def call(self, wanted: NodeCall) -> Any:
        """Return the recorded response of a call, or make the call and record it.

        A function with an attribute `awaited` blocks for a node that awaits the call, in another process.
        """
        wanted.check()
        item, attempt, scope, name, fn, args, kwargs = wanted
        if is_async(fn) and self._session.off_loop is not None and self._must_read(item):
            return in_flight(scope, partial(self._call_later, wanted))
        call = _PendingCall(item, attempt, scope, name, (args, kwargs), self._history(item))
        for found in call.history.candidates(item.frame.epoch, attempt, scope.place):
            if (
                found.name == name
                and same(found.request, call.request)
                and (found.error is None or self._is_raised_again(found))
            ):
                self._session.send_event("call_recorded", item, name=name, reused=True)
                return answer(found, item, self._session.run_id)
        self._check(call, (args, kwargs), "request")  # before the call has an effect
        if is_async(fn):  # its errors are raised where it is awaited
            return in_flight(scope, partial(self._acall, call, fn))
        settled = self._start(call)
        if settled:
            self._keep(call, settled[0], None)
            return settled[0]
        if not name.startswith(OWN):
            self._session.before_call()
            reach("before-call")
        if self._session.observed is not None:
            call.around = self._observer_of(call)
        try:
            with scope, call.around as observer:
                response = fn(*args, **kwargs)
                observer.respond(response)
        except Exception as error:
            call.awaited = getattr(fn, "awaited", False)
            if scope.unwound_by is None:
                if not self._is_cancellation(error):
                    self._keep(call, None, error)
                raise
        except BaseException:
            if scope.unwound_by is not None:
                self._left(call)
            raise
        if scope.unwound_by is not None:  # the function has caught it
            self._left(call)
            raise scope.unwound_by
        if inspect.isawaitable(response):
            return in_flight(scope, partial(self._await, call, response))
        call.awaited = getattr(fn, "awaited", False)
        self._keep(call, response, None)
        return response

    async def _call_later(self, wanted: NodeCall) -> Any:
        """Make a call after its history was read on a thread."""
        await self._ahistory(wanted.item)
        value = self.call(wanted)
        return await value if inspect.isawaitable(value) else value

    def _is_raised_again(self, call: RecordedCall) -> bool:
        """Return whether a recorded exception belongs to this resumption."""
        return call.resumption == self._resumption

    def _is_cancellation(self, error: Exception) -> bool:
        """Return whether a call ended because the run was cancelled; a resumed run makes it again."""
        return self._session.cancelled and type(error) is RunCancelledError

    def failures(self, item: Item, place: Place, name: str, request: Request) -> int:
        """Return how often this call of an item was recorded as failed."""
        return sum(
            call.error is not None
            and call.place == place
            and call.name == name
            and same(call.request, request)
            for call in self._history(item).calls
        )

    async def _acall(self, call: _PendingCall, fn: Callable[..., Any]) -> Any:
        settled = self._start(call)
        if settled:
            await self._akeep(call, settled[0], None)
            return settled[0]
        if not call.name.startswith(OWN):
            await self._session.abefore_call()
            reach("before-call")
        args, kwargs = call.request
        if self._session.observed is not None:
            call.around = self._observer_of(call)
        return await self._await(call, fn(*args, **kwargs))

    def _observer_of(self, call: _PendingCall) -> CallObserver:
        """Return what surrounds a call that is made now. Calls of Clew itself are not observed."""
        observed = self._session.observed
        if observed is None or call.name.startswith(OWN):
            return NO_OBSERVER
        around: CallObserver = observed.call_recorded(call.item, call.name, call.request)
        return around

    async def _await(self, call: _PendingCall, awaitable: Any) -> Any:
        try:
            with call.scope, call.around as observer:
                response = await awaitable
                observer.respond(response)
        except Exception as error:
            if call.scope.unwound_by is None:
                if not self._is_cancellation(error):
                    await self._akeep(call, None, error)
                raise
        except BaseException:
            if call.scope.unwound_by is not None:
                self._left(call)
            raise
        if call.scope.unwound_by is not None:  # the function has caught it
            self._left(call)
            raise call.scope.unwound_by
        await self._akeep(call, response, None)
        return response

    def lose(self, item: Item, attempt: int) -> None:
        """Note that the calls of an attempt that have no recording may have been made: their process is gone."""
        self._begun.pop(item.path, None)
        history = self._histories.get(item.path)
        if history is not None:
            with self._lock:
                history.own.difference_update(
                    intent.n
                    for intent in history.intents
                    if (intent.attempt, intent.epoch) == (attempt, item.frame.epoch)
                )

    def forget(self, path: str) -> None:
        """Drop the history of a finished item; it is read again if an enclosing item is retried."""
        self._begun.pop(path, None)
        if self._recall is not None and self._session.writer.is_lasting:
            self._histories.pop(path, None)

    # -- before a call -----------------------------------------------------------------------------------

    def _must_read(self, item: Item) -> bool:
        """Return whether the recordings of an item have to be read from the store."""
        if item.path in self._histories or self._recall is None:
            return False
        return not self._is_fresh or any(item.frame.epoch)

    async def _ahistory(self, item: Item) -> ItemCalls:
        """`_history` that does not block the event loop."""
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
                self._session.before_call()  # flush, so that recordings of this session are found
                try:
                    entries = self._checked(item, list(self._recall(path)))
                except StoreError as error:  # a node that catches it must not continue: the session fails
                    self._session.writer.fail(error)
                    raise
            with self._lock:
                history = self._histories.setdefault(path, ItemCalls(entries))
        return history

    def _checked(
        self, item: Item, entries: list[RecordedCall | CallIntent]
    ) -> list[RecordedCall | CallIntent]:
        """Return the entries of an item; raise StoreCorruptError if one is missing."""
        if entries:
            from clew.runtime.log.checks.integrity import missing_recordings

            for problem in missing_recordings(self._session.run_id, item, entries):
                raise StoreCorruptError(problem)
        return entries

    def _check(self, call: _PendingCall, value: Any, what: str) -> None:
        """Raise EncodeError in the node if a value cannot be stored."""
        try:
            self._session.writer.check(value, what)
        except EncodeError as error:
            where = f"node {call.item.node.name!r} at {call.item.path}, call {place_text(call.scope.place)}"
            raise EncodeError(f"{where} ({call.name!r}) cannot be recorded: {error}") from error

    def _start(self, call: _PendingCall) -> tuple[Any, ...]:
        """Start a call; return () to make it, or a tuple with the response that a user gave for an ambiguous call."""
        session, item, place = self._session, call.item, call.scope.place
        call.started, call.began = session.clock.time(), session.clock.monotonic()
        if call.name.startswith(OWN) or session.settings.on_ambiguous == "retry":
            return ()
        try:
            settled = self._resolve(call.history, item, call.attempt, place)
        except Asking as asking:
            raise call.scope.unwind(asking) from None
        if not settled:
            self._intend(call.history, item, call.attempt, place, call.name)
        return settled

    def _resolve(self, history: ItemCalls, item: Item, attempt: int, place: Place) -> tuple[Any, ...]:
        """Return a tuple with the response that a user gave for a call, or (); raise if the call is ambiguous."""
        session = self._session
        policy, answers = session.settings.on_ambiguous, session.machine.answers
        return check(history, policy, item, attempt, place, lambda about: list(answers(item, about).values()))

    def _intend(
        self, history: ItemCalls, item: Item, attempt: int, place: Place, name: str, is_settled: bool = False
    ) -> None:
        """Write an intent: a call is about to be made or, if `is_settled`, has ended without a result."""
        with self._lock:
            n, epoch = _next(history.intents), item.frame.epoch
            intent = CallIntent(item.path, attempt, place[-1], name, epoch, n, is_settled, place[:-1])
            history.add(intent)
            history.own.add(n)
            self._session.keep(intent)  # under the lock, because a gap in the numbers means a lost entry

    # -- whole nodes -------------------------------------------------------------------------------------

    def begin(self, item: Item) -> tuple[Any, ...]:
        """Start an attempt of a node with side effects; return () to call it, or (value,) if a user gave its value."""
        return self._begin(item, self._history(item))

    async def abegin(self, item: Item) -> tuple[Any, ...]:
        """`begin` that does not block the event loop."""
        return self._begin(item, await self._ahistory(item))

    def _begin(self, item: Item, history: ItemCalls) -> tuple[Any, ...]:
        given = self._resolve(history, item, item.attempt, (WHOLE,))
        if not given:
            self._intend(history, item, item.attempt, (WHOLE,), "")
            self._begun[item.path] = item.attempt
        return given

    def ended(self, item: Item, attempt: int) -> None:
        """Settle the intent of an attempt that raised or asked a question."""
        if self._begun.get(item.path) == attempt:
            del self._begun[item.path]
            self._intend(self._history(item), item, attempt, (WHOLE,), "", is_settled=True)

    # -- after a call ------------------------------------------------------------------------------------

    def _left(self, call: _PendingCall) -> None:
        """Settle the intent of a call that asked a question; it is made again with the answer."""
        if self._session.settings.on_ambiguous != "retry" and not call.name.startswith(OWN):
            self._intend(call.history, call.item, call.attempt, call.scope.place, call.name, is_settled=True)

    def _keep(self, call: _PendingCall, response: Any, error: BaseException | None) -> None:
        """Record a call and wait until it is durable. Calls of Clew itself have no effects, so they need not wait."""
        if self._put(call, response, error):
            if not call.name.startswith(OWN):
                self._session.writer.ensure()
            self._announce(call)

    async def _akeep(self, call: _PendingCall, response: Any, error: BaseException | None) -> None:
        """`_keep` that does not block the event loop."""
        if self._put(call, response, error, awaited=True):
            await self._session.settle()
            self._announce(call)

    def _put(
        self, call: _PendingCall, response: Any, error: BaseException | None, *, awaited: bool = False
    ) -> bool:
        """Write a recording; return whether one was written."""
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
                awaited=awaited or call.awaited,
                epoch=item.frame.epoch,
                resumption=self._resumption,
                n=_next(history.calls),
                within=call.scope.place[:-1],
            )
            history.add(made)
            if self._histories.get(item.path) is not history:
                return False  # the attempt timed out, and the item has finished without it
            session.keep(made)  # under the lock, because a gap in the numbers means a lost entry
        return True

    def _announce(self, call: _PendingCall) -> None:
        if not call.name.startswith(OWN):
            reach("after-journal")
        self._session.send_event("call_recorded", call.item, name=call.name, reused=False)


def in_flight(scope: Scope, make: Callable[[], Coroutine[Any, Any, Any]]) -> Coroutine[Any, Any, Any]:
    """Return a call that finishes although another task of the node asks a question."""
    calls = scope.of.in_flight
    return make() if calls is None else calls.make(make)


def answer(call: RecordedCall, item: Item, run_id: str) -> Any:
    """Return the response of a recording, or raise its exception; return an awaitable if the call was awaited."""
    check_built(call.response, item, run_id, f"the response of its call {call.name!r}")
    if call.awaited:
        return _again(call)
    if call.error is not None:
        raise call.error
    return call.response


async def _again(call: RecordedCall) -> Any:
    if call.error is not None:
        raise call.error
    return call.response


def now(recorded: Any) -> Any:
    """Return the response in an awaitable that `answer` returned; it never waits."""
    try:
        recorded.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a recorded call waits")


def is_async(fn: Callable[..., Any]) -> bool:
    """Return whether a callable is known to return an awaitable."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)
