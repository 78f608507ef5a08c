"""What a notebook and a terminal show: bounded, without raw bytes, and inert whatever the values are."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections import OrderedDict, namedtuple
from html.parser import HTMLParser
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from clew import DependencyGraph, Engine, Graph, GraphState, interrupt, node, schema
from clew.display import brief, cell, listed, table, value_cell
from clew.explore import Invariant, check_graph
from clew_nl2sql import Answer

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&]]><!--</style></svg></pre>"
TAGS = {
    *("div", "style", "p", "pre", "code", "table", "tr", "th", "td", "tbody", "thead", "ul", "li", "main"),
    *("h1", "h2", "h3", "b", "ol", "span", "button", "section", "header", "details", "summary"),
    *("svg", "g", "rect", "path", "text", "title", "polygon", "ellipse", "circle", "tspan", "line"),
}


class Reader(HTMLParser):
    """Collects the tags, attributes and text of a document."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_comment(self, data: str) -> None:
        self.tags.add("comment")

    def handle_data(self, data: str) -> None:
        self.text += data


def inert(html: str) -> str:
    """Check that a document has no tag and no attribute that values brought; return its text."""
    found = Reader(html)
    assert found.tags <= TAGS
    assert not {name for name in found.attributes if name.startswith("on") or name in ("src", "href")}
    return found.text


class Log(TypedDict):
    x: Any
    log: Annotated[list[Any], operator.add]


@node(output="log", description=HOSTILE)
def add(x: Any) -> list[Any]:
    return [x, {HOSTILE: HOSTILE}, b"\x00\xff" * 5_000]


@node(output="y")
def fails(x: Any) -> Any:
    raise ValueError(HOSTILE * 50)


@interrupt(output="ok")
def asks(x: Any) -> Any:
    return {"question": HOSTILE}


def results() -> list[Any]:
    engine = Engine(Graph([add], state=Log, name=HOSTILE))
    run = engine.run({"x": HOSTILE, "log": []}, run_id=HOSTILE)
    engine.fork(HOSTILE, step=0, values={"x": b"\x00\xff" * 5_000}, run_id=f"{HOSTILE}2")
    engine.label_checkpoint(HOSTILE, HOSTILE)
    failed = Engine(Graph([fails])).run({"x": 1}, run_id=HOSTILE)
    waiting = Engine(Graph([asks])).run({"x": HOSTILE}, run_id=HOSTILE)
    dependencies = DependencyGraph([schema("a", ["b"], lambda inputs, old, names: inputs[0])])
    dependencies.set("b", HOSTILE)
    dependencies.pull("a")
    checked = check_graph(
        Graph([node(lambda x: x, name=HOSTILE.replace("/", "").replace("]", ""), output="y")]),
        {"x": HOSTILE},
        [Invariant(HOSTILE, lambda world: HOSTILE)],
    )
    return [
        *(engine.graph, run, run.state, engine.history(HOSTILE), engine.history(HOSTILE)[0]),
        *(engine.why(HOSTILE, "log"), engine.why(HOSTILE, "x"), engine.diff(HOSTILE, f"{HOSTILE}2")),
        *(engine.diff(HOSTILE, HOSTILE), engine.replay(HOSTILE), failed, waiting, dependencies),
        *(dependencies.explain("a"), checked, checked.explored, *checked.narratives[:1]),
        Answer(
            question=HOSTILE * 9,
            status="answered",
            text=HOSTILE,
            columns=(HOSTILE,),
            rows=((HOSTILE,), (b"\x00\xff" * 5_000,)) * 60,
            notes=(HOSTILE,),
        ),
    ]


def test_every_result_is_inert_html_and_short_text() -> None:
    for result in results():
        inert(result._repr_html_())
        text = repr(result)
        assert len(text) < 1_500
        assert "\\x00" not in text


def test_a_result_shows_its_values() -> None:
    run = Engine(Graph([add], state=Log)).run({"x": HOSTILE, "log": []}, run_id="r")
    shown = inert(run._repr_html_())
    assert brief(HOSTILE) in shown
    assert "completed" in shown
    assert "10,000 bytes" in inert(run.state._repr_html_())


