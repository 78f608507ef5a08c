"""Going on with runs: answers, resuming after a failure, forks, and continued states."""

from __future__ import annotations

import asyncio
import dataclasses
import operator
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Context, Engine, Event, Graph, SQLiteStore, interrupt, node, route
from clew.errors import InputError, RunStateError


@interrupt(output="approved")
def approve(plan: str) -> str:
    return f"do {plan}?"


@node(output="done")
def act(plan: str, approved: bool) -> str:
    return plan if approved else "nothing"


ASKING = Graph([approve, act], name="asking")


# -- answers


def test_a_question_pauses_the_run() -> None:
    result = Engine(ASKING).run({"plan": "it"})
    (question,) = result.questions
    assert result.status == "waiting"
    assert (question.path, question.node, question.question, question.step) == (
        "approve#0",
        "approve",
        "do it?",
        1,
    )


def test_the_answer_is_the_output() -> None:
    engine = Engine(ASKING)
    engine.run({"plan": "it"}, run_id="r")
    result = engine.resume("r", answer=True)
    assert (result.status, result["approved"], result["done"]) == ("completed", True, "it")


def test_an_answer_may_be_none() -> None:
    engine = Engine(ASKING)
    engine.run({"plan": "it"}, run_id="r")
    assert engine.resume("r", answer=None)["done"] == "nothing"


def test_aresume_answers_too() -> None:
    engine = Engine(ASKING)
    engine.run({"plan": "it"}, run_id="r")
    assert asyncio.run(engine.aresume("r", answer=True))["done"] == "it"


def test_an_answered_run_ends_in_the_digest_of_the_same_answers() -> None:
    engine = Engine(ASKING)
    for run_id in ("one", "two"):
        engine.run({"plan": "it"}, run_id=run_id)
        engine.resume(run_id, answer=True)
    assert engine.state("one").digest == engine.state("two").digest


def two_questions() -> Engine:
    @interrupt(output="left")
    def ask_left(a: int) -> str:
        return "left?"

    @interrupt(output="right")
    def ask_right(a: int) -> str:
        return "right?"

    @node(output="both")
    def both(left: str, right: str) -> str:
        return left + right

    engine = Engine(Graph([ask_left, ask_right, both]))
    engine.run({"a": 1}, run_id="r")
    return engine


def test_several_questions_are_answered_by_path() -> None:
    result = two_questions().resume("r", answers={"ask_left#0": "l", "ask_right#0": "r"})
    assert result["both"] == "lr"


def test_several_questions_are_answered_one_after_the_other() -> None:
    engine = two_questions()
    result = engine.resume("r", answers={"ask_right#0": "r"})
    assert [question.path for question in result.questions] == ["ask_left#0"]
    assert engine.resume("r", answer="l")["both"] == "lr"


def test_one_answer_for_several_questions_is_refused() -> None:
    with pytest.raises(
        RunStateError, match=r"asks several questions \(ask_left#0: 'left\?'; ask_right#0: 'right\?'\)"
    ):
        two_questions().resume("r", answer="x")


def test_answer_and_answers_at_once_are_refused() -> None:
    engine = Engine(ASKING)
    engine.run({"plan": "it"}, run_id="r")
    with pytest.raises(RunStateError, match="answers="):
        engine.resume("r", answer=True, answers={"approve#0": True})


def test_a_node_asks_twice() -> None:
    @node(output="name")
    def ask(a: int, ctx: Context) -> str:
        return f"{ctx.interrupt('first?')} {ctx.interrupt('last?')}"

    engine = Engine(Graph([ask]))
    first = engine.run({"a": 1}, run_id="r")
    second = engine.resume("r", answer="Ada")
    assert [q.question for q in (*first.questions, *second.questions)] == ["first?", "last?"]
    assert [q.number for q in (*first.questions, *second.questions)] == [0, 1]
    assert engine.resume("r", answer="Lovelace")["name"] == "Ada Lovelace"


