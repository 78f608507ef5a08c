"""What is wrong with a graph is said when it is built."""

from __future__ import annotations

import dataclasses
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from clew import append
from clew.errors import GraphError, GraphWarning
from clew.graph import END, Command, Graph, Node, Send, ifelse, interrupt, node, route
from clew.graph.analysis.validation import topology_of
from tests.messages import mentions


def make(name: str, *inputs: str, output: Any = None, **options: Any) -> Node:
    """A node that reads ``inputs`` and writes ``output``, by default a value of its name in lower case."""
    func = eval(f"lambda {', '.join(inputs)}: None")
    return node(func, name=name, output=name.lower() if output is None else output, **options)


def gate(name: str, *inputs: str, targets: Any, **options: Any) -> Node:
    func = eval(f"lambda {', '.join(inputs)}: None")
    return route(targets=targets, name=name, **options)(func)


def switch(name: str, *inputs: str, targets: tuple[Any, Any]) -> Node:
    func = eval(f"lambda {', '.join(inputs)}: True")
    return ifelse(when_true=targets[0], when_false=targets[1], name=name)(func)


def refused(build: Callable[[], Graph]) -> str:
    with pytest.raises(GraphError) as caught:
        build()
    return str(caught.value)


class TestNames:
    def test_a_graph_has_nodes(self) -> None:
        assert "at least one node" in refused(lambda: Graph([]))

    def test_a_gate_to_nowhere(self) -> None:
        nodes = [make("search"), gate("decide", targets=["serach", END])]
        assert mentions(refused(lambda: Graph(nodes)), "'decide'", "'serach'", "'search'")

    def test_a_command_to_nowhere(self) -> None:
        nodes = [make("search"), make("triage", goto=["zzz"])]
        assert mentions(refused(lambda: Graph(nodes)), "'triage'", "'zzz'", "'search'", "'triage'")

    def test_after_nobody(self) -> None:
        nodes = [make("search"), make("write", after="serach")]
        assert mentions(refused(lambda: Graph(nodes)), "'write'", "'serach'", "'search'")

    def test_after_itself(self) -> None:
        nodes = [make("write", after="write")]
        assert mentions(refused(lambda: Graph(nodes)), "'write'", "after=")

    def test_an_edge_from_nowhere(self) -> None:
        nodes = [make("search"), make("write")]
        assert mentions(refused(lambda: Graph(nodes, edges=[("serach", "write")])), "'serach'", "'search'")

    def test_an_edge_to_nowhere(self) -> None:
        nodes = [make("search"), make("write")]
        assert mentions(
            refused(lambda: Graph(nodes, edges=[("search", "wirte")])), "'search'", "'wirte'", "'write'"
        )

    def test_an_edge_to_the_end(self) -> None:
        nodes = [make("search")]
        assert mentions(refused(lambda: Graph(nodes, edges=[("search", END)])), "'search'", "END")

    def test_an_edge_to_itself(self) -> None:
        nodes = [make("search")]
        assert mentions(refused(lambda: Graph(nodes, edges=[("search", "search")])), "'search'")

    def test_an_unknown_entry(self) -> None:
        nodes = [make("search")]
        assert mentions(refused(lambda: Graph(nodes, entry="serach")), "entry=", "'serach'", "'search'")

    def test_a_gate_may_choose_itself(self) -> None:
        Graph([gate("again", "x", targets=["again", END])])


@dataclasses.dataclass
class State:
    query: str = ""
    docs: list[str] = dataclasses.field(default_factory=list)
    log: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)


class TestSchema:
    def test_an_output_that_is_not_declared(self) -> None:
        assert mentions(
            refused(lambda: Graph([make("f", output="dosc")], state=State)), "'f'", "'dosc'", "'docs'"
        )

    def test_an_input_that_is_neither_declared_nor_bound(self) -> None:
        graph = Graph([make("f", "queries", output="docs")], state=State)
        with pytest.raises(GraphError) as caught:
            topology_of(graph)
        assert mentions(str(caught.value), "'f'", "'queries'", "'query'")

    def test_an_input_that_is_bound(self) -> None:
        graph = Graph([make("f", "client", output="docs")], state=State).bind(client=object())
        assert topology_of(graph).names == ("f",)

    def test_an_input_with_a_default_need_not_be_declared(self) -> None:
        assert topology_of(Graph([make("f", "k=3", output="docs")], state=State)).names == ("f",)

    def test_an_input_that_a_gate_may_send_need_not_be_declared(self) -> None:
        graph = Graph(
            [make("scan", "part", output="docs"), gate("fan", "query", targets=["scan"])], state=State
        )
        assert topology_of(graph).names == ("scan", "fan")

    def test_an_input_that_a_gate_cannot_send_must_be_declared(self) -> None:
        nodes = [make("scan", "part", output="docs"), switch("good", "query", targets=("scan", END))]
        with pytest.raises(GraphError, match=r"'scan'.*'part'"):
            topology_of(Graph(nodes, state=State))


