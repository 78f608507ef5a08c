"""A tracer provider that keeps its spans, and what tests ask about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from clew import Context, Graph, node
from clew.observe import Tracing, describe_model_call


class Traces:
    """The spans that a provider has exported."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("a program")

    def __enter__(self) -> Traces:
        return self

    def __exit__(self, *exc: object) -> None:
        self.provider.shutdown()

    def tracing(self, **options: Any) -> Tracing:
        return Tracing(self.provider, **options)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def parent(self, span: ReadableSpan) -> ReadableSpan | None:
        """The parent of a span, if it was exported."""
        above = None if span.parent is None else span.parent.span_id
        return next((each for each in self.spans if span_id(each) == above), None)

    def lineage(self, name: str) -> list[str]:
        """The names of a span and of those above it."""
        span: ReadableSpan | None = self.one(name)
        found = []
        while span is not None:
            found.append(span.name)
            span = self.parent(span)
        return found

    def tree(self) -> list[str]:
        """The spans in order of their start, indented by their depth."""
        return list(self._below(None, 0))

    def _below(self, above: int | None, depth: int) -> Iterator[str]:
        known = {span_id(each) for each in self.spans}
        for span in sorted(self.spans, key=lambda each: each.start_time or 0):
            parent = None if span.parent is None or span.parent.span_id not in known else span.parent.span_id
            if parent == above:
                yield "  " * depth + span.name
                yield from self._below(span_id(span), depth + 1)

    @property
    def traces(self) -> set[int]:
        return {trace_id(each) for each in self.spans}

    def clear(self) -> None:
        self.exporter.clear()


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# Nodes of a module that other processes can import.


@node(output="seen")
def look(a: int) -> list[int]:
    here = trace.get_current_span().get_span_context()
    return [here.trace_id, here.span_id]


@node(output="seen2")
def look_too(a: int) -> list[int]:
    here = trace.get_current_span().get_span_context()
    return [here.trace_id, here.span_id]


@node(output="fetched")
def fetch(a: int, ctx: Context) -> int:
    return ctx.record("service", abs, a)


@node(output="flags")
def sampled(a: int) -> list[int]:
    here = trace.get_current_span().get_span_context()
    return [int(here.is_valid), int(here.trace_flags.sampled)]


inner = Graph([fetch], name="inner")


@node(output="outside")
def outside(a: int, ctx: Context) -> int:
    result: int = ctx.run(inner, {"a": a})["fetched"]
    return result


@node(output="described")
def describe(a: int) -> int:
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attribute("customer", "ann")
        span.set_attributes({"sizes": [1, 2], "unknown": object()})
        span.add_event("packed", {"boxes": 3})
        span.record_exception(KeyError("ignored"))
        span.set_status(StatusCode.OK)
        span.update_name("described")
    return a


def complete(prompt: str) -> list[Any]:
    describe_model_call(provider="local", model="tiny", input_tokens=3, output_tokens=1)
    return [trace.get_current_span().get_span_context().span_id]


async def acomplete(prompt: str) -> list[Any]:
    return complete(prompt)


@node(output="answer")
def chat(a: int, ctx: Context) -> list[Any]:
    found: list[Any] = ctx.record("model", complete, "a question")
    return found


@node(output="answer")
async def achat(a: int, ctx: Context) -> list[Any]:
    found: list[Any] = await ctx.record("model", acomplete, "a question")
    return found


def refuse(prompt: str) -> None:
    trace.get_current_span().set_attribute("prompts", 1)
    raise ValueError(prompt)


@node(output="refused")
def ask_in_vain(a: int, ctx: Context) -> bool:
    try:
        ctx.record("model", refuse, "a question")
    except ValueError:
        return True
    return False
