"""The host of a node in a worker process: its context asks the driver.

The context is the `RunContext` of every host. It numbers calls, questions and waits; the driver knows what was recorded
at each place. So the driver can answer a body that starts over, on any worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from inspect import isawaitable
from threading import Event as ThreadEvent
from types import SimpleNamespace
from typing import Any

import msgspec

from clew.error_text import line_of
from clew.errors import EncodeError, NodeError
from clew.graph.signature import Mode
from clew.runtime.calls.cancellations import own_error
from clew.runtime.calls.context import RunContext
from clew.runtime.calls.host import SLEPT, Host
from clew.runtime.calls.recorder import in_flight, is_async
from clew.runtime.calls.scopes import Asking, Leaving, NodeCall, Scope, raise_question
from clew.runtime.calls.waiting import Waiting, WaitRequest
from clew.runtime.remote.frames import BodyEvent, DriverReply, Made, Method
from clew.runtime.remote.pickling import Dumps, loads, pack_raised, unpack_raised
from clew.runtime.remote.station import Station
from clew.runtime.remote.tasks import Around, Body
from clew.stores import Statement


class WorkerNode(msgspec.Struct, frozen=True):
    """The parts of a node that its context and its errors need."""

    name: str
    func: Callable[..., Any]
    mode: Mode


class WorkerItem(msgspec.Struct, eq=False):
    """The parts of an item that its context and its errors need."""

    node: WorkerNode
    path: str
    step: int
    attempt: int
    reduced: tuple[str, ...]
    live: bool = True

    def is_reduced(self, name: str) -> bool:
        """Return whether a value has a reducer."""
        return name in self.reduced


class WorkerContext(RunContext):
    """The context of a node in a worker process."""

    __slots__ = ("_key",)

    @property
    def idempotency_key(self) -> str:
        """The key that the driver computes from the node's inputs; the same for all attempts."""
        host: Any = self._host
        key: str | None = getattr(self, "_key", None)
        if key is None:
            key = self._key = str(host.request("key"))
        return key


