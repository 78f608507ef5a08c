"""Hashes tell another graph, and other code."""

from __future__ import annotations

import dataclasses
import functools
import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from clew.graph import END, Graph, Node, ifelse, node, route
from clew.graph.hashing import code_hashes
from clew.graph.hashing.hashes import graph_code, structure
from clew.state import merge, register_type


def code_hash(func: Callable[..., Any]) -> str:
    return code_hashes.code_hash(func).digest


@dataclasses.dataclass
class State:
    query: str = ""
    docs: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Typed:
    query: str = ""
    docs: Annotated[list[int], operator.add] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Merged:
    query: str = ""
    docs: Annotated[list[str], merge] = dataclasses.field(default_factory=list)


def retrieve(query: str, k: int = 3) -> list[str]:
    return [query] * k


def respond(docs: list[str]) -> str:
    return docs[0]


@route(targets=["respond", END])
def decide(docs: list[str]) -> str:
    return "respond"


DOCS = node(retrieve, output="docs")
BASE = [DOCS, respond, decide]


def test_the_same_graph_has_the_same_structure() -> None:
    assert Graph(BASE).structure_hash == Graph(list(BASE)).structure_hash


def test_what_a_function_does_is_no_structure() -> None:
    other: Node = node(lambda query, k=3: [], name="retrieve", output="docs")
    assert Graph([other, respond, decide]).structure_hash == Graph(BASE).structure_hash


VARIANTS: dict[str, Callable[[], Graph]] = {
    "base": lambda: Graph(BASE),
    "order": lambda: Graph([respond, DOCS, decide]),
    "name": lambda: Graph([DOCS.rename(name="look"), respond, decide]),
    "input": lambda: Graph([DOCS.rename(inputs={"query": "q"}), respond, decide]),
    "output": lambda: Graph([node(retrieve, output=("docs", "more")), respond, decide]),
    "shape": lambda: Graph([node(retrieve, writes="docs"), respond, decide]),
    "default": lambda: Graph([node(lambda query, k: 0, name="retrieve", output="docs"), respond, decide]),
    "keyword": lambda: Graph(
        [node(lambda query, *, k=3: 0, name="retrieve", output="docs"), respond, decide]
    ),
    "targets": lambda: Graph([DOCS, respond, route(targets=["respond"])(decide.func)]),
    "multi": lambda: Graph([DOCS, respond, route(targets=["respond", END], multi=True)(decide.func)]),
    "kind": lambda: Graph([DOCS, respond, ifelse(when_true="respond", when_false=END)(decide.func)]),
    "when": lambda: Graph([DOCS, respond, ifelse(when_true=END, when_false="respond")(decide.func)]),
    "after": lambda: Graph([DOCS, node(respond, after="retrieve"), decide]),
    "eager": lambda: Graph([node(retrieve, output="docs", eager=True), respond, decide]),
    "cutoff": lambda: Graph([node(retrieve, output="docs", cutoff=True), respond, decide]),
    "edges": lambda: Graph(BASE, edges=[("retrieve", "respond")]),
    "entry": lambda: Graph(BASE, entry="retrieve"),
    "select": lambda: Graph(BASE).select("docs"),
    "prune": lambda: Graph([*BASE[:2], route(targets=["respond", "retrieve"])(decide.func)]).select(
        "respond"
    ),
    "schema": lambda: Graph([DOCS, node(respond, output="query")], state=State),
    "field type": lambda: Graph([DOCS, node(respond, output="query")], state=Typed),
    "reducer": lambda: Graph([DOCS, node(respond, output="query")], state=Merged),
    "subgraph": lambda: Graph([Graph(BASE, name="inner")]),
    "inside": lambda: Graph([Graph(BASE, name="inner", entry="decide")]),
    "transform_input": lambda: Graph(
        [Graph(BASE).as_node("inner", inputs=("query", "k"), transform_input=lambda values: values)]
    ),
    "transform_output": lambda: Graph([Graph(BASE).as_node("inner", transform_output=lambda values: values)]),
    "mapped": lambda: Graph(BASE, name="inner").map_over("query"),
    "product": lambda: Graph(BASE, name="inner").map_over("query", mode="product"),
}


def test_whatever_belongs_to_the_structure_changes_its_hash() -> None:
    hashes = {name: build().structure_hash for name, build in VARIANTS.items()}
    same = [(a, b) for a in hashes for b in hashes if a < b and hashes[a] == hashes[b]]
    assert same == []


def test_the_order_of_edges_is_no_structure() -> None:
    one = Graph(BASE, edges=[("retrieve", "respond"), ("retrieve", "decide")])
    other = Graph(BASE, edges=[("retrieve", "decide"), ("retrieve", "respond")])
    assert one.structure_hash == other.structure_hash


