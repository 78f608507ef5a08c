"""A finished result is written within 50 ms during a long pull, and retried after a full disk has room."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph, schema
from clew.errors import StoreError
from clew.stores.factory import open_table

PATIENCE = 60.0


def is_stored(file: Path, key: str) -> bool:
    """Whether another process would find a row."""
    kv = open_table(file, "graph graph")
    try:
        return kv.read(f"n/{key}") is not None
    finally:
        kv.close()


def wait_until_stored(file: Path, key: str) -> bool:
    end = time.monotonic() + PATIENCE
    found = threading.Event()
    while time.monotonic() < end:
        if is_stored(file, key):
            return True
        found.wait(0.01)
    return False


def test_a_result_is_written_while_the_next_one_is_computed(tmp_path: Path) -> None:
    file = tmp_path / "graph.db"
    seen: list[bool] = []

    def summary(inputs: list[Any], old: Any, bindings: Any) -> int:
        seen.append(wait_until_stored(file, "fetch"))
        return int(inputs[0]) + 1

    schemas = [schema("fetch", ["url"], lambda i, o, b: i[0] * 10), schema("summary", ["fetch"], summary)]
    with DependencyGraph(schemas, file) as graph:
        graph.set("url", 1)
        assert graph.pull("summary") == 11
    assert seen == [True]


CHILD = """
import sys, threading
from clew import DependencyGraph, schema

def summary(inputs, old, bindings):
    print("summary", flush=True)
    threading.Event().wait()

graph = DependencyGraph([schema("fetch", ["url"], lambda i, o, b: i[0] * 10), schema("summary", ["fetch"], summary)],
                        sys.argv[1])
graph.set("url", 1)
graph.pull("summary")
"""


def test_a_kill_inside_a_long_computation_loses_nothing_before_it(tmp_path: Path) -> None:
    file = tmp_path / "graph.db"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "summary\n"
        assert wait_until_stored(file, "fetch")
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    calls: list[str] = []

    def fetch(inputs: list[Any], old: Any, bindings: Any) -> int:
        calls.append("fetch")
        return int(inputs[0]) * 10

    schemas = [schema("fetch", ["url"], fetch), schema("summary", ["fetch"], lambda i, o, b: i[0] + 1)]
    with DependencyGraph(schemas, file) as graph:
        assert graph.pull("fetch") == 10
    assert calls == []


@pytest.mark.parametrize("operation", ["pull", "freshness", "materialized", "set"])
def test_the_next_operation_writes_what_a_full_disk_held_back(tmp_path: Path, operation: str) -> None:
    file = tmp_path / "graph.db"
    schemas = [schema("large", ["n"], lambda i, o, b: ["x" * 1000] * i[0])]
    with DependencyGraph(schemas, file) as graph:
        graph.set("n", 200)
        database = graph._persistence.kv._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError):
            graph.pull("large")
        assert (
            graph.pull("large") == ["x" * 1000] * 200
        )  # the disk is still full: the value is there all the same
        assert not is_stored(file, "large")
        database.execute("PRAGMA max_page_count = 100000")
        if operation == "pull":
            graph.pull("large")
        elif operation == "freshness":
            graph.freshness("n")
        elif operation == "materialized":
            graph.materialized()
        else:
            graph.set("other", 1)
        assert is_stored(file, "large")
