"""What keeps a node from running is named: failures and open questions before it; equal reasons are counted."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Engine, Graph, Send, interrupt, node, route
from clew.errors import UnknownRunError
from tests.store_fixtures import local_store


class Job(TypedDict, total=False):
    count: int
    rows: Annotated[list[int], operator.add]
    report: str
    other: int
    last: int


@route(targets=["work"])
def fan(count: int) -> list[Send]:
    return [Send("work", {"i": i}) for i in range(count)]


@node(output="rows")
def work(i: int) -> list[int]:
    if i in (3, 5):
        raise ValueError(f"bad row {i}")
    return [i]


@node(output="report")
def report(rows: list[int]) -> str:
    return f"{len(rows)} rows"


@node(output="other")
def beside(count: int) -> int:
    return count


@node(output="last")
def after(other: int) -> int:
    return other


GRAPH = Graph([fan, work, report, beside, after], state=Job)


store = local_store


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_a_failure_names_the_nodes_that_it_blocks(store: Any, on_error: Any) -> None:
    engine = Engine(GRAPH, store=store, on_error=on_error, check=False)
    for result in (engine.run({"count": 9}, run_id="r"), engine.result("r")):
        assert [found.path for found in result.blocked["report"]] == ["work#0[3]", "work#0[5]"]
        assert set(result.blocked) == set(result.never_ran) == {"report"}
    with pytest.raises(UnknownRunError, match=r"work#0\[3\].*bad row 3"):
        engine.why("r", "report")


def test_a_run_that_stopped_blocks_the_nodes_beside_the_failure(store: Any) -> None:
    @node(output="a")
    def bad(x: int) -> int:
        raise ValueError("no")

    @node(output="b")
    def good(x: int) -> int:
        return x

    @node(output="c")
    def later(b: int) -> int:
        return b

    for mode, blocked in (("stop", ["bad#0"]), ("continue", [])):
        result = Engine(Graph([bad, good, later]), store=store, on_error=mode, check=False).run({"x": 1})
        assert [found.path for found in result.blocked.get("later", ())] == blocked


def test_a_failure_inside_a_subgraph_blocks_what_comes_after_the_subgraph(store: Any) -> None:
    @node(output="a")
    def bad(x: int) -> int:
        raise ValueError("no")

    @node(output="b")
    def later(a: int) -> int:
        return a

    engine = Engine(
        Graph([Graph([bad], name="inside").as_node(outputs=["a"]), later]), store=store, check=False
    )
    (failure,) = engine.run({"x": 1}, run_id="r").blocked["later"]
    assert failure.path == "inside#0/bad#0"
    with pytest.raises(UnknownRunError, match="inside#0/bad#0"):
        engine.why("r", "b")  # the value that the node would have written


def test_an_open_question_blocks(store: Any) -> None:
    @interrupt(output="answer")
    def ask(x: int) -> str:
        return "sure?"

    @node(output="b")
    def later(answer: str) -> str:
        return answer

    engine = Engine(Graph([ask, later]), store=store)
    (question,) = engine.run({"x": 1}, run_id="r").blocked["later"]
    assert (question.path, question.question) == ("ask#0", "sure?")
    with pytest.raises(UnknownRunError, match="ask#0"):
        engine.why("r", "later")


def test_missing_inputs_are_named() -> None:
    @route(targets=["make", END])
    def door(x: int) -> str:
        return END

    @node(output="made")
    def make(x: int) -> int:
        return x

    @node(output="used")
    def use(made: int) -> int:
        return made

    engine = Engine(Graph([door, make, use]))
    result = engine.run({"x": 1}, run_id="r")
    assert (result.never_ran, result.blocked) == ({"make": (), "use": ("made",)}, {})
    with pytest.raises(UnknownRunError, match="'made'"):
        engine.why("r", "use")
    with pytest.raises(UnknownRunError, match="node 'make' has not run: no gate has selected it"):
        engine.why("r", "made")


def test_equal_reasons_are_one_with_a_count(store: Any) -> None:
    engine = Engine(GRAPH, store=store)
    engine.run({"count": 3}, run_id="r")
    (reason,) = engine.why("r", "work").reasons
    assert (reason.kind, reason.path, reason.times) == ("sent", "fan#0", 3)
    assert len(str(engine.why("r", "report")).splitlines()) == 2  # one line for the three items of a batch
    assert [reason.path for reason in engine.why("r", "report").reasons] == [f"work#0[{i}]" for i in range(3)]


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_a_node_that_failed_and_the_value_that_it_did_not_write(store: Any, on_error: Any) -> None:
    @node(output="a")
    def bad(x: int) -> int:
        raise ValueError("no luck")

    engine = Engine(Graph([bad]), store=store, on_error=on_error, check=False)
    engine.run({"x": 1}, run_id="r")
    with pytest.raises(UnknownRunError, match=r"bad#0 failed with ValueError: no luck"):
        engine.why("r", "a")
    if on_error == "stop":  # a confined failure is part of a step
        with pytest.raises(UnknownRunError, match=r"bad#0 failed with ValueError: no luck"):
            engine.why("r", "bad")


def test_a_node_whose_step_is_not_committed(store: Any) -> None:
    @interrupt(output="answer")
    def ask(x: int) -> str:
        return "sure?"

    @node(output="b")
    def beside(x: int) -> int:
        return x

    engine = Engine(Graph([ask, beside]), store=store)
    assert engine.run({"x": 1}, run_id="r").provisional == {"b": 1}
    with pytest.raises(UnknownRunError, match="step is not committed"):
        engine.why("r", "beside")


def test_a_rescued_failure_blocks_nothing(store: Any) -> None:
    @node(output="a", rescue=lambda error: "rescued")
    def saved(x: int) -> str:
        raise ValueError("rescued")

    @node(output="b")
    def broken(x: int) -> str:
        raise RuntimeError("real")

    @node(output="c")
    def both(a: str, b: str) -> str:
        return a + b

    engine = Engine(Graph([saved, broken, both]), store=store, on_error="continue")
    for result in (engine.run({"x": 1}, run_id="r"), engine.result("r")):
        assert {name: [f.node for f in found] for name, found in result.blocked.items()} == {
            "both": ["broken"]
        }
        assert {failure.node for failure in result.failures} == {"saved", "broken"}
