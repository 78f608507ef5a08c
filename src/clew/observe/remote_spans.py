"""The spans of a driver, in another process: what a node does to its span there is sent back to the driver.

The span of a node or of a recorded call belongs to the driver. In the process that executes the call, a `RemoteSpan`
with the same ids is the current one. It collects attributes, events, links, the status and the name. When the call
ends, they are sent with its result, and the driver adds them to the span. Those of a worker that dies are lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from time import time_ns
from traceback import format_exception
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode

from clew.error_text import encodable, kind_of, message_of, safely
from clew.runtime.reporting.observers import WorkerObserver

_MOST_EVENTS = 1000
_PLAIN = (str, bool, int, float, bytes)


class SpanReport:
    """What was done to a span in another process."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}
        self.events: deque[tuple[Any, ...]] = deque(maxlen=_MOST_EVENTS)
        self.others: list[tuple[str, tuple[Any, ...]]] = []  # method of the span, and its arguments

    def apply(self, span: Span) -> None:
        """Do it to the span."""
        if self.attributes:
            span.set_attributes(self.attributes)
        for event in self.events:
            span.add_event(*event)
        for method, args in self.others:
            getattr(span, method)(*args)


class RemoteSpan(NonRecordingSpan):
    """A span of the driver, which ends it."""

    def __init__(self, at: SpanContext) -> None:
        super().__init__(at)
        self._report: SpanReport | None = SpanReport()

    def is_recording(self) -> bool:
        """Return whether the call has not ended."""
        return self._report is not None

    def take(self) -> SpanReport | None:
        """Return what was done to the span, if anything; ignore all that follows."""
        report, self._report = self._report, None
        is_empty = report is None or not (report.attributes or report.events or report.others)
        return None if is_empty else report

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the driver's span."""
        if self._report is not None:
            self._report.attributes.update(_plain(attributes))

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute of the driver's span."""
        self.set_attributes({key: value})

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Add an event, with the time of this machine."""
        if self._report is not None:
            self._report.events.append((str(name), _plain(attributes), timestamp or time_ns()))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Add an exception as an event."""
        about = {
            "exception.type": kind_of(type(exception)).replace(":", ".").removeprefix("builtins."),
            "exception.message": message_of(exception),
            "exception.stacktrace": safely(lambda: encodable("".join(format_exception(exception))), ""),
        }
        self.add_event("exception", {**about, **_plain(attributes)}, timestamp)

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        """Add a link to another span."""
        self._add("add_link", context, _plain(attributes))

    def update_name(self, name: str) -> None:
        """Change the name of the driver's span."""
        self._add("update_name", str(name))

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status of the driver's span."""
        self._add("set_status", status, description)

    def _add(self, method: str, *args: Any) -> None:
        if self._report is not None:
            self._report.others.append((method, args))


def _plain(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the attributes that can be sent; others are not valid anyway."""
    return {str(name): value for name, value in (attributes or {}).items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(each is None or isinstance(each, _PLAIN) for each in value)
    return isinstance(value, _PLAIN)


class SpanScope(WorkerObserver):
    """Surrounds a call in another process with a span of this one."""

    def __init__(self, inside: Context) -> None:
        self._carrier: dict[str, str] = {}
        propagate.inject(self._carrier, inside)
        self._token: Any = None
        self._span: RemoteSpan | None = None

    def __enter__(self) -> SpanScope:
        inside = propagate.extract(self._carrier)
        at = trace.get_current_span(inside).get_span_context()
        if at.is_valid and at.trace_flags.sampled:
            self._span = RemoteSpan(at)
            inside = trace.set_span_in_context(self._span, inside)
        self._token = context.attach(inside)
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(ValueError):  # an abandoned coroutine is closed in another context
            self._token.var.reset(self._token)

    def report(self) -> Any:
        """Return what was done to the span."""
        return None if self._span is None else self._span.take()


def apply_reports(span: Span, reports: list[Any]) -> None:
    """Add to a span what was done to it in another process."""
    for report in reports:
        if isinstance(report, SpanReport):
            report.apply(span)
