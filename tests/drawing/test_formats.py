"""Drawings: their content, escaping of names in every format, and stability.

The golden files are complete drawings. After an intended change, write them again and inspect them:
``UPDATE_GOLDEN=1 pytest tests/drawing/test_formats.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from clew.drawing.diagram import Arrow, Picture, picture_of
from clew.drawing.formats import draw
from clew.drawing.svg import CHARACTER
from clew.errors import GraphError
from clew.graph import END, Graph, ifelse, interrupt, node, route

GOLDEN = Path(__file__).parent / "golden"
FORMATS = {"mermaid": "mmd", "dot": "dot", "svg": "svg"}
SVG = "{http://www.w3.org/2000/svg}"


def review() -> Graph:
    """A loop with a gate, a question to a person, an end, an optional input and a control link."""

    @node(output="docs")
    def retrieve(query: str, limit: int = 5) -> Any:
        """Find documents."""

    @node(output="draft")
    def write(query: str, docs: Any, feedback: str = "") -> Any: ...

    @node(output="feedback")
    def critique(draft: Any) -> Any: ...

    @ifelse(when_true="publish", when_false="write", after=["critique"])
    def good_enough(draft: Any) -> bool:
        return True

    @node(output="page")
    def publish(draft: Any) -> Any: ...

    @interrupt(output="approved")
    def approve(draft: Any) -> Any: ...

    @route(targets=["send", END])
    def decide(approved: Any) -> Any: ...

    @node(output="receipt")
    def send(page: Any) -> Any: ...

    nodes = [retrieve, write, critique, good_enough, publish, approve, decide, send]
    return Graph(nodes, name="review")


def agent() -> Graph:
    @node(output="tables")
    def find_tables(question: str) -> Any: ...

    @node(output="plan")
    def make_plan(tables: Any, advice: str = "") -> Any: ...

    @ifelse(when_true="generate", when_false="refine")
    def valid(plan: Any) -> bool:
        return True

    @node(output="sql")
    def generate(plan: Any) -> Any: ...

    @node(output="advice")
    def refine(plan: Any) -> Any: ...

    @node(output="rows")
    def execute(sql: Any) -> Any: ...

    return Graph([find_tables, make_plan, valid, generate, refine, execute], name="agent")


def nested() -> Graph:
    """A subgraph with a loop inside a graph with a loop, and one below it that is run for each element."""

    @node(output="question")
    def ask(topic: str, rows: Any = ()) -> Any: ...

    @ifelse(when_true="ask", when_false="report")
    def again(rows: Any) -> bool:
        return True

    @node(output="questions")
    def report(rows: Any) -> Any: ...

    plans = agent().map_over("question", name="plans").nodes["plans"]
    plans = plans.rename(
        inputs={"question": "questions"}, outputs={value: f"all_{value}" for value in plans.outputs}
    )
    return Graph([ask, agent().select("rows").as_node("sql_agent"), again, report, plans], name="nested")


def strange() -> Graph:
    """Names that would be syntax without escaping."""

    @node(name='say "hi" <b>&amp; 🎉', output="a")
    def first(q: int) -> Any: ...

    @node(name="end", output="b")
    def second(a: int) -> Any: ...

    third_name = "數據 | `x`; style a:b; \\N\n{%s}<style>-->👩‍💻"

    @node(name=third_name, output="c", after=["end"], goto=["end", END, third_name])
    def third(a: int, b: int = 0) -> Any: ...

    return Graph([first, second, third], name='a "graph": <x> & \\ more')


DRAWN = {"review": review, "nested": nested, "strange": strange}


@pytest.fixture(params=DRAWN)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("format", FORMATS)
def test_golden(name: str, format: str) -> None:
    file = GOLDEN / f"{name}.{FORMATS[format]}"
    drawing = DRAWN[name]().draw(format)
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(drawing, "utf-8")
    assert drawing == file.read_text("utf-8")


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(GraphError, match="'png'; use 'mermaid', 'dot', 'svg'"):
        draw(agent(), "png")


def test_mermaid_is_the_default() -> None:
    assert draw(agent()) == draw(agent(), "mermaid") == agent().draw()


# -- what is shown ------------------------------------------------------------------------------------------


def arrows(graph: Graph) -> dict[tuple[str, str, str], Arrow]:
    """The arrows of a graph's picture, by the labels of their ends and their kind."""
    picture = picture_of(graph)
    labels = {box.key: box.label for box in picture.boxes}
    return {(labels[a.source], labels[a.target], a.kind): a for a in picture.arrows}


def kinds(graph: Graph) -> dict[str, str]:
    return {box.label: box.kind for box in picture_of(graph).boxes}


def test_nodes_are_shown_by_kind() -> None:
    assert kinds(review()) == {
        "query": "input",
        "limit": "optional",
        "retrieve": "node",
        "write": "node",
        "critique": "node",
        "good_enough": "gate",
        "publish": "node",
        "approve": "interrupt",
        "decide": "gate",
        "send": "node",
        "END": "end",
    }


def test_links_are_labelled_with_what_they_mean() -> None:
    shown = arrows(review())
    assert shown["query", "retrieve", "data"].label == ""
    assert shown["retrieve", "write", "data"].label == "docs"
    assert shown["good_enough", "publish", "gate"].label == "true"
    assert shown["good_enough", "write", "gate"].label == "false"
    assert shown["decide", "END", "gate"].label == "END"
    assert shown["decide", "send", "gate"].label == "send"
    assert shown["critique", "good_enough", "control"].label == ""


def test_only_links_that_close_a_loop_go_back() -> None:
    back = {(source, target) for (source, target, _), arrow in arrows(review()).items() if arrow.back}
    assert back == {("good_enough", "write"), ("critique", "write")}


