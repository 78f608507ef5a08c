"""``Engine.update`` of a node in an open subgraph: ``as_node="sub/tool"``."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Context, Engine, Graph, interrupt, node, route
from clew.errors import GraphWarning, InputError
from clew.stores import Store
from tests.store_fixtures import every_store

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


store = every_store


class Inner(TypedDict, total=False):
    question: str
    plan: str
    log: Annotated[list[str], operator.add]
    found: str


@node(output="plan")
def think(question: str) -> str:
    CALLS.append(f"think {question}")
    return f"plan for {question}"


@node(output="log")
def note(question: str) -> list[str]:
    CALLS.append("note")
    return [question]


@route(targets=["tool", END])
def choose(plan: str) -> Any:
    return "tool"


@node(output="found")
def tool(plan: str) -> str:
    CALLS.append(f"tool {plan}")
    if plan == "plan for bad":
        raise OSError
    return plan.upper()


AGENT = Graph([think, note, choose, tool], state=Inner, name="agent")


@node(output="report")
def report(found: str) -> str:
    return f"<{found}>"


SUB = AGENT.as_node("sub", inputs=("question",), outputs=("found", "log"))


def outer() -> Graph:
    return Graph([SUB, report], name="outer")


def checked(engine: Engine, run_id: str = "r") -> None:
    assert engine.replay(run_id).ok
    assert list(engine.store.check()) == []


def test_a_value_of_an_open_subgraph_is_changed(store: Store) -> None:
    engine = Engine(outer(), store=store)
    assert engine.run({"question": "q"}, run_id="r", stop_before=["sub/tool"]).status == "paused"
    result = engine.update("r", {"plan": "better"}, as_node="sub/think")
    assert (result.status, result.last_step) == ("paused", 0)
    state = engine.state("r", path="sub#0")
    assert (state.get("plan"), state.step, state.visits["think"]) == ("better", 3, 2)
    assert [each.by_hand for each in engine.history("r", path="sub#0")] == [False, False, False, True]
    assert [reason.kind for reason in engine.why("r", "plan", path="sub#0").reasons] == ["edited"]
    engine.update("r", {"log": ["more"]}, as_node="sub/note")
    result = Engine(outer(), store=store).resume("r", stop_before=[])
    assert (result.status, result["report"], result["log"]) == ("completed", "<BETTER>", ["q", "more"])
    assert sorted(CALLS) == ["note", "think q", "tool better"]
    checked(engine)
    with pytest.warns(GraphWarning, match="sub#0"):
        assert engine.rerun("r")["report"] == "<PLAN FOR Q>"


def test_a_gate_of_a_subgraph_decides_by_hand(store: Store) -> None:
    engine = Engine(outer(), store=store)
    engine.run({"question": "q"}, run_id="r", stop_before=["sub/choose"])
    engine.update("r", as_node="sub/choose", decision=END)
    result = engine.resume("r")
    assert (result.status, "found" in result) == ("completed", False)
    assert sorted(CALLS) == ["note", "think q"]
    checked(engine)


def test_the_result_of_a_node_that_failed_in_a_subgraph_is_given(store: Store) -> None:
    engine = Engine(outer(), store=store)
    with suppress(OSError):
        engine.run({"question": "bad"}, run_id="r")
    assert engine.update("r", {"found": "by hand"}, as_node="sub/tool").status == "paused"
    result = engine.resume("r")
    assert (result.status, result["report"]) == ("completed", "<by hand>")
    assert sorted(CALLS) == ["note", "think bad", "tool plan for bad"]
    checked(engine)


def test_a_question_that_read_a_changed_value_is_withdrawn_and_others_stay(store: Store) -> None:
    @interrupt(output="ok")
    def ask(plan: str) -> str:
        return f"{plan}?"

    @node(output="other")
    def aside(question: str, ctx: Context) -> str:
        ctx.record("look up", CALLS.append, "looked up")
        return str(ctx.interrupt("really?"))

    inside = Graph([think, ask, aside], name="asking")
    middle = Graph([inside.as_node("low", inputs=("question",), outputs=("ok", "other"))], name="middle")
    engine = Engine(
        Graph([middle.as_node("high", inputs=("question",), outputs=("ok", "other"))]), store=store
    )
    assert engine.run({"question": "q"}, run_id="r").status == "waiting"
    result = engine.update("r", {"plan": "better"}, as_node="high/low/think")
    assert [asked.path for asked in result.questions] == ["high#0/low#0/aside#0"]
    result = engine.resume("r")
    assert {asked.question for asked in result.questions} == {"better?", "really?"}
    result = engine.resume("r", answers={asked.path: "yes" for asked in result.questions})
    assert (result.status, result["ok"], result["other"]) == ("completed", "yes", "yes")
    assert sorted(CALLS) == ["looked up", "think q"]  # they run side by side
    checked(engine)


def test_of_several_open_subgraphs_one_is_named(store: Store) -> None:
    each = AGENT.map_over("question").as_node("sub", inputs=("question",), outputs=("found",))
    engine = Engine(Graph([each], name="mapped"), store=store)
    engine.run({"question": ["a", "b"]}, run_id="r", stop_before=["sub/agent/tool"])
    with pytest.raises(InputError, match=r"sub#0/agent#0\[0\]/think, sub#0/agent#0\[1\]/think"):
        engine.update("r", {"plan": "better"}, as_node="sub/agent/think")
    engine.update("r", {"plan": "better"}, as_node="sub#0/agent#0[1]/think")
    assert engine.resume("r", stop_before=[])["found"] == ["PLAN FOR A", "BETTER"]
    checked(engine)


@pytest.mark.parametrize(
    "as_node", ["sub/tol", "sup/tool", "sub/", "/tool", "sub#1/tool", "report/tool", "sub/tool/x"]
)
def test_a_wrong_path_is_refused(as_node: str) -> None:
    engine = Engine(outer())
    engine.run({"question": "q"}, run_id="r", stop_before=["sub/tool"])
    with pytest.raises(InputError):
        engine.update("r", {"found": "x"}, as_node=as_node)
    assert engine.resume("r").status == "completed"


def test_a_subgraph_that_has_not_begun_or_has_ended_is_not_open() -> None:
    engine = Engine(outer())
    engine.run({"question": "q"}, run_id="r", stop_before=["sub"])
    with pytest.raises(InputError, match="not open"):
        engine.update("r", {"plan": "p"}, as_node="sub/think")
    engine.resume("r")
    with pytest.raises(InputError, match="not open"):
        engine.update("r", {"plan": "p"}, as_node="sub/think")
    assert engine.result("r").status == "completed"


# -- a subgraph that had begun, as a whole ---------------------------------------------------------------------


def begun(store: Store, how: str) -> Engine:
    """Return an engine with a run "r" that stands inside its subgraph."""

    @node(output="b")
    def second(a: int) -> int:
        if how == "failed":
            raise OSError
        return a

    ask = interrupt(output="b", name="second")(lambda a: "?")
    sub = Graph([node(lambda x: x, name="first", output="a"), ask if how == "asks" else second], name="sub")
    last = node(lambda b: b, name="last", output="c")
    if how == "mapped":
        graph = Graph([sub.map_over("x", name="sub"), last])
    else:
        graph = Graph([sub, last])
    engine = Engine(graph, store=store)
    stops = {"stopped": ["sub/second"], "mapped": ["sub/sub/second"]}.get(how)
    engine.run({"x": [1, 2] if how == "mapped" else 1}, run_id="r", check=False, stop_before=stops)
    return engine


@pytest.mark.parametrize("how", ["stopped", "failed", "asks", "mapped"])
def test_a_subgraph_that_had_begun_and_was_made_by_hand_replays(store: Store, how: str) -> None:
    engine = begun(store, how)
    engine.update("r", {"b": 5}, as_node="sub")
    assert engine.resume("r", stop_before=[])["c"] == 5
    assert engine.replay("r").divergences == ()
    assert engine.replay("r", strict=False).divergences == ()
