"""A cluster without workers: the run waits, and says so once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest

from clew import Context, Engine, Graph, node
from clew.runtime.executors import dask
from clew.runtime.remote.executor import RemoteExecutor
from tests.runtime.remote import flow
from tests.runtime.remote.clusters import dask_cluster, dask_workers

pytest.importorskip("distributed", reason="Dask has no wheel for this version of Python")


class HastyClock:
    """A clock on which 20 seconds pass between two readings, so that no timer has to be waited for."""

    virtual = False
    time = staticmethod(time.time)

    def __init__(self) -> None:
        self._readings = count()

    def monotonic(self) -> float:
        return next(self._readings) * 20.0

    def advance(self, to: float) -> None:
        pass


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: SimpleQueue[logging.LogRecord] = SimpleQueue()
        self.emit = self.seen.put


@node(output="child", on="driver")
def parent(a: int, ctx: Context) -> int:
    found: int = ctx.run(Graph([flow.plain], name="inner"), {"a": a})["plain"]
    return found


@contextmanager
def closing(executor: RemoteExecutor) -> Iterator[RemoteExecutor]:
    """Do not wait for nodes that no worker runs."""
    try:
        yield executor
    finally:
        executor.shutdown(wait=False)


def test_a_run_that_waits_for_workers_says_so_once(tmp_path: Path) -> None:
    records, ends = Records(), SimpleQueue[Any]()
    log = logging.getLogger("clew.executors")
    log.addHandler(records)
    try:
        with dask_cluster(0) as client, closing(dask(client)) as executor:

            def run(graph: Graph, name: str) -> None:
                engine = Engine(graph, executor=executor, clock=HastyClock(), default_node_timeout=None)
                if name == "loop":
                    ends.put(asyncio.run(engine.arun({"a": 1}, run_id=name)))
                else:
                    ends.put(engine.run({"a": 1}, run_id=name))

            plain, outer = Graph([flow.plain], name="plain"), Graph([parent], name="outer")
            for graph, name in ((plain, "blocking"), (plain, "loop"), (outer, "parent")):
                Thread(target=run, args=(graph, name), daemon=True).start()
            seen = [records.seen.get(timeout=120) for _ in range(3)]
            with dask_workers(client.scheduler.address, 1, tmp_path):
                results = [ends.get(timeout=120) for _ in range(3)]
    finally:
        log.removeHandler(records)
    assert [result.status for result in results] == ["completed"] * 3
    assert records.seen.empty()
    assert sorted(record.run_id for record in seen) == ["blocking", "loop", "parent"]
    assert {record.graph for record in seen} == {"plain", "outer"}
    assert {record.levelno for record in seen} == {logging.WARNING}