class WorkerHost(Host):
    """Calls one node, and serves its context."""

    def __init__(
        self,
        station: Station,
        token: str,
        body: Body,
        given: tuple[Any, Any],
        dumps: Dumps,
        lending: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        task = body.task
        answers, self._slept = given
        clock = SimpleNamespace(time=None, virtual=task.is_virtual)
        machine: Any = SimpleNamespace(
            options=SimpleNamespace(seed=task.seed), answers=lambda item, about="": answers
        )
        settings: Any = SimpleNamespace(check_mutation=task.check_mutation, clock=clock)
        super().__init__(task.run_id, machine, settings)
        self.recorder = _Calls(self)
        self.dumps = dumps
        self.lending = lending
        self._station = station
        self._token = token
        self._body = body
        self._ended = ThreadEvent()
        self._task: asyncio.Task[Any] | None = None
        node = WorkerNode(task.name, body.func, task.mode)
        self.item: Any = WorkerItem(node, task.path, task.step, task.attempt, task.reduced)

    # -- the body ----------------------------------------------------------------------------------------

    def run(self) -> Any:
        """Call the node, and return its value."""
        with self._body.around:
            return self._run()

    def _run(self) -> Any:
        try:
            value = self._call()
            if isawaitable(value) and self.item.node.mode in ("async", "async_generator"):
                return asyncio.run(self._awaited(value))
            return value
        except StopIteration as error:
            name, path = self.item.node.name, self.item.path
            raise NodeError(f"node {name!r} at {path} raised StopIteration; give next() a default") from error

    def _call(self) -> Any:
        item, takes_context = self.item, self._body.task.takes_context
        context = WorkerContext(self, item, item.attempt)
        args, kwargs, inputs = self._body.arguments(context)
        return self.called(
            item, context, takes_context, lambda: self.call_guarded(item, context, args, kwargs, inputs)
        )

    async def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        self._task = asyncio.current_task()
        if self.cancelled:
            raise self.leave(self.item, self.item.attempt)
        try:
            return await awaitable
        except asyncio.CancelledError as error:
            if self.cancelled:
                raise self.leave(self.item, self.item.attempt) from None
            raise own_error(self.item, error) from None
        finally:
            self._task = None

    @property
    def is_async(self) -> bool:
        """Whether the node is a coroutine, which is cancelled as a task."""
        return self.item.node.mode in ("async", "async_generator")

    def cancel(self) -> None:
        """End the attempt, from the thread of the link."""
        self.cancelled = True
        self._ended.set()
        task = self._task
        if task is not None:
            try:
                task.get_loop().call_soon_threadsafe(task.cancel)
            except RuntimeError:  # the loop has just been closed
                pass

    def is_over(self, item: Any, attempt: int) -> bool:
        """Return whether the attempt has ended before its node."""
        return self.cancelled

    # -- requests ----------------------------------------------------------------------------------------

    def request(self, method: Method, *parts: Any, scope: Scope | None = None) -> Any:
        """Ask the driver, and wait. A question or a wait unwinds `scope`."""
        future = self._station.request(self._token, method, self.packed(parts, method))
        return self.value_of(*future.result(), scope)

    async def arequest(self, method: Method, *parts: Any, scope: Scope | None = None) -> Any:
        """`request` that does not block the event loop."""
        future = self._station.request(self._token, method, self.packed(parts, method))
        return self.value_of(*await asyncio.wrap_future(future), scope)

    def packed(self, parts: Any, method: str) -> bytes:
        """Return the parts of a request as they are sent."""
        try:
            return self.dumps(parts)
        except Exception as error:
            item = self.item
            raise EncodeError(
                f"node {item.node.name!r} at {item.path}: an argument of ctx.{method} cannot be pickled for the "
                f'driver: {line_of(error)}; give plain data, or keep the node in the driver with on="driver"'
            ) from error

    def value_of(self, reply: DriverReply, data: bytes, scope: Scope | None = None) -> Any:
        """Return the value of a reply, or raise its exception in the node; one that asks unwinds `scope`."""
        if reply.how == "value":
            return loads(data)
        if reply.how == "over":
            raise self.leave(self.item, self.item.attempt)
        error = unpack_raised(reply.how, data)
        raise scope.unwind(error) if scope is not None and isinstance(error, Asking) else error

    def call_again(self, frame: Made, data: bytes) -> Any:
        """Send the result of a recorded call; return the future of the reply."""
        return self._station.send_made(frame, data)

    @property
    def token(self) -> str:
        """The token of the task."""
        return self._token

    # -- what the context needs --------------------------------------------------------------------------

    def send_event(self, kind: Any, item: Any, **data: Any) -> None:
        """Send what the node emits, or a chunk, to the driver."""
        if self.cancelled:
            raise self.leave(item, item.attempt)
        self._station.send(BodyEvent(self._token, kind), self.packed(data, "emit"))

    def sleep(self, item: Any, attempt: int, seconds: float) -> Awaitable[None]:
        """Sleep here; with a virtual clock, the driver knows how long."""
        if self.is_async:
            if self.clock.virtual:
                return self.arequest("sleep", seconds)
            return asyncio.sleep(seconds)
        if self.clock.virtual:
            self.request("sleep", seconds)
        elif self._ended.wait(seconds):
            raise self.leave(item, attempt)
        return SLEPT

    def wait(self, item: Any, attempt: int, request: WaitRequest, scope: Scope) -> Any:
        """Wait durably: the value of the wait, or the node is unwound."""
        return (self.arequest if self.is_async else self.request)("wait", request, scope=scope)

    def has_slept(self, item: Any, attempt: int, position: str) -> bool:
        """Return whether a durable sleep of this attempt has ended; the grant says so."""
        return position in self._slept

    def ask(self, item: Any, attempt: int, request: WaitRequest) -> Any:
        """Begin to wait for an answer; return the end of the wait if none came in time."""
        return self.request("ask", request)

    def run_child(
        self, item: Any, attempt: int, scope: Scope, graph: Any, values: Any, key: str | None
    ) -> Any:
        """Have the driver run a graph."""
        parts = (scope.place, graph, values, key)
        if self.is_async:
            return in_flight(scope, partial(self._arun_child, scope, parts))
        with self.lending():
            return self.request("run", *parts, scope=scope)

    async def _arun_child(self, scope: Scope, parts: tuple[Any, ...]) -> Any:
        try:
            with self.lending():
                return await self.arequest("run", *parts, scope=scope)
        except Asking as asking:
            if (calls := scope.of.in_flight) is not None and not isinstance(asking, Waiting):
                calls.asked.append((scope.place, asking))
            raise

    def transact(self, item: Any, attempt: int, statements: list[Statement]) -> None:
        """Give statements to the driver, which executes them with the outcome."""
        self.request("transact", statements)


class _Calls:
    """Recorded calls of a node in a worker process."""

    def __init__(self, host: WorkerHost) -> None:
        self._host = host

    def call(self, call: NodeCall) -> Any:
        """Return the recorded response of a call, or make the call and have the driver record it."""
        host = self._host
        _, _, scope, name, fn, args, kwargs = call
        if name == "clew.now":
            return host.request("now", scope.place)
        call.check()
        asked = host.packed((scope.place, name, args, kwargs), "record")
        if is_async(fn):
            return in_flight(scope, partial(self._acall, scope, asked, partial(fn, *args, **kwargs)))
        reply, data = host._station.request(host.token, "record", asked).result()
        if reply.how != "make":
            return _recorded(host, reply, data, scope)
        around = Around(data)
        try:
            with scope, around:
                response = fn(*args, **kwargs)
        except BaseException as error:
            raised = scope.unwound_by if isinstance(error, Exception) else None
            self._check(*self._raised(reply.n, scope.unwound_by or error, around).result())
            if raised is not None:
                raise raised from None  # the function has caught it
            raise
        if scope.unwound_by is not None:
            self._check(*self._raised(reply.n, scope.unwound_by, around).result())
            raise scope.unwound_by
        if isawaitable(response):
            return in_flight(scope, partial(self._await, scope, reply.n, response, around))
        self._check(*self._returned(reply.n, response, around).result())
        return response

    async def _acall(self, scope: Scope, asked: bytes, make: Callable[[], Any]) -> Any:
        host = self._host
        reply, data = await asyncio.wrap_future(host._station.request(host.token, "record", asked))
        if reply.how != "make":
            return host.value_of(reply, data, scope)
        return await self._await(scope, reply.n, make(), Around(data))

    async def _await(self, scope: Scope, n: int, awaitable: Awaitable[Any], around: Around) -> Any:
        try:
            with scope, around:
                response = await awaitable
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            raised = scope.unwound_by if isinstance(error, Exception) else None
            asked = self._raised(n, scope.unwound_by or error, around, awaited=True)
            self._check(*await asyncio.wrap_future(asked))
            if raised is not None:
                raise raised from None  # the function has caught it
            raise
        if scope.unwound_by is not None:
            asked = self._raised(n, scope.unwound_by, around, awaited=True)
            self._check(*await asyncio.wrap_future(asked))
            raise scope.unwound_by
        self._check(*await asyncio.wrap_future(self._returned(n, response, around, awaited=True)))
        return response

    def _returned(self, n: int, response: Any, around: Around, *, awaited: bool = False) -> Any:
        data = self._host.packed(response, "record")
        return self._host.call_again(Made(self._host.token, n, "value", awaited, around.reports()), data)

    def _raised(self, n: int, error: BaseException, around: Around, *, awaited: bool = False) -> Any:
        if isinstance(error, BaseExceptionGroup):
            try:
                raise_question(error)
            except (Asking, Leaving) as question:
                error = question
            except BaseException:
                pass
        how, data = pack_raised(error, self._host.dumps)
        return self._host.call_again(Made(self._host.token, n, how, awaited, around.reports()), data)

    def _check(self, reply: DriverReply, data: bytes) -> None:
        """Raise if the driver could not record the call, or the attempt is over."""
        if reply.how != "kept":
            self._host.value_of(reply, data)


def _recorded(host: WorkerHost, reply: DriverReply, data: bytes, scope: Scope) -> Any:
    """Return what was recorded; an awaitable of it if the call was awaited."""
    if reply.awaited:
        return _again(host, reply, data)
    return host.value_of(reply, data, scope)


async def _again(host: WorkerHost, reply: DriverReply, data: bytes) -> Any:
    return host.value_of(reply, data)
