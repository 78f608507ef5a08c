"""Replay: today's code against yesterday's recordings, with nothing outside touched."""

from __future__ import annotations

import asyncio
import operator
import random
import socket
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    END,
    Context,
    Engine,
    Graph,
    RetryPolicy,
    Send,
    SideEffectPolicy,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.errors import ReplayError
from clew.runtime.review.replay_report import ReplayReport
from clew.stores import Store
from clew.testing import VirtualClock
from tests.store_fixtures import local_store

EFFECTS = SideEffectPolicy(recordable=True)


class State(TypedDict, total=False):
    questions: list[str]
    question: str
    answers: Annotated[list[str], operator.add]


store = local_store


class Model:
    """A service that must not be called in a replay."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.is_down = False

    def ask(self, prompt: str) -> str:
        assert not self.is_down, "a replay made a call"
        self.prompts.append(prompt)
        return f"{prompt} {len(self.prompts)}"

    async def aask(self, prompt: str) -> str:
        await asyncio.sleep(0)
        return self.ask(prompt)


def recorded(store: Store, model: Model, values: dict[str, Any], *nodes: Any, **options: Any) -> Engine:
    """A run "r" of these nodes, after which the model is down."""
    engine = Engine(Graph(list(nodes), **options.pop("graph", {})), store=store, **options)
    engine.run(values, run_id="r", check=False)
    model.is_down = True
    return engine


def today(engine: Engine, *nodes: Any, **graph: Any) -> Engine:
    """The same store, with other code."""
    return Engine(Graph(list(nodes), **graph), store=engine.store)


def only(report: ReplayReport) -> Any:
    (found,) = report.divergences
    return found


def asking(model: Model, template: str = "what is {}?") -> Any:
    @node(output="answer")
    def ask(question: str, ctx: Context) -> str:
        return ctx.record("llm", model.ask, template.format(question))

    return ask


# -- nothing differs -----------------------------------------------------------------------------------------


def test_no_call_is_made_and_no_connection_opened(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    engine = recorded(store, model, {"question": "love"}, asking(model))

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a replay opened a connection")

    monkeypatch.setattr(socket, "socket", refused)
    report = engine.replay("r")
    assert (report.ok, report.steps, report.items, report.calls) == (True, 1, 1, 1)


def test_an_async_node_is_answered_from_its_recordings(store: Store) -> None:
    model = Model()

    @node(output="answers")
    async def ask(question: str, ctx: Context) -> list[str]:
        return await asyncio.gather(*(ctx.record("llm", model.aask, question) for _ in range(3)))

    report = recorded(store, model, {"question": "love"}, ask).replay("r")
    assert (report.ok, report.calls) == (True, 3)


def test_inside_a_loop_it_is_awaited(store: Store) -> None:
    model = Model()
    engine = recorded(store, model, {"question": "love"}, asking(model))

    async def main() -> ReplayReport:
        assert engine.replay("r")
        return await engine.areplay("r")

    assert asyncio.run(main())


def test_a_loop_that_calls_one_node_three_times_gets_three_recordings_back(store: Store) -> None:
    model = Model()
    seen: list[str] = []

    @node(output="draft")
    def write(draft: str, ctx: Context) -> str:
        found = ctx.record("llm", model.ask, "again")
        seen.append(found)
        return found

    @ifelse(when_true="write", when_false=END)
    def more(draft: str) -> bool:
        return not draft.endswith("3")

    engine = recorded(store, model, {"draft": ""}, write, more, graph={"entry": "write"})
    first, seen[:] = list(seen), []
    assert engine.replay("r")
    assert seen == first == ["again 1", "again 2", "again 3"]


def test_an_exception_of_a_call_is_raised_again(store: Store) -> None:
    model = Model()

    def fails() -> str:
        assert not model.is_down
        raise ConnectionError("no line")

    @node(output="answer")
    def ask(question: str, ctx: Context) -> str:
        try:
            return ctx.record("llm", fails)
        except ConnectionError as error:
            return f"sorry: {error}"

    assert recorded(store, model, {"question": "love"}, ask).replay("r")


def test_a_retry_replays_its_last_attempt_and_an_hour_of_waiting_at_once(store: Store) -> None:
    model, clock = Model(), VirtualClock()

    @node(output="answer", retry=RetryPolicy(max_attempts=5, base_delay=1800.0, max_delay=7200.0))
    def ask(question: str, ctx: Context) -> str:
        first = ctx.record("llm", model.ask, question)
        if ctx.attempt < 2:
            raise ConnectionError
        return first + ctx.record("llm", model.ask, f"{question} at {ctx.attempt}")

    engine = recorded(store, model, {"question": "love"}, ask, clock=clock)
    waited = clock.monotonic()
    assert waited > 3600
    assert engine.replay("r")
    assert clock.monotonic() == waited


def test_it_does_not_sleep(store: Store) -> None:
    model, clock = Model(), VirtualClock()

    @node(output="b")
    def sleep(a: int, ctx: Context) -> int:
        ctx.sleep(3600)
        return a

    @node(output="c")
    async def asleep(b: int, ctx: Context) -> int:
        await ctx.sleep(3600)
        return b

    engine = recorded(store, model, {"a": 1}, sleep, asleep, clock=clock)
    waited = clock.monotonic()
    assert (engine.replay("r").ok, clock.monotonic()) == (True, waited)


def test_time_and_chance_are_what_they_were(store: Store) -> None:
    @node(output="drawn")
    def draw(a: int, ctx: Context) -> list[str]:
        return [ctx.now().isoformat(), str(ctx.random.random()), str(ctx.uuid4())]

    assert recorded(store, Model(), {"a": 1}, draw).replay("r")


def test_questions_are_answered_from_the_log(store: Store) -> None:
    @interrupt(output="approved")
    def approve(draft: str) -> str:
        return f"Publish {draft}?"

    @node(output="done")
    def publish(draft: str, approved: bool, ctx: Context) -> list[Any]:
        return [approved, ctx.interrupt("Where?")]

    engine = recorded(store, Model(), {"draft": "d"}, approve, publish)
    engine.resume("r", answer=True)
    engine.resume("r", answer="here")
    assert engine.replay("r")


def test_sends_and_subgraphs_are_replayed_item_by_item(store: Store) -> None:
    model = Model()

    @node(output="answer")
    def ask(question: str, ctx: Context) -> str:
        return ctx.record("llm", model.ask, question)

    inner = Graph([ask], name="inner")

    @route(targets=["each"], multi=True)
    def spread(questions: list[str]) -> list[Send]:
        return [Send("each", {"question": question}) for question in questions]

    @node(output="answers")
    def each(question: str, ctx: Context) -> list[str]:
        return [ctx.record("llm", model.ask, question)]

    engine = recorded(
        store, model, {"questions": ["a", "b"]}, spread, each, graph={"state": State, "entry": "spread"}
    )
    assert engine.replay("r").calls == 2

    model.is_down = False
    nested = Engine(Graph([inner.as_node()]), store=store)
    nested.run({"question": "c"}, run_id="nested")
    model.is_down = True
    assert nested.replay("nested").calls == 1


def test_a_subgraph_for_each_element_even_of_none(store: Store) -> None:
    @node(output="double")
    def double(n: int) -> int:
        return 2 * n

    engine = Engine(Graph([double], name="inner").map_over("n"), store=store)
    engine.run({"n": []}, run_id="none")
    engine.run({"n": [1, 2]}, run_id="two")
    assert engine.replay("none")
    assert engine.replay("two").items == 2


def test_a_later_attempt_of_a_subgraph_is_what_is_replayed(store: Store) -> None:
    model = Model()

    @node(output="answer")
    def ask(question: str, ctx: Context) -> str:
        return ctx.record(
            "llm", model.ask, f"{question} {len(model.prompts)}" if not model.is_down else known[-1]
        )

    @node(output="b")
    def fail_once(answer: str) -> str:
        if not model.is_down and len(model.prompts) < 2:
            raise ValueError
        return answer

    known = ["q 1"]
    inner = Graph([ask, fail_once], name="inner").as_node(retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    assert recorded(store, model, {"question": "q"}, inner).replay("r", strict=False).divergences == ()


def test_a_fork_starts_at_its_own_first_state(store: Store) -> None:
    model = Model()

    @node(output="b")
    def first(a: int) -> int:
        return a + 1

    @node(output="c")
    def second(b: int, ctx: Context) -> str:
        return ctx.record("llm", model.ask, str(b))

    engine = Engine(Graph([first, second]), store=store)
    engine.run({"a": 1}, run_id="r")
    engine.fork("r", step=1, values={"b": 10}, run_id="f")
    model.is_down = True
    report = engine.replay("f")
    assert (report.ok, report.steps, report.calls) == (True, 1, 1)


def test_a_waiting_run_is_replayed_up_to_its_question_and_beside_it(store: Store) -> None:
    called: list[str] = []

    @node(output="b")
    def ask(a: int, ctx: Context) -> Any:
        called.append("ask")
        return ctx.interrupt("Which?")

    @node(output="c")
    def beside(a: int) -> int:
        called.append("beside")
        return a

    engine = recorded(store, Model(), {"a": 1}, ask, beside, max_concurrent_nodes=1)
    called.clear()
    assert engine.replay("r")
    assert called == ["ask", "beside"]


# -- nodes that are not called -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "effects", [EFFECTS, SideEffectPolicy(requires_idempotency=True)], ids=["recordable", "idempotent"]
)
def test_a_node_with_side_effects_and_no_recorded_calls_is_not_called(
    store: Store, effects: SideEffectPolicy
) -> None:
    model = Model()

    @node(output="answer", side_effects=effects)
    def ask(question: str) -> str:
        return model.ask(question)

    @node(output="length")
    def measure(answer: str) -> int:
        return len(answer)

    report = recorded(store, model, {"question": "love"}, ask, measure).replay("r")
    assert (report.ok, report.items) == (True, 2)


def test_asking_the_time_does_not_make_it_recorded(store: Store) -> None:
    model = Model()

    @node(output="answer", side_effects=EFFECTS)
    def ask(question: str, ctx: Context) -> str:
        return f"{ctx.now()}: {model.ask(question)}"

    assert recorded(store, model, {"question": "love"}, ask).replay("r")


def test_a_node_with_side_effects_whose_calls_are_recorded_is_called(store: Store) -> None:
    model = Model()
    nodes = asking(model, "{}"), asking(model, "{}!")
    old, new = (node(each.func, name="ask", output="answer", side_effects=EFFECTS) for each in nodes)
    engine = recorded(store, model, {"question": "love"}, old)
    assert only(today(engine, new).replay("r")).kind == "call"


def test_a_reused_item_is_not_called(store: Store) -> None:
    model = Model()
    engine = recorded(store, model, {"question": "love"}, asking(model))
    engine.rerun("r", run_id="again")
    report = engine.replay("again")
    assert (report.ok, report.items, report.calls) == (True, 1, 0)


# -- something differs ---------------------------------------------------------------------------------------


def test_a_changed_prompt_is_named_with_node_path_call_and_both_texts(store: Store) -> None:
    model = Model()
    engine = recorded(store, model, {"question": "love"}, asking(model, "You are kind.\nwhat is {}?"))
    found = only(today(engine, asking(model, "You are kind.\nWhat is {}?")).replay("r"))
    assert (found.kind, found.step, found.path, found.node) == ("call", 1, "ask#0", "ask")
    assert str(found) == (
        "step 1, ask#0: node 'ask' at ask#0, call 0 ('llm') has different arguments than when recorded\n"
        "--- recorded\n+++ now\n@@ -1,3 +1,3 @@\n"
        " argument 1:\n     You are kind.\n-    what is love?\n+    What is love?"
    )


def test_a_keyword_that_changed_is_shown_by_its_name(store: Store) -> None:
    def ask(temperature: float) -> Any:
        @node(output="answer")
        def ask(question: str, ctx: Context) -> str:
            return ctx.record("llm", lambda q, *, temperature: q, question, temperature=temperature)

        return ask

    engine = recorded(store, Model(), {"question": "love"}, ask(0.0))
    found = only(today(engine, ask(1.0)).replay("r"))
    assert "-temperature = 0.0\n+temperature = 1.0" in found.diff


def test_a_swallowed_mismatch_is_found_all_the_same(store: Store) -> None:
    model = Model()

    def ask(prompt: str) -> Any:
        @node(output="answer")
        def ask(question: str, ctx: Context) -> str:
            try:
                ctx.record("llm", model.ask, prompt)
            except Exception:
                pass
            return "anyway"

        return ask

    engine = recorded(store, model, {"question": "love"}, ask("one"))
    assert only(today(engine, ask("two")).replay("r")).kind == "call"


def test_another_name_is_another_call(store: Store) -> None:
    def ask(name: str) -> Any:
        @node(output="answer")
        def ask(question: str, ctx: Context) -> int:
            return ctx.record(name, lambda: 1)

        return ask

    engine = recorded(store, Model(), {"question": "love"}, ask("llm"))
    found = only(today(engine, ask("search")).replay("r"))
    assert found.message == "node 'ask' at ask#0, call 0 ('search') was 'llm' when recorded"


def test_a_call_that_is_new_is_named(store: Store) -> None:
    def ask(times: int) -> Any:
        @node(output="answer")
        def ask(question: str, ctx: Context) -> int:
            return sum(ctx.record("llm", lambda: 1) for _ in range(times))

        return ask

    engine = recorded(store, Model(), {"question": "love"}, ask(1))
    found = only(today(engine, ask(2)).replay("r"))
    assert (found.kind, found.message) == (
        "missing",
        "node 'ask' at ask#0, call 1 ('llm') was never recorded; it is new, or the node took a different path",
    )


def constant(name: str, value: Any, source: str = "a") -> Any:
    return node(eval(f"lambda {source}: value", {"value": value}), name=name, output=f"{name}_out")


def test_another_result_is_shown(store: Store) -> None:
    engine = recorded(store, Model(), {"a": 1}, constant("n", {"x": 1, "y": 2}))
    found = only(today(engine, constant("n", {"x": 1, "y": 3})).replay("r"))
    assert (found.kind, found.message) == ("update", "it returns a different value")
    assert "-n_out.y = 2\n+n_out.y = 3" in found.diff


def test_another_decision_is_shown(store: Store) -> None:
    def gate(target: str) -> Any:
        return route(targets=["left", "right"], name="gate")(eval("lambda a: target", {"target": target}))

    def graph(target: str) -> list[Any]:
        return [gate(target), constant("left", 1), constant("right", 2)]

    engine = recorded(store, Model(), {"a": 1}, *graph("left"))
    found = only(today(engine, *graph("right")).replay("r"))
    assert (found.kind, found.node) == ("decision", "gate")
    assert '-[0] = "left"\n+[0] = "right"' in found.diff


def test_an_error_that_is_new_is_reported(store: Store) -> None:
    def fails(a: int) -> int:
        raise ValueError("no")

    engine = recorded(store, Model(), {"a": 1}, constant("n", 1))
    found = only(today(engine, node(fails, name="n", output="n_out")).replay("r"))
    assert (found.kind, found.message) == ("error", "it raises ValueError: no, but returned when recorded")


def test_a_question_that_is_new_is_reported(store: Store) -> None:
    def ask(a: int, ctx: Context) -> Any:
        return ctx.interrupt("Sure?")

    engine = recorded(store, Model(), {"a": 1}, constant("n", 1))
    found = only(today(engine, node(ask, name="n", output="n_out")).replay("r"))
    assert (found.kind, found.message) == ("question", "it asks 'Sure?', but did not when recorded")


@pytest.mark.parametrize("kind", ["node", "interrupt"])
def test_another_open_question_is_shown(store: Store, kind: str) -> None:
    def ask(text: str) -> Any:
        if kind == "interrupt":
            return interrupt(output="b", name="ask")(eval("lambda a: text", {"text": text}))

        def ask(a: int, ctx: Context) -> Any:
            return ctx.interrupt(text)

        return node(ask, output="b")

    engine = recorded(store, Model(), {"a": 1}, ask("Sure?"))
    found = only(today(engine, ask("Really?")).replay("r"))
    assert (found.kind, found.diff.splitlines()[-2:]) == ("question", ['-"Sure?"', '+"Really?"'])


@pytest.mark.parametrize("kind", ["node", "interrupt", "inside"])
@pytest.mark.parametrize("change", ["renamed", "removed"])
def test_an_open_question_that_is_not_asked_now_is_a_difference(store: Store, kind: str, change: str) -> None:
    def ask(name: str) -> Any:
        if kind == "node":
            return node(lambda one_out, ctx: ctx.interrupt("Sure?"), output="b", name=name)
        found = interrupt(output="b", name=name)(lambda one_out: "Sure?")
        return found if kind == "interrupt" else Graph([found]).as_node(name=f"around_{name}")

    engine = recorded(store, Model(), {"a": 1}, constant("one", 1), ask("ask"))
    assert engine.replay("r")
    now = [constant("one", 1)] if change == "removed" else [constant("one", 1), ask("other")]
    found = only(today(engine, *now).replay("r"))
    assert (found.kind, found.step, found.node) == ("absent", 2, "ask")


def test_strict_stops_at_the_first_and_lenient_lists_all(store: Store) -> None:
    nodes = [constant("one", 1), constant("two", 1, "one_out"), constant("three", 1, "two_out")]
    changed = [constant("one", 2), constant("two", 1, "one_out"), constant("three", 2, "two_out")]
    engine = today(recorded(store, Model(), {"a": 1}, *nodes), *changed)
    assert [found.node for found in engine.replay("r").divergences] == ["one"]
    assert [found.node for found in engine.replay("r", strict=False).divergences] == ["one", "three"]


def test_each_node_sees_what_it_saw_then(store: Store) -> None:
    seen: list[int] = []

    def watch(one_out: int) -> int:
        seen.append(one_out)
        return 0

    nodes = [constant("one", 1), node(watch, output="w")]
    engine = today(recorded(store, Model(), {"a": 1}, *nodes), constant("one", 2), nodes[1])
    seen.clear()
    engine.replay("r", strict=False)
    assert seen == [1]


def test_an_item_that_is_new_is_extra(store: Store) -> None:
    engine = recorded(store, Model(), {"a": 1}, constant("one", 1))
    found = only(today(engine, constant("one", 1), constant("two", 1, "one_out")).replay("r", strict=False))
    assert (found.kind, found.step, found.path) == ("extra", 2, "two#0")


def test_an_item_that_is_gone_is_absent(store: Store) -> None:
    engine = recorded(store, Model(), {"a": 1}, constant("one", 1), constant("two", 1, "one_out"))
    found = only(today(engine, constant("one", 1)).replay("r", strict=False))
    assert (found.kind, found.step, found.path) == ("absent", 2, "two#0")


def test_after_an_extra_item_nothing_is_said_of_what_comes_later(store: Store) -> None:
    nodes = [constant("one", 1), constant("two", 1, "one_out"), constant("three", 1, "two_out")]
    engine = recorded(store, Model(), {"a": 1}, *nodes)
    renamed = [constant("one", 1), constant("deux", 1, "one_out"), constant("three", 1, "deux_out")]
    report = today(engine, *renamed).replay("r", strict=False)
    assert [(found.kind, found.path) for found in report.divergences] == [
        ("extra", "deux#0"),
        ("absent", "two#0"),
    ]


def nested(enter: Callable[..., Any], leave: Callable[..., Any]) -> Any:
    inner = Graph([constant("n", 5, "x")], name="inner")
    return inner.as_node(transform_input=enter, transform_output=leave, inputs=["a"], outputs=["b"])


def test_what_a_subgraph_begins_with_is_compared(store: Store) -> None:
    def leave(values: Any) -> dict[str, Any]:
        return {"b": values["n_out"]}

    engine = recorded(store, Model(), {"a": 1}, nested(lambda values: {"x": values["a"]}, leave))
    found = only(
        today(engine, nested(lambda values: {"x": values["a"] + 1}, leave)).replay("r", strict=False)
    )
    assert (found.kind, found.path, found.diff.splitlines()[-2:]) == (
        "start",
        "inner#0",
        ["-x = 1", "+x = 2"],
    )


def test_what_a_subgraph_gives_is_compared(store: Store) -> None:
    def enter(values: Any) -> dict[str, int]:
        return {"x": values["a"]}

    engine = recorded(store, Model(), {"a": 1}, nested(enter, lambda values: {"b": 1}))
    found = only(today(engine, nested(enter, lambda values: {"b": 2})).replay("r", strict=False))
    assert (found.kind, found.path, found.diff.splitlines()[-2:]) == (
        "update",
        "inner#0",
        ["-b = 1", "+b = 2"],
    )


def test_a_subgraph_that_cannot_start_is_reported_once(store: Store) -> None:
    def enter(values: Any) -> dict[str, int]:
        if changed:
            raise ValueError("no")
        return {"x": values["a"]}

    changed = False
    engine = recorded(store, Model(), {"a": 1}, nested(enter, lambda values: {"b": 1}))
    changed = True
    found = only(engine.replay("r", strict=False))
    assert (found.kind, found.message) == ("error", "it raises ValueError: no, but returned when recorded")


def test_a_node_that_is_not_deterministic_is_found(store: Store) -> None:
    numbers = random.Random(1)
    engine = recorded(store, Model(), {"a": 1}, node(lambda a: numbers.random(), name="n", output="b"))
    assert only(engine.replay("r")).kind == "update"


# -- the report ----------------------------------------------------------------------------------------------


def test_a_good_report_reads_as_a_sentence(store: Store) -> None:
    model = Model()
    report = recorded(store, model, {"question": "love"}, asking(model)).replay("r")
    assert str(report) == "run 'r' replays: 1 step, 1 item, 1 recorded call"
    report.check()


def test_a_bad_report_raises_when_asked_to(store: Store) -> None:
    engine = recorded(store, Model(), {"a": 1}, constant("n", 1))
    report = today(engine, constant("n", 2)).replay("r")
    assert not report
    with pytest.raises(
        ReplayError, match=r"run 'r' does not replay: step 1, n#0: it returns a different value"
    ):
        report.check()


def test_a_replay_writes_nothing(store: Store) -> None:
    model = Model()
    engine = recorded(store, model, {"question": "love"}, asking(model))
    before = (store.row("r"), list(store.entries("r")))
    engine.replay("r")
    assert (store.row("r"), list(store.entries("r"))) == before
