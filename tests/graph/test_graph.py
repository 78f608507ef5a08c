"""Building a graph."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar

import pytest

from clew.errors import GraphError
from clew.graph import Graph, node
from clew.graph.analysis.validation import topology_of
from clew.state.registry import entry_of
from tests.messages import mentions


@dataclasses.dataclass
class State:
    query: str = ""
    answer: str = ""


@dataclasses.dataclass
class Doc:
    text: str


@dataclasses.dataclass
class Reply:
    doc: Doc


@node(output="docs")
def retrieve(query: str, client: Any = None) -> list[Doc]:
    return [Doc(query)]


def respond(docs: list[Doc]) -> Reply:
    return Reply(docs[0])


def test_nodes_are_kept_in_order_of_declaration() -> None:
    assert list(Graph([respond, retrieve]).nodes) == ["respond", "retrieve"]


def test_nodes_may_come_from_any_iterable() -> None:
    assert list(Graph(iter([respond, retrieve])).nodes) == ["respond", "retrieve"]


def test_a_graph_shows_its_nodes() -> None:
    assert repr(Graph([retrieve, respond], name="rag")) == "<Graph rag: retrieve, respond>"
    assert repr(Graph([respond])) == "<Graph without name: respond>"


def test_defaults() -> None:
    graph = Graph([respond])
    assert (graph.name, graph.schema, graph.edges, graph.entry) == (None, None, (), ())
    assert (graph.strict_types, dict(graph.bound), graph.selected) == (False, {}, None)


def test_two_nodes_of_one_name() -> None:
    with pytest.raises(GraphError) as caught:
        Graph([retrieve, retrieve])
    assert mentions(str(caught.value), "'retrieve'", "name=")


@pytest.mark.parametrize("nodes", [retrieve, respond, 3])
def test_nodes_come_in_a_list(nodes: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Graph(nodes)
    assert mentions(str(caught.value), repr(nodes))


def test_a_graph_is_no_list_of_nodes() -> None:
    inner: Any = Graph([respond])
    with pytest.raises(GraphError, match=r"list of nodes.*<Graph without name: respond>"):
        Graph(inner)


def test_edges_are_pairs_of_names_or_nodes() -> None:
    assert Graph([retrieve, respond], edges=[(retrieve, respond)]).edges == (("retrieve", "respond"),)


def test_a_chain_stands_for_its_pairs_each_once() -> None:
    nodes = [node(lambda x: x, name=name) for name in "abc"]
    graph = Graph(nodes, edges=[("a", "b", "c"), ["b", "c"]])
    assert graph.edges == (("a", "b"), ("b", "c"))


@pytest.mark.parametrize("edge", [("retrieve",), "retrieve", {"retrieve", "respond"}])
def test_an_edge_has_two_ends(edge: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Graph([retrieve, respond], edges=[edge])
    assert mentions(str(caught.value), repr(edge))


@pytest.mark.parametrize("entry", ["retrieve", retrieve, [retrieve]])
def test_an_entry_is_one_node_or_several(entry: Any) -> None:
    assert Graph([retrieve, respond], entry=entry).entry == ("retrieve",)


def test_a_parameter_annotated_with_the_schema_is_the_whole_state() -> None:
    def answer(everything: State, extra: str = "") -> str:
        return everything.query

    made = Graph([answer], state=State).nodes["answer"]
    assert [p.kind for p in made.params] == ["state", "value"]


T = TypeVar("T")


@dataclasses.dataclass
class Paged(Generic[T]):
    first: T
    total: int = 0


def test_a_generic_schema_with_arguments() -> None:
    @node(output="total")
    def count(state: Paged[int]) -> int:
        return state.first + 1

    graph = Graph([count], state=Paged[int])
    assert graph.nodes["count"].reads_state
    assert graph.run(first=1)["total"] == 2


def test_also_where_the_schema_is_known_by_name_only() -> None:
    @dataclasses.dataclass
    class Local:
        answer: str = ""

    def answer(everything: Local) -> str:
        return everything.answer

    assert Graph([answer], state=Local).nodes["answer"].reads_state


def test_without_that_schema_it_is_a_value() -> None:
    def answer(everything: State) -> str:
        return everything.query

    assert Graph([answer]).inputs == ("everything",)


@pytest.mark.parametrize("cls", [State, Doc, Reply])
def test_classes_in_schema_and_annotations_can_be_stored(cls: type) -> None:
    Graph([retrieve, respond])
    Graph([node(lambda query: "", name="f", output="answer")], state=State)
    assert entry_of(cls) is not None


def test_bind_returns_a_new_graph() -> None:
    graph = Graph([retrieve])
    bound = graph.bind(client=1)
    assert (dict(bound.bound), dict(graph.bound)) == ({"client": 1}, {})


def test_bind_adds_to_what_is_bound() -> None:
    assert dict(Graph([retrieve]).bind(client=1, query="a").bind(client=2).bound) == {
        "client": 2,
        "query": "a",
    }


def test_bind_of_what_nobody_reads() -> None:
    with pytest.raises(GraphError) as caught:
        Graph([retrieve]).bind(clinet=1)
    assert mentions(str(caught.value), "'clinet'", "'client'")


def test_a_topology_is_computed_once_for_the_same_names() -> None:
    graph = Graph([retrieve])
    assert topology_of(graph, frozenset({"query"})) is topology_of(graph, frozenset({"query"}))


def test_a_changed_graph_has_a_topology_of_its_own() -> None:
    graph = Graph([retrieve])
    assert topology_of(graph.bind(client=1)) is not topology_of(graph)
