"""A host calls node functions and implements their contexts. A session is a host, and so is a replay.

This module has the part that both share: calling a node function and collecting the chunks of a generator. A thread
cannot be stopped, but a sync generator is closed at its next `yield` after its attempt has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.errors import MutationError
from clew.runtime.calls.arguments import arguments, calls_of
from clew.runtime.calls.context import RunContext
from clew.runtime.calls.mutation_check import Guard, Input, InputGuard
from clew.runtime.calls.scopes import Asking, Leaving, NodeCall, Scope, raise_question
from clew.stores import Statement

if TYPE_CHECKING:
    from clew.graph import Graph
    from clew.runtime.calls.waiting import WaitRequest
    from clew.runtime.log.entries.wait_records import WaitEnd
    from clew.runtime.log.writer import LogWriter
    from clew.runtime.process.clock import Clock
    from clew.runtime.settings import Settings


class CallHandler(Protocol):
    """Implements `ctx.record`, by making the call or from a recording."""

    def call(self, call: NodeCall) -> Any:
        """Return the response of a call, or an awaitable of it; run the function inside the scope of the call."""


class RecordingHost(Protocol):
    """The parts of a session that a recorder uses."""

    run_id: str
    machine: Machine
    settings: Settings
    clock: Clock
    writer: LogWriter
    off_loop: Any  # threads that wait for the store; None without an event loop
    observed: Any  # what follows the run; None if nothing does
    cancelled: bool

    def send_event(self, kind: Any, item: Item, **data: Any) -> None:
        """Send an event to the listeners."""

    def keep(self, entry: Any) -> None:
        """Write a record to the log."""

    def before_call(self) -> None:
        """Make earlier records durable, and check that this process still owns the run."""

    async def abefore_call(self) -> None:
        """`before_call` that does not block the event loop."""

    async def settle(self) -> None:
        """Return when everything written so far is durable."""


class Host:
    """Calls nodes."""

    recorder: CallHandler
    cancelled = False

    def __init__(self, run_id: str, machine: Machine, settings: Settings) -> None:
        self.run_id = run_id
        self.machine = machine
        self.settings = settings
        self.clock: Clock = settings.clock

    def send_event(self, kind: Any, item: Item, **data: Any) -> None:
        """Send an event of a running node to the listeners, from any thread. A plain host has no listeners."""

    def sleep(self, item: Item, attempt: int, seconds: float) -> Awaitable[None]:
        """Implement `ctx.sleep`; a plain host does not wait."""
        return _asleep() if item.node.mode in ("async", "async_generator") else SLEPT

    def wait(self, item: Item, attempt: int, request: WaitRequest, scope: Scope) -> Any:
        """Implement durable waits; an async node gets an awaitable. A plain host does not wait."""
        return _asleep() if item.node.mode in ("async", "async_generator") else SLEPT

    def has_slept(self, item: Item, attempt: int, position: str) -> bool:
        """Return whether a durable sleep of this attempt has ended."""
        return False

    def ask(self, item: Item, attempt: int, request: WaitRequest) -> WaitEnd | None:
        """Begin to wait for an answer; return the end of the wait if none came in time."""
        return None

    def run_child(
        self, item: Item, attempt: int, scope: Scope, graph: Graph, values: Any, key: str | None
    ) -> Any:
        """Implement `ctx.run`; an async node gets an awaitable."""
        raise NotImplementedError

    def leave(self, item: Item, attempt: int) -> Leaving:
        """Return the exception that unwinds the node of an attempt that must not continue."""
        return Leaving(
            f"node {item.node.name!r} at {item.path} is left: its run was cancelled, or attempt {attempt} has ended; "
            f"do not catch this exception"
        )

    def is_over(self, item: Item, attempt: int) -> bool:
        """Return whether an attempt has ended before its node. In a plain host, none does."""
        return False

    def transact(self, item: Item, attempt: int, statements: list[Statement]) -> None:
        """Take statements of `ctx.transaction`; a plain host discards them."""

    def call(self, item: Item, attempt: int | None = None) -> Any:
        """Call the function of an item; return its value, or an awaitable for an async function."""
        batch = item.batch
        program = batch.open_step.frame.program
        call, takes_context, _ = (program.calls or calls_of(program))[batch.number]
        is_guarded = self.settings.check_mutation or item.node.mode in ("generator", "async_generator")
        context = RunContext(self, item, attempt) if takes_context or is_guarded else None
        return self.called(
            item,
            context,
            takes_context,
            lambda: self._call_guarded(item, context) if is_guarded else call(item, context),
        )

    def called(
        self, item: Item, context: RunContext | None, takes_context: bool, call: Callable[[], Any]
    ) -> Any:
        """Call a node function; raise the question that it has caught, and check what it left behind."""
        try:
            value = call()
        except BaseExceptionGroup as error:
            raise_question(error)
            raise
        except Exception as error:
            if context is None or context.unwound_by is None or isinstance(error, MutationError):
                raise
            raise context.unwound_by from None
        if takes_context and type(value) is CoroutineType and item.node.mode != "sync":
            return _awaited(value, context)
        if context is not None:
            if context.unwound_by is not None:
                raise context.unwound_by  # the node has caught it
            if context.pending and item.node.mode in ("sync", "generator"):
                context.close(is_checked=True)
        return value

    def _call_guarded(self, item: Item, context: RunContext | None) -> Any:
        inputs: list[Input] = []
        args, kwargs = arguments(item, context, inputs)
        return self.call_guarded(item, context, args, kwargs, inputs)

    def call_guarded(
        self,
        item: Item,
        context: RunContext | None,
        args: list[Any],
        kwargs: dict[str, Any],
        inputs: list[Input],
    ) -> Any:
        """Call a generator, or a function whose inputs are compared by content, and check the inputs at its end."""
        guard = (InputGuard if self.settings.check_mutation else Guard)(item, inputs)
        func, mode = item.node.func, item.node.mode
        if mode == "sync":
            return guard.call(func, *args, **kwargs)
        if mode == "async":
            return guard.start(func, *args, **kwargs)
        if mode == "generator":
            assert context is not None
            return guard.call(lambda: self._chunks(item, context.attempt, func(*args, **kwargs)))
        return guard.start(lambda: self._async_chunks(item, func(*args, **kwargs)))

    def _chunks(self, item: Item, attempt: int, generator: Any) -> Any:
        chunks: list[Any] = []
        while True:
            try:
                chunk = next(generator)
            except StopIteration as stop:
                return chunks if stop.value is None else stop.value
            chunks.append(chunk)
            self.send_event("chunk", item, chunk=chunk)
            if self.is_over(item, attempt):
                leaving = self.leave(item, attempt)
                generator.close()  # runs its `finally`; what that raises is discarded, because the attempt is left
                raise leaving

    async def _async_chunks(self, item: Item, generator: Any) -> Any:
        chunks: list[Any] = []
        async for chunk in generator:
            chunks.append(chunk)
            self.send_event("chunk", item, chunk=chunk)
        return chunks


async def _awaited(coroutine: Any, context: RunContext | None) -> Any:
    """Await a coroutine. If it asks a question, wait for its calls in flight, and ask those of its children too.

    Unwrap a question that a task group has put into an exception group, and raise one that the node has caught.
    """
    from clew.runtime.calls.in_flight import CallsInFlight  # here, because it imports asyncio

    assert context is not None
    context.in_flight = calls = CallsInFlight(context)
    has_returned = False
    try:
        try:
            value = await coroutine
        except BaseExceptionGroup as error:
            raise_question(error)
            raise
        except Exception as error:
            if context.unwound_by is None or isinstance(error, MutationError):
                raise
        if context.unwound_by is not None:
            raise context.unwound_by
        has_returned = True
        return value
    except Asking as asking:
        raise await calls.finish(asking) from None
    finally:
        context.close(is_checked=has_returned)


async def _asleep() -> None:
    """Sleep in an async node of a host that does not wait."""


class _Slept:
    """The result of a finished sleep; async nodes await it, sync nodes ignore it."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


SLEPT = _Slept()
