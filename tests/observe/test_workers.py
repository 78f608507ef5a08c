"""Workers in processes of their own: traces arrive at a collector over OTLP, and metrics are served."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from clew import Engine, Graph, node
from clew.observe import Tracing
from clew.observe.trace_ids import ids_of
from clew.runtime.reporting.observers import ObservedRun
from tests.observe.collector import Collector, collecting

pytestmark = pytest.mark.posix

FLOW = """
import os, signal
from opentelemetry import trace
from clew import Context, Graph, node

@node(output="b")
def first(a, ctx: Context):
    with trace.get_tracer("flow").start_as_current_span("mine"):
        return a + 1

@node(output="c")
def second(b, ctx: Context):
    if not os.path.exists("survived"):
        open("survived", "w").close()
        trace.get_tracer_provider().force_flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return b

@node(output="d")
def ask(c, ctx: Context):
    return ctx.interrupt("right?")

graph = Graph([first, second, ask], name="flow")
calm = Graph([first], name="calm")
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(FLOW)
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "clew", *arguments, "--store", "runs.db"]


def environment(collector: Collector | None = None, **more: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    if collector is not None:
        known["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    return known | {"OTEL_BSP_SCHEDULE_DELAY": "50", **more}


def run(project: Path, collector: Collector | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=project,
        env=environment(collector),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_an_engine_sends_its_spans_to_a_collector(collector: Collector) -> None:
    @node(output="b")
    def up(a: int) -> int:
        return a + 1

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    Engine(Graph([up], name="g"), listeners=[Tracing(provider)]).run({"a": 1}, run_id="r")
    provider.shutdown()
    (span,), (step,), (item,) = collector.named("run g"), collector.named("step"), collector.named("up")
    assert (item.parent_span_id, step.parent_span_id) == (step.span_id, span.span_id)
    assert {each.key: each.value.string_value for each in span.attributes}["clew.run.id"] == "r"


def test_a_killed_run_continues_its_trace_on_other_workers(project: Path, collector: Collector) -> None:
    assert run(project, None, "submit", "flow:graph", "a=1", "--run-id", "r").returncode == 0
    worker = ("worker", "flow:graph", "--until-idle", "--trace")
    assert run(project, collector, *worker).returncode == -signal.SIGKILL
    done = run(project, collector, *worker)
    assert (done.returncode, "waiting: r" in done.stdout) == (0, True), done.stderr
    assert run(project, None, "answer", "r", "yes").returncode == 0
    assert run(project, collector, *worker).returncode == 0
    with Engine(store=project / "runs.db") as engine:
        assert engine.result("r").status == "completed"
        created = engine.store.row("r").created
    ids = ids_of(ObservedRun(run_id="r", created=created, graph="flow"))
    trace_id, span_id = ids.trace.to_bytes(16, "big"), ids.span.to_bytes(8, "big")
    assert {span.trace_id for span in collector.spans} == {trace_id}
    takes = collector.named("run flow")  # that of the killed one is missing
    assert [take.parent_span_id for take in takes] == [span_id, span_id]
    (mine,), (first,) = collector.named("mine"), collector.named("first")
    assert mine.parent_span_id == first.span_id
    assert len(collector.named("ask")) == 2
    assert {each["service.name"] for each in collector.resources} == {"clew-worker"}


def test_a_collector_that_does_not_answer_does_not_keep_a_worker(project: Path) -> None:
    assert run(project, None, "submit", "flow:calm", "a=1").returncode == 0
    text = "import clew.cli, clew.cli.observing as o; o.SEND_TIME = 0.01; clew.cli.main()"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections, and reads nothing
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        done = subprocess.run(
            [sys.executable, "-c", text, *command("worker", "flow:calm", "--until-idle", "--trace")[3:]],
            cwd=project,
            env=environment(OTEL_EXPORTER_OTLP_TIMEOUT="600", **where),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert (done.returncode, "stopped: 1 completed" in done.stdout) == (0, True), done.stderr
    assert "spans were not sent" in done.stderr


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=120) as response:
        return str(response.read().decode())


def test_a_worker_serves_metrics(project: Path) -> None:
    assert run(project, None, "submit", "flow:calm", "a=1").returncode == 0
    worker = subprocess.Popen(
        command("worker", "flow:calm", "--metrics", "127.0.0.1:0"),
        cwd=project,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with worker:
        try:
            assert worker.stderr is not None
            assert worker.stdout is not None
            found = next(filter(None, (re.search(r"http://\S+", line) for line in worker.stderr)))
            next(line for line in worker.stdout if line.startswith("completed"))
            text = scrape(found[0])
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=120)
    assert worker.returncode == 0
    for line in (
        'clew_runs_total{graph="calm",status="completed"} 1.0',
        'clew_items_total{graph="calm",node="first",status="completed"} 1.0',
        'clew_workers{state="alive"} 1.0',
        "clew_store_up 1.0",
    ):
        assert line in text
    assert 'clew_store_duration_seconds_count{operation="take"}' in text


@pytest.mark.parametrize(
    "wrong, more",
    [
        (["--metrics", "9464"], {}),
        (["--metrics", "localhost:x"], {}),
        (["--metrics", "localhost:99999"], {}),
        (["--trace"], {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
    ],
)
def test_a_wrong_option_is_refused(project: Path, wrong: list[str], more: dict[str, str]) -> None:
    done: Any = subprocess.run(
        command("worker", "flow:calm", "--until-idle", *wrong),
        cwd=project,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


@pytest.mark.parametrize(
    "missing, option",
    [
        ("opentelemetry", "--trace"),
        ("opentelemetry.exporter.otlp.proto.http", "--trace"),
        ("prometheus_client", "--metrics"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(project: Path, missing: str, option: str) -> None:
    plain = "from clew import Graph, node\ngraph = Graph([node(output='b', name='up')(lambda a: a)])\n"
    (project / "plain.py").write_text(plain)
    (project / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    arguments = [option] if option == "--trace" else [option, "127.0.0.1:0"]
    done: Any = subprocess.run(
        command("worker", "plain:graph", "--until-idle", *arguments),
        cwd=project,
        env=environment(PYTHONPATH=str(project)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    extra = "clew[otel]" if option == "--trace" else "clew[metrics]"
    assert (done.returncode, extra in done.stderr) == (2, True), done.stderr


def test_a_worker_prints_failed_runs(project: Path) -> None:
    (project / "broken.py").write_text(
        "from clew import Graph, node\n"
        "graph = Graph([node(output='b', name='broken')(lambda a: 1 // a)], name='broken')\n"
    )
    assert run(project, None, "submit", "broken:graph", "a=0", "--run-id", "r").returncode == 0
    done = run(project, None, "worker", "broken:graph", "--until-idle")
    assert done.stderr.count("ERROR clew.runs") == 1
    assert "ZeroDivisionError" in done.stderr