def test_values_between_two_nodes_share_an_arrow() -> None:
    @node(output=("low", "high"))
    def bounds(data: Any) -> Any: ...

    def middle(low: int, high: int) -> Any: ...

    assert arrows(Graph([bounds, middle]))["bounds", "middle", "data"].label == "low, high"


def test_bound_values_are_not_shown() -> None:
    assert "limit" not in kinds(review().bind(limit=3))


def test_what_select_cuts_off_ends() -> None:
    selected = review().select("draft")
    assert arrows(selected)["good_enough", "END", "gate"].label == "true"


def test_a_node_may_go_to_itself() -> None:
    @node(output="count", goto=["step", END])
    def step(count: int = 0) -> Any: ...

    assert arrows(Graph([step]))["step", "step", "gate"].back
    ET.fromstring(Graph([step]).draw("svg"))


def test_a_loop_that_must_be_given_a_value_shows_it() -> None:
    def left(right: int) -> Any: ...

    def right(left: int) -> Any: ...

    @ifelse(when_true="left", when_false=END)
    def more(right: int) -> bool:
        return True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = Graph([left, right, more])
    boxes = [(box.label, box.kind) for box in picture_of(graph).boxes if box.key.startswith("in")]
    assert boxes == [("right", "optional"), ("left", "optional")]


def test_a_subgraph_holds_its_own_picture_without_inputs() -> None:
    box = next(box for box in picture_of(nested()).boxes if box.label == "sql_agent")
    assert isinstance(box.inside, Picture)
    assert [inner.label for inner in box.inside.boxes] == list(agent().nodes)
    mapped = next(box for box in picture_of(nested()).boxes if box.key == "n4")
    assert mapped.label == "plans (for each question)"


def test_what_a_loop_inside_a_subgraph_hands_on_is_no_input() -> None:
    assert {"advice", "plan"} <= set(nested().inputs)
    assert [box.label for box in picture_of(nested()).boxes if box.key.startswith("in")] == ["topic"]


def test_keys_are_unique_and_plain() -> None:
    def keys(picture: Picture) -> list[str]:
        return [key for box in picture.boxes for key in (box.key, *(keys(box.inside) if box.inside else ()))]

    found = keys(picture_of(nested()))
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"\w+", key, re.ASCII) for key in found)


def test_notes_say_what_a_node_does() -> None:
    @node(output="b", description="Half of it.")
    def halve(state: Any, a: int) -> Any: ...

    notes = {box.label: box.note for box in picture_of(Graph([halve])).boxes}
    assert notes["halve"] == "Half of it.\nreads the whole state, a\nwrites b"


# -- formats ------------------------------------------------------------------------------------------------


def test_mermaid_labels_hold_no_syntax() -> None:
    for line in strange().draw("mermaid").splitlines()[3:]:
        outside = re.sub(r'"[^"]*"', "", line)
        assert re.fullmatch(r"[\w\s\[\](){}|>:#,.-]*", outside, re.ASCII), line
        for label in re.findall(r'"([^"]*)"', line):
            assert not re.search(r"[<>`|:\\]|#(?!\d+;)|&", label), line


def test_mermaid_leaves_out_the_title_of_a_graph_without_name() -> None:
    def f(x: int) -> Any: ...

    assert Graph([f]).draw("mermaid").startswith("flowchart TD\n")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_back_the_names(name: str) -> None:
    graph = DRAWN[name]()
    command = ["dot", "-Tsvg"]
    drawn = subprocess.run(
        command, input=graph.draw("dot"), check=True, capture_output=True, encoding="utf-8"
    )
    assert drawn.stderr == ""
    texts = [
        "".join(text.itertext()).replace("\xa0", " ")
        for text in ET.fromstring(drawn.stdout).iter(f"{SVG}text")
    ]
    for box in picture_of(graph).boxes:
        assert box.label in texts


def test_svg_is_complete_in_itself(name: str) -> None:
    drawing = DRAWN[name]().draw("svg")
    root = ET.fromstring(drawing)
    assert root.tag == f"{SVG}svg"
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        *("svg", "style", "rect", "g", "title", "path", "text")
    }
    assert not re.search(r"href|url\(|@import|\bid=", drawing)
    assert "prefers-color-scheme:dark" in drawing
    assert float(root.attrib["width"]) > 0


def test_svg_shows_every_name_in_full(name: str) -> None:
    graph = DRAWN[name]()
    texts = [text.text for text in ET.fromstring(graph.draw("svg")).iter(f"{SVG}text")]
    picture = picture_of(graph)
    for label in [picture.title, *(box.label for box in picture.boxes)]:
        assert label in texts
    assert sorted(filter(None, texts)) == sorted(shown_in(picture))


def shown_in(picture: Picture, outermost: bool = True) -> list[str]:
    shown = [picture.title] if outermost else []
    shown += [arrow.label for arrow in picture.arrows if arrow.label]
    for box in picture.boxes:
        shown += [box.label, *(shown_in(box.inside, outermost=False) if box.inside else ())]
    return shown


def test_svg_boxes_fit_their_text() -> None:
    root = ET.fromstring(review().draw("svg"))
    for group in root.iter(f"{SVG}g"):
        path, text = group.find(f"{SVG}path"), group.find(f"{SVG}text")
        if group.find(f"{SVG}title") is not None and path is not None and text is not None:
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.attrib["d"])]
            width = max(numbers[::2]) - min(numbers[::2])
            assert width >= len(text.text or "") * CHARACTER + 16


def test_svg_of_a_graph_without_name_has_no_title() -> None:
    def f(x: int) -> Any: ...

    drawing = Graph([f]).draw("svg")
    assert 'aria-label="graph"' in drawing
    assert 'class="clew-title"' not in drawing
