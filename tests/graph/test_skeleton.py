"""A graph made of a description: without code, and never of damaged data."""

from __future__ import annotations

import copy
import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import ClewError, InputError, StoreCorruptError
from clew.graph import END, Graph, ifelse, interrupt, node, route
from clew.graph.analysis.validation import topology_of
from clew.graph.json_schema import json_schema
from clew.graph.skeleton import skeleton


class Message(pydantic.BaseModel):
    """What somebody said."""

    text: str
    tone: int = 3


class Place(msgspec.Struct):
    name: str


def collect(current: list[Any], update: list[Any]) -> list[Any]:
    return [*current, *update]


@dataclass
class State:
    query: str
    log: Annotated[list[Message], collect]
    docs: Annotated[list[str], operator.add]
    place: Place | None = None
    seen: dict[str, int] = field(default_factory=dict)


@node(output="docs", cutoff=True)
def retrieve(query: str, client: object, k: int = 3) -> list[str]:
    """Find documents."""
    return [query] * k


@node(writes=["log", "place"], after="retrieve", goto=["retrieve", END])
def respond(state: State) -> dict[str, Any]:
    return {}


@route(targets=["respond", "check", END], multi=True)
def decide(docs: list[str]) -> str:
    return "respond"


@ifelse(when_true="respond", when_false=END)
def check(place: Place) -> bool:
    return True


@interrupt(output="seen")
def ask(docs: list[str]) -> str:
    return "?"


INNER = Graph([node(lambda x, k=1: [x], name="f", output="docs")], name="inner")
GRAPH = Graph(
    [
        retrieve,
        decide,
        check,
        respond,
        ask,
        INNER.as_node("one", inputs=("query",), transform_input=lambda seen: {"x": 1}),
        INNER.map_over("x", name="many").nodes["many"].rename(inputs={"x": "seen"}),
    ],
    name="rag",
    state=State,
    edges=[("retrieve", "respond"), ("ask", "one")],
    entry="retrieve",
).bind(client=object())
DESCRIPTION: dict[str, Any] = json.loads(json.dumps(GRAPH.describe(json=True)))


def test_a_skeleton_has_the_structure_of_the_graph() -> None:
    bare = skeleton(DESCRIPTION)
    assert bare.structure_hash == GRAPH.structure_hash
    assert bare.draw() == GRAPH.draw()
    assert (bare.inputs, bare.outputs, bare.name) == (GRAPH.inputs, GRAPH.outputs, "rag")
    assert {**bare.describe(json=True), "nodes": 0, "state": 0} == {**DESCRIPTION, "nodes": 0, "state": 0}


def test_a_skeleton_has_no_code() -> None:
    bare = skeleton(DESCRIPTION)
    schema, inside = bare.schema, bare.nodes["one"].subgraph
    assert schema is not None
    assert inside is not None
    calls = [
        *(found.func for found in bare.nodes.values()),
        schema.fields["log"].reducer,
        schema.fields["seen"].default,
        bare.nodes["retrieve"].cutoff,
        inside.transform_input,
    ]
    for call in calls:
        assert call is not None
        with pytest.raises(InputError, match="pass the graph"):
            call()
    assert schema.fields["docs"].reducer is operator.add


def test_what_people_read_is_no_structure() -> None:
    def respond(docs: list[str]) -> str:
        return docs[0]

    def described(docs: list[str]) -> str:
        """Answer."""
        return docs[0]

    described.__name__ = "respond"
    one, other = Graph([respond]), Graph([node(described, output="respond")])
    assert one.describe() != other.describe()
    assert one.structure_hash == other.structure_hash


@pytest.mark.parametrize(
    "annotation, expected",
    [
        (int, {"type": "integer"}),
        (
            dict[str, list[float]],
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}},
        ),
        (Any, {}),
        (object, {}),
        (GRAPH.__class__, {}),
        ("a name that nobody found", {}),
    ],
)
def test_types_as_json_schema(annotation: Any, expected: dict[str, Any]) -> None:
    assert json_schema(annotation) == expected


def test_libraries_describe_their_own_classes() -> None:
    assert json_schema(Message) == Message.model_json_schema()
    assert "Message" in json_schema(list[Message])["$defs"]
    assert "Place" in json_schema(Place | None)["$defs"]


# ---- damaged descriptions


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something is in plain data."""
    found = [path] if path else []
    if isinstance(data, (dict, list)):
        for key in data if isinstance(data, dict) else range(len(data)):
            found += places(data[key], (*path, key))
    return found


PLACES = [path for path in places(DESCRIPTION) if "schema" not in path]


def changed(path: tuple[Any, ...], value: Any, *, remove: bool = False) -> Any:
    data = copy.deepcopy(DESCRIPTION)
    part = data
    for key in path[:-1]:
        part = part[key]
    if remove:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return data


@given(
    st.sampled_from(PLACES),
    st.sampled_from([None, 7, -1, "x", "\0", "\ud800", [], {}, [None], {"x": 1}, True]),
    st.booleans(),
)
def test_a_damaged_description_is_read_or_refused_with_one_error(path: Any, value: Any, remove: bool) -> None:
    try:
        bare = skeleton(changed(path, value, remove=remove))
    except StoreCorruptError:
        return
    for read in (
        lambda: bare.structure_hash,
        lambda: topology_of(bare, frozenset(bare.inputs)),
        lambda: bare.describe(json=True),
        lambda: bare.describe(),
    ):
        try:
            read()
        except ClewError:
            pass


@pytest.mark.parametrize(
    "path, value",
    [
        (("nodes", 0, "kind"), "daemon"),
        (("nodes", 0, "name"), "decide"),
        (("nodes", 0, "after"), ["nobody"]),
        (("nodes", 1, "targets"), ["nobody"]),
        (("nodes", 2, "when"), None),
        (("nodes", 5, "subgraph"), None),
        (("edges",), [["retrieve", "nobody"]]),
        (("edges",), [["retrieve"]]),
        (("entry",), ["nobody"]),
        (("state", "name"), "\0"),
        (("state", "fields", "log", "reducer"), 7),
        (("nodes",), {}),
    ],
)
def test_what_makes_no_graph_is_refused(path: Any, value: Any) -> None:
    with pytest.raises(StoreCorruptError):
        skeleton(changed(path, value))


@pytest.mark.parametrize("data", [None, 7, [], "graph", {}, {"nodes": []}, b"{}", object()])
def test_what_is_no_description_is_refused(data: Any) -> None:
    with pytest.raises(StoreCorruptError):
        skeleton(data)


def test_a_description_that_is_nested_too_deep_is_refused() -> None:
    data = json.loads(json.dumps(INNER.describe(json=True)))
    one = next(each for each in DESCRIPTION["nodes"] if each["name"] == "one")
    for _ in range(2_000):
        data = {**data, "nodes": [{**one, "after": [], "subgraph": {**one["subgraph"], "graph": data}}]}
    with pytest.raises(StoreCorruptError):
        skeleton(data)
