"""`Graph.run`: a run of which nothing is left but its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, node
from clew.errors import StoreError
from clew.stores.memory.store import NOWHERE, MemoryStore


@node(output="y")
def double(x: int) -> int:
    return 2 * x


def test_a_run_of_a_graph_is_kept_nowhere_and_its_result_has_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryStore, "create", None)  # whoever keeps a run calls it
    result = Graph([double]).run({"x": 3})
    assert NOWHERE.rows() == []
    assert result.state.versions == {"x": 0, "y": 1}
    assert [record.node_name for record in result.state.node_history.values()] == ["double"]


def test_it_is_the_chain_that_an_engine_keeps() -> None:
    engine = Engine(Graph([double]), seed=0)
    assert Graph([double]).run({"x": 3}, seed=0).state.digest == engine.run({"x": 3}).state.digest


def test_a_store_that_is_given_keeps_it(tmp_path: Path) -> None:
    result = Graph([double]).run({"x": 3}, store=tmp_path / "runs.db")
    with Engine(Graph([double]), store=tmp_path / "runs.db") as engine:
        assert engine.result(result.run_id)["y"] == 6


def test_there_is_no_database_to_write_to() -> None:
    @node(output="y")
    def write(x: int, ctx: Context) -> Any:
        with ctx.transaction() as database:
            database.execute("INSERT INTO t VALUES (1)")
        return x

    result = Graph([write]).run({"x": 1}, check=False)
    assert isinstance(result.error, StoreError)
    assert "database" in str(result.error)


def test_events_and_metrics_are_there_as_usual() -> None:
    kinds: list[str] = []
    result = Graph([double]).run({"x": 3}, listeners=[lambda event: kinds.append(event.kind)])
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert result.metrics.total_steps == 1
