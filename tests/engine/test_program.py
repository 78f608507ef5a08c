"""From a graph and input values to S(0), and the errors for invalid values."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from clew import Graph, GraphState, append, node
from clew.engine.program import check_values, program_of
from clew.errors import GraphError, InputError

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
        "'x' does not match the state schema: "
    )


def test_a_name_that_the_schema_does_not_declare() -> None:
    assert refusal(Graph([READER], state=Checked), {"xx": 1}) == (
        "the state schema declares no 'xx'; did you mean 'x'?"
    )


def test_a_name_that_no_node_knows() -> None:
    assert refusal(Graph([READER]), {"z": 1}) == "the graph has no value 'z'; known names: 'x', 'y'."


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


# -- required fields of a schema --------------------------------------------------------------------------


@dataclass
class Order:
    item: str
    amount: int
    note: str = ""
    done: bool = False


class OrderModel(BaseModel):
    item: str
    amount: int
    note: str = ""
    done: bool = False


class OrderStruct(msgspec.Struct):
    item: str
    amount: int
    note: str = ""
    done: bool = False


class OrderDict(TypedDict):
    item: str
    amount: int
    done: bool


@node(output="done")
def ship(item: str) -> bool:
    return True


@node(output="amount")
def count(item: str) -> int:
    return len(item)


@pytest.mark.parametrize("schema", [Order, OrderModel, OrderStruct])
def test_a_required_field_that_no_node_writes_must_be_given(schema: type) -> None:
    graph = Graph([ship], state=schema)
    with pytest.raises(InputError, match=rf"'amount'.*{schema.__name__}"):
        graph.run(item="tea")
    with pytest.raises(InputError, match="'amount'"):
        graph.run(GraphState({"item": "tea"}))
    assert graph.run(item="tea", amount=1)["done"]
    assert graph.required_inputs == ("item", "amount")
    assert Graph([ship, count], state=schema).run(item="tea")["done"]


def test_a_whole_state_is_never_without_a_required_field() -> None:
    @node(output="done")
    def ship_all(state: Order) -> bool:
        return bool(state.amount)

    with pytest.raises(InputError, match="'amount'"):
        Graph([ship_all], state=Order).run(item="tea")


def test_a_reduced_field_starts_empty_and_a_bound_one_is_there() -> None:
    @dataclass
    class Reduced:
        item: str
        client: Any
        found: Annotated[list[int], append]
        done: bool = False

    def look(item: str, client: Any) -> bool:
        return bool(client)

    graph = Graph([node(look, output="done")], state=Reduced)
    assert graph.bind(client=object()).run(item="tea")["done"]
    with pytest.raises(InputError, match="'client'"):
        graph.run(item="tea")


def test_a_typed_dict_requires_what_nodes_read() -> None:
    assert Graph([ship], state=OrderDict).run(item="tea")["done"]
    with pytest.raises(InputError, match="'item'"):
        Graph([ship], state=OrderDict).run(amount=1)


@dataclass
class WholeData:
    item: str
    spare: int
    done: bool = False


class WholeModel(BaseModel):
    item: str
    spare: int
    done: bool = False


class WholeStruct(msgspec.Struct):
    item: str
    spare: int
    done: bool = False


@pytest.mark.parametrize("schema", [WholeData, WholeModel, WholeStruct])
def test_a_field_that_no_node_reads_by_name_may_be_bound(schema: type) -> None:
    @node(output="done")
    def look(item: str, state: Any) -> bool:
        return hasattr(state, "spare")

    graph = Graph([look], state=schema)
    assert graph.required_inputs == ("item", "spare")
    bound = graph.bind(spare=7)
    assert bound.required_inputs == ("item",)
    result = bound.run(item="tea")
    assert (result["done"], "spare" in result) == (False, False)  # what is bound is no state
    assert bound.run(item="tea", spare=8)["done"] is True  # what is given is
    with pytest.raises(GraphError):
        graph.bind(done=True)  # a node writes it, and none reads it
    with pytest.raises(GraphError):
        graph.bind(other=1)


def test_fields_of_unselected_parts_need_not_be_given() -> None:
    @dataclass
    class Parts:
        item: str
        price: int
        spare: int
        done: bool = False
        sold: bool = False

    @node(output="sold")
    def sell(price: int) -> bool:
        return True

    graph = Graph([ship, sell], state=Parts)
    part = graph.select("done")
    assert part.required_inputs == ("item", "spare")
    assert part.run(item="tea", spare=1)["done"]
    with pytest.raises(InputError, match="'spare'"):
        part.run(item="tea")
    with pytest.raises(InputError, match="'price'"):
        graph.run(item="tea", spare=1)


def test_a_subgraph_passes_on_what_its_schema_requires() -> None:
    inner = Graph([ship], state=Order, name="inner")
    outer = Graph([inner.as_node()])
    assert outer.run(item="tea", amount=2)["done"]
    with pytest.raises(InputError, match="'amount'"):
        outer.run(item="tea")
    with pytest.raises(GraphError, match="'amount'"):
        inner.as_node(inputs=["item"])
