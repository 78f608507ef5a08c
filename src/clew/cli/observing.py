"""How commands that execute runs are observed: ``--trace``, ``--metrics``, and records of loggers on standard error."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

from clew.cli.declarations import flag, option
from clew.cli.output import CommandError, note
from clew.errors import DefinitionError
from clew.stores import Store

if TYPE_CHECKING:
    from clew.runtime.reporting.observers import Observer

SEND_TIME = 10.0
"""Seconds that a command takes at its end to send spans."""

TraceOption = Annotated[
    bool,
    flag(
        "--trace",
        "Send traces by OTLP over HTTP, to the address in OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318).",
    ),
]
MetricsOption = Annotated[
    str | None,
    option(
        "--metrics", "HOST:PORT", "Serve metrics for Prometheus at this address: 127.0.0.1:9464, or :9464."
    ),
]


@contextmanager
def observing(store: Store, *, trace: bool, metrics: str | None) -> Iterator[list[Observer]]:
    """Yield the observers that a command asked for; end them, and send what is left, at the end."""
    with ExitStack() as stack:
        found: list[Observer] = []
        try:
            if trace:
                found.append(stack.enter_context(_tracing()))
            if metrics is not None:
                found.append(stack.enter_context(_metrics(store, metrics)))
        except DefinitionError as error:
            what, _, hint = str(error).partition("; ")
            raise CommandError(what, hint) from error
        yield found


@contextmanager
def _tracing() -> Iterator[Observer]:
    """Trace with the provider of the program (``opentelemetry-instrument``), or else with one that sends by OTLP."""
    from clew.observe.tracing import Tracing  # first, because it says what to install

    from opentelemetry import trace  # isort: skip

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield Tracing()
        return
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(variable, "http/protobuf") != "http/protobuf":
            raise CommandError(
                f"--trace sends http/protobuf, but {variable} is {os.environ[variable]}",
                "unset it, or start the command with opentelemetry-instrument, which configures any exporter",
            )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:  # other libraries install the API alone
        raise CommandError(
            f"--trace needs the SDK and the OTLP exporter of OpenTelemetry: {error}",
            'install them: pip install "clew[otel]"',
        ) from error

    known = Resource.create()
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    provider = TracerProvider(
        resource=known if named else known.merge(Resource({SERVICE_NAME: "clew-worker"})),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)  # for the spans of nodes
    try:
        yield Tracing(provider)
    finally:
        # on a thread, because without a collector the SDK tries for half a minute to send full batches
        sending = Thread(target=provider.shutdown, name="clew-trace", daemon=True)
        sending.start()
        sending.join(SEND_TIME)
        if sending.is_alive():
            note(f"the last spans were not sent: the collector did not accept them within {SEND_TIME:g} s")


@contextmanager
def _metrics(store: Store, address: str) -> Iterator[Observer]:
    host, port = _read_address(address)
    from clew.observe.metrics import Metrics

    metrics = Metrics()
    metrics.watch(store)
    try:
        server = metrics.serve(host, port)
    except OSError as error:
        raise CommandError(
            f"--metrics {address}: {error}", "give an address and a port that are free"
        ) from error
    with server:
        note(f"metrics are at {server.url}")
        yield metrics


def _read_address(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise CommandError(
            f"--metrics {address} is not an address", "write HOST:PORT, such as 127.0.0.1:9464"
        )
    return host.strip("[]") or "0.0.0.0", int(port)


def log_to_stderr() -> None:
    """Print records of Clew's loggers from WARNING on, unless the program has configured logging."""
    clew: Any = logging.getLogger("clew")
    if logging.getLogger().handlers or any(type(each) is not logging.NullHandler for each in clew.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    clew.addHandler(handler)
