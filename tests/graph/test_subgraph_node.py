"""Making a node of a graph."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Engine
from clew.errors import GraphError
from clew.graph import ABSENT, END, MISSING, Graph, Param, node, route
from clew.graph.subgraph_node import MAX_DEPTH, _depth
from tests.messages import mentions


@node(output="docs")
def retrieve(query: str, k: int = 3) -> list[str]:
    return [query] * k


@node(output="answer")
def respond(docs: list[str]) -> str:
    return docs[0].upper()


RAG = Graph([retrieve, respond], name="rag")


def test_a_graph_reads_its_inputs_and_writes_its_outputs() -> None:
    made = RAG.as_node()
    assert (made.name, made.kind, made.shape) == ("rag", "subgraph", "update")
    assert (made.inputs, made.required, made.outputs) == (("query", "k"), ("query",), ("docs", "answer"))


def test_an_optional_input_is_absent_by_default() -> None:
    assert RAG.as_node().params == (
        Param("query", "query", "value", keyword_only=True, default=MISSING, annotation=str),
        Param("k", "k", "value", keyword_only=True, default=ABSENT, annotation=int),
    )


def test_a_graph_in_a_list_of_nodes_is_such_a_node() -> None:
    outer = Graph([RAG])
    assert outer.nodes["rag"].subgraph is not None
    assert outer.nodes["rag"].subgraph.graph is RAG


def test_a_node_of_a_graph_takes_the_options_of_a_node() -> None:
    made = RAG.as_node("search", after="plan", eager=True, retry=2, description="Look up.")
    assert (made.name, made.after, made.eager, made.description) == ("search", ("plan",), True, "Look up.")


def test_inputs_and_outputs_can_be_narrowed_down() -> None:
    made = RAG.as_node(inputs=["query"], outputs=("answer",))
    assert (made.inputs, made.outputs) == (("query",), ("answer",))


def test_what_another_node_writes_can_be_an_input() -> None:
    assert RAG.as_node(inputs=["query", "docs"]).required == ("query",)


def test_enter_without_inputs_is_given_the_whole_state() -> None:
    made = RAG.as_node(transform_input=lambda state: {"query": state["q"]})
    assert (made.inputs, made.reads_state) == ((), True)


def test_enter_with_inputs_is_given_those() -> None:
    made = RAG.as_node(inputs=("sub_query",), transform_input=lambda values: {"query": values["sub_query"]})
    assert (made.inputs, made.required, made.reads_state) == (("sub_query",), ("sub_query",), False)


def test_leave_may_write_other_names() -> None:
    assert RAG.as_node(outputs=("reply",), transform_output=lambda values: {}).outputs == ("reply",)


@node(output="draft")
def write(query: str, critique: str = "") -> str:
    return query + critique


@node(output="critique")
def critic(draft: str) -> str:
    return draft


@route(targets=["write", END])
def again(critique: str) -> str:
    return "write"


def test_the_seed_of_a_loop_that_can_start_is_not_read() -> None:
    loop = Graph([write, critic, again], name="loop")
    assert (loop.inputs, loop.as_node().inputs) == (("query", "critique", "draft"), ("query",))


def test_the_seed_of_a_loop_that_cannot_start_without_is_read() -> None:
    needy = node(lambda query, critique: query + critique, name="write", output="draft")
    loop = Graph([needy, critic, again], name="loop")
    assert loop.as_node().inputs == ("query", "critique", "draft")
    assert loop.as_node().required == ("query",)


def test_a_graph_without_name_is_no_node() -> None:
    with pytest.raises(GraphError) as caught:
        Graph([retrieve]).as_node()
    assert mentions(str(caught.value), "as_node", "name=")


def test_the_name_of_the_node_follows_the_rules() -> None:
    with pytest.raises(GraphError, match="'/'"):
        RAG.as_node("a/b")


def test_an_unknown_input_is_refused() -> None:
    with pytest.raises(GraphError, match=r"'rag'.*'qery'.*'query'"):
        RAG.as_node(inputs=["qery"])


def test_a_required_input_cannot_be_left_out() -> None:
    with pytest.raises(GraphError) as caught:
        RAG.as_node(inputs=["k"])
    assert mentions(str(caught.value), "'rag'", "'query'", "inputs=")


def test_an_unknown_output_is_refused() -> None:
    with pytest.raises(GraphError, match=r"'rag'.*'anser'.*'answer'"):
        RAG.as_node(outputs=["anser"])


@pytest.mark.parametrize("option", ["inputs", "outputs"])
def test_names_are_a_list(option: str) -> None:
    with pytest.raises(GraphError) as caught:
        RAG.as_node(**{option: "query"})
    assert mentions(str(caught.value), option, "'rag'", "'query'")


def test_a_graph_is_mapped_over_an_input() -> None:
    made = RAG.map_over("query")
    only = made.nodes["rag"]
    assert (made.name, made.required_inputs, made.outputs) == ("rag", ("query",), ("docs", "answer"))
    assert only.subgraph is not None
    assert (only.subgraph.mapped, only.subgraph.mode) == (("query",), "zip")
    assert only.params[0].annotation == list[str]


def test_a_mapped_input_must_be_there() -> None:
    assert RAG.map_over("query", "k", mode="product", name="grid").required_inputs == ("query", "k")


def test_a_seed_can_be_mapped_over() -> None:
    loop = Graph([write, critic, again], name="loop")
    assert loop.map_over("critique").required_inputs == ("query", "critique")


def test_mapping_over_nothing_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        RAG.map_over()
    assert mentions(str(caught.value), "map_over()")


def test_mapping_over_an_unknown_input_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        RAG.map_over("quary")
    assert mentions(str(caught.value), "'quary'", "'query'")


def test_an_unknown_mode_is_refused() -> None:
    mode: Any = "all"
    with pytest.raises(GraphError, match=r"'zip'.*'product'.*'all'"):
        RAG.map_over("query", mode=mode)


# ---- how deep


def nested(depth: int) -> Graph:
    graph = Graph([node(name="f", output="y")(lambda x: x + 1)], name="g1")
    for number in range(2, depth + 1):
        graph = Graph([graph.as_node()], name=f"g{number}")
    return graph


def test_a_graph_knows_how_deep_it_is() -> None:
    flat = Graph([node(name="f")(lambda x: x), node(name="g")(lambda x: x)])
    assert (_depth(flat), _depth(nested(3))) == (1, 3)


def test_everything_works_at_the_greatest_depth() -> None:
    graph = nested(MAX_DEPTH)
    engine = Engine(graph)
    assert engine.run({"x": 1}, run_id="r")["y"] == 2
    assert len(engine.history("r", nested=True)) == 2
    assert graph.structure_hash != nested(MAX_DEPTH - 1).structure_hash
    assert graph.code_hash
    assert graph.describe(json=True)["nodes"]
    assert all(graph.draw(form) for form in ("mermaid", "dot", "svg"))


def test_one_graph_too_deep_is_refused_when_it_is_built() -> None:
    with pytest.raises(GraphError, match=r"'g30'.*30"):
        nested(MAX_DEPTH + 1)
    with pytest.raises(GraphError, match="more than 30"):
        nested(MAX_DEPTH).map_over("x")
