"""Runs in memory whose classes were defined again, as by a notebook cell that is edited and run again."""

from __future__ import annotations

import warnings
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, append, node, register_type
from clew.errors import GraphWarning
from clew.state import StoredObject


def _defined(module: str, *fields: Any, **options: Any) -> type:
    """Define a class as a cell does: the new definition replaces the old one under the same name."""
    return register_type(
        make_dataclass(
            "Cfg", fields, namespace={"__module__": module, "__qualname__": "f.<locals>.Cfg"}, **options
        )
    )


@pytest.fixture
def module(request: pytest.FixtureRequest) -> str:
    return f"notebook_{request.node.name}"


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return None if request.param == "memory" else str(tmp_path / "runs.db")


def _sum(c: Any) -> Any:
    return c.a + getattr(c, "b", 0)


use = node(output="y", name="use")(_sum)


@pytest.mark.parametrize("verb", ["fork", "rerun"])
def test_a_new_field_takes_its_default(module: str, store: Any, verb: str) -> None:
    engine = Engine(Graph([use], name="g"), store=store)
    engine.run({"c": _defined(module, "a")(1)}, run_id="r")
    newest = _defined(module, "a", ("b", int, 5))
    engine = Engine(Graph([use], name="g"), store=engine.store)
    result = engine.fork("r", step=0) if verb == "fork" else engine.rerun("r", force=["use"])
    assert result["y"] == 6
    assert type(result["c"]) is newest
    assert engine.state("r").get("c") == newest(1, 5)


def test_a_resumed_run_gets_new_objects_in_all_places(module: str, store: Any) -> None:
    old = _defined(module, "a")

    class State(TypedDict, total=False):
        c: Any
        seen: Annotated[list[Any], append]
        more: Annotated[list[Any], lambda a, b: [*a, *b]]
        ok: Any
        kinds: list[Any]

    @node(output="seen")
    def first(c: Any) -> Any:
        return {"inside": (c, [c])}

    @node(output="more")
    def second(c: Any) -> Any:
        return [c]

    @node(output="ok")
    def ask(c: Any, seen: Any, more: Any, ctx: Context) -> Any:
        noted = ctx.record("note", lambda: c)
        return (ctx.interrupt("?"), noted)

    @node(output="kinds")
    def last(ok: Any, c: Any, seen: Any, more: Any) -> Any:
        inside = seen[0]["inside"]
        return [_sum(each) for each in (c, inside[0], inside[1][0], more[0], ok[1])]

    graph = Graph([first, second, ask, last], state=State, name="g")
    engine = Engine(graph, store=store)
    assert engine.run({"c": old(1), "more": []}, run_id="r").status == "waiting"
    _defined(module, "a", ("b", int, 5))
    assert engine.resume("r", answer=True)["kinds"] == [6] * 5


def test_objects_in_objects_are_converted(module: str, store: Any) -> None:
    outer = register_type(
        make_dataclass("Outer", ["c"], namespace={"__module__": module, "__qualname__": "f.<locals>.Outer"})
    )

    @node(output="y")
    def read(o: Any) -> Any:
        return _sum(o.c)

    engine = Engine(Graph([read]), store=store)
    engine.run({"o": outer(_defined(module, "a")(1))}, run_id="r")
    _defined(module, "a", ("b", int, 5))
    assert engine.fork("r", step=0)["y"] == 6


def test_a_lost_field_is_dropped_with_a_warning(module: str, store: Any) -> None:
    engine = Engine(Graph([use]), store=store)
    engine.run({"c": _defined(module, "a", "b")(1, 2)}, run_id="r")
    _defined(module, "a")
    with pytest.warns(GraphWarning, match="'b'"):
        assert engine.fork("r", step=0)["y"] == 1


def test_an_object_that_the_class_no_longer_accepts_fails_the_node_that_reads_it(
    module: str, store: Any
) -> None:
    engine = Engine(Graph([use]), store=store)
    engine.run({"c": _defined(module, "a")(1)}, run_id="r")
    _defined(module, "a", "needed")
    assert isinstance(engine.state("r").get("c"), StoredObject)
    assert engine.fork("r", step=0, check=False).status == "failed"


def test_an_upgrade_function_applies(module: str, store: Any) -> None:
    engine = Engine(Graph([use]), store=store)
    engine.run({"c": _defined(module, "x")(1)}, run_id="r", check=False)
    newest = _defined(module, "a")
    register_type(newest, upgrade=lambda fields: {"a": fields.pop("x", None), **fields})
    assert engine.fork("r", step=0)["y"] == 1


def test_what_did_not_change_stays_the_same_object(module: str) -> None:
    handle = object()
    engine = Engine(Graph([node(output="y", name="n")(lambda c, handle: 1)]))
    kept = [1, {"a": handle}]
    engine.run({"c": _defined(module, "a")(kept), "handle": kept}, run_id="r")
    _defined(module, "a", ("b", int, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = engine.fork("r", step=0).state
    assert state.get("handle") is kept
    assert state.get("c").a is kept
