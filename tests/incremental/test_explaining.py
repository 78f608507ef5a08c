"""Why a node is or is not up to date, and why it was or was not computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph, schema
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


def test_a_node_that_is_not_there(graph: DependencyGraph) -> None:
    told = graph.explain("text")
    assert (told.node, told.freshness, told.revision, told.origin) == ("text", None, 0, None)
    assert told.verified_at is told.changed_at is told.computed_at is told.touched_at is None
    assert told.reason == "it was never asked for"
    assert str(told).startswith("text is not there at revision 0: it was never asked for")
    assert reason(graph, "number") == "it was never set"


def test_why_it_is_up_to_date(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.set("words", ["no", "yes"])
    assert graph.pull("text") == "yes"
    assert reason(graph, "number") == "its value was set at revision 1"
    assert reason(graph, "text") == "its value was computed at revision 2"
    graph.set("number", 2)
    graph.pull("text")
    assert reason(graph, "sign") == "it was computed at revision 3, and its value was still the one of 2"
    assert reason(graph, "text") == (
        "its value was computed at revision 2; at 3 it was not computed again, because no input had changed"
    )
    told = graph.explain("text")
    assert told.stateful
    assert told.schema == "text"
    assert told.changed_sources == ()
    assert [(cause.node, cause.touched_at, cause.changed_at) for cause in told.causes] == [
        ("number", 3, 3),
        ("words", 2, 2),
    ]
    assert str(told).splitlines() == [
        "text is up-to-date at revision 3: its value was computed at revision 2; at 3 it was not computed again, "
        "because no input had changed",
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
    told = graph.explain("text")
    assert told.freshness == "potentially-outdated"
    assert [cause.node for cause in told.changed_sources] == ["number"]
    assert told.reason == "number was touched at revision 3; its next pull computes it if an input changes"
    assert str(told.changed_sources[0]) == "number was set at revision 3; its value last changed at 1"
    graph.set("words", ["nein", "ja"])
    assert [cause.node for cause in graph.explain("text").changed_sources] == ["words", "number"]
    assert reason(graph, "text") == (
        "words was touched at revision 4, and its input words changed at revision 4, after it was verified at 2: its "
        "next pull computes it"
    )


def test_pins_and_invalidations(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.set("words", ["no", "yes"])
    graph.set("text", "perhaps")
    assert reason(graph, "text") == "its value was pinned at revision 3"
    graph.set("number", 2)
    assert reason(graph, "text") == (
        "it was pinned at revision 3; number was touched at revision 4, which ends the pin: its next pull computes it"
    )
    graph.pull("text")
    graph.invalidate("text")
    assert reason(graph, "text") == "it was invalidated at revision 5, so its next pull computes it"
    causes = {cause.node: str(cause) for cause in graph.explain("view(x)").causes}
    assert causes["text"].startswith("text was invalidated at revision 5")
    assert causes["made"] == "made was never touched"
    assert "made" not in str(graph.explain("view(x)")).split("input")[0]


def test_a_changed_schema(tmp_path: Path) -> None:
    def opened(version: Any) -> DependencyGraph:
        schemas = [schema("b", ["a"], total, version=version), schema("c", ["b"], total)]
        return DependencyGraph(schemas, tmp_path / "g.db")

    with opened(1) as graph:
        graph.set("a", 1)
        graph.pull("c")
    with opened(2) as graph:
        assert reason(graph, "b") == "its schema changed at revision 2, so its next pull computes it"
        assert [str(cause) for cause in graph.explain("c").changed_sources] == [
            "the schema of b changed at revision 2"
        ]


def test_it_computes_nothing(graph: DependencyGraph) -> None:
    graph.set("number", 1)
    graph.explain("view(x)")
    assert graph.materialized() == ["number"]
