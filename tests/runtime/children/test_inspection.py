"""Children are exported and imported with their run, and `path=` looks inside them and inside subgraphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, MemoryStore, SQLiteStore, node
from clew.errors import CheckpointError, InputError, RunExistsError, UnknownRunError
from clew.stores import RunRow, Store


@node(output="b")
def double(a: int) -> int:
    return a * 2


LEAF = Graph([double], name="leaf")


@node(output="c")
def inner(a: int, ctx: Context) -> int:
    return int(ctx.run(LEAF, {"a": a})["b"]) + int(ctx.interrupt("more?"))


MIDDLE = Graph([inner], name="middle")


@node(output="y")
def outer(x: int, ctx: Context) -> int:
    return int(ctx.run(MIDDLE, {"a": x})["c"]) + int(ctx.run(LEAF, {"a": x})["b"])


OUTER = Graph([outer], name="outer")


def rows(store: Store) -> list[tuple[Any, ...]]:
    return [(row.run_id, row.status, row.child_of, row.place) for row in store.rows()]


def test_children_are_exported_and_imported_with_their_run(store: Store, tmp_path: Path) -> None:
    engine = Engine(OUTER, store=store)
    engine.run({"x": 1}, run_id="r")
    document = json.loads(json.dumps(engine.export_run("r")))
    for target in (MemoryStore(), SQLiteStore(tmp_path / "other.db")):
        other = Engine(OUTER, store=target)
        other.import_run(document)
        assert rows(target) == rows(store)
        assert other.resume("r", answer=10)["y"] == 14
        assert other.replay("r").ok
        whole = other.export_run("r")
        last = Engine(OUTER)
        last.import_run(json.loads(json.dumps(whole)))
        assert rows(last.store) == rows(target)
        assert last.result("r")["y"] == 14
        with pytest.raises(RunExistsError):
            other.import_run(document)
        assert len(target.rows()) == 4


def test_an_import_is_whole_or_not_at_all(store: Store) -> None:
    engine = Engine(OUTER, store=store)
    engine.run({"x": 1}, run_id="r")
    document = json.loads(json.dumps(engine.export_run("r")))
    other = MemoryStore()
    child = store.rows(of="r")[0].run_id
    other.create(RunRow(child))
    with pytest.raises(RunExistsError):
        Engine(OUTER, store=other).import_run(document)
    assert [row.run_id for row in other.rows()] == [child]


@pytest.mark.parametrize("change", ["place", "values"])
def test_a_changed_child_is_rejected(store: Store, change: str) -> None:
    engine = Engine(OUTER, store=store)
    engine.run({"x": 1}, run_id="r")
    document = json.loads(json.dumps(engine.export_run("r")))
    inside = document["clew"]["children"][0]
    if change == "place":
        inside["clew"]["place"] = "outer#0!7"
    else:
        inside["checkpoints"][0]["state"]["a"] = 2
    target = MemoryStore()
    with pytest.raises(CheckpointError):
        Engine(OUTER, store=target).import_run(document)
    assert target.rows() == []


def test_a_run_without_children_has_the_same_document_as_before(store: Store) -> None:
    engine = Engine(LEAF, store=store)
    engine.run({"a": 1}, run_id="r")
    assert {"children", "place"}.isdisjoint(engine.export_run("r")["clew"])


# -- paths ---------------------------------------------------------------------------------------------------------

SUB = Graph([outer], name="sub").as_node("sub", outputs=["y"])


@pytest.fixture
def finished(store: Store) -> Engine:
    engine = Engine(Graph([SUB], name="around"), store=store)
    engine.run({"x": 1}, run_id="r")
    assert engine.resume("r", answer=10)["y"] == 14
    return engine


CHILD = "sub#0/outer#0!0"
"""The child of an item in a subgraph."""


def test_a_path_looks_inside_children_and_subgraphs(finished: Engine) -> None:
    for engine in (finished, Engine(store=finished.store)):  # no graph is needed
        assert engine.state("r", path="sub#0").values == {"x": 1, "y": 14}
        assert engine.state("r", 0, path="sub#0").values == {"x": 1}
        assert engine.state("r", path=CHILD).values == {"a": 1, "c": 12}
        assert engine.state("r", path=f"{CHILD}/inner#0!0").values == {"a": 1, "b": 2}
        assert engine.state("r", 0, path=f"{CHILD}/inner#0!0").values == {"a": 1}
        assert engine.state("r", path="sub#0/outer#0!1").values == {"a": 1, "b": 2}
        assert [each.step_id for each in engine.history("r", path=CHILD)] == [0, 1]
        assert [each.items for each in engine.history("r", path="sub#0")] == [(), ("sub#0/outer#0",)]
        assert engine.why("r", "c", path=CHILD).path == "inner#0"
        assert engine.why("r", "y", path="sub#0").path == "outer#0"


def test_a_child_may_have_a_subgraph(store: Store) -> None:
    @node(output="z")
    def start(x: int, ctx: Context) -> int:
        return int(ctx.run(Graph([LEAF.as_node("leaf", outputs=["b"])]), {"a": x})["b"])

    engine = Engine(Graph([start]), store=store)
    assert engine.run({"x": 2}, run_id="r")["z"] == 4
    assert engine.state("r", path="start#0!0/leaf#0").values == {"a": 2, "b": 4}


def test_a_fork_from_inside(finished: Engine) -> None:
    store = finished.store
    assert Engine(LEAF, store=store).fork("r", path="sub#0/outer#0!1", step=0, values={"a": 5})["b"] == 10
    middle = Engine(MIDDLE, store=store).fork("r", path=CHILD, step=0, run_id="m")
    assert middle.status == "waiting"
    assert [row.place for row in store.rows(of="m")] == ["inner#0!0"]
    inner_graph = Engine(OUTER, store=store)
    assert inner_graph.fork("r", path="sub#0", step=1, run_id="ended")["y"] == 14
    assert store.rows(of="ended") == []
    assert inner_graph.fork("r", path="sub#0", step=0, values={"x": 3}).status == "waiting"


@pytest.mark.parametrize("path", ["nothing#0", "sub#0!0", f"{CHILD}/inner#0!9", f"{CHILD}/x#0"])
def test_a_path_to_nothing(finished: Engine, path: str) -> None:
    with pytest.raises(UnknownRunError):
        finished.state("r", path=path)


@pytest.mark.parametrize("path", ["", 1, ()])
def test_an_invalid_path(finished: Engine, path: Any) -> None:
    with pytest.raises(InputError):
        finished.state("r", path=path)
    with pytest.raises(UnknownRunError):
        finished.state("unknown", path="a#0!0")
    with pytest.raises(InputError):
        finished.state("r", "label", path="sub#0")
