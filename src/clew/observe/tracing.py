"""Tracing: the spans of runs, for OpenTelemetry.

Each run is a trace, with spans run → step → item → recorded call. Rules:

- **Ids.** The ids of the trace and of the run's first span follow from the id and the creation time of the run
  (``clew.observe.trace_ids``). So all processes that execute a run add to one trace, and nothing about it is stored.
- **Takes.** Each take is one span. That of the first take is the span of the run. Those of later takes, after a wait, a
  failure or a crash, are its children. The span of a killed take is missing; those of its finished parts exist.
- **The caller.** The caller's span and the run are linked in both directions, because a run can outlive its caller. A
  run that is put into a queue is linked from the span that submits it. With ``join=True``, a run is a part of the
  caller's trace instead.
- **Children.** A child is a part of the trace of its run: its parent is the span that is current at `ctx.run`.
- **The current span.** While a node or a recorded call executes, its span is the current one: in its thread, its task,
  and in a process of an executor. So spans that the node starts, and those of instrumented libraries, are below it.
  The context is never an argument of a call: that would change recorded requests.
- **Sampling.** The sampler decides once, for the whole run, by the trace id. So all takes decide alike. A run that is
  not sampled uses the fast path, and the spans that its nodes start are not sampled either.
- **Failures.** A failed attempt has its exception, a failed run its first one. A question is not a failure.
- A replay has no spans. A recorded response that is used again has none, and neither has an item that an earlier take
  has finished. A cached result is a span without duration.

This module decides what follows a take; ``clew.observe.run_spans`` makes the spans.
"""

from __future__ import annotations

from copy import copy
from importlib.metadata import version
from typing import Any

from clew.errors import DefinitionError
from clew.graph import Node
from clew.loggers import logger
from clew.observe.trace_ids import DerivedIds, deriving, ids_of
from clew.runtime.reporting.observers import ObservedRun, Observer, RunObserver

try:
    from opentelemetry import context, trace
    from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, TraceFlags
except ImportError as error:
    raise DefinitionError('tracing needs OpenTelemetry; install it: pip install "clew[otel]"') from error

from clew.observe.run_spans import RunSpans, Unsampled

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Tracing(Observer):
    """Traces the runs of an engine or a worker; pass it among the `listeners`.

    Spans go to the tracer provider, by default the global one at the time of the first run. With `join`, a run that
    begins inside a span of the caller becomes a part of that trace, instead of a trace that is linked to it.
    """

    def __init__(self, provider: trace.TracerProvider | None = None, *, join: bool = False) -> None:
        if provider is not None and not callable(getattr(provider, "get_tracer", None)):
            raise DefinitionError(
                f"provider must be an OpenTelemetry TracerProvider, got {provider!r}; leave it out for the global one"
            )
        if not isinstance(join, bool):
            raise DefinitionError(f"join must be True or False, got {join!r}")
        self._provider = provider
        self._join = join
        self._tracers: tuple[trace.Tracer, trace.Tracer] | None = None  # of runs, and of all other spans
        self._nodes: dict[Node, dict[str, Any]] = {}  # attributes of each node
        self._has_warned = False

    def __repr__(self) -> str:
        return f"<Tracing to {self._provider or 'the global tracer provider'!r}>"

    def begin(self, run: ObservedRun) -> RunObserver | None:
        """Start the span of a take. Without a tracer provider, nothing follows the take."""
        found = self._found_tracers()
        if found is None:
            return None
        tracer, inside = found
        outside = context.get_current()
        caller = trace.get_current_span(outside)
        span = self._start(tracer, run, caller)
        if not span.is_recording():
            return Unsampled(trace.set_span_in_context(span, outside))
        return RunSpans(inside, span, outside, self._nodes)

    def submit(self, run: ObservedRun) -> None:
        """Link the current span to the run that it submits."""
        caller = trace.get_current_span()
        if caller.is_recording():
            caller.add_link(SpanContext(*ids_of(run), is_remote=True, trace_flags=_SAMPLED))

    def _found_tracers(self) -> tuple[trace.Tracer, trace.Tracer] | None:
        if self._tracers is not None:
            return self._tracers
        provider = self._provider or trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):  # the program has not set one, or not yet
            if not self._has_warned:
                self._has_warned = True
                logger("tracing").warning(
                    "nothing is traced: the program has not set a tracer provider (set_tracer_provider)"
                )
            return None
        tracer: Any = provider.get_tracer("clew", version("clew"))
        deriving_ids = copy(tracer)
        if hasattr(tracer, "id_generator"):  # otherwise it is not of the SDK, and the trace has random ids
            deriving_ids.id_generator = DerivedIds(tracer.id_generator)
        self._tracers = (deriving_ids, tracer)
        return self._tracers

    def _start(self, tracer: trace.Tracer, run: ObservedRun, caller: Span) -> Span:
        """Start the span of a take in the trace to which it belongs."""
        ids, at = ids_of(run), caller.get_span_context()
        name = f"run {run.graph}" if run.graph else "run"
        attributes: dict[str, Any] = {
            "clew.run.id": run.run_id,
            "clew.graph.name": run.graph,
            "clew.take.first": run.is_first,
        }
        if at.is_valid and (run.is_child or self._join):
            if not run.is_first:
                return tracer.start_span(name, attributes=attributes)
            with deriving(ids):
                return tracer.start_span(name, attributes=attributes)
        links = [Link(at)] if at.is_valid else []
        if run.is_first:
            with deriving(ids):
                span = tracer.start_span(name, context.Context(), attributes=attributes, links=links)
        else:
            flags = _SAMPLED if _is_sampled(tracer, ids.trace, name, attributes) else TraceFlags()
            first = NonRecordingSpan(SpanContext(*ids, is_remote=True, trace_flags=flags))
            above = trace.set_span_in_context(first, context.Context())
            span = tracer.start_span(name, above, attributes=attributes, links=links)
        if caller.is_recording() and span.is_recording():
            caller.add_link(span.get_span_context())
        return span


def _is_sampled(tracer: Any, trace_id: int, name: str, attributes: Any) -> bool:
    """Return what the sampler decided about a trace when its first span started."""
    sampler = getattr(tracer, "sampler", None)
    if sampler is None:  # a tracer that is not of the SDK
        return True
    found = sampler.should_sample(context.Context(), trace_id, name, trace.SpanKind.INTERNAL, attributes, ())
    return bool(found.decision.is_sampled())