class TestWholeState:
    def test_a_whole_state_node_that_nothing_points_to(self) -> None:
        nodes = [make("retrieve", "query", output="docs"), make("plan", "state", output="steps")]
        assert mentions(refused(lambda: Graph(nodes)), "'plan'", "'retrieve'", "edges=", "after=", "entry=")

    def test_a_whole_state_gate_that_nothing_points_to(self) -> None:
        nodes = [make("retrieve", "query"), make("a", "x"), gate("choose", "state", targets=["a"])]
        assert "'choose' reads the whole state" in refused(lambda: Graph(nodes))

    def test_a_context_is_no_state(self) -> None:
        Graph([make("retrieve", "query"), make("clock", "ctx")])

    @pytest.mark.parametrize("options", [{"edges": [("retrieve", "plan")]}, {"entry": "plan"}])
    def test_an_edge_or_an_entry_points_to_it(self, options: dict[str, Any]) -> None:
        Graph([make("retrieve", "query"), make("plan", "state")], **options)

    def test_after_points_to_it(self) -> None:
        Graph([make("retrieve", "query"), make("plan", "state", after="retrieve")])

    def test_a_gate_points_to_it(self) -> None:
        Graph([make("retrieve", "query"), gate("go", "retrieve", targets=["plan"]), make("plan", "state")])

    def test_an_input_of_its_own_wakes_it(self) -> None:
        Graph([make("retrieve", "query"), make("plan", "state", "retrieve")])

    def test_the_first_of_a_chain_of_edges(self) -> None:
        Graph([make("a", "state"), make("b", "state"), make("other", "x")], edges=[("a", "b")])

    def test_one_that_everything_else_follows(self) -> None:
        Graph([make("a", "state"), make("b", "a")])

    def test_the_only_node(self) -> None:
        Graph([make("a", "state")])

    def test_nobody_else_writes(self) -> None:
        Graph([make("a", "state"), node(lambda x: None, name="log", writes=())])


