"""The geometry of a graph: links, loops and their heads, back links, what is upstream, what has a say."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from clew.errors import InputError
from clew.graph import END, Graph, Node, ifelse, node, route
from clew.graph.analysis.topology import Link, Topology, links, seeds_that_count
from clew.graph.analysis.validation import topology_of

pytestmark = pytest.mark.filterwarnings("ignore::clew.errors.GraphWarning")


def n(name: str, reads: str = "", writes: str = "", **options: Any) -> Node:
    """Reads and writes are given as words; an input with a question mark has a default."""
    return node(output=tuple(writes.split()) or f"v_{name}", **options)(_function(name, reads))


def g(name: str, reads: str, *targets: Any, **options: Any) -> Node:
    return route(targets=list(targets), **options)(_function(name, reads))


def _function(name: str, reads: str) -> Any:
    words = sorted(reads.split(), key=lambda word: word.endswith("?"))
    parameters = ", ".join(word.rstrip("?") + ("=0" if word.endswith("?") else "") for word in words)
    namespace: dict[str, Any] = {}
    exec(f"def {name}({parameters}): return 0", namespace)
    return namespace[name]


def topology(*nodes: Node, given: str = "x", **options: Any) -> Topology:
    return topology_of(Graph(list(nodes), **options), frozenset(given.split()))


def names(found: Topology, mask: int) -> set[str]:
    return {name for i, name in enumerate(found.names) if mask >> i & 1}


def up(found: Topology, name: str) -> set[str]:
    return names(found, found.up(found.index[name]))


def reach(found: Topology, name: str, distance: int) -> set[str]:
    return names(found, found.reach(found.index[name], distance))


def loops(found: Topology) -> list[tuple[set[str], set[str]]]:
    """Members and heads of each loop."""
    return [({found.names[i] for i in lp.members}, {found.names[i] for i in lp.heads}) for lp in found.loops]


def back(found: Topology) -> dict[tuple[str, str], int]:
    return {(found.names[s], found.names[t]): loop for (s, t), loop in found.back.items()}


# ---- links


def test_links_are_data_control_and_gate() -> None:
    graph = Graph([n("a", "x", "v"), n("b", "v", after=["a"]), g("d", "x", "b", END)], edges=[("a", "d")])
    assert set(links(graph.nodes, graph.edges)) == {
        Link("a", "b", "data", "v"),
        Link("a", "b", "control"),
        Link("d", "b", "gate"),
        Link("a", "d", "control"),
    }


def test_a_node_has_no_links_to_itself() -> None:
    graph = Graph([n("a", "v", "v"), g("d", "x", "d", "a", END)])
    assert set(links(graph.nodes, graph.edges)) == {Link("d", "a", "gate")}


def test_the_end_is_no_target() -> None:
    graph = Graph([g("d", "x", END)])
    assert links(graph.nodes, graph.edges) == ()


def test_a_whole_state_reader_has_no_data_links() -> None:
    reader = node(name="reader", output="r", after=["a"])(lambda state: 0)
    graph = Graph([n("a", "x"), reader])
    assert links(graph.nodes, graph.edges) == (Link("a", "reader", "control"),)


# ---- heads


def test_a_graph_without_links_has_no_loops() -> None:
    assert loops(topology(n("a", "x"), n("b", "x"))) == []


def test_a_while_loop_starts_at_its_gate() -> None:
    found = topology(n("step", "k", "k"), g("more", "k", "step", END), given="k")
    assert loops(found) == [({"step", "more"}, {"more"})]
    assert back(found) == {("step", "more"): 0}


def test_a_do_while_loop_starts_at_the_node_that_the_gate_waits_for() -> None:
    found = topology(n("step", "x", "k"), g("more", "k", "step", END))
    assert loops(found) == [({"step", "more"}, {"step"})]
    assert back(found) == {("more", "step"): 0}


def test_an_entry_is_the_head_and_there_may_be_several() -> None:
    nodes = n("a", "x vc?", "va"), n("b", "va vx?", "vb"), n("c", "vb", "vc")
    assert loops(topology(*nodes, entry=["b"])) == [({"a", "b", "c"}, {"b"})]
    assert loops(topology(*nodes, entry=["b", "a"])) == [({"a", "b", "c"}, {"a", "b"})]


def test_an_entry_elsewhere_says_nothing_about_a_loop() -> None:
    found = topology(n("other", "x"), n("step", "x", "k"), g("more", "k", "step", END), entry=["other"])
    assert loops(found) == [({"step", "more"}, {"step"})]


def test_first_choice_a_candidate_that_no_gate_and_no_control_link_of_the_loop_points_to() -> None:
    found = topology(n("a", "x k?", "m"), n("b", "m", "k"), g("d", "k", "b", END))
    assert loops(found)[0] == ({"a", "b", "d"}, {"a"})


def test_second_choice_all_that_a_gate_outside_targets() -> None:
    found = topology(g("door", "x", "a", "b"), g("a", "x", "b", END), g("b", "x", "a", END))
    assert loops(found) == [({"a", "b"}, {"a", "b"})]


def test_third_choice_one_that_a_control_link_of_the_loop_points_to() -> None:
    found = topology(g("a", "x", "b", END), g("b", "x", "a", END), edges=[("a", "b")])
    assert loops(found) == [({"a", "b"}, {"b"})]


def test_fourth_choice_a_gate_fed_from_outside() -> None:
    found = topology(g("a", "q?", "b", END), g("b", "x", "a", END))
    assert loops(found) == [({"a", "b"}, {"b"})]
    found = topology(n("feed", "x", "q"), g("a", "", "b", END), g("b", "q", "a", END))
    assert loops(found) == [({"a", "b"}, {"b"})]


def test_fifth_choice_one_that_a_gate_of_the_loop_targets() -> None:
    found = topology(n("a", "", "m"), g("d", "m?", "a", END), edges=[("a", "d")])
    assert loops(found) == [({"a", "d"}, {"d"})], "a control link goes before"
    found = topology(g("d", "", "a", END), g("a", "", "d", END))
    assert loops(found) == [({"a", "d"}, {"d"})], "the first declared"


def test_a_node_that_needs_something_from_the_loop_is_no_head() -> None:
    found = topology(n("a", "vb", "va"), n("b", "x va?", "vb"))
    assert loops(found) == [({"a", "b"}, {"b"})]


def test_a_value_given_makes_a_head() -> None:
    nodes = n("a", "vb", "va"), n("b", "va", "vb")
    assert loops(topology(*nodes, given="va")) == [({"a", "b"}, {"b"})]
    assert loops(topology(*nodes, given="vb")) == [({"a", "b"}, {"a"})]


def test_a_value_bound_makes_a_head() -> None:
    graph = Graph([n("a", "vb q", "va"), n("b", "va", "vb")]).bind(vb=1)
    assert loops(topology_of(graph, frozenset({"q"}))) == [({"a", "b"}, {"a"})]


@dataclass
class Seeded:
    x: int = 0
    log: Annotated[list[int], operator.add] = field(default_factory=list)
    mode: int = 1
    made: int = 2
    bare: int | None = None


def test_schema_defaults_count_where_the_value_is_reduced_or_nobody_writes_it() -> None:
    graph = Graph([n("a", "x mode", "made"), n("b", "made", "log")], state=Seeded)
    assert seeds_that_count(graph) == {"x", "log", "mode", "bare"}
    assert seeds_that_count(Graph([n("a", "x")])) == frozenset()


def test_a_loop_that_nothing_can_start_says_what_would() -> None:
    with pytest.raises(
        InputError,
        match=r"a → b.*'va'.*'vb'",
    ):
        topology(n("a", "vb", "va"), n("b", "va", "vb"))


# ---- nested loops


NESTED = (
    n("plan", "x", "p"),
    n("work", "p", "w"),
    g("check", "w", "work", "review"),
    g("review", "w", "plan", END),
)


def test_inner_loops_are_found_behind_the_head_of_the_outer_one() -> None:
    found = topology(*NESTED)
    assert loops(found) == [({"plan", "work", "check", "review"}, {"plan"}), ({"work", "check"}, {"work"})]
    assert back(found) == {("review", "plan"): 0, ("check", "work"): 1}
    assert [lp.outer for lp in found.loops] == [(), (0,)]
    assert found.back[found.index["check"], found.index["work"]] == 1
    assert (found.index["plan"], found.index["work"]) not in found.back


def test_a_link_into_an_inner_head_from_what_wakes_the_outer_head_belongs_to_the_outer_loop() -> None:
    found = topology(
        n("plan", "x", "p"),
        n("work", "p", "w"),
        g("check", "w", "work", "plan", END),
    )
    assert loops(found)[1] == ({"work", "check"}, {"work"})
    assert back(found) == {("check", "plan"): 0, ("check", "work"): 0}


def test_two_loops_side_by_side_are_numbered_by_their_first_member() -> None:
    found = topology(n("b1", "x", "k"), g("b2", "k", "b1", END), n("a1", "x", "m"), g("a2", "m", "a1", END))
    assert [members for members, _ in loops(found)] == [{"b1", "b2"}, {"a1", "a2"}]


def test_forward_links_are_acyclic() -> None:
    found = topology(*NESTED)
    seen: set[int] = set()
    for i in range(4):
        assert i not in found.behind(i)
        seen |= found.behind(i)
    assert {found.names[i] for i in found.behind(0)} == {"work", "check", "review"}


# ---- up


def test_up_is_all_that_leads_here_along_forward_links() -> None:
    found = topology(n("a", "x"), n("b", "v_a"), n("c", "v_b"), n("other", "x"))
    assert up(found, "c") == {"a", "b"}
    assert up(found, "a") == set()


def test_on_a_loop_up_ends_at_the_head() -> None:
    found = topology(*NESTED)
    assert up(found, "plan") == set()
    assert up(found, "check") == {"plan", "work"}


def test_a_loop_that_a_node_is_not_on_counts_whole() -> None:
    found = topology(n("step", "x", "k"), g("more", "k", "step", END), n("tail", "k"))
    assert up(found, "tail") == {"step", "more"}


def test_of_nested_loops_the_outermost_foreign_one_counts() -> None:
    found = topology(*NESTED, n("report", "w"))
    assert up(found, "report") == {"plan", "work", "check", "review"}
    assert up(found, "review") == {"plan", "work", "check"}


def test_what_is_upstream_of_a_foreign_loop_is_upstream_too() -> None:
    found = topology(n("feed", "x", "f"), n("step", "f", "k"), g("more", "k", "step", END), n("tail", "k"))
    assert up(found, "tail") == {"feed", "step", "more"}


def test_a_long_chain_needs_no_recursion() -> None:
    found = topology(*(n(f"n{i}", f"v_n{i - 1}" if i else "x") for i in range(3000)))
    assert found.up(2999) == (1 << 2999) - 1


# ---- what has a say


def test_without_loops_a_node_depends_on_itself_and_what_is_upstream() -> None:
    found = topology(n("a", "x"), n("b", "v_a"), n("c", "v_b"), n("other", "x"))
    for distance in (1, 2, 50):
        assert reach(found, "c", distance) == {"a", "b", "c"}


def test_a_whole_state_reader_depends_on_everything() -> None:
    reader = node(name="reader", output="r", after=["a"])(lambda state: 0)
    found = topology(n("a", "x"), n("other", "x"), reader)
    assert reach(found, "reader", 1) == {"a", "other", "reader"}
    assert reach(found, "a", 1) == {"a"}


def test_an_eager_node_depends_on_its_sources_and_further_back_on_theirs() -> None:
    found = topology(n("a", "x"), n("b", "v_a"), n("c", "v_b"), n("log", "v_c", eager=True))
    assert reach(found, "log", 1) == {"log", "c"}
    assert reach(found, "log", 2) == {"log", "a", "b", "c"}


def test_a_head_depends_on_its_whole_loop() -> None:
    found = topology(n("step", "x", "k"), n("mid", "k", "m"), g("more", "m", "step", END))
    assert reach(found, "step", 1) == {"step", "mid", "more"}
    assert names(found, found.may_wait_for(found.index["step"])) == {"mid", "more"}


def test_what_has_a_say_widens_with_the_distance_and_no_further_than_it_can() -> None:
    found = topology(
        n("a", "x"), n("step", "v_a", "k"), g("more", "k", "step", END), n("tail", "k"), n("off", "x")
    )
    widths = [len(reach(found, "tail", distance)) for distance in range(1, 6)]
    assert widths == sorted(widths)
    assert widths[-1] == 4
    assert "off" not in reach(found, "tail", 5)


def test_an_ifelse_gate_is_a_gate() -> None:
    door = ifelse(when_true="step", when_false=END)(_function("door", "k"))
    assert loops(topology(n("step", "k", "k"), door, given="k")) == [({"step", "door"}, {"door"})]