def test_a_structure_is_plain_data() -> None:
    assert structure(Graph([respond]))["nodes"][0]["name"] == "respond"


SCRIPT = """
from clew.graph import Graph, node
from typing import TypedDict, Literal
class S(TypedDict):
    a: int | str | None
    b: Literal["x", "y"]
def f(a, k=frozenset({"p", "q", "r", "s"})):
    "A docstring."
    if a in {"one", "two", "three", "four"}:
        return lambda: {"u", "v"}
graph = Graph([node(f, output="b")], state=S)
print(graph.structure_hash, graph.code_hash)
"""


def test_hashes_are_the_same_under_every_hash_seed() -> None:
    seen = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(seen) == 1


def compiled(source: str, **names: Any) -> Callable[..., Any]:
    """A function without source."""
    exec(compile(source, "<nowhere>", "exec"), names)
    return names["f"]


PLAIN = "def f(a, b=1):\n    x = a + 1\n    return x"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("\n\n\n" + PLAIN, id="line numbers"),
        pytest.param("def f(a, b=1):\n    'Text.'\n    x = a + 1\n    return x", id="docstring"),
        pytest.param("def f(a, b=1):\n    # why\n    x = a + 1\n\n    return x", id="comments"),
        pytest.param("def f(a: int, b: str = 1) -> int:\n    x = a + 1\n    return x", id="annotations"),
    ],
)
def test_what_does_not_change_the_code(source: str) -> None:
    assert code_hash(compiled(source)) == code_hash(compiled(PLAIN))


def test_a_docstring_does_not_change_the_code_where_none_is_returned() -> None:
    assert code_hash(compiled("def f():\n    'Text.'\n    g(1)")) == code_hash(compiled("def f():\n    g(1)"))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f(a, b=1):\n    x = a + 2\n    return x", id="constant"),
        pytest.param("def f(a, b=1):\n    x = a - 1\n    return x", id="operator"),
        pytest.param("def f(a, b=1):\n    x = c + 1\n    return x", id="name"),
        pytest.param("def f(a, b=2):\n    x = a + 1\n    return x", id="default"),
        pytest.param("def f(a, *, b=1):\n    x = a + 1\n    return x", id="keyword only"),
        pytest.param("def f(a, /, b=1):\n    x = a + 1\n    return x", id="positional only"),
        pytest.param("async def f(a, b=1):\n    x = a + 1\n    return x", id="async"),
        pytest.param("def f(a, b=1):\n    x = a + 1.0\n    return x", id="type of a constant"),
        pytest.param("def f(a, b=1):\n    x = a + 1\n    yield x", id="generator"),
    ],
)
def test_what_changes_the_code(source: str) -> None:
    assert code_hash(compiled(source)) != code_hash(compiled(PLAIN))


def test_keyword_defaults_belong_to_the_code() -> None:
    assert code_hash(lambda *, k=1: k) != code_hash(lambda *, k=2: k)


@pytest.mark.parametrize(
    "one, other",
    [
        ("def f():\n    return lambda: 1", "def f():\n    return lambda: 2"),
        ("def f(x):\n    return x in {1, 2}", "def f(x):\n    return x in {1, 3}"),
        ("def f(x):\n    return (1, (2, 3))", "def f(x):\n    return (1, (2, 4))"),
        ("def f(x):\n    return ...", "def f(x):\n    return None"),
        ("def f():\n    return 1j", "def f():\n    return 2j"),
        ("def f():\n    return b'a'", "def f():\n    return 'a'"),
        ("def f():\n    try:\n        g()\n    except A:\n        h()", "def f():\n    g()\n    h()"),
    ],
)
def test_constants_are_looked_into(one: str, other: str) -> None:
    assert code_hash(compiled(one)) != code_hash(compiled(other))
    assert code_hash(compiled(one)) == code_hash(compiled(one))


def closing_over(value: Any) -> Callable[[], Any]:
    return lambda: value


class Client:
    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self) -> str:
        return self.address.upper()

    def __call__(self) -> str:
        return self.address


class Plain:
    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self) -> str:
        return self.address


@dataclasses.dataclass(frozen=True)
class Frozen:
    address: str

    def ask(self) -> str:
        return self.address


@register_type
@dataclasses.dataclass
class Recorded:
    address: str

    def ask(self) -> str:
        return self.address


