"""What goes into a subgraph, and what comes out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from clew.errors import InputError, OutputError
from clew.graph import ABSENT, Graph, Subgraph, node
from tests.messages import mentions


@dataclasses.dataclass
class Inside:
    query: str = ""
    answer: str = ""


@node(output="answer")
def respond(query: str) -> str:
    return query.upper()


PLAIN = Graph([respond], name="plain")
TYPED = Graph([respond], name="typed", state=Inside)


def inside(graph: Graph = PLAIN, **fields: Any) -> Subgraph:
    return Subgraph(graph, ("query",), ("answer",), **fields)


def test_values_pass_by_matching_names() -> None:
    assert inside().values_of({"query": "a"}) == {"query": "a"}


def test_what_nobody_has_is_left_out() -> None:
    assert inside().values_of({"query": "a", "k": ABSENT}) == {"query": "a"}


def test_enter_makes_the_values_inside() -> None:
    assert inside(transform_input=lambda values: {"query": values["q"]}).values_of({"q": "a"}) == {
        "query": "a"
    }


def test_enter_may_return_the_schema() -> None:
    made = inside(TYPED, transform_input=lambda values: Inside(query=values["q"])).values_of({"q": "a"})
    assert made == {"query": "a", "answer": ""}


def test_enter_may_be_given_the_whole_state() -> None:
    assert inside(transform_input=lambda state: {"query": state.query}).values_of(Inside(query="a")) == {
        "query": "a"
    }


def test_outputs_pass_by_matching_names() -> None:
    assert inside().update_of({"query": "a", "answer": "A"}) == {"answer": "A"}


def test_an_output_that_was_not_made_is_not_written() -> None:
    assert inside().update_of({"query": "a"}) == {}


def test_leave_makes_the_update_outside() -> None:
    made = inside(transform_output=lambda values: {"reply": values["answer"]}).update_of({"answer": "A"})
    assert made == {"reply": "A"}


def test_leave_is_given_the_schema() -> None:
    made = inside(TYPED, transform_output=lambda state: {"reply": state.answer}).update_of(
        {"query": "a", "answer": "A"}
    )
    assert made == {"reply": "A"}


def test_leave_returns_a_mapping() -> None:
    with pytest.raises(OutputError, match=r"transform_output=.*'A'"):
        inside(transform_output=lambda values: values["answer"]).update_of({"answer": "A"})


def test_without_mapping_there_is_one_run() -> None:
    assert inside().items_of({"query": "a"}) == [{"query": "a"}]


def test_zip_runs_once_for_each_element() -> None:
    made = inside(mapped=("a", "b")).items_of({"a": [1, 2], "b": ("x", "y"), "c": 0})
    assert made == [{"a": 1, "b": "x", "c": 0}, {"a": 2, "b": "y", "c": 0}]


@pytest.mark.parametrize("elements", ["xy", "", b"xy", 3, {"x": 1}, {"x"}])
def test_a_mapped_input_is_a_sequence_of_elements(elements: Any) -> None:
    with pytest.raises(InputError):
        inside(mapped=("a",)).items_of({"a": elements})


def test_product_runs_once_for_each_combination() -> None:
    made = inside(mapped=("a", "b"), mode="product").items_of({"a": [1, 2], "b": ("x", "y")})
    assert [(item["a"], item["b"]) for item in made] == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


def test_zip_needs_one_length() -> None:
    with pytest.raises(InputError) as caught:
        inside(mapped=("a", "b")).items_of({"a": [1, 2], "b": [1]})
    assert mentions(str(caught.value), "'a'", "2", "'b'", "1", "mode=", "'product'")


def test_one_run_makes_the_update() -> None:
    assert inside().gather([{"answer": "A"}]) == {"answer": "A"}


def test_outputs_of_many_runs_become_lists() -> None:
    assert inside(mapped=("query",)).gather([{"answer": "A"}, {}]) == {"answer": ["A", None]}


def test_no_run_makes_empty_lists() -> None:
    assert inside(mapped=("query",)).gather([]) == {"answer": []}
