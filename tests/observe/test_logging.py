"""Records of the loggers: a failed run is one at ERROR, a retry one at WARNING, and otherwise nothing is logged."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, Worker, node
from clew.stores import MemoryStore, SQLiteStore, Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield made
    made.close()


@node(output="b")
def up(a: int) -> int:
    return a + 1


@node(output="c", retry=RetryPolicy(max_attempts=3, base_delay=0))
def flaky(b: int, ctx: Context) -> int:
    if ctx.attempt < b:
        raise ConnectionError("down")
    return b


GRAPH = Graph([up, flaky], name="shop")


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("clew")]


def test_a_run_that_succeeds_logs_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    Engine(GRAPH, store=store).run({"a": -1})
    assert records(caplog) == []


def test_a_retry_is_a_warning(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    Engine(GRAPH, store=store).run({"a": 0}, run_id="r")
    (record,) = records(caplog)
    assert (record.levelname, record.name) == ("WARNING", "clew.nodes")
    assert place(record) == ("r", "shop", 2, "flaky#0", "flaky", 1)


def test_a_failed_run_is_one_error(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    Engine(GRAPH, store=store, check=False).run({"a": 5}, run_id="r")
    *retries, record = records(caplog)
    assert [each.levelname for each in retries] == ["WARNING"] * 2
    assert (record.levelname, record.name) == ("ERROR", "clew.runs")
    assert place(record) == ("r", "shop", 2, "flaky#0", "flaky", 3)
    assert record.exc_info is not None
    assert record.exc_info[0] is ConnectionError


def place(record: Any) -> tuple[Any, ...]:
    return record.run_id, record.graph, record.step, record.path, record.node, record.attempt


def test_a_child_that_fails_is_part_of_its_run(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    @node(output="x")
    def broken(a: int) -> int:
        raise ValueError(a)

    child = Graph([broken], name="child")

    @node(output="out")
    def outer(a: int, ctx: Context) -> Any:
        return ctx.run(child, {"a": a})["x"]

    @node(output="out")
    def careful(a: int, ctx: Context) -> Any:
        try:
            return ctx.run(child, {"a": a})["x"]
        except ValueError:
            return None

    Engine(Graph([careful]), store=store).run({"a": 1})
    assert records(caplog) == []
    Engine(Graph([outer]), store=store, check=False).run({"a": 1}, run_id="r")
    (record,) = records(caplog)
    assert (record.levelname, place(record)[0]) == ("ERROR", "r")


def test_a_value_that_cannot_be_stored_is_one_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @node(output="b")
    def wrong(a: int) -> Any:
        return object()

    with Engine(Graph([wrong]), store=tmp_path / "runs.db", check=False) as engine:
        assert engine.run({"a": 1}).status == "failed"
    (record,) = records(caplog)
    assert record.levelname == "ERROR"


def test_a_worker_logs_a_failed_run_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(GRAPH, store=store)
    engine.submit({"a": 5}, run_id="r")
    Worker(GRAPH, store=store).run(until_idle=True)
    assert [record.levelname for record in records(caplog)] == ["WARNING", "WARNING", "ERROR"]


def test_the_fields_are_there_for_a_json_formatter() -> None:
    class AsJson(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            fields = ("run_id", "graph", "step", "path", "node", "attempt")
            known = {name: getattr(record, name) for name in fields if hasattr(record, name)}
            return json.dumps({"level": record.levelname, "message": record.getMessage(), **known})

    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(AsJson())
    log = logging.getLogger("clew")
    log.addHandler(handler)
    try:
        Engine(GRAPH, check=False).run({"a": 5}, run_id="r")
    finally:
        log.removeHandler(handler)
    last = json.loads(lines.getvalue().splitlines()[-1])
    assert (last["level"], last["run_id"], last["path"]) == ("ERROR", "r", "flaky#0")


PROGRAM = """
from clew import Engine, Graph, node

@node(output="b", retry=2)
def fails(a):
    raise ValueError(a)

Engine(Graph([fails]), check=False).run({"a": 1})
"""


def test_a_program_without_logging_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


CONFIGURED_LATE = """
import logging.config
import clew.runtime.reporting.reports
from clew import Engine, Graph, RetryPolicy, node

@node(output="b", retry=RetryPolicy(max_attempts=2, base_delay=0))
def fails(a):
    raise ValueError(a)

handlers = {"h": {"class": "logging.StreamHandler", "formatter": "f", "stream": "ext://sys.stdout"}}
formatters = {"f": {"format": "%(levelname)s %(name)s"}}
root = {"level": "INFO", "handlers": ["h"]}
logging.config.dictConfig({"version": 1, "formatters": formatters, "handlers": handlers, "root": root})
Engine(Graph([fails]), check=False).run({"a": 1})
"""


def test_a_configuration_after_the_imports_does_not_silence_clew() -> None:
    done = subprocess.run([sys.executable, "-c", CONFIGURED_LATE], capture_output=True, text=True, check=True)
    levels = [line for line in done.stdout.splitlines() if " clew." in line]
    assert (levels, done.stderr) == (["WARNING clew.nodes", "ERROR clew.runs"], "")