class TestProducers:
    def test_two_producers_of_one_value(self) -> None:
        nodes = [make("a", "x", output="answer"), make("b", "x", output="answer")]
        assert mentions(refused(lambda: Graph(nodes)), "'answer'", "'a'", "'b'", "after=")

    def test_a_reduced_value_may_have_many(self) -> None:
        Graph([make("a", "query", output="log"), make("b", "query", output="log")], state=State)

    def test_a_declared_value_without_reducer_may_not(self) -> None:
        nodes = [make("a", "query", output="docs"), make("b", "query", output="docs")]
        assert mentions(refused(lambda: Graph(nodes, state=State)), "'docs'", "'a'", "'b'")

    @pytest.mark.parametrize("first", ["a", "b"])
    def test_one_upstream_of_the_other(self, first: str) -> None:
        second = {"a": "b", "b": "a"}[first]
        nodes = [make("a", "x", output="answer"), make("b", "x", output="answer")]
        Graph(nodes, edges=[(first, second)])

    def test_the_targets_of_a_gate(self) -> None:
        Graph([
            make("a", "x", output="answer"),
            make("b", "x", output="answer"),
            gate("choose", "x", targets=["a", "b"]),
        ])  # fmt: skip

    def test_the_targets_of_an_ifelse_in_either_order(self) -> None:
        Graph([
            make("a", "x", output="answer"),
            make("b", "x", output="answer"),
            switch("choose", "x", targets=("b", "a")),
        ])  # fmt: skip

    def test_the_targets_of_a_gate_that_may_choose_several(self) -> None:
        nodes = [
            make("a", "x", output="answer"),
            make("b", "x", output="answer"),
            gate("choose", "x", targets=["a", "b"], multi=True),
        ]
        assert mentions(refused(lambda: Graph(nodes)), "'answer'", "'a'", "'b'")

    def test_what_hangs_on_the_targets_of_a_gate_by_data(self) -> None:
        Graph([
            gate("choose", "x", targets=["a", "b", END]),
            make("a", "x"), make("a2", "a", output="answer"),
            make("b", "x"), make("b2", "b", output="answer"),
        ])  # fmt: skip

    def test_what_hangs_on_the_targets_of_a_gate_by_control(self) -> None:
        Graph([
            gate("choose", "x", targets=["a", "b"]),
            make("a", "x"), make("a2", "x", output="answer", after="a"),
            make("b", "x"), make("b2", "x", output="answer", after="b"),
        ])  # fmt: skip

    def test_what_only_may_read_from_a_target_does_not_hang_on_it(self) -> None:
        nodes = [
            gate("choose", "x", targets=["a", "b"]),
            make("a", "x"), make("a2", "a=0", output="answer"),
            make("b", "x"), make("b2", "b", output="answer"),
        ]  # fmt: skip
        assert mentions(refused(lambda: Graph(nodes)), "'answer'", "'a2'", "'b2'")

    def test_a_target_that_something_else_wakes_is_not_exclusive(self) -> None:
        nodes = [
            gate("choose", "x", targets=["a", "b"]),
            gate("other", "x", targets=["a", END]),
            make("a", "x", output="answer"), make("b", "x", output="answer"),
        ]  # fmt: skip
        assert mentions(refused(lambda: Graph(nodes)), "'answer'", "'a'", "'b'")

    def test_a_target_with_a_retry_of_its_own_is_exclusive(self) -> None:
        Graph([
            gate("choose", "x", targets=["a", "b"]),
            make("a", "x", output="answer"), gate("retry", "answer", "x", targets=["a", END], after="a"),
            make("b", "x", output="answer"),
        ], edges=[])  # fmt: skip

    def test_a_third_producer_beside_two_exclusive_ones(self) -> None:
        nodes = [
            gate("choose", "x", targets=["a", "b"]),
            make("a", "x", output="answer"), make("b", "x", output="answer"), make("c", "x", output="answer"),
        ]  # fmt: skip
        assert mentions(refused(lambda: Graph(nodes)), "'answer'", "'a'", "'c'")


def choose(x: int) -> str:
    return "a"


def fan(x: int) -> list[Send] | str:
    return "a"


class TestJoins:
    NODES = (make("a", "x"), make("b", "x"))

    @pytest.mark.parametrize(
        "chooser",
        [
            pytest.param(switch("choose", "x", targets=("a", "b")), id="ifelse"),
            pytest.param(route(targets=["a", "b"])(choose), id="route"),
        ],
    )
    def test_a_join_of_both_sides_of_a_choice(self, chooser: Node) -> None:
        assert mentions(
            refused(lambda: Graph([*self.NODES, chooser, make("both", "a", "b"), make("more", "both")])),
            "'both'",
            "'choose'",
        )

    def test_a_join_with_a_default(self) -> None:
        Graph([*self.NODES, switch("choose", "x", targets=("a", "b")), make("both", "a", "b=0")])

    def test_a_join_of_a_gate_that_may_send(self) -> None:
        Graph([*self.NODES, route(targets=["a", "b"])(fan), make("both", "a", "b")])

    def test_a_join_of_a_gate_that_may_choose_several(self) -> None:
        Graph([*self.NODES, route(targets=["a", "b"], multi=True)(choose), make("both", "a", "b")])

    def test_a_join_of_a_choice_that_is_made_again(self) -> None:
        Graph([
            make("a", "x"), make("b", "x"), make("both", "a", "b"),
            switch("choose", "x", "both=0", targets=("a", "b")),
        ])  # fmt: skip

    def test_a_join_of_what_a_command_chooses(self) -> None:
        Graph([*self.NODES, make("choose", "x", goto=["a", "b"]), make("both", "a", "b")])


