"""Children are exported and imported with their run, and shown by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, MemoryStore, SQLiteStore, node
from clew.errors import CheckpointError, RunExistsError
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
