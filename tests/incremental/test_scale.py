"""Depth and size: no recursion, no enumeration, and no unnecessary reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph, schema
from clew.incremental import persistence
from clew.incremental.nodes import NodeRecord
from clew.stores.factory import open_table
from tests.incremental.counting import Calls, chain, total


def test_a_chain_of_100_000_nodes() -> None:
    graph = chain(100_000)
    for value in (1, 2):
        graph.set("source", value)
        assert graph.freshness("n99999") != "up-to-date"
        assert graph.pull("n99999") == value + 100_000
    assert graph.freshness("n50000") == "up-to-date"
    assert graph.explain("n99999").causes[0].node == "source"


def test_a_diamond_ladder_of_depth_10_000() -> None:
    """Each rung needs both nodes of the one below: two to the power of 10,000 paths, and each node once."""
    calls = Calls()
    schemas = [calls.schema("l0", ["s"], lambda i, o, b: 1), calls.schema("r0", ["s"], lambda i, o, b: i[0])]
    for n in range(1, 10_000):
        below = [f"l{n - 1}", f"r{n - 1}"]
        schemas += [calls.schema(f"{side}{n}", below, lambda i, o, b: sum(i) % 1009) for side in "lr"]
    graph = DependencyGraph(schemas)
    graph.set("s", 1)
    graph.pull("l9999")
    assert len(calls.take()) == 19_999
    graph.set("s", 2)
    graph.pull("l9999")
    assert len(calls.take()) == 19_999
    graph.set("s", 2)
    graph.pull("r9999")
    assert calls.take() == ["r9999"]


def test_a_chain_in_which_each_node_adds_a_source() -> None:
    """The sets of sources would be quadratic; those in the middle are not kept."""
    length = 6_000
    calls = Calls()
    schemas = [calls.schema("n0", ["s0"], total)]
    schemas += [calls.schema(f"n{n}", [f"n{n - 1}", f"s{n}"], total) for n in range(1, length)]
    graph = DependencyGraph(schemas)
    with graph.batch():
        for n in range(length):
            graph.set(f"s{n}", 1)
    assert graph.pull(f"n{length - 1}") == length
    calls.take()
    graph.set(f"s{length - 3}", 2)
    assert graph.freshness("n10") == "up-to-date"
    assert graph.freshness(f"n{length - 2}") == "potentially-outdated"
    assert graph.pull(f"n{length - 1}") == length + 1
    assert calls.take() == [f"n{n}" for n in range(length - 3, length)]
    graph.set(f"n{length - 10}", 0)  # a pin in the wide part
    assert graph.pull(f"n{length - 1}") == 10
    calls.take()
    graph.set(f"s{length - 2}", 5)
    assert graph.pull(f"n{length - 1}") == 14
    assert calls.take() == [f"n{n}" for n in range(length - 2, length)]
    graph.set("s0", 5)  # which ends it
    assert graph.pull(f"n{length - 1}") == length + 1 + 4 + 4
    assert len(calls.take()) == length


def test_a_node_without_a_value_on_top_of_a_wide_one() -> None:
    names = [f"s{n}" for n in range(5_000)]
    calls = Calls()
    graph = DependencyGraph(
        [
            calls.schema("wide", names, total),
            calls.schema("between", ["wide"], total),
            calls.schema("top(x)", ["between", "s0"], total),
        ]
    )
    with graph.batch():
        for name in names:
            graph.set(name, 1)
    assert graph.pull("top(1)") == 5_001
    graph.set("s1", 2)
    assert graph.pull("top(1)") == 5_002
    graph.set("other", 1)
    calls.take()
    assert graph.pull("top(2)") == 5_002
    assert calls.take() == ["top(2)"]
    graph.set("between", 0)
    assert graph.pull("top(2)") == 1
    graph.set("s2", 1)
    assert graph.pull("top(2)") == 5_002


def test_plans_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.incremental import pull_plan

    monkeypatch.setattr(pull_plan, "_MANY", 50)
    graph = chain(20)
    graph.set("source", 0)
    graph.pull("n19")
    for value in range(1, 10):
        graph.set("source", value)
        assert graph.pull(f"n{19 - value}") == value + 20 - value
        assert sum(map(len, graph._table.plans.values())) == graph._table.planned <= 50


def test_a_set_does_not_visit_dependents(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows are made for 10 dependents as for 1,000."""
    import clew.incremental.changes as changes

    graph = DependencyGraph([schema("view(x)", ["s"], total)])
    graph.set("s", 1)
    made: list[int] = []
    for count in (10, 1_000):
        for n in range(count):
            graph.pull("view", n)
        rows: list[Any] = []
        monkeypatch.setattr(
            changes, "NodeRecord", lambda *given, rows=rows: rows.append(given) or NodeRecord(*given)
        )
        graph.set("s", count)
        monkeypatch.undo()
        made.append(len(rows))
    assert made == [1, 1]


