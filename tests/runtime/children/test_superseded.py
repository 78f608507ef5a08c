"""Children that nothing will continue are ended as cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node
from clew.stores import Store
from tests.runtime.killed import as_if_killed


@interrupt(output="ok")
def ask(x: int) -> str:
    return "ok?"


ASKS = Graph([ask], name="asks")


@node(output="ok")
def wrapped(x: int, ctx: Context) -> Any:
    return ctx.run(ASKS, {"x": x})["ok"]


DEEP = Graph([wrapped], name="deep")


def _statuses(store: Store, run_id: str = "r") -> list[str]:
    found: list[str] = []
    for row in store.rows(of=run_id):
        found += [row.status, *_statuses(store, row.run_id)]
    return sorted(found)


@pytest.mark.parametrize("graph", [ASKS, DEEP], ids=lambda graph: graph.name)
def test_a_child_with_other_values_ends_the_one_before(store: Store, graph: Graph) -> None:
    x = 1

    @node(output="o")
    def outer(n: int, ctx: Context) -> Any:
        return ctx.run(graph, {"x": x})["ok"]

    engine = Engine(Graph([outer]), store=store)
    assert engine.run({"n": 1}, run_id="r").status == "waiting"
    x = 2
    result = engine.resume("r", answer="for the first")
    assert result.status == "waiting"
    depth = 1 if graph is ASKS else 2
    assert _statuses(store) == ["cancelled"] * depth + ["waiting"] * depth
    assert [question.path for question in result.questions]
    assert engine.resume("r", answer="yes")["o"] == "yes"
    assert _statuses(store) == ["cancelled"] * depth + ["completed"] * depth


def test_a_child_that_is_not_called_again_ends_with_its_run(store: Store) -> None:
    is_asked = True

    @node(output="o")
    def outer(n: int, ctx: Context) -> Any:
        return ctx.run(DEEP, {"x": 1})["ok"] if is_asked else "not asked"

    engine = Engine(Graph([outer]), store=store)
    assert engine.run({"n": 1}, run_id="r").status == "waiting"
    is_asked = False
    assert engine.resume("r", answer="yes")["o"] == "not asked"
    assert _statuses(store) == ["cancelled", "cancelled"]


def test_a_child_of_a_killed_process_that_is_not_called_again(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    is_first = True

    @node(output="a")
    def copies(x: int) -> int:
        killed.append(as_if_killed(file))
        return x

    killed: list[Store] = []
    leaf = Graph([copies], name="leaf")

    @node(output="o")
    async def outer(n: int, ctx: Context) -> Any:
        if is_first:
            return (await ctx.run(leaf, {"x": 1}))["a"]
        await asyncio.sleep(0)
        return "another way"

    Engine(Graph([outer]), store=SQLiteStore(file)).run({"n": 1}, run_id="r")
    store = killed[0]
    assert _statuses(store) == ["running"]
    is_first = False
    assert Engine(Graph([outer]), store=store).resume("r")["o"] == "another way"
    assert _statuses(store) == ["cancelled"]


def test_a_failed_run_keeps_its_waiting_children(store: Store) -> None:
    fails = True

    @node(output="o")
    def outer(n: int, ctx: Context) -> Any:
        return ctx.run(ASKS, {"x": 1})["ok"]

    @node(output="p")
    def beside(n: int) -> int:
        if fails:
            raise ValueError
        return n

    engine = Engine(Graph([outer, beside]), store=store)
    assert engine.run({"n": 1}, run_id="r", check=False).status == "failed"
    assert _statuses(store) == ["waiting"]
    fails = False
    assert engine.resume("r", answer="yes")["o"] == "yes"
    assert _statuses(store) == ["completed"]