class Slotted:
    __slots__ = ()

    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    "one, other",
    [
        pytest.param(1, 2, id="number"),
        pytest.param({"a": 1}, {"a": 2}, id="mapping"),
        pytest.param({"a": len}, {"a": max}, id="mapping with functions"),
        pytest.param({1: "a"}, {1: "b"}, id="mapping with other keys"),
        pytest.param([1], [2], id="list"),
        pytest.param((1, len), (1, max), id="tuple"),
        pytest.param(len, max, id="builtin"),
        pytest.param(int, str, id="class"),
        pytest.param(retrieve, respond, id="function"),
        pytest.param(DOCS, decide, id="node"),
        pytest.param(object(), Slotted(), id="object"),
        pytest.param(functools.partial(retrieve, k=1), functools.partial(retrieve, k=2), id="partial"),
        pytest.param(functools.lru_cache(retrieve), functools.lru_cache(respond), id="cached"),
        pytest.param(Client("a"), Client("b"), id="callable object"),
        pytest.param(Client("a").ask, Client("a").__call__, id="method"),
        pytest.param(Client("a").ask, Client("b").ask, id="method of a callable object"),
        pytest.param(Frozen("a").ask, Frozen("b").ask, id="method of a frozen object"),
        pytest.param(Recorded("a").ask, Recorded("b").ask, id="method of an object with an encoding"),
        pytest.param(Frozen("a").ask, Recorded("a").ask, id="methods of two classes"),
    ],
)
def test_closure_values_belong_to_the_code(one: Any, other: Any) -> None:
    assert code_hash(closing_over(one)) != code_hash(closing_over(other))
    assert code_hash(closing_over(one)) == code_hash(closing_over(one))


@pytest.mark.parametrize(
    "one, other",
    [
        pytest.param(object(), object(), id="object"),
        pytest.param(Plain("a").ask, Plain("b").ask, id="method"),
        pytest.param({"b": 1, "a": 2}, {"a": 2, "b": 1}, id="order of a mapping"),
        pytest.param([object()], [object()], id="list of objects"),
    ],
)
def test_what_cannot_be_encoded_counts_by_its_class(one: Any, other: Any) -> None:
    assert code_hash(closing_over(one)) == code_hash(closing_over(other))


def test_the_object_of_a_bound_method_belongs_to_the_code() -> None:
    made = [Frozen("a").ask, Frozen("b").ask, Recorded("a").ask, Recorded("b").ask, Client("a").ask]
    assert len({code_hash(method) for method in made}) == 5
    assert code_hash(Frozen("a").ask) == code_hash(Frozen("a").ask)
    assert graph_code(Graph([node(Frozen("a").ask, output="a")])).unhashed == {}
    assert graph_code(Graph([node(Plain("a").ask, output="a")])).unhashed == {"ask": ("self (Plain)",)}


def test_a_decorator_does_not_hide_what_it_decorates() -> None:
    def logged(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any) -> Any:
            return func(*args)

        return wrapper

    assert code_hash(logged(retrieve)) != code_hash(logged(respond))


def test_a_function_that_closes_over_itself_has_a_hash() -> None:
    def count(n: int) -> int:
        return n and count(n - 1)

    assert code_hash(count) == code_hash(count)


def test_a_mapping_that_holds_itself_has_a_hash() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert code_hash(closing_over(loop)) == code_hash(closing_over(loop))


def test_a_closure_that_is_not_filled_yet_has_a_hash() -> None:
    def f() -> int:
        return later

    empty = code_hash(f)
    later = 1
    assert empty != code_hash(f)


def test_an_object_without_attributes_has_a_hash() -> None:
    assert code_hash(Slotted()) == code_hash(Slotted())


def test_each_node_has_a_hash() -> None:
    assert list(Graph(BASE).node_hashes) == ["retrieve", "respond", "decide"]


def test_only_the_node_that_changed_has_another_hash() -> None:
    one = Graph(BASE).node_hashes
    other = Graph([node(lambda query, k=3: 0, name="retrieve", output="docs"), respond, decide]).node_hashes
    assert [name for name in one if one[name] != other[name]] == ["retrieve"]


def test_the_cutoff_is_code() -> None:
    one, other = (Graph([node(respond, cutoff=f)]) for f in (True, lambda a, b: a is b))
    assert one.code_hash != other.code_hash


def test_the_code_inside_a_subgraph_is_code() -> None:
    one, other = (Graph([Graph([node(f, name="f")], name="g")]) for f in (lambda a: a, lambda a: -a))
    assert (one.structure_hash == other.structure_hash, one.code_hash == other.code_hash) == (True, False)


@pytest.mark.parametrize("border", ["transform_input", "transform_output"])
def test_the_border_of_a_subgraph_is_code(border: str) -> None:
    functions: list[Any] = [lambda values: values, lambda values: {**values}]
    one, other = (Graph([Graph(BASE).as_node("inner", **{border: f})]) for f in functions)
    assert one.code_hash != other.code_hash


def test_reducers_are_code() -> None:
    nodes = [DOCS, node(respond, output="query")]
    assert Graph(nodes, state=State).code_hash != Graph(nodes, state=Merged).code_hash
