"""Why a node is up to date or outdated, and why it was or was not computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph, schema
from clew.incremental.nodes import ConcreteNode
from tests.incremental.counting import total


@pytest.fixture
def graph() -> DependencyGraph:
    return DependencyGraph(
        [
            schema("sign", ["number"], lambda i, o, b: i[0] > 0),
            schema("text", ["sign", "words"], lambda i, o, b: i[1][i[0]], stateful=True),
            schema("made", (), lambda i, o, b: 5),
            schema("view(x)", ["text", "made"], total),
        ]
    )


def reason(graph: DependencyGraph, node: str) -> str:
    return graph.explain(node).reason


def test_a_node_without_a_value(graph: DependencyGraph) -> None:
    explanation = graph.explain("text")
    assert (explanation.node, explanation.freshness, explanation.revision, explanation.origin) == (
        "text",
        None,
        0,
        None,
    )
    assert (
        explanation.verified_at
        is explanation.changed_at
        is explanation.computed_at
        is explanation.touched_at
        is None
    )
    assert "never pulled" in explanation.reason
    assert str(explanation).startswith(f"text has no value at revision 0: {explanation.reason}")
    assert "never set" in reason(graph, "number")


def test_why_it_is_up_to_date(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.set("words", ["no", "yes"])
    assert graph.pull("text") == "yes"
    assert "set at revision 1" in reason(graph, "number")
    assert "computed at revision 2" in reason(graph, "text")
    graph.set("number", 2)
    graph.pull("text")
    assert "computed at revision 3" in reason(graph, "sign")
    assert (graph.explain("sign").computed_at, graph.explain("sign").changed_at) == (3, 2)
    assert "no input had changed" in reason(graph, "text")
    assert (graph.explain("text").computed_at, graph.explain("text").verified_at) == (2, 3)
    explanation = graph.explain("text")
    assert explanation.stateful
    assert explanation.schema == "text"
    assert explanation.changed_sources == ()
    assert [(cause.node, cause.touched_at, cause.changed_at) for cause in explanation.causes] == [
        ("number", 3, 3),
        ("words", 2, 2),
    ]
    assert str(explanation).splitlines() == [
        f"text is up-to-date at revision 3: {explanation.reason}",
        "  number was set at revision 3",
        "  words was set at revision 2",
        "  input sign: up-to-date, changed at revision 2",
        "  input words: up-to-date, changed at revision 2",
        "  its computor depends on the old value (stateful)",
    ]


def test_which_source_made_it_stale(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.set("words", ["no", "yes"])
    graph.pull("text")
    graph.set("number", 1)
    explanation = graph.explain("text")
    assert explanation.freshness == "potentially-outdated"
    assert [cause.node for cause in explanation.changed_sources] == ["number"]
    assert explanation.reason.startswith("number was touched at revision 3;")
    assert (explanation.changed_sources[0].touched_at, explanation.changed_sources[0].changed_at) == (3, 1)
    graph.set("words", ["nein", "ja"])
    assert [cause.node for cause in graph.explain("text").changed_sources] == ["words", "number"]
    assert reason(graph, "text").startswith("words was touched at revision 4, and its input words changed")


def test_pins_and_invalidations(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.set("words", ["no", "yes"])
    graph.set("text", "perhaps")
    assert "pinned at revision 3" in reason(graph, "text")
    graph.set("number", 2)
    assert "number was touched at revision 4, which ends the pin" in reason(graph, "text")
    graph.pull("text")
    graph.invalidate("text")
    assert "invalidated at revision 5" in reason(graph, "text")
    causes = {cause.node: str(cause) for cause in graph.explain("view(x)").causes}
    assert causes["text"].startswith("text was invalidated at revision 5")
    assert causes["made"] == "made was never touched"
    assert "made" not in str(graph.explain("view(x)")).split("input")[0]


def test_a_source_that_is_invalidated_was_not_set(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.pull("sign")
    graph.invalidate("number")
    (cause,) = graph.explain("sign").changed_sources
    assert (cause.origin, str(cause)) == ("invalidated", "number was invalidated at revision 2")
    assert "invalidated at revision 2" in reason(graph, "number")
    assert graph.explain("number").computed_at is None
    graph.set("number", 1)
    (cause,) = graph.explain("sign").changed_sources
    assert (cause.origin, str(cause)) == ("set", "number was set at revision 3; its value last changed at 2")


def test_what_was_computed_before_the_first_change(graph: DependencyGraph) -> None:
    graph.pull("made")
    explanation = graph.explain("made")
    assert (explanation.computed_at, explanation.verified_at, explanation.touched_at) == (0, 0, None)
    graph.set("made", 6)
    assert graph.explain("made").origin == "set"


def test_nothing_touched_a_source(graph: DependencyGraph) -> None:
    graph.pull("made")
    assert [(one.node, one.origin) for one in graph.explain("view(x)").causes] == [
        ("made", None),
        ("number", None),
        ("words", None),
    ]


def test_many_sources_are_explained_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def equal(one: ConcreteNode, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    names = [f"s{n}" for n in range(300)]
    graph = DependencyGraph([schema("sum", names, total)])
    with graph.batch():
        for name in names:
            graph.set(name, 1)
    graph.pull("sum")
    with graph.batch():
        for name in names[:150]:
            graph.set(name, 2)
    monkeypatch.setattr(ConcreteNode, "__eq__", equal)
    explanation = graph.explain("sum")
    assert len(explanation.changed_sources) == 150
    assert [one.is_newer for one in explanation.causes] == [True] * 150 + [False] * 150
    assert compared < 3000


def test_a_changed_schema(tmp_path: Path) -> None:
    def opened(version: Any) -> DependencyGraph:
        schemas = [schema("b", ["a"], total, version=version), schema("c", ["b"], total)]
        return DependencyGraph(schemas, tmp_path / "g.db")

    with opened(1) as graph:
        graph.set("a", 1)
        graph.pull("c")
    with opened(2) as graph:
        assert "schema changed at revision 2" in reason(graph, "b")
        assert [str(cause) for cause in graph.explain("c").changed_sources] == [
            "the schema of b changed at revision 2"
        ]


def test_it_computes_nothing(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.explain("view(x)")
    assert graph.materialized() == ["number"]