def test_an_unrelated_set_touches_no_other_node() -> None:
    calls = Calls()
    graph = DependencyGraph([calls.schema("view(x)", ["s"], total), calls.schema("o", ["other"], total)])
    graph.set("s", 1)
    graph.set("other", 1)
    for n in range(1_000):
        graph.pull("view", n)
    calls.take()
    graph.set("other", 2)
    assert all(graph.freshness("view", n) == "up-to-date" for n in range(1_000))
    assert graph.pull("view", 500) == 1
    assert calls.take() == []


def test_the_sources_of_nodes_with_the_same_inputs_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.incremental import freshness

    graph = DependencyGraph([schema("b", ["s"], total), schema("view(x)", ["b", "s"], total)])
    graph.set("s", 1)
    for n in range(100):
        graph.pull("view", n)
    graph.set("other", 1)
    found: list[Any] = []
    joined = freshness._joined
    monkeypatch.setattr(
        freshness, "_joined", lambda table, node: found.append(node.key) or joined(table, node)
    )
    assert all(graph.freshness("view", n) == "up-to-date" for n in range(100))
    assert sorted(found) == ["b", "s", "view(0)"]
    graph.set("b", 5)  # its schema is a source from now on
    assert all(graph.freshness("view", n) == "potentially-outdated" for n in range(100))
    assert {graph.pull("view", n) for n in range(100)} == {6}
    assert sorted(found[3:]) == ["b", "s", "view(0)"]


def _filled(path: Path, count: int) -> DependencyGraph:
    """A database with many instances, written as a graph writes them."""
    schemas = [schema("view(x)", ["s"], lambda i, o, b: i[0] + b["x"])]
    with DependencyGraph(schemas, path) as graph:
        graph.set("s", 1)
    row = persistence._packed(NodeRecord(2, None, 1, 1, 0, 1, 0))
    kv = open_table(path, "graph graph")
    for start in range(0, count, 50_000):
        kv.write((f"n/view({n})", row) for n in range(start, min(start + 50_000, count)))
    kv.close()
    return DependencyGraph(schemas, path)


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_instances_on_disk_are_not_read_when_the_graph_is_opened(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    load = persistence.GraphPersistence.load

    def counted(stored: persistence.GraphPersistence, key: str) -> NodeRecord | None:
        read.append(key)
        return load(stored, key)

    monkeypatch.setattr(persistence.GraphPersistence, "load", counted)
    with _filled(tmp_path / "graph.db", count) as graph:
        assert read == ["s"]  # when it was set, before
        read.clear()
        assert graph.pull("view", count - 1) == 2
        assert read == [f"view({count - 1})"]
        graph.set("s", 5)
        assert graph.freshness("view", 7) == "potentially-outdated"
        assert graph.pull("view", 7) == 12
        assert set(read) == {"s", f"view({count - 1})", "view(7)"}
