"""Single scheduling rules that random graphs rarely exercise; the reference covers all rules."""

from __future__ import annotations

from typing import Any

import pytest

from clew import END, Context, Engine, Graph, Send, node, route
from clew.graph import Node
from clew.testing import VirtualClock


def chain(graph: Graph, values: dict[str, Any], **options: Any) -> str:
    engine = Engine(graph, clock=VirtualClock(), **options)
    result = engine.run(values, run_id="run")
    assert result.status == "completed", result.error
    return " | ".join(" ".join(c.items) for c in engine.history("run")[1:])


def scripted(name: str, read: str, script: dict[str, Any], *targets: Any, **options: Any) -> Node:
    """A gate that decides by its path, and otherwise for nothing."""

    def decide(value: Any, ctx: Context) -> Any:
        return script.get(ctx.path)

    return route(name=name, targets=list(targets), **options)(decide).rename(inputs={"value": read})


BOTH = pytest.mark.parametrize("listeners", [(), (lambda event: None,)], ids=["short", "general"])


@BOTH
def test_a_gate_may_select_itself(listeners: Any) -> None:
    calls: list[int] = []

    @route(targets=["again", END])
    def again(x: int) -> Any:
        calls.append(x)
        return "again" if len(calls) < 3 else END

    assert chain(Graph([again]), {"x": 1}, listeners=listeners) == "again#0 | again#1 | again#2"


@BOTH
def test_a_node_that_ran_on_a_payload_is_not_due_by_a_write_without_it(listeners: Any) -> None:
    """``t`` needs ``q``, which only the Send brought; the later write of ``v`` wakes it and does not make it due."""

    @node(output="r")
    def t(q: int, v: int = 0) -> int:
        return q

    @node(output="v")
    def w(r: int) -> int:
        return r

    @route(targets=["t", "w"])
    def d(ctx: Context, r: int = 0) -> Any:
        return {"d#0": [Send("t", {"q": 1})], "d#1": "w"}.get(ctx.path)

    graph = Graph([t, d, w], entry=["t"])
    assert chain(graph, {}, listeners=listeners) == "d#0 | t#0[0] | d#1 | w#0"


@BOTH
def test_a_send_waits_for_the_input_that_its_payload_does_not_bring(listeners: Any) -> None:
    @node(output="late")
    def late(mid: int) -> int:
        return mid

    @node(output="mid")
    def mid(x: int) -> int:
        return x

    @node(output="out")
    def target(q: int, late: int) -> int:
        return q + late

    gate = scripted("door", "x", {"door#0": [Send("target", {"q": 5})]}, "target")
    graph = Graph([gate, mid, late, target])
    assert chain(graph, {"x": 1}, listeners=listeners) == "door#0 mid#0 | late#0 | target#0[0]"


def test_a_state_made_by_hand_starts_where_it_stands() -> None:
    from clew import GraphState

    a = node(name="a", output="y")(lambda x: x + 1)
    b = node(name="b", output="z")(lambda y: y + 1)
    state = GraphState({"x": 1}).set("y", 10)
    result = Graph([a, b]).run(state)
    assert result.values == {"x": 1, "y": 2, "z": 3}


@BOTH
def test_a_write_from_outside_wakes_the_readers_that_ran(listeners: Any) -> None:
    a = node(name="a", output="y")(lambda x: x + 1)
    b = node(name="b", output="z")(lambda y: y + 1)
    engine = Engine(Graph([a, b]), listeners=listeners)
    engine.run({"x": 1}, run_id="run")
    assert engine.fork("run", values={"y": 10})["z"] == 11
    assert engine.fork("run", values={"x": 5})["z"] == 7
    assert engine.fork("run").last_step == 2, "nothing was written, so nothing runs"