class TestCycles:
    def test_a_cycle_that_nothing_ends(self) -> None:
        with pytest.warns(GraphWarning) as caught:
            Graph([make("a", "b=0"), make("b", "a"), make("c", "b")])
        assert len(caught) == 1
        assert mentions(str(caught[0].message), "'a', 'b'", "max_steps", "cutoff=True")

    def test_the_warning_points_to_where_the_graph_is_built(self) -> None:
        with pytest.warns(GraphWarning) as caught:
            Graph([make("a", "b=0"), make("b", "a")])
        assert caught[0].filename == __file__

    @pytest.fixture(autouse=True)
    def _warnings_are_errors(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield

    def test_a_cutoff_ends_it(self) -> None:
        Graph([make("a", "b=0", cutoff=True), make("b", "a")])

    def test_a_gate_on_the_loop_ends_it(self) -> None:
        Graph([make("a", "b=0"), make("b", "a"), gate("go", "b", targets=["a", END])])

    def test_a_gate_on_the_loop_that_targets_another_node_ends_it(self) -> None:
        Graph([make("a", "b=0", "c=0"), make("b", "a"), make("c", "x"), gate("go", "b", targets=["c", END])])

    def test_a_gate_in_front_of_the_loop_ends_it(self) -> None:
        Graph([make("a", "b=0"), make("b", "a"), gate("go", "x", targets=["a"])])

    def test_a_reducer_on_the_loop(self) -> None:
        Graph([make("a", "docs", output="log"), make("b", "log", output="docs")], state=State)

    def test_a_node_that_feeds_itself_runs_once(self) -> None:
        Graph([make("count", "count=0")])


def typed(name: str, returns: Any, **options: Any) -> Node:
    def func() -> Any: ...

    func.__annotations__["return"] = returns
    return node(func, name=name, **options)


def reader(wanted: Any) -> Node:
    def read(value): ...

    read.__annotations__["value"] = wanted
    return node(read)


class TestTypes:
    def test_a_producer_and_a_consumer_that_clash(self) -> None:
        nodes = [typed("p", list[str], output="value"), reader(list[int])]
        assert mentions(refused(lambda: Graph(nodes, strict_types=True)), "'p'", "'value'", "'read'")

    def test_types_are_not_compared_unless_asked_for(self) -> None:
        Graph([typed("p", list[str], output="value"), reader(list[int])])

    def test_a_producer_and_a_consumer_that_agree(self) -> None:
        Graph([typed("p", bool, output="value"), reader(int | None)], strict_types=True)

    def test_one_of_a_tuple_of_outputs(self) -> None:
        nodes = [typed("p", tuple[int, str], output=("other", "value")), reader(int)]
        assert mentions(refused(lambda: Graph(nodes, strict_types=True)), "'p'", "'value'", "'read'")

    @pytest.mark.parametrize(
        "producer",
        [
            pytest.param(typed("p", tuple[int, ...], output=("a", "b", "value")), id="tuple of any length"),
            pytest.param(typed("p", dict[str, str], writes=("value",)), id="partial update"),
            pytest.param(typed("p", Command, output="value", goto=[END]), id="command"),
            pytest.param(interrupt(output="value", name="p")(lambda: "?"), id="interrupt"),
            pytest.param(node(lambda: (yield 1), name="p", output="value"), id="generator"),
        ],
    )
    def test_what_cannot_be_known_passes(self, producer: Node) -> None:
        Graph([producer, reader(int)], strict_types=True)

    def test_a_producer_that_clashes_with_the_schema(self) -> None:
        nodes = [typed("p", int, output="query")]
        assert mentions(refused(lambda: Graph(nodes, state=State, strict_types=True)), "'p'", "'query'")

    def test_an_update_of_a_reduced_value_is_not_compared(self) -> None:
        Graph([typed("p", int, output="log")], state=State, strict_types=True)

    def test_a_consumer_that_clashes_with_the_schema(self) -> None:
        nodes = [reader(int).rename(inputs={"value": "query"}, outputs={"read": "docs"})]
        assert mentions(refused(lambda: Graph(nodes, state=State, strict_types=True)), "'read'", "'query'")

    def test_a_consumer_that_agrees_with_the_schema(self) -> None:
        Graph(
            [
                typed("p", str, output="query"),
                reader(str).rename(inputs={"value": "query"}, outputs={"read": "docs"}),
            ],
            state=State,
            strict_types=True,
        )


def test_strict_types_leave_what_is_reduced_to_its_reducer() -> None:
    class Reduced(TypedDict, total=False):
        x: int
        log: Annotated[list[str], append]
        y: int

    def add(x: int) -> str:
        return "one"

    def make(x: int) -> int:
        return x

    nodes = [node(add, output="log"), node(make, output="y")]
    assert Graph(nodes, state=Reduced, strict_types=True).run(x=1)["log"] == ["one"]
