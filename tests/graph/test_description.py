"""A graph as text, and as data."""

from __future__ import annotations

import copy
import json
import operator
from typing import Annotated, Any, TypedDict

import pytest

from clew.graph import END, Graph, description, node, route
from clew.graph.json_schema import json_schema


class State(TypedDict):
    query: str
    docs: Annotated[list[str], operator.add]
    answer: str | None


@node(output="docs")
def retrieve(query: str, client: object, k: int = 3) -> list[str]:
    """Find documents."""
    return [query] * k


@node(writes=["answer"], after="retrieve")
def respond(state: State) -> dict[str, str]:
    return {"answer": state["docs"][0]}


@route(targets=["respond", END])
def decide(docs: list[str]) -> str:
    return "respond"


GRAPH = Graph(
    [retrieve, decide, respond], name="rag", state=State, edges=[("retrieve", "respond")], entry="retrieve"
).bind(client=object())

TEXT = """\
graph rag
  inputs: query, k?
  outputs: docs, answer
  bound: client
  starts at: retrieve
  state State
    query: str
    docs: list[str], reduced by add
    answer: None | str
  node retrieve(query, client, k=3) -> docs
    Find documents.
  route decide(docs) => respond | END
  node respond(the whole state) -> answer, after retrieve
  edge retrieve -> respond"""


def test_a_graph_as_text() -> None:
    assert GRAPH.describe() == TEXT


def test_a_graph_without_name_and_links_is_short() -> None:
    assert Graph([node(lambda: 1, name="one")]).describe() == (
        "graph without name\n  outputs: one\n  node one() -> one"
    )


def test_a_graph_inside_is_described_inside() -> None:
    inner = Graph([node(lambda x, k=1: x, name="f")], name="inner")
    assert Graph([inner], name="outer").describe() == (
        "graph outer\n"
        "  inputs: x, k?\n"
        "  outputs: f\n"
        "  subgraph inner(x, k?) -> f\n"
        "    graph inner\n"
        "      inputs: x, k?\n"
        "      outputs: f\n"
        "      node f(x, k=1) -> f"
    )


def test_a_node_that_leads_nowhere() -> None:
    graph = Graph([node(lambda x: None, name="log", writes=())])
    assert graph.describe() == "graph without name\n  inputs: x\n  node log(x)"


def test_a_graph_as_data_can_be_json() -> None:
    data = GRAPH.describe(json=True)
    assert json.loads(json.dumps(data)) == data


def param(name: str, kind: str, schema: dict[str, str], default: str | None = None) -> dict[str, object]:
    return {
        "name": name,
        "source": name,
        "kind": "value",
        "keyword_only": False,
        "has_default": default is not None,
        "default": default,
        "type": kind,
        "schema": schema,
    }


def test_a_graph_as_data_says_the_same() -> None:
    data = GRAPH.describe(json=True)
    assert data["nodes"][0] == {
        "name": "retrieve",
        "kind": "node",
        "description": "Find documents.",
        "params": [
            param("query", "str", {"type": "string"}),
            param("client", "object", {}),
            param("k", "int", {"type": "integer"}, default="3"),
        ],
        "returns": {"type": "list[str]", "schema": {"type": "array", "items": {"type": "string"}}},
        "shape": "one",
        "writes": [["docs", "docs"]],
        "targets": [],
        "pruned": [],
        "multi": False,
        "when": None,
        "after": [],
        "is_join": False,
        "eager": False,
        "cutoff": False,
        "subgraph": None,
    }
    assert data["state"]["fields"]["docs"] == {
        "type": "list[str]",
        "schema": {"type": "array", "items": {"type": "string"}},
        "reducer": "_operator:add",
        "has_default": False,
    }
    assert data["structure_hash"] == GRAPH.structure_hash


def test_a_node_makes_its_schemas_once_and_gives_out_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(annotation: Any) -> dict[str, Any]:
        made.append(annotation)
        return json_schema(annotation)

    @node(output="b")
    def kept(a: list[int]) -> int:
        return a[0]

    monkeypatch.setattr(description, "json_schema", counted)
    first = Graph([kept]).describe(json=True)
    expected = copy.deepcopy(first)
    first["nodes"][0]["params"][0]["schema"]["items"]["type"] = "string"
    assert Graph([kept]).describe(json=True) == expected
    assert made == [list[int], int]
