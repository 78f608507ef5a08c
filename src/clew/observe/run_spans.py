"""The spans of one take: made around calls, ended by the records that the session writes.

A span of an item starts when its node is called, and so does that of its step, with its first item. A call that ends
leaves the end time; the record about its outcome ends the span, because only that says whether the attempt succeeded. A
node that asks or waits has no outcome yet, so its span ends with the call. What is still open at the end of the take
ends with it.

Calls come from all threads; records come from the thread of the driver. Errors in here must not reach the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from inspect import isawaitable
from threading import RLock
from time import time_ns
from traceback import format_exception
from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from clew.engine.frame import Frame, Item
from clew.engine.records import FailedAttempt, FinishedItem, Outcome, Question, SingleItemStep, Step
from clew.error_text import encodable, kind_of, line_of, message_of, safely
from clew.graph import Node
from clew.observe.model_calls import attributes_of, attributes_of_failure, name_of
from clew.observe.remote_spans import SpanScope, apply_reports
from clew.runtime.reporting.observers import CallObserver, Request, RunObserver, WorkerObserver

_ASYNC = ("async", "async_generator")


class _OpenSpan:
    """A span that has not ended, and the context in which it is the current one."""

    __slots__ = ("context", "span", "until")

    def __init__(self, span: Span, outside: Context) -> None:
        self.span = span
        self.context = trace.set_span_in_context(span, outside)
        self.until: int | None = None  # when the call ended

    def end(self) -> None:
        self.span.end(self.until)


class RunSpans(RunObserver):
    """The spans of one take."""

    surrounds = True
    has_fast_path = True

    def __init__(
        self, tracer: Tracer, span: Span, outside: Context, nodes: dict[Node, dict[str, Any]]
    ) -> None:
        self._start: Callable[..., Span] = tracer.start_span
        self._outside = outside  # the caller's context, with its baggage
        self._take = _OpenSpan(span, outside)
        self._steps: dict[tuple[str, int], _OpenSpan] = {}  # by frame and number
        self._items: dict[str, _OpenSpan] = {}  # by path
        self._about = nodes  # attributes of each node
        self._token: Any = None
        self._reported: BaseException | None = None  # the last exception that a span has
        self._lock = RLock()

    def __repr__(self) -> str:
        return "<the spans of a run>"

    # -- around calls ------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Make the span of the take the current one."""
        self._token = context.attach(self._take.context)

    def detach(self) -> None:
        """Restore the caller's context."""
        if self._token is not None:
            _leave(self._token)
            self._token = None

    def call_item(self, call: Callable[..., Any], item: Item, attempt: int | None) -> Any:
        """Call a node inside its span."""
        try:
            opened = self._open_item(item, item.attempt if attempt is None else attempt)
        except Exception:
            return call(item, attempt)  # a span that cannot start is not an error of the node
        return self._call(opened, item.path, item.node, call, (item, attempt))

    def call_plain(self, frame: Frame, number: int, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls a node inside its span, in the next step of the fast path."""
        return _PlainCall(self, frame, number, func)

    def call_in_step(
        self, frame: Frame, step: int, path: str, node: Node, func: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        """Call the function of a node inside its span."""
        try:
            opened = self._open(frame, step, path, node, 0)
        except Exception:
            return func(*args)
        return self._call(opened, path, node, func, args)

    def _call(
        self, opened: _OpenSpan, path: str, node: Node, call: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        token = context.attach(opened.context)
        try:
            value = call(*args)
        except BaseException as error:
            self._left(path, opened, error)
            raise
        finally:
            _leave(token)
        if node.mode in _ASYNC and isawaitable(value):
            return self._awaited(path, opened, value)
        opened.until = time_ns()
        return value

    async def _awaited(self, path: str, opened: _OpenSpan, awaitable: Any) -> Any:
        token = context.attach(opened.context)
        try:
            value = await awaitable
        except BaseException as error:
            self._left(path, opened, error)
            raise
        finally:
            _leave(token)
        opened.until = time_ns()
        return value

    def call_elsewhere(self, item: Item) -> WorkerObserver:
        """Make the span of a node the current one in another process."""
        return SpanScope(self._open_item(item, item.attempt).context)

    def record_elsewhere(self) -> WorkerObserver:
        """Make the span of a recorded call the current one in another process."""
        return SpanScope(context.get_current())

    def take_reports(self, item: Item | None, reports: list[Any]) -> None:
        """Add to a span what was done to it in another process."""
        opened = None if item is None else self._items.get(item.path)
        if item is None or opened is not None:
            apply_reports(trace.get_current_span() if opened is None else opened.span, reports)

    def serve_elsewhere(self, item: Item) -> AbstractContextManager[Any]:
        """Make the span of a node in another process the current one here."""
        opened = self._items.get(item.path)
        return nullcontext() if opened is None else _inside(opened.context)

    def call_recorded(self, item: Item, name: str, request: Request) -> CallObserver:
        """Start the span of a recorded call, below the current span."""
        name = encodable(name)
        span = self._start(name, kind=SpanKind.CLIENT, attributes={"clew.call.name": name})
        return _CallSpan(self, span, request)

    def _open_item(self, item: Item, attempt: int) -> _OpenSpan:
        return self._open(item.frame, item.step, item.path, item.node, attempt)

    def _open(self, frame: Frame, step: int, path: str, node: Node, attempt: int) -> _OpenSpan:
        """Start the span of an item; end that of an earlier call which had no outcome."""
        earlier = self._items.pop(path, None)
        if earlier is not None:
            earlier.end()
        about = self._about.get(node)
        if about is None:
            about = self._about[node] = _about(node)
        above = self._step_of(frame, step)
        attributes = {"clew.item.path": path, "clew.item.attempt": attempt, **about}
        opened = _OpenSpan(self._start(node.name, above.context, attributes=attributes), self._outside)
        self._items[path] = opened
        return opened

    def _step_of(self, frame: Frame, number: int) -> _OpenSpan:
        """Return the span of a step; start it, and those of the subgraph items around it, with its first item."""
        key = (frame.prefix, number)
        found = self._steps.get(key)
        if found is not None:
            return found
        with self._lock:
            found = self._steps.get(key)
            if found is None:
                above = self._take if frame.owner is None else self._item_around(frame.owner)
                span = self._start("step", above.context, attributes={"clew.step.number": number})
                found = self._steps[key] = _OpenSpan(span, self._outside)
        return found

    def _item_around(self, owner: Item) -> _OpenSpan:
        """Return the span of a subgraph item, which starts with the first item inside. The lock is held."""
        return self._items.get(owner.path) or self._open_item(owner, owner.attempt)

    def _left(self, path: str, opened: _OpenSpan, error: BaseException) -> None:
        """Take the exception of a call. Those that unwind a node which asks, waits or is cancelled have no outcome."""
        opened.until = time_ns()
        if not isinstance(error, Exception) and self._items.get(path) is opened:
            del self._items[path]
            opened.end()

    # -- records -----------------------------------------------------------------------------------------

    def write(self, records: Sequence[Any]) -> None:
        """End the spans of items and steps that have an outcome."""
        for record in records:
            kind = type(record)
            if kind is Step:
                prefix = record.prefix
                for outcome in record.outcomes:
                    self._settle(prefix, record.number, outcome)
                step = self._steps.pop((prefix, record.number), None)
                if step is not None:
                    step.span.end()
            elif kind is SingleItemStep:
                self._end_item(f"{record.node}#{record.visit}")
                step = self._steps.pop(("", record.number), None)
                if step is not None:
                    step.span.end()
            elif kind is FinishedItem:
                self._settle(record.prefix, 0, record.outcome)
            elif kind is FailedAttempt:
                self._end_item(record.path, record.error)
            elif kind is Question:
                self._end_item(record.path.partition("!")[0])

    def _settle(self, prefix: str, number: int, outcome: Outcome) -> None:
        path = prefix + outcome.path
        opened = self._items.pop(path, None)
        if opened is not None:
            if outcome.error is not None:
                self.fail(opened.span, outcome.error)
            opened.span.end(opened.until)
        elif outcome.cached and number:
            self._add_cached(prefix, number, path, outcome)

    def _add_cached(self, prefix: str, number: int, path: str, outcome: Outcome) -> None:
        """Add a span for a result that was not computed, if the step or the run around it has one."""
        above = self._steps.get((prefix, number)) or (None if prefix else self._take)
        if above is not None:
            about = {"clew.item.path": path, "clew.node.name": outcome.node, "clew.item.cached": True}
            now = time_ns()
            self._start(outcome.node, above.context, attributes=about, start_time=now).end(now)

    def _end_item(self, path: str, error: BaseException | None = None) -> None:
        opened = self._items.pop(path, None)
        if opened is not None:
            if error is not None:
                self.fail(opened.span, error)
            opened.end()

    def fail(self, span: Span, error: BaseException) -> None:
        """Mark a span as failed. The exception is an event of the first span that has it."""
        span.set_status(StatusCode.ERROR, line_of(error))
        kind = kind_of(type(error)).replace(":", ".").removeprefix("builtins.")
        span.set_attribute("error.type", kind)
        if error is not self._reported:
            self._reported = error
            about = {"exception.type": kind, "exception.message": message_of(error)}
            trace_text = safely(lambda: encodable("".join(format_exception(error))), "")
            if trace_text:
                about["exception.stacktrace"] = trace_text
            span.add_event("exception", about)

    def end(self, status: str, error: BaseException | None) -> None:
        """End the take, and all that is still open."""
        for opened in (*reversed(self._items.values()), *reversed(self._steps.values())):
            opened.end()
        self._items, self._steps = {}, {}
        span = self._take.span
        span.set_attribute("clew.run.status", status)
        if error is not None:
            self.fail(span, error)
        span.end()


class _PlainCall:
    """The function of a node on the fast path, inside its span."""

    __slots__ = ("_frame", "_func", "_number", "_spans")

    def __init__(self, spans: RunSpans, frame: Frame, number: int, func: Callable[..., Any]) -> None:
        self._spans = spans
        self._frame = frame
        self._number = number
        self._func = func

    def __call__(self, *args: Any) -> Any:
        frame, number = self._frame, self._number
        node = frame.program.nodes[number]
        path = f"{node.name}#{frame.working_state.visits[number]}"
        return self._spans.call_in_step(frame, frame.step + 1, path, node, self._func, args)


class Unsampled(RunObserver):
    """A take that is not sampled: its span is current, so that nothing inside it is sampled."""

    def __init__(self, inside: Context) -> None:
        self._inside = inside
        self._token: Any = None

    def call_item(self, call: Callable[..., Any], item: Item, attempt: int | None) -> Any:
        """Call a node inside the span of the take, if that is not current anyway."""
        token = context.attach(self._inside)
        try:
            value = call(item, attempt)
        finally:
            _leave(token)
        return self._awaited(value) if item.node.mode in _ASYNC and isawaitable(value) else value

    async def _awaited(self, awaitable: Any) -> Any:
        token = context.attach(self._inside)
        try:
            return await awaitable
        finally:
            _leave(token)

    def call_elsewhere(self, item: Item) -> WorkerObserver:
        """Sample nothing in another process either."""
        return SpanScope(self._inside)

    def serve_elsewhere(self, item: Item) -> AbstractContextManager[Any]:
        """Do not sample children of a node in another process."""
        return _inside(self._inside)

    def attach(self) -> None:
        """Make the span of the take the current one."""
        self._token = context.attach(self._inside)

    def detach(self) -> None:
        """Restore the caller's context."""
        if self._token is not None:
            _leave(self._token)
            self._token = None


class _CallSpan(CallObserver):
    """The span of a recorded call."""

    def __init__(self, spans: RunSpans, span: Span, request: Request) -> None:
        self._spans = spans
        self._span = span
        self._request = request
        self._is_awaited = False  # what it returned is awaited next
        self._token: Any = None

    def __enter__(self) -> _CallSpan:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def respond(self, response: Any) -> None:
        """Describe a model call by its response."""
        self._is_awaited = isawaitable(response)
        if not self._is_awaited:
            with suppress(Exception):  # an object with strange attributes
                self._describe(attributes_of(self._request[1], response))

    def _describe(self, found: dict[str, Any]) -> None:
        if found:
            self._span.set_attributes(found)
            self._span.update_name(name_of(found))

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        _leave(self._token)
        if isinstance(error, Exception):
            with suppress(Exception):  # a class with strange attributes
                self._describe(attributes_of_failure(self._request[1], error))
            self._spans.fail(self._span, error)
        if error is not None or not self._is_awaited:
            self._span.end()


@contextmanager
def _inside(outer: Context) -> Iterator[None]:
    """Make a context the current one."""
    token = context.attach(outer)
    try:
        yield
    finally:
        _leave(token)


def _leave(token: Any) -> None:
    """Restore a context. An abandoned coroutine or generator is closed from another one, where this cannot be done."""
    try:
        token.var.reset(token)
    except ValueError:
        pass


def _about(node: Node) -> dict[str, Any]:
    """Return the attributes of a node: its name, and the function that it calls."""
    func = node.func
    name, module = getattr(func, "__qualname__", None), getattr(func, "__module__", None)
    about = {"clew.node.name": node.name}
    if isinstance(name, str) and node.subgraph is None:
        about["code.function.name"] = f"{module}.{name}" if isinstance(module, str) else name
    return about
