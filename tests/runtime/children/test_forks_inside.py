"""A fork or a rerun inside a run never executes the graph around it: it has the inner graph, or it is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew import Context, Engine, Graph, node
from clew.errors import InputError
from clew.stores import Store


@node(output="y")
def increase(x: int) -> int:
    return x + 1


KID = Graph([increase], name="kid")


def outer_engine(store: Store, kid: Graph = KID) -> tuple[Engine, list[int]]:
    seen: list[int] = []

    @node(output="r")
    def two(x: int, ctx: Context) -> int:
        seen.append(x)
        return int(ctx.run(kid, {"x": x + 100})["y"])

    engine = Engine(Graph([two], name="outer"), store=store)
    engine.run({"x": 1}, run_id="p")
    return engine, seen


def child_of(store: Store) -> str:
    return store.rows(of="p")[0].run_id


@pytest.mark.parametrize("step", [None, 0, 1])
@pytest.mark.parametrize("values", [None, {"x": 500}, {"z": 1}])
def test_a_fork_of_a_child_needs_its_graph(store: Store, step: int | None, values: Any) -> None:
    engine, seen = outer_engine(store)
    with pytest.raises(InputError, match=r"'kid'.*Engine\(child_graph, store=...\)"):
        engine.fork("p", path="two#0!0", step=step, values=values)
    with pytest.raises(InputError, match="'kid'"):
        engine.fork(child_of(store), step=step, values=values)
    assert seen == [1]
    assert len(engine.runs(children=True)) == 2


def test_a_rerun_of_a_child_needs_its_graph(store: Store) -> None:
    engine, seen = outer_engine(store)
    with pytest.raises(InputError, match=r"'kid'.*Engine\(child_graph, store=...\)"):
        engine.rerun(child_of(store))
    assert seen == [1]
    assert Engine(KID, store=store).rerun(child_of(store), values={"x": 7})["y"] == 8


def test_a_graph_without_a_name_is_not_the_one_around_it(store: Store) -> None:
    seen: list[int] = []

    @node(output="r")
    def two(x: int, ctx: Context) -> int:
        seen.append(x)
        return int(ctx.run(Graph([increase]), {"x": x})["y"])

    engine = Engine(Graph([two]), store=store)
    engine.run({"x": 1}, run_id="p")
    with pytest.raises(InputError, match="increase"):
        engine.fork("p", path="two#0!0", step=0)
    assert seen == [1]


def test_the_graph_of_a_child_may_have_changed(store: Store) -> None:
    outer_engine(store)

    @node(output="y2")
    def square(y: int) -> int:
        return y * y

    changed = Engine(Graph([increase, square], name="kid"), store=store)
    assert changed.fork("p", path="two#0!0", step=0, values={"x": 2})["y2"] == 9
    assert changed.rerun(child_of(store), values={"x": 3})["y2"] == 16


# -- subgraphs -----------------------------------------------------------------------------------------------------


@node(output="z")
def last(y: int) -> int:
    return -y


def subgraph_engine(store: Store) -> Engine:
    engine = Engine(Graph([Graph([increase], name="sub"), last], name="outer"), store=store)
    engine.run({"x": 1}, run_id="p")
    return engine


@pytest.mark.parametrize("step", [0, 1, None])
def test_a_fork_of_a_subgraph_has_the_inner_graph(store: Store, step: int | None) -> None:
    engine = subgraph_engine(store)
    fork = engine.fork("p", path="sub#0", step=step, run_id="f")
    assert dict(fork.values) == {"x": 1, "y": 2}
    assert [row.graph for row in engine.runs() if row.run_id == "f"] == ["sub"]
    ran = ("increase#0",)
    assert [each.items for each in engine.history("f")][1:] == ([ran] if step == 0 else [])
    assert asyncio.run(engine.afork("p", path="sub#0", step=0, values={"x": 4}))["y"] == 5


def test_stops_of_such_a_fork_name_inner_nodes(store: Store) -> None:
    engine = subgraph_engine(store)
    fork = engine.fork("p", path="sub#0", step=0, stop_before=["increase"], run_id="f")
    assert fork.status == "paused"
    with pytest.raises(InputError):
        engine.fork("p", path="sub#0", step=0, stop_before=["last"])
    inner = Engine(Graph([increase], name="sub"), store=store)
    assert inner.resume("f")["y"] == 2


def test_an_unrelated_graph_cannot_fork_a_subgraph(store: Store) -> None:
    subgraph_engine(store)
    other = Engine(Graph([last], name="other"), store=store)
    with pytest.raises(InputError, match="'sub'"):
        other.fork("p", path="sub#0", step=0)
    changed = Engine(Graph([increase, last], name="sub"), store=store)
    assert changed.fork("p", path="sub#0", step=0)["z"] == -2


def test_values_bound_outside_reach_the_fork(store: Store) -> None:
    @node(output="y")
    def add(x: int, by: int) -> int:
        return x + by

    inner = Graph([Graph([add], name="deep")], name="sub")
    engine = Engine(Graph([inner, last], name="outer").bind(by=10), store=store)
    assert engine.run({"x": 1}, run_id="p")["y"] == 11
    assert engine.fork("p", path="sub#0", step=0, values={"x": 2})["y"] == 12
    assert engine.fork("p", path="sub#0/deep#0", step=0, values={"x": 3})["y"] == 13


def test_one_item_of_a_mapped_subgraph(store: Store) -> None:
    engine = Engine(Graph([KID.map_over("x", name="each")], name="outer"), store=store)
    engine.run({"x": [1, 2]}, run_id="p")
    assert engine.fork("p", path="each#0/each#0[1]", step=0, values={"x": 9})["y"] == 10


def test_the_events_of_such_a_fork_name_the_inner_graph(store: Store) -> None:
    events: list[Any] = []
    engine = Engine(Graph([KID, last], name="outer"), store=store, listeners=[events.append])
    engine.run({"x": 1}, run_id="p")
    engine.fork("p", path="kid#0", step=0)
    started = [each.data["graph"] for each in events if each.kind == "run_started"]
    assert started == ["outer", "kid"]
