"""From a graph and the values given to it to S(0); and what is said about values that do not fit."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from clew import Graph, node
from clew.engine.programs import check_values, program_of
from clew.errors import InputError

READER = node(name="reader", output="y")(lambda x: x)


def refusal(graph: Graph, values: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        check_values(graph, values)
    return str(caught.value)


def test_without_a_schema_the_values_are_those_given() -> None:
    assert check_values(Graph([READER]), {"x": 1}) == (frozenset({"x"}), {"x": 1})


@dataclass
class Seeded:
    x: int
    mode: str = "plain"
    log: Annotated[list[int], operator.add] = field(default_factory=list)
    y: int = 0


def test_a_schema_seeds_its_defaults_which_are_not_given() -> None:
    given, values = check_values(Graph([READER], state=Seeded), {"x": 1})
    assert (given, values) == ({"x"}, {"x": 1, "mode": "plain", "log": [], "y": 0})


class Checked(BaseModel):
    x: int
    y: int = 0


def test_values_are_validated_and_coerced() -> None:
    assert check_values(Graph([READER], state=Checked), {"x": "7"})[1]["x"] == 7


def test_a_value_that_does_not_fit_the_schema() -> None:
    assert refusal(Graph([READER], state=Checked), {"x": "seven"}).startswith(
        "'x' does not fit the state schema: "
    )


def test_a_name_that_the_schema_does_not_declare() -> None:
    assert refusal(Graph([READER], state=Checked), {"xx": 1}) == (
        "the state schema declares no 'xx'; did you mean 'x'?"
    )


def test_a_name_that_no_node_knows() -> None:
    assert refusal(Graph([READER]), {"z": 1}) == "the graph has no value 'z'; there are: 'x', 'y'."


def test_any_name_may_be_given_to_a_whole_state_reader() -> None:
    graph = Graph([READER, node(name="all", output="a", after=["reader"])(lambda state: len(state))])
    assert check_values(graph, {"x": 1, "anything": 2})[0] == {"x", "anything"}
    assert refusal(graph, {"anything": 2}) == (
        "'x' is missing: node 'reader' reads it and nothing writes it (given: 'anything'); give it to the run, "
        "bind it, or give the parameter a default"
    )


def test_a_value_that_is_missing() -> None:
    assert refusal(Graph([READER]), {}) == (
        "'x' is missing: node 'reader' reads it and nothing writes it; give it to the run, bind it, or give the "
        "parameter a default"
    )


def test_the_program_of_a_graph_is_made_once_for_the_same_names() -> None:
    graph = Graph([READER])
    assert program_of(graph, frozenset({"x"})) is program_of(graph, frozenset({"x"}))
    assert program_of(graph, frozenset({"x", "y"})) is not program_of(graph, frozenset({"x"}))
