"""The metrics of a run are the same when it ends, when it is looked up, and in another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, RetryPolicy, SQLiteStore, node
from clew.testing import VirtualClock


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_retried_run_has_one_latency(tmp_path: Path, is_durable: bool) -> None:
    tried: list[int] = []

    @node(output="b", retry=RetryPolicy(max_attempts=2, base_delay=20.0, max_delay=20.0))
    def busy(a):
        tried.append(a)
        if len(tried) == 1:
            raise OSError("busy")
        return a

    def opened(graph: Graph | None) -> Engine:
        options: dict[str, Any] = {"store": SQLiteStore(tmp_path / "runs.db")} if is_durable else {}
        return Engine(graph, clock=VirtualClock(), **options)

    engine = opened(Graph([busy]))
    metrics = engine.run({"a": 1}, run_id="r").metrics
    assert metrics.total_retries == 1
    assert metrics == engine.result("r").metrics
    engine.close()
    if is_durable:
        assert opened(None).result("r").metrics == metrics
