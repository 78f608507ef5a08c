"""The verbs of the Engine: running, and looking at runs."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Any

import pytest

from clew import Context, Engine, Graph, GraphState, MemoryStore, Send, interrupt, node, route
from clew.errors import (
    InputError,
    RunExistsError,
    RunFailedError,
    RunStateError,
    UnknownRunError,
    UnknownValueError,
)
from clew.testing import VirtualClock


@node(output="b")
def first(a: int) -> int:
    return a + 1


@node(output="c")
def second(b: int) -> int:
    return b * 10


CHAIN = Graph([first, second], name="chain")


@node(output="b")
async def afirst(a: int) -> int:
    return a + 1


ACHAIN = Graph([afirst, second], name="achain")


@node(output="broken")
def breaks(b: int) -> int:
    raise ValueError("no")


@interrupt(output="approved")
def approve(b: int) -> str:
    return f"is {b} fine?"


# -- run and arun


@pytest.mark.parametrize("graph", [CHAIN, ACHAIN])
def test_run_gives_the_values(graph: Graph) -> None:
    assert Engine(graph).run({"a": 1})["c"] == 20


@pytest.mark.parametrize("graph", [CHAIN, ACHAIN])
def test_arun_gives_the_values(graph: Graph) -> None:
    assert asyncio.run(Engine(graph).arun({"a": 1}))["c"] == 20


def test_a_run_of_nothing_gets_no_values() -> None:
    @node(output="x")
    def start() -> int:
        return 1

    assert Engine(Graph([start])).run()["x"] == 1


def test_a_run_id_is_made_up_if_none_is_given() -> None:
    engine = Engine(CHAIN)
    assert engine.run({"a": 1}).run_id != engine.run({"a": 1}).run_id


@pytest.mark.parametrize("run_id", ["", 7, True])
def test_a_run_id_is_a_string_that_is_not_empty(run_id: Any) -> None:
    with pytest.raises(InputError, match="run_id"):
        Engine(CHAIN).run({"a": 1}, run_id=run_id)


def test_a_fork_takes_no_empty_run_id() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    with pytest.raises(InputError, match="run_id"):
        engine.fork("r", run_id="")


def test_a_run_id_is_used_once() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    with pytest.raises(RunExistsError, match="run 'r' already exists"):
        engine.run({"a": 1}, run_id="r")


def test_values_may_be_an_instance_of_the_schema() -> None:
    @dataclasses.dataclass
    class State:
        a: int
        b: int = 0
        c: int = 0

    assert Engine(Graph([first, second], state=State)).run(State(a=4))["c"] == 50


def test_values_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(InputError, match=r"values must map names to values, got \[1\]"):
        Engine(CHAIN).run([1])


def test_a_state_of_another_graph_is_refused() -> None:
    state = CHAIN.run(a=1).state
    other = Graph([first.rename(name="other"), second])
    with pytest.raises(InputError, match="node 'first'"):
        Engine(other).run(state)


def test_a_state_with_values_that_the_graph_does_not_know_is_refused() -> None:
    with pytest.raises(InputError, match="the graph has no value 'z'"):
        Engine(CHAIN).run(GraphState({"a": 1, "z": 2}))


def test_running_on_from_a_finished_state_does_nothing() -> None:
    result = Engine(CHAIN).run(CHAIN.run(a=1).state)
    assert (result.status, result.metrics.total_steps, result["c"]) == ("completed", 0, 20)


# -- results


def test_a_completed_result() -> None:
    result = Engine(CHAIN).run({"a": 1}, run_id="r")
    assert result.status == "completed"
    assert result.error is None
    assert result.questions == ()
    assert dict(result.values) == {"a": 1, "b": 2, "c": 20}
    assert list(result) == ["a", "b", "c"]
    assert "c" in result
    assert "z" not in result
    assert (result.get("c"), result.get("z"), result.get("z", 5)) == (20, None, 5)
    assert (result.last_step, result.never_ran, result.provisional) == (2, {}, {})
    assert repr(result) == "<RunResult 'r': completed after 2 steps>"


def test_a_failed_run_is_returned() -> None:
    result = Engine(Graph([first, breaks])).run({"a": 1}, run_id="r", check=False)
    assert (result.status, type(result.error)) == ("failed", ValueError)
    assert repr(result) == "<RunResult 'r': failed after 1 step, error=ValueError('no')>"


def test_asking_a_failed_run_for_what_it_never_made_raises_from_the_cause() -> None:
    result = Engine(Graph([first, breaks])).run({"a": 1}, run_id="r", check=False)
    with pytest.raises(RunFailedError, match="'broken': ValueError: no") as raised:
        result["broken"]
    assert raised.value.__cause__ is result.error


def test_a_failed_run_still_gives_what_it_made() -> None:
    assert Engine(Graph([first, breaks])).run({"a": 1}, check=False)["b"] == 2


def test_asking_for_a_value_that_no_node_makes_suggests_the_nearest() -> None:
    with pytest.raises(UnknownValueError, match="'cc'; did you mean 'c'"):
        Engine(CHAIN).run({"a": 1}, run_id="r")["cc"]


def test_asking_a_waiting_run_for_a_value_says_what_it_waits_for() -> None:
    result = Engine(Graph([first, approve])).run({"a": 1}, run_id="r")
    with pytest.raises(UnknownValueError, match=r"'approved' .* approve#0"):
        result["approved"]
    assert repr(result) == "<RunResult 'r': waiting after 1 step, questions=1>"


def test_what_other_branches_finish_while_one_waits_is_provisional() -> None:
    @node(output="beside")
    def beside(b: int) -> int:
        return b + 100

    result = Engine(Graph([first, approve, beside])).run({"a": 1})
    assert (result.provisional, "beside" in result) == ({"beside": 102}, False)


def test_nodes_that_never_ran_say_what_they_lacked() -> None:
    @route(targets=["second", "late"])
    def choose(b: int) -> str:
        return "second"

    @node(output="e")
    def late(b: int) -> int:
        return b

    @node(output="d")
    def third(b: int, e: int) -> int:
        return b

    result = Engine(Graph([first, choose, second, late, third])).run({"a": 1})
    assert result.never_ran == {"late": (), "third": ("e",)}


def test_metrics_count_what_happened() -> None:
    @route(targets=["part"])
    def split(a: int) -> list[Send]:
        return [Send("part", {"n": n}) for n in range(3)]

    calls: list[int] = []

    @node(output="last", retry=2)
    def part(n: int) -> int:
        calls.append(n)
        if n == 1 and calls.count(1) == 1:
            raise ValueError
        return n

    engine = Engine(
        Graph([split, part]), on_conflict="last", queue_depth=1, max_concurrent_nodes=1, clock=VirtualClock()
    )
    metrics = engine.run({"a": 1}).metrics
    assert (metrics.total_steps, metrics.total_nodes_executed, metrics.total_retries) == (2, 5, 1)
    assert metrics.total_backpressure_blocks > 0
    assert metrics.max_queue_depth >= 1
    assert metrics.avg_step_latency_ms > 0


def test_a_run_without_steps_has_no_latency() -> None:
    assert Engine(CHAIN).run(CHAIN.run(a=1).state).metrics.avg_step_latency_ms == 0.0


# -- looking


def test_the_state_of_each_step() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    assert [dict(engine.state("r", step).values) for step in (0, 1, 2)] == [
        {"a": 1},
        {"a": 1, "b": 2},
        {"a": 1, "b": 2, "c": 20},
    ]


def test_the_latest_state_is_the_result_s() -> None:
    engine = Engine(CHAIN)
    result = engine.run({"a": 1}, run_id="r")
    assert engine.state("r") == result.state
    assert engine.state("r").digest == result.state.digest


def test_a_result_keeps_its_state_when_the_store_has_dropped_the_run() -> None:
    engine = Engine(CHAIN, store=MemoryStore(keep=0))
    result = engine.run({"a": 1}, run_id="r")
    engine.run({"a": 1})
    with pytest.raises(UnknownRunError):
        engine.state("r")
    assert result.state.get("c") == 20


def test_history_has_a_checkpoint_for_each_state() -> None:
    engine = Engine(CHAIN, seed=7)
    engine.run({"a": 1}, run_id="r")
    history = engine.history("r")
    assert [(c.run_id, c.step_id, c.items, c.rng_seed, c.label) for c in history] == [
        ("r", 0, (), 7, None),
        ("r", 1, ("first#0",), 7, None),
        ("r", 2, ("second#0",), 7, None),
    ]
    assert [dict(c.values) for c in history] == [dict(engine.state("r", k).values) for k in range(3)]
    assert [c.digest for c in history] == [engine.state("r", k).digest for k in range(3)]
    assert history[0].timestamp <= history[1].timestamp <= history[2].timestamp


def test_nested_history_shows_the_steps_of_subgraphs() -> None:
    inner = Graph([first, second], name="inner")
    engine = Engine(Graph([inner.as_node()]))
    engine.run({"a": 1}, run_id="r")
    assert engine.history("r")[1].nested == {}
    nested = engine.history("r", nested=True)[1].nested["inner#0"]
    assert [dict(c.values) for c in nested] == [{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 20}]
    assert nested[1].items == ("inner#0/first#0",)


def test_nested_history_of_a_mapped_subgraph_has_one_chain_for_each_item() -> None:
    engine = Engine(CHAIN.map_over("a"))
    engine.run({"a": [1, 2]}, run_id="r")
    nested = engine.history("r", nested=True)[1].nested
    assert {path: chain[-1].values["c"] for path, chain in nested.items()} == {
        "chain#0[0]": 20,
        "chain#0[1]": 30,
    }


def test_nested_history_goes_all_the_way_down() -> None:
    middle = Graph([CHAIN.as_node("deep"), node(lambda c: c + 1, name="more")], name="middle")
    engine = Engine(Graph([middle.as_node()]))
    engine.run({"a": 1}, run_id="r")
    outer = engine.history("r", nested=True)[1].nested
    assert list(outer) == ["middle#0"]
    assert list(outer["middle#0"][1].nested) == ["middle#0/deep#0"]


def test_a_label_names_a_step() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    checkpoint = engine.label_checkpoint("r", label="before", step=1)
    assert (checkpoint.step_id, checkpoint.label) == (1, "before")
    assert engine.state("r", "before") == engine.state("r", 1)


def test_a_label_is_for_the_latest_state_by_default() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    assert engine.label_checkpoint("r", "end").step_id == 2


def test_labelling_a_step_twice_the_same_way_changes_nothing() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    assert engine.label_checkpoint("r", "end") == engine.label_checkpoint("r", "end")


def test_a_label_stays_where_it_is() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    engine.label_checkpoint("r", "end")
    with pytest.raises(RunStateError, match="already has a label 'end'"):
        engine.label_checkpoint("r", "end", step=1)


@pytest.mark.parametrize(
    "step, told",
    [
        (3, "run 'r' has no step 3; it has steps 0 to 2"),
        (-1, "run 'r' has no step -1; it has steps 0 to 2"),
        ("end", "run 'r' has no label 'end'; its labels: 'x'"),
    ],
)
def test_a_step_that_is_not_there(step: Any, told: str) -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    engine.label_checkpoint("r", "x")
    with pytest.raises(UnknownRunError, match=told):
        engine.state("r", step)


def test_a_label_where_there_are_none() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    with pytest.raises(UnknownRunError, match="run 'r' has no label 'end'; its labels: none"):
        engine.fork("r", step="end")


@pytest.mark.parametrize(
    "verb",
    [
        "result",
        "state",
        "history",
        "scheduler_state",
        "resume",
        "fork",
        "cancel",
        "delete",
        "why",
        "label_checkpoint",
    ],
)
def test_an_unknown_run(verb: str) -> None:
    more = ["x"] if verb in ("why", "label_checkpoint") else []
    engine = Engine(CHAIN)
    with pytest.raises(UnknownRunError, match="run 'r' does not exist, and the store has no runs; check the"):
        getattr(engine, verb)("r", *more)
    engine.run({"a": 1}, run_id="another one")
    with pytest.raises(UnknownRunError, match=r"run 'r' does not exist; .*engine.runs\(\)"):
        getattr(engine, verb)("r", *more)


def test_why_names_the_change() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    assert str(engine.why("r", "c")) == (
        "'c' was written by second, which ran in step 2 (second#0) because\n"
        "  - 'b' became version 1, written by first#0 in step 1"
    )


def test_why_knows_what_happened_before_a_fork() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    engine.fork("r", values={"b": 7}, run_id="f")
    assert [reason.kind for reason in engine.why("f", "c").reasons] == ["outside"]
    assert engine.why("f", "first").path == "first#0"


def test_result_of_a_completed_run() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    result = engine.result("r")
    assert (result.status, result["c"], result.state) == ("completed", 20, engine.state("r"))


def test_result_of_a_failed_run_has_its_error() -> None:
    engine = Engine(Graph([first, breaks]))
    error = engine.run({"a": 1}, run_id="r", check=False).error
    result = engine.result("r")
    assert (result.status, result.error) == ("failed", error)
    with pytest.raises(RunFailedError):
        result["broken"]


def test_result_of_a_waiting_run_has_its_questions_and_what_is_provisional() -> None:
    @node(output="beside")
    def beside(b: int) -> int:
        return b + 100

    engine = Engine(Graph([first, approve, beside]))
    questions = engine.run({"a": 1}, run_id="r").questions
    result = engine.result("r")
    assert (result.status, result.questions, result.provisional) == ("waiting", questions, {"beside": 102})


def test_result_runs_nothing() -> None:
    calls: list[int] = []

    @node(output="x")
    def fails(a: int) -> int:
        calls.append(a)
        raise ValueError

    engine = Engine(Graph([fails]))
    engine.run({"a": 1}, run_id="r", check=False)
    engine.result("r")
    assert calls == [1]


def test_runs_are_listed_oldest_first() -> None:
    engine = Engine(Graph([first, approve]))
    engine.run({"a": 1}, run_id="one")
    engine.run({"a": 2}, run_id="two")
    engine.resume("one", answer=True)
    assert [(row.run_id, row.status) for row in engine.runs()] == [("one", "completed"), ("two", "waiting")]
    assert [row.run_id for row in engine.runs(status="waiting")] == ["two"]


def test_a_row_says_graph_and_parent() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    engine.fork("r", run_id="f")
    assert [(row.graph, row.parent) for row in engine.runs()] == [("chain", None), ("chain", "r")]


def test_a_deleted_run_is_gone() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    engine.delete("r")
    assert engine.runs() == []


# -- while it runs


def held(then: Any) -> tuple[Engine, Any]:
    """An engine whose run "r" is running; `then(engine)` is called meanwhile, in the node's own thread."""
    engine: Engine

    @node(output="x")
    def during(a: int) -> Any:
        return then(engine)

    engine = Engine(Graph([during, node(lambda a: a, name="y")]), max_concurrent_nodes=1)
    return engine, engine.run({"a": 1}, run_id="r", check=False)


