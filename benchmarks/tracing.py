"""What observing a run costs, per step of a chain of trivial nodes.

In the rows `tracing-off` and `tracing-unsampled`, the floor is Clew without observers. In `tracing-on`, the floor is
the same functions with the same two spans each, made by hand with the SDK of OpenTelemetry: no instrumentation with
this SDK can be faster. Spans are dropped when they end, because exporting them is the work of another thread.
`metrics-on` has Clew without observers as its floor, and so has `tracing-sqlite`, where each step is on the disk.

Times are those of the processor, because a step in memory never waits and other programs may run at the same time. Only
`tracing-sqlite`, which waits for the disk, is measured by the wall clock.

The bar of the design, twice a step in memory, cannot be reached with the SDK: its two spans take more than ten such
steps. So the bar of `tracing-on` is twice the floor.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.functions import chain_functions
from benchmarks.measure import measure
from benchmarks.rows import Bar, Result, Row, Settings, Timing
from clew import Engine, Graph

NODES = 100
OFF = Bar(limit=2.4, floor=2.0)  # a run has 100 steps: what begins it takes as long as a few of them
UNSAMPLED = Bar(limit=4.0, floor=2.0)
ON = Bar(limit=60.0, floor=30.0)
METRICS = Bar(limit=10.0, floor=2.0)
SQLITE = Bar(limit=600.0, floor=300.0)
Run = Callable[[], Any]


def tracing(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    rows: list[tuple[str, str, Bar, Callable[[], Run], Callable[[], Run]]] = [
        ("tracing-off", "Tracing() without a tracer provider", OFF, plain, lambda: observed(_off())),
        ("tracing-unsampled", "not sampled", UNSAMPLED, plain, lambda: observed(_tracing(sampled=False))),
        ("tracing-on", "traced; floor: two spans by hand", ON, by_hand, lambda: observed(_tracing())),
        ("metrics-on", "with metrics", METRICS, plain, lambda: observed(_metrics())),
    ]
    for key, what, bar, floor, clew in rows:
        row = Row(key, key, f"chain of {NODES} nodes, {what}, processor time per node", "µs", bar, NODES)
        yield _measured(row, floor, clew, settings, time.process_time)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        title = f"durable chain of {NODES}, SQLite WAL, synchronous=FULL, traced, per step"
        row = Row("tracing-sqlite", "tracing-sqlite", title, "µs", SQLITE, NODES)
        place = Path(folder)
        yield _measured(
            row,
            lambda: durable(opened, place / "off.db"),
            lambda: durable(opened, place / "on.db", _tracing()),
            settings,
            time.perf_counter,
        )


def _measured(
    row: Row,
    floor: Callable[[], Run],
    clew: Callable[[], Run],
    settings: Settings,
    clock: Callable[[], float],
) -> Result:
    timing = Timing("chain", (), NODES, NODES, clock=clock)
    return measure(row, timing, (_contestant(FLOOR, floor), _contestant(CLEW, clew)), settings)


def _contestant(name: str, make: Callable[[], Run]) -> Contestant:
    module: Any = ModuleType(name)
    module.chain = make
    return Contestant(name, "", "", module)


def plain() -> Run:
    return observed()


def observed(*observers: Any) -> Run:
    engine = Engine(Graph(chain_functions(NODES)), listeners=observers)
    return lambda: engine.run({"x0": 0})[f"x{NODES}"]


def durable(opened: ExitStack, file: Path, *observers: Any) -> Run:
    from clew import SQLiteStore

    store = SQLiteStore(file, synchronous="full")
    engine = opened.enter_context(Engine(Graph(chain_functions(NODES)), store=store, listeners=observers))
    return lambda: engine.run({"x0": 0})[f"x{NODES}"]


def by_hand() -> Run:
    """The spans of a traced run, without Clew."""
    from opentelemetry import context, trace

    tracer = _provider().get_tracer("by hand")
    plan = [(f"x{index + 1}", f"x{index}", function) for index, function in enumerate(chain_functions(NODES))]

    def run() -> int:
        values = {"x0": 0}
        with tracer.start_as_current_span("run"):
            for number, (output, source, function) in enumerate(plan, 1):
                step = tracer.start_span("step", attributes={"number": number})
                inside = trace.set_span_in_context(step)
                name = function.__name__
                about = {"path": f"{name}#0", "attempt": 0, "node": name, "function": function.__qualname__}
                item = tracer.start_span(name, inside, attributes=about)
                token = context.attach(trace.set_span_in_context(item, inside))
                values[output] = function(values[source])
                context.detach(token)
                item.end()
                step.end()
        return values[f"x{NODES}"]

    return run


def _provider(*, sampled: bool = True) -> Any:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased

    provider = TracerProvider(
        sampler=ParentBased(ALWAYS_ON if sampled else ALWAYS_OFF), shutdown_on_exit=False
    )
    provider.add_span_processor(SpanProcessor())
    return provider


def _off() -> Any:
    from clew.observe import Tracing

    return Tracing()


def _tracing(*, sampled: bool = True) -> Any:
    from clew.observe import Tracing

    return Tracing(_provider(sampled=sampled))


def _metrics() -> Any:
    from prometheus_client import CollectorRegistry

    from clew.observe import Metrics

    return Metrics(CollectorRegistry())
