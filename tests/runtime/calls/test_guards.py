"""What users do that would hurt them later is refused where it happens, and nothing is lost."""

from __future__ import annotations

import dataclasses
import operator
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict

import pydantic
import pytest

from clew import (
    END,
    Context,
    Engine,
    Graph,
    GraphState,
    RetryPolicy,
    Send,
    SQLiteStore,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.errors import EncodeError, InputError, NodeError, OutputError, RunCancelledError
from clew.state import position_of


def test_an_answer_that_the_schema_refuses_leaves_the_question_open() -> None:
    class Paper(pydantic.BaseModel):
        draft: str
        approved: bool | None = None

    @interrupt(output="approved")
    def approve(draft: str) -> str:
        return f"print {draft}?"

    engine = Engine(Graph([approve], state=Paper))
    engine.run({"draft": "x"}, run_id="r")
    with pytest.raises(
        InputError, match=r"the answer to 'approve#0' does not match 'approved': .*; answer again"
    ):
        engine.resume("r", answer={"no": 1})
    assert engine.resume("r", answer=True)["approved"] is True


def extend(current: list[int], update: list[int]) -> list[int]:
    current.extend(update)
    return current


class Growing(TypedDict, total=False):
    n: int
    found: Annotated[list[int], extend]


@pytest.mark.parametrize("items", [1, 3])
def test_a_reducer_that_edits_in_place_is_refused(items: int) -> None:
    @route(targets=["find"])
    def fan(n: int) -> list[Send]:
        return [Send("find", {"i": i}) for i in range(n)]

    @node(output="found")
    def find(i: int) -> list[int]:
        return [i]

    result = Graph([fan, find], state=Growing).run({"n": items}, check=False)
    assert isinstance(result.error, OutputError)
    assert "of 'found' modified the current value in place" in str(result.error)
    assert "return a new value" in str(result.error)


@dataclasses.dataclass
class Draft:
    topic: str
    draft: str = ""
    score: int = 0


@node(output="draft")
def write(topic: str, score: int = 0) -> str:
    return topic + "!" * (score + 1)


@node(output="score")
def judge(draft: str) -> int:
    return draft.count("!")


@ifelse(when_true=END, when_false="write")
def good(score: int) -> bool:
    return score >= 3


def test_an_instance_of_the_schema_gives_what_was_set_and_not_its_defaults() -> None:
    engine = Engine(Graph([write, judge, good], state=Draft))
    engine.run({"topic": "t"}, run_id="mapping")
    engine.run(Draft("t"), run_id="instance")
    assert engine.state("instance").digest == engine.state("mapping").digest
    assert engine.history("instance")[1].items == ("write#0",)


def test_a_pydantic_instance_gives_what_was_set() -> None:
    class Model(pydantic.BaseModel):
        topic: str
        draft: str = ""
        score: int = 0

    engine = Engine(Graph([write, judge, good], state=Model))
    engine.run(Model(topic="t"), run_id="default")
    engine.run(Model(topic="t", score=0), run_id="set")
    assert position_of(engine.state("default", 0)).given == {"topic"}
    assert position_of(engine.state("set", 0)).given == {"topic", "score"}


@node(output="y")
def t1(x: int) -> int:
    return 1


@node(output="z")
def t2(x: int) -> int:
    return 2


@route(targets=["t1", "t2", END])
def choose(x: int) -> str:
    return "t1"


def test_a_decision_recorded_by_hand_selects_its_target() -> None:
    state = (
        GraphState({"x": 1}).record_execution("choose", {"x": 0}, 0, 1.0).record_gate_decision("choose", "t2")
    )
    restored = GraphState.from_checkpoint(state.to_checkpoint())
    for each in (state, restored):
        result = Graph([choose, t1, t2]).run(each)
        assert (result.get("y"), result.get("z")) == (None, 2)


@pytest.mark.parametrize(
    "gate, target, message",
    [
        ("choose", "t9", "'choose' chose 't9', but its targets are t1, t2, END"),
        ("chose", "t1", "the graph has no such gate"),
    ],
)
def test_a_decision_recorded_by_hand_must_be_one_that_the_gate_could_make(
    gate: str, target: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Graph([choose, t1, t2]).run(GraphState({"x": 1}).record_gate_decision(gate, target))


def test_a_run_that_goes_on_after_a_confined_failure_has_an_error() -> None:
    @node(output="a")
    def bad(x: int) -> int:
        raise ValueError("boo")

    @node(output="b")
    def fine(x: int) -> int:
        return 1

    graph = Graph([bad, fine])
    state = Engine(graph, on_error="continue").run({"x": 1}).state
    result = Graph([bad, fine]).run(GraphState.from_checkpoint(state.to_checkpoint()))
    assert result.status == "completed"
    assert isinstance(result.error, NodeError)
    assert str(result.error).startswith("node 'bad' failed before the state that this run started from")


def test_a_retryable_function_that_raises_does_not_hide_the_error() -> None:
    def broken(error: BaseException) -> bool:
        raise ZeroDivisionError("in retryable")

    @node(output="y", retry=RetryPolicy(max_attempts=3, base_delay=0.01, max_delay=1, retryable=broken))
    def fails(x: int) -> int:
        raise ValueError("original")

    result = Graph([fails]).run({"x": 1}, check=False)
    assert (result.status, str(result.error)) == ("failed", "original")
    assert any("retryable raised ZeroDivisionError: in retryable" in note for note in result.error.__notes__)


def test_an_executor_that_takes_no_work_fails_the_node() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    result = Graph([t1, t2]).run({"x": 1}, executor=executor, check=False)
    assert result.status == "failed"
    assert "cannot schedule new futures" in str(result.error)


def test_an_attempt_that_is_over_makes_no_recorded_call() -> None:
    calls: list[str] = []
    go_on, ended = Event(), Event()
    caught: list[Exception] = []

    @node(output="y", timeout=1.0)  # it has begun by then
    def late(x: int, ctx: Context) -> Any:
        go_on.wait(60)
        try:
            return ctx.record("charge", calls.append, "card")
        except Exception as error:
            caught.append(error)
        finally:
            ended.set()

    assert Graph([late]).run({"x": 1}, check=False).status == "failed"
    go_on.set()
    assert ended.wait(60)
    assert (calls, caught) == ([], [])


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("catches", [Exception, BaseException])
def test_a_node_cannot_swallow_the_cancellation_of_its_run(
    tmp_path: Path, is_async: bool, catches: type[BaseException]
) -> None:
    calls: list[int] = []

    def call(number: int) -> int:
        calls.append(number)
        if number == 1 and calls.count(1) == 1:
            engine.cancel("r")
        return number

    def careful(xs: list[int], ctx: Context) -> list[Any]:
        found: list[Any] = []
        for x in xs:
            try:
                found.append(ctx.record("call", call, x))
            except catches as error:
                found.append(type(error).__name__)
        return found

    async def acareful(xs: list[int], ctx: Context) -> list[Any]:
        return careful(xs, ctx)

    graph = Graph([node(output="y")(acareful if is_async else careful)])
    engine = Engine(graph, store=SQLiteStore(tmp_path / "runs.db"))
    with pytest.raises(RunCancelledError):
        engine.run({"xs": [1, 2, 3]}, run_id="r")
    assert engine.resume("r")["y"] == [1, 2, 3]
    assert calls == [1, 2, 3]


@pytest.mark.parametrize("elements", [{"a", "b"}, {"a": 1}, iter("ab"), 3])
def test_what_is_mapped_over_has_an_order(elements: object) -> None:
    def twice(a: str) -> str:
        return a * 2

    result = Graph([Graph([twice], name="g").map_over("a")]).run({"a": elements}, check=False)
    assert isinstance(result.error, InputError)
    assert "mapped input 'a'" in str(result.error)


def test_a_state_that_sends_to_a_node_of_another_graph_is_refused() -> None:
    @route(targets=["w"])
    def fan(x: int) -> list[Send]:
        return [Send("w", {"i": x})]

    @node(output="y")
    def w(i: int) -> int:
        return i

    engine = Engine(Graph([fan, w]))
    engine.run({"x": 1}, run_id="r")
    pending = engine.state("r", 1)
    other = Graph([fan.rename(name="fan2"), w, node(lambda y: y, name="fan", output="q")])
    with pytest.raises(InputError, match="node 'w'"):
        Graph([node(lambda x: x, name="fan", output="q")]).run(pending)
    assert other.nodes


def test_a_value_that_cannot_be_stored_is_named_by_its_place_in_the_state() -> None:
    @node(output="y")
    def made(x: int) -> Any:
        return {"docs": [1, 2, {"client": object()}]}

    with pytest.raises(EncodeError, match=r"^state\.y\.docs\[2\]\.client: "):
        Graph([made]).run(x=1).state.to_checkpoint()


def test_what_was_recorded_does_not_change() -> None:
    state = GraphState({"x": 1}).record_execution("n", {"x": 0}, 1, 1.0)
    with pytest.raises(TypeError, match="recorded"):
        state.node_history["n"].input_versions["x"] = 7


def test_values_are_given_by_name() -> None:
    with pytest.raises(InputError, match="input names must be strings, got 1"):
        Graph([t1]).run({1: 2})


def test_a_stuck_node_does_not_keep_the_process_from_ending() -> None:
    program = """
import threading
from clew import Graph, node
@node(output="y", timeout=0.05)
def stuck(x):
    threading.Event().wait(600)
print(Graph([stuck]).run({"x": 1}, check=False).status)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "failed"


def test_a_wide_layer_costs_each_node_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: looking for what waits must not go through all that is due for each node that ends."""
    from clew.engine import frame

    seen: list[int] = []
    original = frame.OpenStep.waiting.fget
    assert original is not None

    def counted(level: Any) -> Any:
        if level._waiting is None:
            seen.append(len(level.working_state.due))
        return original(level)

    monkeypatch.setattr(frame.OpenStep, "waiting", property(counted))
    nodes = [node(operator.neg, name=f"n{i}", output=f"y{i}").rename(inputs={"a": "x"}) for i in range(300)]
    assert Graph(nodes).run(x=1)["y7"] == -1
    assert sum(seen) <= 300