def test_the_scheduler_of_a_running_run() -> None:
    _, result = held(lambda engine: engine.scheduler_state("r"))
    state = result["x"]
    assert (state.active_nodes, state.queue_depth, state.completed_steps) == (1, 1, 0)
    assert state.metrics.total_steps == 0
    (waiting,) = state.frontier
    assert (waiting.node_id, waiting.step_id, waiting.path, waiting.attempt) == ("y", 1, "y#0", 0)
    assert waiting.state == {"a": 1}


def test_the_scheduler_can_cancel() -> None:
    _, result = held(lambda engine: engine.scheduler_state("r").cancel_func())
    assert (result.status, result["x"] if "x" in result else None) == ("cancelled", None)


def test_a_run_that_ended_has_no_scheduler() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    with pytest.raises(RunStateError, match=r"run 'r' is not running in this engine \(it is completed\)"):
        engine.scheduler_state("r")


def test_a_running_run_cannot_be_deleted() -> None:
    _, result = held(lambda engine: engine.delete("r"))
    assert str(result.error) == "run 'r' is running; cancel it first"


def test_a_running_run_cannot_be_resumed() -> None:
    _, result = held(lambda engine: engine.resume("r"))
    assert str(result.error) == "run 'r' is running; wait for it, or cancel it"


