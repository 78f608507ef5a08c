"""Why a node ran: the change that woke it, read from the chain."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Engine, Graph, Send, node, route
from clew.engine.history.reasons import Why
from clew.errors import UnknownRunError
from clew.graph import Node


def why(graph: Graph, target: str, values: dict[str, Any] | None = None) -> Why:
    engine = Engine(graph)
    engine.run(values or {}, run_id="run")
    return engine.why("run", target)


def reasons_of(graph: Graph, target: str, values: dict[str, Any] | None = None) -> list[str]:
    return [str(reason) for reason in why(graph, target, values).reasons]


@node(output="a")
def first(x: int) -> int:
    return x


@node(output="b")
def second(a: int) -> int:
    return a


@node(output="c")
def alone() -> int:
    return 1


PLAIN = Graph([first, second])


def test_a_node_that_reads_what_was_given_ran_because_it_was_given() -> None:
    assert reasons_of(PLAIN, "first", {"x": 1}) == ["'x' was given"]


def test_a_node_that_reads_nothing_runs_at_the_start() -> None:
    assert reasons_of(Graph([alone]), "alone") == ["it runs at the start of the run"]


def test_a_node_ran_because_its_input_was_written() -> None:
    assert reasons_of(PLAIN, "second", {"x": 1}) == ["'a' became version 1, written by first#0 in step 1"]


def test_a_value_is_explained_by_the_node_that_wrote_it() -> None:
    found = why(PLAIN, "b", {"x": 1})
    assert (found.node, found.path, found.step) == ("second", "second#0", 2)
    assert str(found) == (
        "'b' was written by second, which ran in step 2 (second#0) because\n"
        "  - 'a' became version 1, written by first#0 in step 1"
    )


def test_a_node_is_explained_under_its_name() -> None:
    assert str(why(PLAIN, "second", {"x": 1})).startswith("second ran in step 2 (second#0) because\n")


def test_a_value_that_was_given_and_never_written() -> None:
    assert str(why(PLAIN, "x", {"x": 1})) == "'x' was given to the run, and no node has written it since"


def gate(name: str, choice: Any, *targets: Any) -> Node:
    return route(name=name, targets=list(targets))(lambda x: choice)


def test_a_gate_selected_it() -> None:
    assert reasons_of(Graph([gate("door", "first", "first", END), first]), "first", {"x": 1}) == [
        "door#0 selected it in step 1"
    ]


def test_a_gate_sent_to_it() -> None:
    graph = Graph([gate("door", [Send("first", {"x": 5})], "first"), first])
    assert reasons_of(graph, "first", {"x": 1}) == ["door#0 sent to it in step 1"]


def test_a_gate_that_chose_another_is_no_reason() -> None:
    send = gate("post", [Send("other", {"x": 5})], "other", "first")
    choose = gate("door", "first", "other", "first")
    other = node(name="other", output="o")(lambda x: x)
    assert reasons_of(Graph([send, choose, first, other]), "first", {"x": 1}) == [
        "door#0 selected it in step 1"
    ]


def test_a_node_with_a_control_link_ran_before_it() -> None:
    graph = Graph([alone, first], edges=[("alone", "first")])
    assert reasons_of(graph, "first", {"x": 1}) == ["alone#0 ran before it, in step 1"]


class Shared(TypedDict, total=False):
    x: int
    log: Annotated[list[int], operator.add]
    size: int


def test_versions_count_all_writes_that_met() -> None:
    nodes = [node(name=f"w{i}", output="log")(lambda x: [x]) for i in range(2)]

    @node(output="size", after=["w0", "w1"])
    def size(log: list[int]) -> int:
        return len(log)

    assert reasons_of(Graph([*nodes, size], state=Shared), "size", {"x": 1}) == [
        "w0#0 ran before it, in step 1",
        "'log' became version 1, written by w0#0 in step 1",
        "w1#0 ran before it, in step 1",
        "'log' became version 2, written by w1#0 in step 1",
    ]


def test_a_later_run_is_explained_by_what_happened_since_the_one_before() -> None:
    @node(output="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def more(n: int) -> Any:
        return "count" if n < 3 else END

    assert reasons_of(Graph([count, more]), "count", {"n": 0}) == ["more#2 selected it in step 5"]
    assert reasons_of(Graph([count, more]), "more", {"n": 0}) == [
        "'n' became version 3, written by count#2 in step 6"
    ]


def test_a_value_set_from_outside_is_a_reason() -> None:
    engine = Engine(PLAIN)
    engine.run({"x": 1}, run_id="run")
    engine.fork("run", step=2, values={"x": 2}, run_id="fork")
    found = engine.why("fork", "first")
    assert [str(reason) for reason in found.reasons] == ["'x' was set from outside before step 3"]
    assert found.step == 3


def test_versions_count_what_was_set_from_outside() -> None:
    engine = Engine(PLAIN)
    engine.run({"x": 1}, run_id="run")
    engine.fork("run", step=2, values={"x": 2, "a": 7}, run_id="fork")
    assert [str(reason) for reason in engine.why("fork", "second").reasons][:1] == [
        "'a' became version 3, written by first#1 in step 3"
    ]
    assert engine.state("fork").versions["a"] == 3


def test_a_value_that_was_set_from_outside_and_not_written_since() -> None:
    engine = Engine(PLAIN)
    engine.run({"x": 1}, run_id="run")
    engine.fork("run", values={"b": 7}, run_id="fork")
    assert str(engine.why("fork", "b")) == (
        "'b' was set from outside before step 3, and no node has written it since"
    )


def test_a_node_that_ran_before_a_state_that_was_brought_from_elsewhere() -> None:
    done = PLAIN.run({"x": 1}).state
    engine = Engine(PLAIN)
    engine.run(done, run_id="run")
    with pytest.raises(
        UnknownRunError, match="node 'first' ran in step 1, before the state that this run started from"
    ):
        engine.why("run", "first")


def test_values_set_from_outside_are_told_in_the_order_of_their_names() -> None:
    @node(output="s")
    def total(b: int, a: int, c: int) -> int:
        return a + b + c

    engine = Engine(Graph([total]))
    engine.run({"a": 1, "b": 1, "c": 1}, run_id="run")
    engine.fork("run", values={"c": 2, "a": 2, "b": 2}, run_id="fork")
    assert [reason.value for reason in engine.why("fork", "total").reasons] == ["a", "b", "c"]


def test_a_value_set_from_outside_that_it_does_not_read_is_no_reason() -> None:
    engine = Engine(PLAIN)
    engine.run({"x": 1}, run_id="run")
    engine.fork("run", step=0, values={"x": 2}, run_id="fork")
    assert [str(reason) for reason in engine.why("fork", "second").reasons] == [
        "'a' became version 1, written by first#0 in step 1"
    ]


def test_a_node_that_never_ran() -> None:
    with pytest.raises(UnknownRunError, match=r"node 'first' has not run: no gate has selected it"):
        why(Graph([gate("door", END, "first", END), first]), "first", {"x": 1})


def test_a_name_that_is_neither_node_nor_value() -> None:
    with pytest.raises(UnknownRunError, match="no node or value 'secnd'; did you mean 'second'"):
        why(PLAIN, "secnd", {"x": 1})


def test_a_fork_knows_what_happened_before_it() -> None:
    engine = Engine(PLAIN)
    engine.run({"x": 1}, run_id="run")
    engine.fork("run", step=1, values={"x": 5}, run_id="fork")
    assert (
        str(engine.why("fork", "x"))
        == "'x' was set from outside before step 2, and no node has written it since"
    )
    assert [str(reason) for reason in engine.why("fork", "first").reasons] == [
        "'x' was set from outside before step 2"
    ]
    engine.fork("run", step=1, run_id="same")
    assert engine.why("same", "second").reasons == engine.why("run", "second").reasons
    assert engine.why("same", "first").path == "first#0"


def test_a_run_that_goes_on_from_a_bare_state_says_where_to_ask() -> None:
    engine = Engine(PLAIN)
    state = engine.run({"x": 1}).state
    engine.run(state, run_id="later")
    with pytest.raises(
        UnknownRunError, match="node 'first' ran in step 1, before the state that this run started from"
    ):
        engine.why("later", "first")
