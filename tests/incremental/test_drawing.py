"""Drawings of dependency graphs: schemas and nodes, in each of the three formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clew import DependencyGraph, schema
from clew.errors import DependencyError
from clew.incremental.drawing import draw


def first(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    return inputs[0] if inputs else 0


def events(store: Path | None = None) -> DependencyGraph:
    return DependencyGraph(
        [
            schema("meta", inputs=["events"], computor=first),
            schema("context(e)", inputs=["meta"], computor=first, version=2, stateful=True),
            schema("photo(p)"),
            schema("enhanced(e, p)", inputs=["context(e)", "photo(p)", "photo('cover')"], computor=first),
        ],
        store=store,
    )


def boxes(drawing: str) -> dict[str, str]:
    """The labels of a Mermaid drawing, by their keys."""
    found = re.findall(r'^ +(\w+)[\[({]+"(.*?)"[\])}]+$', drawing, re.MULTILINE)
    return {key: re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label) for key, label in found}


def arrows(drawing: str) -> set[tuple[str, str, str]]:
    """The arrows of a Mermaid drawing: from, to and label."""
    named = boxes(drawing)
    found = re.findall(r'^ +(\w+) -->(?:\|"(.*?)"\|)? (\w+)$', drawing, re.MULTILINE)
    text = lambda label: re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label)
    return {(named[source], named[target], text(label)) for source, label, target in found}


def kinds(drawing: str) -> dict[str, str]:
    """How the boxes of a Mermaid drawing look, by their labels."""
    named = boxes(drawing)
    classes = re.findall(r"^ +class ([\w,]+) (\w+)Box$", drawing, re.MULTILINE)
    return {named[key]: kind for keys, kind in classes for key in keys.split(",")}


def test_schemas_and_sources_are_boxes() -> None:
    drawing = draw(events())
    assert kinds(drawing) == {
        "events": "input",
        "photo(p)": "input",
        "meta": "node",
        "context(e)": "node",
        "enhanced(e,p)": "node",
    }


def test_arrows_lead_from_what_makes_an_input_and_tell_how_it_is_asked_for() -> None:
    assert arrows(draw(events())) == {
        ("events", "meta", ""),
        ("meta", "context(e)", ""),
        ("context(e)", "enhanced(e,p)", ""),
        ("photo(p)", "enhanced(e,p)", 'photo("cover")'),
    }


def test_an_input_that_several_schemas_can_make_has_an_arrow_from_each() -> None:
    graph = DependencyGraph(
        [
            schema("f(1)", computor=first),
            schema("f(2)", computor=first),
            schema("f('other')", computor=first),
            schema("g(x)", inputs=["f(x)"], computor=first),
            schema("h", inputs=["f(2)"], computor=first),
        ]
    )
    assert arrows(draw(graph)) == {
        ("f(1)", "g(x)", "f(x)"),
        ("f(2)", "g(x)", "f(x)"),
        ('f("other")', "g(x)", "f(x)"),
        ("f(2)", "h", ""),
    }


def test_a_graph_without_schemas_can_be_drawn() -> None:
    assert boxes(draw(DependencyGraph([]))) == {}
    assert boxes(draw(DependencyGraph([]), nodes=True)) == {}


@pytest.fixture(params=["memory", "file"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with events(tmp_path / "events.db" if request.param == "file" else None) as graph:
        graph.set("events", 1)
        graph.set("photo(cover)", 2)
        graph.set("photo", "a b", value=3)
        yield graph


def test_nodes_are_coloured_by_freshness(graph: DependencyGraph) -> None:
    graph.pull("enhanced", "e1", "a b")
    graph.pull("context(e2)")
    graph.set("photo", "a b", value=4)
    assert kinds(draw(graph, nodes=True)) == {
        "events": "input",
        "photo(cover)": "input",
        'photo("a b")': "input",
        "meta": "fresh",
        "context(e1)": "fresh",
        "context(e2)": "fresh",
        'enhanced(e1,"a b")': "outdated",
    }


def test_arrows_between_nodes_are_those_of_their_instances(graph: DependencyGraph) -> None:
    graph.pull("enhanced", "e1", "a b")
    assert arrows(draw(graph, nodes=True)) == {
        ("events", "meta", ""),
        ("meta", "context(e1)", ""),
        ("context(e1)", 'enhanced(e1,"a b")', ""),
        ('photo("a b")', 'enhanced(e1,"a b")', ""),
        ("photo(cover)", 'enhanced(e1,"a b")', ""),
    }


def test_a_pin_is_told_until_it_ends(graph: DependencyGraph) -> None:
    graph.set("context(e1)", 7)
    assert kinds(draw(graph, nodes=True))["context(e1) (pinned)"] == "fresh"
    graph.set("events", 2)
    assert kinds(draw(graph, nodes=True))["context(e1)"] == "outdated"


def test_the_revision_is_the_title(graph: DependencyGraph) -> None:
    assert f"revision {graph.revision}" in draw(graph, nodes=True)


def test_drawing_computes_nothing() -> None:
    def refuse(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        raise AssertionError("drawing must not compute")

    graph = DependencyGraph([schema("n", inputs=["s"], computor=refuse)])
    graph.set("s", 1)
    assert boxes(draw(graph, nodes=True)) == {"n0": "s"}


def test_no_more_nodes_than_the_limit_are_drawn(graph: DependencyGraph) -> None:
    for number in range(20):
        graph.pull("context", number)
    drawing = draw(graph, nodes=True, limit=5)
    assert len(boxes(drawing)) == 6
    assert boxes(drawing)["more"] == "… and more"
    assert "more" not in boxes(draw(graph, nodes=True))


def test_nodes_without_a_schema_are_left_out(tmp_path: Path) -> None:
    with events(tmp_path / "events.db") as graph:
        graph.set("events", 1)
        graph.pull("context(e1)")
    with DependencyGraph(
        [schema("meta", inputs=["events"], computor=first)], tmp_path / "events.db"
    ) as graph:
        assert graph.orphans() == ["context(e1)"]
        assert set(boxes(draw(graph, nodes=True)).values()) == {"events", "meta"}


def test_dot_and_svg_show_the_same(graph: DependencyGraph) -> None:
    graph.pull("enhanced", "e1", "cover")
    graph.set("events", 2)
    for nodes in (False, True):
        labels = sorted(boxes(draw(graph, nodes=nodes)).values())
        written = re.findall(
            r'^ +\w+ \[label="((?:[^"\\]|\\.)*)"', draw(graph, "dot", nodes=nodes), re.MULTILINE
        )
        assert sorted(re.sub(r"\\(.)", r"\1", label) for label in written) == labels
        picture = ElementTree.fromstring(draw(graph, "svg", nodes=nodes))
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert all(label in texts for label in labels)
    assert "clew-outdated" in draw(graph, "svg", nodes=True).partition("</style>")[2]


def test_tooltips_describe_schemas_and_nodes(graph: DependencyGraph) -> None:
    def titles(drawing: str) -> list[str]:
        return [
            str(title.text)
            for title in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}title")
        ]

    assert "context(e)\ncomputed from meta\nversion 2\ndepends on its old value" in titles(draw(graph, "svg"))
    assert "photo(cover)\nup-to-date\nset, changed at revision 2, verified at 2" in titles(
        draw(graph, "svg", nodes=True)
    )


def test_the_same_graph_has_the_same_drawing() -> None:
    assert draw(events(), "svg") == draw(events(), "svg")


def test_an_unknown_form_and_a_limit_of_nothing_are_refused() -> None:
    with pytest.raises(DependencyError, match=r"'png'.*'mermaid', 'dot', 'svg'"):
        draw(events(), "png")
    with pytest.raises(DependencyError, match="limit"):
        draw(events(), limit=0)


def test_the_graph_draws_itself(graph: DependencyGraph) -> None:
    assert graph.draw() == draw(graph)
    assert graph.draw("svg", nodes=True, limit=2) == draw(graph, "svg", nodes=True, limit=2)