def test_cancelling_a_run_that_ended_is_false() -> None:
    engine = Engine(CHAIN)
    engine.run({"a": 1}, run_id="r")
    assert engine.cancel("r") is False


def test_a_cancelled_run_is_resumed_where_it_stood() -> None:
    engine, result = held(lambda engine: engine.cancel("r"))
    assert result.status == "cancelled"
    assert engine.runs()[0].status == "cancelled"
    assert engine.resume("r")["y"] == 1


def test_closing_an_engine_cancels_what_runs() -> None:
    _, result = held(lambda engine: engine.close())
    assert result.status == "cancelled"


def test_an_engine_is_a_context_manager() -> None:
    class Closing(MemoryStore):
        closed = False

        def close(self) -> None:
            self.closed = True

    store = Closing()
    with Engine(CHAIN, store=store) as engine:
        assert engine.run({"a": 1})["c"] == 20
    assert store.closed


def test_an_engine_shows_graph_and_store() -> None:
    assert repr(Engine(CHAIN)) == "<Engine of 'chain' on MemoryStore(0 runs)>"


def test_one_engine_runs_from_several_threads() -> None:
    engine = Engine(CHAIN)
    barrier = threading.Barrier(4)
    found: list[Any] = []

    def run(a: int) -> None:
        barrier.wait()
        found.append(engine.run({"a": a})["c"])

    threads = [threading.Thread(target=run, args=(a,)) for a in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [10, 20, 30, 40]


def test_a_run_sees_its_own_id() -> None:
    @node(output="seen")
    def look(a: int, ctx: Context) -> tuple[str, int, str]:
        return ctx.run_id, ctx.step_id, ctx.path

    assert Engine(Graph([look])).run({"a": 1}, run_id="r")["seen"] == ("r", 1, "look#0")