@pytest.mark.parametrize("beside", [False, True])
def test_an_async_node_asks(beside: bool) -> None:
    @node(output="name")
    async def ask(a: int, ctx: Context) -> Any:
        return ctx.interrupt("who?")

    @node(output="y")
    async def other(a: int) -> int:
        return a

    engine = Engine(Graph([ask, other] if beside else [ask]))
    assert engine.run({"a": 1}, run_id="r").status == "waiting"
    assert engine.resume("r", answer="Ada")["name"] == "Ada"


def test_a_node_asks_on_a_thread() -> None:
    @node(output="name", timeout=60)
    def ask(a: int, ctx: Context) -> Any:
        return ctx.interrupt("who?")

    engine = Engine(Graph([ask]))
    assert engine.run({"a": 1}, run_id="r").status == "waiting"
    assert engine.resume("r", answer="Ada")["name"] == "Ada"


def test_a_node_that_asks_does_not_call_again_what_it_recorded() -> None:
    calls: list[int] = []

    @node(output="name")
    def ask(a: int, ctx: Context) -> tuple[int, str]:
        return ctx.record("draw", lambda: calls.append(1) or len(calls)), ctx.interrupt("who?")

    engine = Engine(Graph([ask]))
    engine.run({"a": 1}, run_id="r")
    assert (engine.resume("r", answer="Ada")["name"], calls) == ((1, "Ada"), [1])


def test_no_node_that_finished_runs_again() -> None:
    calls: Counter[str] = Counter()

    @node(output="beside")
    def beside(plan: str) -> int:
        calls["beside"] += 1
        return 1

    engine = Engine(Graph([approve, act, beside]))
    engine.run({"plan": "it"}, run_id="r")
    engine.resume("r", answer=True)
    assert calls == {"beside": 1}


# -- resuming


def test_resume_of_a_finished_run_is_its_result() -> None:
    calls: list[int] = []

    @node(output="b")
    def once(a: int) -> int:
        calls.append(a)
        return a + 1

    engine = Engine(Graph([once]))
    engine.run({"a": 1}, run_id="r")
    result = engine.resume("r")
    assert (result.status, result["b"], calls) == ("completed", 2, [1])


@pytest.mark.parametrize("workers", [1, 8])
def test_resume_runs_the_failed_items_again_and_nothing_else(workers: int) -> None:
    calls: Counter[str] = Counter()
    broken = True

    @node(output="x")
    def good(a: int) -> int:
        calls["good"] += 1
        return a

    @node(output="y")
    def bad(a: int) -> int:
        calls["bad"] += 1
        if broken:
            raise OSError("down")
        return a

    @node(output="z")
    def after(x: int, y: int) -> int:
        calls["after"] += 1
        return x + y

    engine = Engine(Graph([good, bad, after]), max_concurrent_nodes=workers)
    assert engine.run({"a": 1}, run_id="r", check=False).status == "failed"
    assert engine.resume("r", check=False).status == "failed"
    broken = False
    assert engine.resume("r")["z"] == 2
    assert calls == {"good": 1, "bad": 3, "after": 1}


def test_a_resumed_run_ends_as_the_unbroken_one() -> None:
    fail = True

    @node(output="x")
    def draw(a: int, ctx: Context) -> float:
        return ctx.random.random()

    @node(output="y")
    def bad(x: float, ctx: Context) -> float:
        if fail:
            raise OSError
        return ctx.random.random()

    graph = Graph([draw, bad])
    engine = Engine(graph, seed=3)
    engine.run({"a": 1}, run_id="broken", check=False)
    fail = False
    engine.resume("broken")
    engine.run({"a": 1}, run_id="unbroken")
    assert [c.digest for c in engine.history("broken")] == [c.digest for c in engine.history("unbroken")]


