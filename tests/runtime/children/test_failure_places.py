"""The place of a failure inside a child: in the failure, in the note, and in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SQLiteStore, node
from clew.stores import Store


@node(output="a")
def first(k: int) -> int:
    return k


@node(output="b")
def second(a: int) -> float:
    return 1 / (a - 2)


LEAF = Graph([first, second], name="leaf")
SUB = Graph([Graph([first, second], name="sub")], name="around")


@node(output="o")
def outer(ks: list[int], ctx: Context) -> list[Any]:
    return [ctx.run(LEAF, {"k": k})["b"] for k in ks]


@node(output="o")
async def aouter(ks: list[int], ctx: Context) -> list[Any]:
    return [(await ctx.run(LEAF, {"k": k}))["b"] for k in ks]


@pytest.mark.parametrize("function", [outer, aouter], ids=lambda each: each.name)
def test_a_failure_names_the_node_of_the_child(store: Store, function: Any) -> None:
    engine = Engine(Graph([function]), store=store)
    with pytest.raises(ZeroDivisionError) as raised:
        engine.run({"ks": [1, 2]}, run_id="r")
    child = store.rows(of="r")[-1]
    path = f"{child.place}/second#0"
    (failure,) = engine.result("r").failures
    assert (failure.node, failure.path) == (function.name, f"{function.name}#0")
    assert failure.inside is not None
    assert (failure.inside.run_id, failure.inside.path, failure.inside.node) == (child.run_id, path, "second")
    (note,) = raised.value.__notes__
    assert path in note
    assert "'second'" in note
    assert "engine.resume('r')" in note


def test_children_of_children_and_subgraphs(store: Store) -> None:
    @node(output="o")
    def middle(k: int, ctx: Context) -> Any:
        return ctx.run(SUB, {"k": k})["b"]

    @node(output="p")
    def top(k: int, ctx: Context) -> Any:
        return ctx.run(Graph([middle], name="middle"), {"k": k})["o"]

    engine = Engine(Graph([top]), store=store)
    (failure,) = engine.run({"k": 2}, run_id="r", check=False).failures
    child = store.rows(of="r")[0].run_id
    assert failure.inside is not None
    assert failure.inside.run_id == store.rows(of=child)[0].run_id
    assert failure.inside.path == "top#0!0/middle#0!0/sub#0/second#0"
    assert failure.inside.node == "second"


def test_a_confined_failure(store: Store) -> None:
    engine = Engine(Graph([outer]), store=store, on_error="continue")
    for result in (engine.run({"ks": [2]}, run_id="r"), engine.result("r")):
        (failure,) = result.failures
        assert failure.inside is not None
        assert failure.inside.path == "outer#0!0/second#0"


def test_a_recorded_failure_keeps_its_place(tmp_path: Path) -> None:
    """The node catches the failure, and raises it again in a later run of the same attempt."""
    file = tmp_path / "runs.db"

    @node(output="o")
    def late(ks: list[int], ctx: Context) -> Any:
        try:
            return outer.func(ks, ctx)
        except ZeroDivisionError:
            ctx.interrupt("raise it?")
            raise

    engine = Engine(Graph([late]), store=SQLiteStore(file))
    assert engine.run({"ks": [2]}, run_id="r").status == "waiting"
    engine.close()
    (failure,) = Engine(Graph([late]), store=SQLiteStore(file)).resume("r", answer=True, check=False).failures
    assert failure.inside is not None
    assert failure.inside.path == "late#0!0/second#0"


def test_an_own_error_has_no_place_in_a_child(store: Store) -> None:
    @node(output="o", retry=RetryPolicy(max_attempts=2, base_delay=0))
    def own(ks: list[int], ctx: Context) -> Any:
        try:
            return outer.func(ks, ctx)
        except ZeroDivisionError as error:
            raise ValueError("own") from error

    (failure,) = Engine(Graph([own]), store=store).run({"ks": [2]}, check=False).failures
    assert failure.inside is None
