"""``after=all_of(...)``: what it accepts, and the graphs that it rejects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew import END, Graph, all_of, ifelse, node, route
from clew.errors import GraphError, InputError
from clew.graph.skeleton import skeleton


def worker(name: str, *, after: Any = (), **options: Any) -> Any:
    return node(lambda: name, name=name, output=f"{name}_done", after=after, **options)


def joined(after: Any) -> Graph:
    return Graph([worker("a"), worker("b"), worker("join", after=after)])


def test_the_names_of_a_join_are_kept_in_order() -> None:
    a = worker("a")
    graph = Graph([a, worker("b"), worker("join", after=all_of(a, "b"))])
    assert (graph.nodes["join"].after, graph.nodes["join"].is_join) == (("a", "b"), True)
    assert not joined(["a", "b"]).nodes["join"].is_join
    assert repr(all_of("a", "b")) == "all_of('a', 'b')"


@pytest.mark.parametrize(
    "after, said",
    [
        (all_of(), "names no node"),
        (all_of("a", "a"), "'a' twice"),
        (all_of("a", END), "END"),
        ([all_of("a"), "b"], "only item"),
        (all_of("a", 3), "expected a node"),
        (all_of("a", "bb"), "did you mean 'b'"),
        (all_of("a", "join"), "runs after itself"),
    ],
)
def test_a_wrong_join_is_rejected(after: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        joined(after)


def test_the_structure_the_description_and_the_drawing_tell_a_join_from_a_link() -> None:
    join, link = joined(all_of("a", "b")), joined(["a", "b"])
    assert join.structure_hash != link.structure_hash
    assert join.structure_hash == joined(all_of("b", "a")).structure_hash
    described = join.describe(json=True)
    assert [each["is_join"] for each in described["nodes"]] == [False, False, True]
    read = skeleton(json.loads(json.dumps(described)))
    assert (read.nodes["join"].is_join, read.structure_hash) == (True, join.structure_hash)
    assert "after all of a, b" in join.describe()
    for form in ("mermaid", "dot", "svg"):
        assert "all of" in join.draw(form)
        assert "all of" not in link.draw(form)


def test_joins_that_wait_for_each_other_are_rejected() -> None:
    with pytest.raises(GraphError, match="can never run"):
        Graph(
            [worker("a", after=all_of("c")), worker("b", after=all_of("a")), worker("c", after=all_of("b"))]
        )
    # one of them can start the loop
    Graph([worker("a", after=["c"]), worker("b", after=all_of("a")), worker("c", after=all_of("b"))])


def test_a_join_is_no_entry_of_its_own_loop() -> None:
    nodes = [worker("a", after=["join"]), worker("join", after=all_of("a"))]
    with pytest.raises(GraphError, match="entry= names 'join'"):
        Graph(nodes, entry=["join"])
    Graph(nodes, entry=["a"])


def test_a_loop_that_a_join_keeps_from_starting_is_rejected_when_its_values_are_known() -> None:
    @node(output="x", after=all_of("back"))
    def forth() -> int:
        return 1

    @node(output="y")
    def back(x: int) -> int:
        return x

    graph = Graph([forth, back])
    with pytest.raises(InputError, match="take all_of"):
        graph.run({})


def test_a_join_below_both_sides_of_a_choice_is_rejected() -> None:
    @ifelse(when_true="a", when_false="b")
    def choose(x: bool) -> bool:
        return x

    nodes = [choose, worker("a"), worker("b")]
    with pytest.raises(GraphError, match=r"instead of all_of"):
        Graph([*nodes, worker("join", after=all_of("a", "b"))])
    Graph([*nodes, worker("join", after=["a", "b"])])

    @route(targets=["a", "b"], multi=True)
    def several(x: bool) -> tuple[str, ...]:
        return ("a", "b")

    Graph([several, worker("a"), worker("b"), worker("join", after=all_of("a", "b"))])


def test_a_selection_keeps_the_sources_of_a_join() -> None:
    graph = joined(all_of("a", "b")).select("join_done")
    assert list(graph.nodes) == ["a", "b", "join"]
    assert graph.run({})["join_done"] == "join"