def test_a_confined_failure_is_still_there_after_resume() -> None:
    @node(output="x")
    def bad(a: int) -> int:
        raise OSError("down")

    @node(output="y")
    def good(a: int) -> int:
        return a

    engine = Engine(Graph([bad, good]), on_error="continue")
    first = engine.run({"a": 1}, run_id="r")
    again = engine.resume("r")
    assert (first.status, again.status, again["y"], again.error) == ("completed", "completed", 1, first.error)


def test_a_resumed_run_is_running_meanwhile() -> None:
    seen: list[str] = []
    engine: Engine

    @node(output="x")
    def look(a: int, ctx: Context) -> int:
        seen.append(engine.runs()[0].status)
        if len(seen) == 1:
            raise ValueError
        return a

    engine = Engine(Graph([look]))
    engine.run({"a": 1}, run_id="r", check=False)
    engine.resume("r")
    assert seen == ["running", "running"]


# -- forks


def counting() -> tuple[Engine, Counter[str]]:
    calls: Counter[str] = Counter()

    @node(output="b")
    def first(a: int) -> int:
        calls["first"] += 1
        return a + 1

    @node(output="c")
    def second(b: int, k: int = 10) -> int:
        calls["second"] += 1
        return b * k

    engine = Engine(Graph([first, second]))
    engine.run({"a": 1}, run_id="r")
    calls.clear()
    return engine, calls


@pytest.mark.parametrize(
    "step, values, c, ran",
    [
        (0, {"a": 5}, 60, {"first": 1, "second": 1}),
        (1, {"a": 5}, 60, {"first": 1, "second": 1}),
        (1, {"b": 7}, 70, {"second": 1}),
        (2, {"k": 3}, 6, {"second": 1}),
        (2, {"c": 0}, 0, {}),
        (1, None, 20, {"second": 1}),
        (None, {"b": 7}, 70, {"second": 1}),
    ],
)
def test_a_fork_runs_what_reads_the_changed_values(
    step: Any, values: Any, c: int, ran: dict[str, int]
) -> None:
    engine, calls = counting()
    assert (engine.fork("r", step=step, values=values)["c"], dict(calls)) == (c, ran)


def test_a_fork_leaves_its_parent_alone() -> None:
    engine, _ = counting()
    engine.fork("r", step=0, values={"a": 5}, run_id="f")
    assert (engine.state("r").get("c"), engine.state("f").get("c")) == (20, 60)


def test_a_fork_keeps_the_seed() -> None:
    @node(output="x")
    def draw(a: int, ctx: Context) -> float:
        return ctx.random.random()

    engine = Engine(Graph([draw]))
    drawn = engine.run({"a": 1}, run_id="r")["x"]
    assert engine.fork("r", step=0, run_id="f")["x"] == drawn
    assert engine.run({"a": 1}, run_id="other")["x"] != drawn


def test_a_fork_of_a_fork_goes_on_where_it_was_taken() -> None:
    engine, _ = counting()
    engine.fork("r", step=1, values={"b": 7}, run_id="f")
    assert [c.step_id for c in engine.history("f")] == [1, 2]
    assert engine.fork("f", step=1, values={"b": 8})["c"] == 80


def test_a_fork_from_a_label() -> None:
    engine, _ = counting()
    engine.label_checkpoint("r", "half", step=1)
    assert engine.fork("r", step="half", values={"b": 7})["c"] == 70


def test_afork() -> None:
    engine, _ = counting()
    assert asyncio.run(engine.afork("r", step=0, values={"a": 5}, run_id="f"))["c"] == 60
    assert engine.runs()[1].run_id == "f"


def test_a_fork_of_a_waiting_run_can_answer_otherwise() -> None:
    engine = Engine(ASKING)
    engine.run({"plan": "it"}, run_id="r")
    result = engine.fork("r", values={"plan": "that"}, run_id="f")
    assert result.questions[0].question == "do that?"
    assert engine.resume("f", answer=True)["done"] == "that"


