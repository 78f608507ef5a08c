"""`mark_terminated` stops a run for good; a gate's END ends one path. Both read as `terminated`."""

from __future__ import annotations

from clew import END, Engine, Graph, GraphState, ifelse, node, route
from clew.state import position_of
from clew.stores import Store
from tests.store_fixtures import local_store

store = local_store


def counting(calls: list[int]) -> Graph:
    @node(output="n")
    def add(n: int) -> int:
        calls.append(n)
        return n + 1

    @ifelse(when_true="add", when_false=END)
    def more(n: int) -> bool:
        return n < 3

    return Graph([add, more])


def test_a_marked_state_runs_nothing(store: Store) -> None:
    calls: list[int] = []
    engine = Engine(counting(calls), store=store)
    engine.run({"n": 0}, run_id="r")
    calls.clear()
    marked = engine.state("r", step=2).mark_terminated()
    result = engine.run(marked, run_id="s")
    assert (result.status, result.last_step, calls, result["n"]) == ("completed", 2, [], 1)
    assert result.state.terminated
    assert engine.state("s").terminated
    assert engine.frontier("s") == []


def test_a_new_state_can_be_marked_too(store: Store) -> None:
    calls: list[int] = []
    result = Engine(counting(calls), store=store).run(GraphState({"n": 0}).mark_terminated())
    assert (result.status, result.last_step, calls) == ("completed", 0, [])


def test_a_checkpoint_keeps_the_mark() -> None:
    calls: list[int] = []
    graph = counting(calls)
    state = GraphState.from_checkpoint(GraphState({"n": 0}).mark_terminated().to_checkpoint())
    assert state.terminated
    assert graph.run(state).last_step == 0
    assert calls == []


def test_writes_and_decisions_by_hand_and_forks_keep_the_mark(store: Store) -> None:
    calls: list[int] = []
    engine = Engine(counting(calls), store=store)
    marked = GraphState({"n": 0}).mark_terminated()
    engine.run(marked, run_id="r")
    for state in (
        marked.set("n", 1),
        marked.set_multiple({"n": 1}),
        marked.record_gate_decision("more", "add"),
    ):
        assert engine.run(state).last_step == 0
    forked = engine.fork("r", values={"n": 2}, run_id="f")
    assert (forked.status, forked.last_step, forked["n"], forked.state.terminated) == (
        "completed",
        0,
        2,
        True,
    )
    assert calls == []
    assert engine.resume("f").state.terminated
    assert calls == []


def test_a_marked_state_with_a_selected_node_that_lacks_an_input_is_no_stall() -> None:
    @route(targets=["work"])
    def door(n: int) -> str:
        return "work"

    @node(output="m")
    def work(more: int) -> int:
        return more

    state = GraphState({"n": 1}).record_gate_decision("door", "work")
    graph = Graph([door, work])
    assert graph.run(state.mark_terminated()).status == "completed"
    assert graph.run(state, check=False).status == "failed"


def test_end_sets_no_mark(store: Store) -> None:
    calls: list[int] = []
    engine = Engine(counting(calls), store=store)
    state = engine.run({"n": 0}, run_id="r").state
    assert state.terminated
    assert not position_of(state).stopped
    assert not position_of(engine.state("r")).stopped
    calls.clear()
    result = engine.fork("r", values={"n": 1})
    assert (result.status, calls[-1], result["n"]) == ("completed", 2, 3)  # it runs on


def test_a_mark_is_part_of_what_identifies_a_state() -> None:
    state = GraphState({"n": 0})
    assert state.digest != state.mark_terminated().digest
    assert state != state.mark_terminated()