def test_a_large_graph_is_listed_and_not_drawn() -> None:
    graph = Graph([node(lambda: 1, name=f"n{i}", output=f"v{i}") for i in range(101)])
    assert "n0, n1" in inert(graph._repr_html_())
    assert "svg" not in graph._repr_html_()
    assert len(repr(graph)) < 200


def test_a_long_history_shows_its_beginning() -> None:
    @node(output="n")
    def up(n: int) -> int:
        return min(n + 1, 70)

    from clew import END, route

    @route(targets=["up", END])
    def again(n: int) -> Any:
        return "up" if n < 60 else END

    engine = Engine(Graph([up, again], entry="up"))
    engine.run({"n": 0}, run_id="r")
    history = engine.history("r")
    assert history == list(history)
    assert "more" in inert(history._repr_html_())
    assert repr(history).count("\n") == 51


# -- values


@dataclasses.dataclass
class Data:
    body: bytes
    name: str = "n"
    secret: str = dataclasses.field(default="s", repr=False)


class Struct(msgspec.Struct):
    x: int
    y: list[int]


class Model(BaseModel):
    x: int


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


Pair = namedtuple("Pair", "a b")

EXAMPLES = [
    (b"abc" * 1000, "<3,000 bytes>"),
    (memoryview(b"abc"), "<3 bytes>"),
    (Data(b"\x00"), "Data(body=<1 bytes>, name='n')"),
    (Struct(1, [1] * 9), "Struct(x=1, y=[1, 1, 1, 1, 1, 1, ... 9 in all])"),
    (Model(x=1), "Model(x=1)"),
    ([Broken(), 1], "[<Broken>, 1]"),
    ({"b": 1, "a": None}, "{'b': 1, 'a': None}"),
    (OrderedDict(a=True), "OrderedDict{'a': True}"),
    (MappingProxyType({"a": 1.5}), "mappingproxy{'a': 1.5}"),
    ({"a": {"b": {"c": {"d": {"e": 1}}}}}, "{'a': {'b': {'c': {...: ...}}}}"),
    (dict.fromkeys(range(9)), "{0: None, 1: None, 2: None, 3: None, 4: None, 5: None, ...}"),
    ((1,), "(1,)"),
    (Pair(1, 2), "Pair(1, 2)"),
    ({3}, "{3}"),
    (frozenset({3}), "frozenset{3}"),
    (math.inf, "inf"),
    (ValueError("no"), "ValueError: no"),
    ("a\nb", "'a\\nb'"),
    ("\ud800", "'\\ud800'"),
    (None, "None"),
]


@pytest.mark.parametrize("value, text", EXAMPLES, ids=[text for _, text in EXAMPLES])
def test_a_value_in_one_line(value: Any, text: str) -> None:
    assert brief(value) == text


def test_any_value_is_short() -> None:
    for value in ("x" * 10_000, 10**5_000, [["x" * 99] * 9] * 9, Broken(), list(range(10**6))):
        assert len(brief(value, 100)) <= 100


@given(
    st.recursive(
        st.text() | st.binary() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_value_is_inert(value: Any) -> None:
    assert inert(f"<table><tr><td>{value_cell(value)}</td></tr></table>") == brief(value, 300)
    assert "\n" not in brief(value)


def test_arrays_and_tables_show_their_extent() -> None:
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    assert brief(numpy.zeros((3, 4))) == "ndarray float64 (3, 4)"
    assert "1.5" in brief(numpy.float64(1.5))
    frame = pandas.DataFrame({HOSTILE: [HOSTILE] * 100})
    assert brief(frame) == "DataFrame 100×1"
    shown = value_cell(frame)
    assert HOSTILE in inert(f"<table><tr><td>{shown}</td></tr></table>")
    assert shown.count("<tr") < 20


def test_many_names_and_rows_are_cut() -> None:
    assert listed(["a"] * 3) == "a, a, a"
    assert listed(["a" * 99] * 13).endswith("... and 1 more")
    rows = table(("n",), ((cell(n),) for n in range(200)))
    assert rows.count("<tr>") == 101
    assert "more rows" in rows


def test_a_state_is_shown_with_versions() -> None:
    assert repr(GraphState({"a": b"\x00" * 9})) == "<GraphState step 0: a=<9 bytes> v0>"