def test_a_fork_with_an_unknown_value_is_refused() -> None:
    engine, _ = counting()
    with pytest.raises(InputError, match="the graph has no value 'z'"):
        engine.fork("r", values={"z": 1})


class Typed(TypedDict):
    a: int
    b: int


def test_a_fork_with_a_value_that_the_schema_does_not_declare_is_refused() -> None:
    engine = Engine(Graph([node(lambda a: a, name="b")], state=Typed))
    engine.run({"a": 1}, run_id="r")
    for change in (engine.fork, engine.rerun):
        with pytest.raises(InputError, match="did you mean 'a'"):
            change("r", values={"aa": 1})
    engine.run({"a": 1}, thread="t")
    with pytest.raises(InputError, match="did you mean 'a'"):
        engine.run({"aa": 1}, thread="t")


def test_a_fork_with_a_value_that_the_schema_refuses() -> None:
    import pydantic

    class Model(pydantic.BaseModel):
        a: int
        b: int = 0

    engine = Engine(Graph([node(lambda a: a + 1, name="b")], state=Model))
    engine.run({"a": 1}, run_id="r")
    assert engine.fork("r", values={"a": 5})["b"] == 6
    with pytest.raises(InputError, match="fork of 'r'"):
        engine.fork("r", values={"a": "many"})


# -- a chat: one value that the node reads and writes


@node(output="messages")
def reply(messages: list[str]) -> list[str]:
    return [*messages, f"re: {messages[-1]}"]


CHAT = Graph([reply], name="chat")


def test_a_chat_replies_once() -> None:
    assert CHAT.run(messages=["hi"])["messages"] == ["hi", "re: hi"]


def test_a_chat_is_continued_by_setting_the_state() -> None:
    state = CHAT.run(messages=["hi"]).state
    said = CHAT.run(state.set("messages", [*state.get("messages"), "bye"]))
    assert said["messages"] == ["hi", "re: hi", "bye", "re: bye"]


def test_a_chat_is_continued_by_a_fork() -> None:
    engine = Engine(CHAT)
    result = engine.run({"messages": ["hi"]}, run_id="r")
    said = engine.fork("r", values={"messages": [*result["messages"], "bye"]})
    assert said["messages"] == ["hi", "re: hi", "bye", "re: bye"]


def test_a_chat_with_a_reducer_is_continued_by_a_fork() -> None:
    @dataclasses.dataclass
    class State:
        messages: Annotated[list[str], operator.add]

    @node(output="messages")
    def answer(messages: list[str]) -> list[str]:
        return [f"re: {messages[-1]}"]

    engine = Engine(Graph([answer], state=State))
    result = engine.run({"messages": ["hi"]}, run_id="r")
    said = engine.fork("r", values={"messages": [*result["messages"], "bye"]})
    assert said["messages"] == ["hi", "re: hi", "bye", "re: bye"]


def test_a_loop_is_continued_by_setting_what_its_gate_reads() -> None:
    @node(output="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def enough(n: int, limit: int) -> Any:
        return END if n >= limit else "up"

    graph = Graph([up, enough])
    state = graph.run(n=0, limit=3).state
    assert state.get("n") == 3
    assert graph.run(state.set("limit", 5))["n"] == 5


def test_a_run_that_ended_with_confined_failures_is_returned_unchanged(tmp_path: Path) -> None:
    @node(output="b")
    def bad(a: int) -> int:
        raise ValueError("no")

    @node(output="c")
    def good(a: int) -> int:
        return a

    events: list[Event] = []
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(Graph([bad, good]), store=store, on_error="continue", listeners=[events.append])
    first = engine.run({"a": 1}, run_id="r")
    before, heard = store.row("r"), len(events)
    again = engine.resume("r")
    assert (again.status, again.values, again.metrics) == ("completed", first.values, first.metrics)
    assert (store.row("r").updated, store.entries("r")[-1].kind, len(events)) == (
        before.updated,
        "step",
        heard,
    )
    assert engine.result("r").metrics == first.metrics
