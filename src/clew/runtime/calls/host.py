"""A host: what has nodes called and stands behind their contexts. A session that runs them is one, a replay another.

Here is what both share: how a node's function is called, and how the chunks of a generator are gathered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.runtime.calls.arguments import arguments, calls_of
from clew.runtime.calls.context import RunContext
from clew.runtime.calls.mutation_check import Guard, Input, InputGuard
from clew.runtime.calls.scopes import Scope, raise_question
from clew.stores import Statement

if TYPE_CHECKING:
    from clew.runtime.clock import Clock
    from clew.runtime.log.writer import LogWriter
    from clew.runtime.settings import Settings


class CallHandler(Protocol):
    """Answers `ctx.record`: by making the call, or from a recording."""

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
        """What the call gives, or an awaitable of it; its function runs inside `scope`, which has its place."""


class RecordingHost(Protocol):
    """What a recorder needs of the session that it records for."""

    run_id: str
    machine: Machine
    settings: Settings
    clock: Clock
    writer: LogWriter
    off_loop: Any  # where an event loop waits for the store; None without a loop

    def tell(self, kind: Any, item: Item, **data: Any) -> None:
        """Send an event to the listeners."""

    def keep(self, entry: Any) -> None:
        """Write a record to the log."""

    def brace(self) -> None:
        """Make durable what the next call builds on, and check that the run is still owned."""

    async def abrace(self) -> None:
        """`brace`, without waiting on the event loop."""

    async def settle(self) -> None:
        """Return when everything written so far is durable."""


class Host:
    """Has nodes called."""

    recorder: CallHandler
    cancelled = False

    def __init__(self, run_id: str, machine: Machine, settings: Settings) -> None:
        self.run_id = run_id
        self.machine = machine
        self.settings = settings
        self.clock: Clock = settings.clock

    def tell(self, kind: Any, item: Item, **data: Any) -> None:
        """Tell listeners something that a node does while it runs; from any thread. Here there are none."""

    def sleep(self, item: Item, attempt: int, seconds: float) -> Awaitable[None]:
        """`ctx.sleep`: here it is over at once."""
        return SLEPT

    def transact(self, item: Item, attempt: int, statements: list[Statement]) -> None:
        """What an attempt writes to the store's own database: here nowhere."""

    def call(self, item: Item, attempt: int | None = None) -> Any:
        """Call the item's function: its value, or for an async one its awaitable."""
        batch = item.batch
        program = batch.open_step.frame.program
        call, takes_context, _ = (program.calls or calls_of(program))[batch.number]
        try:
            if self.settings.check_mutation or item.node.mode in ("generator", "async_generator"):
                value = self._watched(item, RunContext(self, item, attempt))
            else:
                value = call(item, RunContext(self, item, attempt) if takes_context else None)
        except BaseExceptionGroup as error:
            raise_question(error)
            raise
        if takes_context and type(value) is CoroutineType and item.node.mode != "sync":
            return _awaited(value)
        return value

    def _watched(self, item: Item, context: RunContext) -> Any:
        """Call a generator, or any function whose inputs are compared by content, and check at its end."""
        inputs: list[Input] = []
        args, kwargs = arguments(item, context, inputs)
        watch = (InputGuard if self.settings.check_mutation else Guard)(item, inputs)
        func, mode = item.node.func, item.node.mode
        if mode == "sync":
            return watch.call(func, *args, **kwargs)
        if mode == "async":
            return watch.start(func, *args, **kwargs)
        if mode == "generator":
            return watch.call(lambda: self._chunks(item, func(*args, **kwargs)))
        return watch.start(lambda: self._async_chunks(item, func(*args, **kwargs)))

    def _chunks(self, item: Item, generator: Any) -> Any:
        chunks: list[Any] = []
        while True:
            try:
                chunk = next(generator)
            except StopIteration as stop:
                return chunks if stop.value is None else stop.value
            chunks.append(chunk)
            self.tell("chunk", item, chunk=chunk)

    async def _async_chunks(self, item: Item, generator: Any) -> Any:
        chunks: list[Any] = []
        async for chunk in generator:
            chunks.append(chunk)
            self.tell("chunk", item, chunk=chunk)
        return chunks


async def _awaited(coroutine: Any) -> Any:
    """What a coroutine returns; a question that a task group has wrapped comes out as itself."""
    try:
        return await coroutine
    except BaseExceptionGroup as error:
        raise_question(error)
        raise


class _Slept:
    """What a sleep that is over returns: it may be awaited, and need not be."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


SLEPT = _Slept()
