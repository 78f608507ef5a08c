"""Running a graph in memory, and calling one that became a node."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from clew.errors import InputError
from clew.graph import Graph, node
from clew.state import GraphState


@node(output="docs")
def retrieve(query: str, k: int = 2) -> list[str]:
    return [query] * k


@node(output="answer")
def respond(docs: list[str]) -> str:
    return "+".join(docs)


RAG = Graph([retrieve, respond], name="rag")


def test_without_a_mapping_keywords_are_the_values() -> None:
    assert RAG.run(query="a")["answer"] == "a+a"


def test_with_a_mapping_keywords_are_options_of_the_engine() -> None:
    assert RAG.run({"query": "a", "k": 3}, max_concurrent_nodes=2)["answer"] == "a+a+a"


def test_a_state_is_continued() -> None:
    assert RAG.run(GraphState({"query": "a"}))["answer"] == "a+a"


def test_a_run_under_asyncio() -> None:
    assert asyncio.run(RAG.arun(query="a"))["answer"] == "a+a"


def test_a_run_under_asyncio_with_options() -> None:
    assert asyncio.run(RAG.arun({"query": "a"}, max_concurrent_nodes=2))["answer"] == "a+a"


def test_only_what_was_selected_runs() -> None:
    assert list(RAG.select("docs").run(query="a").state.node_history) == ["retrieve"]


def test_a_bound_value_is_read_and_is_no_state() -> None:
    result = RAG.bind(query="b").run()
    assert (result["answer"], "query" in result.state.values) == ("b+b", False)


def test_a_graph_as_a_node_can_be_called() -> None:
    assert RAG.as_node()(query="a") == {"docs": ["a", "a"], "answer": "a+a"}


def test_a_graph_as_a_node_is_called_with_the_whole_state() -> None:
    made = RAG.as_node(
        transform_input=lambda state: {"query": state["q"]},
        transform_output=lambda values: {"docs": values["answer"]},
    )
    assert made(state={"q": "a"}) == {"docs": "a+a"}


def test_a_graph_that_is_mapped_can_be_called() -> None:
    made = RAG.map_over("query", "k").nodes["rag"]
    assert made(query=["a", "b"], k=[1, 2])["answer"] == ["a", "b+b"]


def test_calling_a_graph_that_fails_raises_what_it_raised() -> None:
    def wrong(query: str) -> str:
        raise ZeroDivisionError(query)

    with pytest.raises(ZeroDivisionError, match="a"):
        Graph([wrong], name="g").as_node()(query="a")


def test_a_default_inside_holds_where_the_graph_around_has_no_value() -> None:
    assert Graph([RAG]).run(query="a")["answer"] == "a+a"


def test_a_value_of_the_graph_around_passes_by_name() -> None:
    assert Graph([RAG]).run(query="a", k=1)["answer"] == "a"


def test_mapping_over_lists_of_different_lengths_fails() -> None:
    result = RAG.map_over("query", "k").run({"query": ["a", "b"], "k": [1]}, check=False)
    assert isinstance(result.error, InputError)


def test_the_state_schema_is_given_as_an_instance() -> None:
    @dataclasses.dataclass
    class State:
        query: str = ""
        answer: str = ""

    def answer(everything: State) -> str:
        return everything.query.upper()

    assert Graph([answer], state=State).run(query="a")["answer"] == "A"


def test_a_graph_draws_itself() -> None:
    drawn: Any = RAG.draw("mermaid")
    assert "retrieve" in drawn
