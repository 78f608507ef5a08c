"""Which values a run is given."""

from __future__ import annotations

import dataclasses
import operator
from typing import Annotated, Any

import pytest

from clew.graph import END, Graph, Send, ifelse, node, route


def interface(graph: Graph) -> tuple[tuple[str, ...], ...]:
    return graph._interface.required, graph._interface.seeds, graph._interface.optional


@node(output="docs")
def retrieve(query: str, k: int = 3) -> list[str]:
    return [query] * k


@node(output="answer")
def respond(docs: list[str], query: str) -> str:
    return docs[0]


def test_what_no_node_writes_is_required() -> None:
    assert Graph([retrieve, respond]).required_inputs == ("query",)


def test_what_has_a_default_is_optional() -> None:
    assert interface(Graph([retrieve, respond])) == (("query",), (), ("k",))


def test_what_one_reader_needs_is_required_though_another_has_a_default() -> None:
    other = node(lambda k: k, name="other")
    assert interface(Graph([retrieve, other])) == (("query", "k"), (), ())


def test_what_is_bound_is_no_input() -> None:
    assert Graph([retrieve]).bind(query="q", k=1).inputs == ()


@node(output="draft")
def write(topic: str, critique: str = "") -> str:
    return topic


@node(output="critique")
def critic(draft: str) -> str:
    return draft


@route(targets=["write", END])
def again(critique: str) -> str:
    return "write"


def test_what_a_loop_writes_for_itself_is_a_seed() -> None:
    assert interface(Graph([write, critic, again])) == (("topic",), ("critique", "draft"), ())


def test_inputs_are_required_ones_then_seeds_then_optional_ones() -> None:
    graph = Graph([node(lambda k=1: k, name="o"), write, critic, again])
    assert graph.inputs == ("topic", "critique", "draft", "k")


def test_what_is_written_outside_the_loop_too_is_no_seed() -> None:
    first = node(lambda topic: topic, name="first", output="critique")
    ordered = node(critic.func, name="critic", output="critique", after="first")
    assert interface(Graph([first, write, ordered, again]))[1] == ("draft",)


def test_what_a_node_alone_reads_and_writes_is_required() -> None:
    assert Graph([node(lambda count: count + 1, name="inc", output="count")]).required_inputs == ("count",)


def test_unless_it_has_a_default() -> None:
    graph = Graph([node(lambda count=0: count + 1, name="inc", output="count")])
    assert interface(graph) == ((), ("count",), ())


def scan(sub_query: str) -> str:
    return sub_query


def test_what_a_gate_may_send_is_optional() -> None:
    @route(targets=[scan])
    def fan(plan):
        return [Send("scan", {"sub_query": plan})]

    assert interface(Graph([fan, scan])) == (("plan",), (), ("sub_query",))


def test_what_a_node_may_send_is_optional() -> None:
    sender = node(lambda plan: None, name="sender", goto=[scan])
    assert interface(Graph([sender, scan])) == (("plan",), (), ("sub_query",))


def test_a_gate_that_says_what_it_returns_sends_nothing_else() -> None:
    @route(targets=[scan, END])
    def choose(plan: str) -> str:
        return "scan"

    assert Graph([choose, scan]).required_inputs == ("plan", "sub_query")


def test_a_gate_that_says_that_it_sends() -> None:
    @route(targets=[scan])
    def fan(plan: str) -> list[Send]:
        return []

    assert Graph([fan, scan]).required_inputs == ("plan",)


def test_an_ifelse_sends_nothing() -> None:
    @ifelse(when_true=scan, when_false=END)
    def good(plan: str) -> bool:
        return True

    assert Graph([good, scan]).required_inputs == ("plan", "sub_query")


@dataclasses.dataclass
class State:
    query: str
    k: int = 3
    log: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)
    answer: str = ""


def test_a_schema_default_makes_an_input_optional() -> None:
    graph = Graph([node(lambda query, k: k, name="f", output="answer")], state=State)
    assert interface(graph) == (("query",), (), ("k",))


def test_a_schema_default_of_what_a_node_writes_does_not_count() -> None:
    graph = Graph([node(lambda answer: answer, name="f", output="answer")], state=State)
    assert graph.required_inputs == ("answer", "query")


def test_a_reduced_value_has_always_a_start() -> None:
    graph = Graph([node(lambda log: log, name="f", output="log")], state=State)
    assert interface(graph) == (("query",), ("log",), ())


def test_who_reads_the_whole_state_may_read_what_nobody_writes() -> None:
    graph = Graph([node(lambda state: "", name="f", output="answer")], state=State)
    assert interface(graph) == (("query",), (), ("k", "log"))


@pytest.mark.parametrize("selected, outputs", [((), ("docs", "answer")), (("answer",), ("answer",))])
def test_outputs_are_what_nodes_write(selected: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    graph: Any = Graph([retrieve, respond])
    assert (graph.select(*selected) if selected else graph).outputs == outputs


def test_all_names_of_a_graph() -> None:
    assert Graph([retrieve, respond]).value_names == ("query", "k", "docs", "answer")


def test_all_names_of_a_graph_with_schema() -> None:
    graph = Graph([node(lambda query: "", name="f", output="answer")], state=State)
    assert graph.value_names == ("query", "answer", "k", "log")
