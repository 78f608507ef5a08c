"""An answer belongs to the question that it was given to, wherever in a node that question is asked."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Context, Engine, Graph, RetryPolicy, SQLiteStore, ifelse, interrupt, node
from clew.errors import NodeError
from clew.stores import Store
from tests.runtime.killed import as_if_killed
from tests.store_fixtures import local_store

store = local_store


def answered(graph: Graph, store: Store, **options: Any) -> Any:
    """The end of a run in which each question is answered with its text in capitals, and what was asked."""
    result = Engine(graph, store=store, **options).run({"x": 1}, run_id="r")
    asked: list[str] = []
    while result.status == "waiting":
        assert len(asked) < 20, asked
        answers = {question.path: question.question.rstrip("?").upper() for question in result.questions}
        asked += [question.question for question in result.questions]
        result = Engine(graph, store=store, **options).resume("r", answers=answers)
    return result, asked


def asking(body: Callable[[Context], Any], **options: Any) -> Graph:
    @node(output="said", **options)
    def ask(x: int, ctx: Context) -> Any:
        return body(ctx)

    return Graph([ask])


def first_recorded(ctx: Context) -> Any:
    a = ctx.record("first", lambda: ctx.interrupt("a?"))
    b = ctx.interrupt("b?")
    return [a, b]


def between(ctx: Context) -> Any:
    a = ctx.interrupt("a?")
    b, c = ctx.record("both", lambda: [ctx.interrupt("b?"), ctx.interrupt("c?")])
    return [a, b, c, ctx.interrupt("d?")]


def nested(ctx: Context) -> Any:
    def inner() -> str:
        return ctx.interrupt("b?")

    def outer() -> list[str]:
        return [ctx.interrupt("a?"), ctx.record("inner", inner), ctx.interrupt("c?")]

    return [*ctx.record("outer", outer), ctx.record("last", lambda: ctx.interrupt("d?")), ctx.interrupt("e?")]


def in_a_loop(ctx: Context) -> Any:
    return [ctx.record("each", lambda n: ctx.interrupt(f"{n}?"), n) for n in "abc"] + [ctx.interrupt("d?")]


def with_calls(ctx: Context) -> Any:
    """A call inside a call does not move the numbers of later ones."""
    ctx.record("outer", lambda: ctx.record("inner", lambda: ctx.now().timestamp()))
    return [ctx.record("first", lambda: ctx.interrupt("a?")), ctx.interrupt("b?")]


BODIES = (first_recorded, between, nested, in_a_loop, with_calls)


@pytest.mark.parametrize("on_ambiguous", ["retry", "ask", "fail"])
@pytest.mark.parametrize("body", BODIES)
def test_each_question_gets_its_own_answer(
    store: Store, body: Callable[[Context], Any], on_ambiguous: str
) -> None:
    result, asked = answered(asking(body), store, on_ambiguous=on_ambiguous)
    assert result.status == "completed", result.error
    assert asked == [f"{letter}?" for letter in "abcde"[: len(asked)]]
    assert result["said"] == list("ABCDE"[: len(asked)])
    assert Engine(asking(body), store=store).replay("r", strict=False).ok


def test_a_later_attempt_has_the_answers_of_the_same_places(store: Store) -> None:
    attempts: list[int] = []

    def body(ctx: Context) -> Any:
        said = [ctx.record("first", lambda: ctx.interrupt("a?")), ctx.interrupt("b?")]
        attempts.append(ctx.attempt)
        if ctx.attempt < 2:
            raise ConnectionError("down")
        return [*said, ctx.interrupt("c?")]

    graph = asking(body, retry=RetryPolicy(max_attempts=3, base_delay=0.001))
    result, asked = answered(graph, store)
    assert (result["said"], asked) == (["A", "B", "C"], ["a?", "b?", "c?"])
    assert attempts == [0, 1, 2, 2]


def test_in_a_subgraph_and_in_every_visit_of_a_loop(store: Store) -> None:
    @node(output="n")
    def ask(x: int, ctx: Context) -> Any:
        return first_recorded(ctx)

    @ifelse(when_true="again", when_false=END)
    def more(all: list[str]) -> bool:
        return len(all) < 4

    @node(output="x")
    def again(x: int) -> int:
        return x + 1

    class State(TypedDict):
        x: int
        n: list[str]
        all: Annotated[list[str], operator.add]

    @node(output="all", name="collect")
    def collected(n: list[str]) -> list[str]:
        return n

    graph = Graph([Graph([ask], name="sub"), collected, more, again], state=State)
    result = Engine(graph, store=store).run({"x": 1, "all": []}, run_id="r")
    given = iter("ABCD")
    while result.status == "waiting":
        result = Engine(graph, store=store).resume("r", answer=next(given))
    assert result["all"] == list("ABCD")


def test_the_address_of_a_question_is_the_path_of_its_item(store: Store) -> None:
    graph = asking(nested)
    result = Engine(graph, store=store).run({"x": 1}, run_id="r")
    assert [(q.path, q.position) for q in result.questions] == [("ask#0", "0.0")]
    result = Engine(graph, store=store).resume("r", answers={"ask#0": "A"})
    assert [(q.path, q.position) for q in result.questions] == [("ask#0", "0.0.0")]


def test_what_comes_before_a_question_in_a_call_that_is_left_is_asked_about_no_more(tmp_path: Path) -> None:
    """Leaving a call with a question is no doubt whether it was made; being killed in it is."""
    left: list[SQLiteStore] = []

    def body(ctx: Context) -> Any:
        def call() -> Any:
            said = ctx.interrupt("a?")
            left.append(as_if_killed(tmp_path / "runs.db"))
            return said

        return ctx.record("call", call)

    graph = asking(body)
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        result = Engine(graph, store=store, on_ambiguous="ask").run({"x": 1}, run_id="r")
        assert [q.path for q in result.questions] == ["ask#0"]
        Engine(graph, store=store, on_ambiguous="ask").resume("r", answer="A")
    result = Engine(graph, store=left[0], on_ambiguous="ask").resume("r")
    assert [q.path for q in result.questions] == ["ask#0!0"]
    assert Engine(graph, store=left[0], on_ambiguous="ask").resume("r", answer="retry")["said"] == "A"


def test_a_waiting_run_replays_where_the_question_is_in_a_call(store: Store) -> None:
    graph = asking(first_recorded)
    Engine(graph, store=store).run({"x": 1}, run_id="r")
    assert Engine(graph, store=store).replay("r", strict=False).ok
    Engine(graph, store=store).resume("r", answer="A")
    assert Engine(graph, store=store).replay("r", strict=False).ok


def test_an_export_keeps_which_answer_is_whose(store: Store, tmp_path: Path) -> None:
    graph = asking(nested)
    engine = Engine(graph, store=store)
    engine.run({"x": 1}, run_id="r")
    for answer in "ABC":
        engine.resume("r", answer=answer)
    with closing(SQLiteStore(tmp_path / "other.db")) as other:
        there = Engine(graph, store=other)
        there.import_run(engine.export_run("r"))
        assert there.resume("r", answer="D").questions[0].question == "e?"
        assert there.resume("r", answer="E")["said"] == list("ABCDE")


# -- several tasks -----------------------------------------------------------------------------------------------


def async_asking(body: Callable[[Context], Any], **options: Any) -> Graph:
    @node(output="said", **options)
    async def ask(x: int, ctx: Context) -> Any:
        return await body(ctx)

    return Graph([ask])


async def ask_later(ctx: Context, question: str, turns: int) -> Any:
    for _ in range(turns):
        await asyncio.sleep(0)
    return ctx.interrupt(question)


@pytest.mark.parametrize("slow", ["a?", "b?"])
def test_recorded_branches_have_places_of_their_own_whatever_the_timing(store: Store, slow: str) -> None:
    async def body(ctx: Context) -> Any:
        calls = [ctx.record(q, lambda q=q: ask_later(ctx, q, 5 if q == slow else 0)) for q in ("a?", "b?")]
        return await asyncio.gather(*calls)

    result, asked = answered(async_asking(body), store)
    assert result["said"] == ["A", "B"]
    assert sorted(asked) == ["a?", "b?"]


def unrecorded(wait: Callable[..., Any]) -> Callable[[Context], Any]:
    async def body(ctx: Context) -> Any:
        return await wait(ask_later(ctx, "a?", 0), ask_later(ctx, "b?", 0))

    return body


async def in_a_group(*awaitables: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in awaitables]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("wait", [asyncio.gather, in_a_group])
def test_two_branches_that_ask_in_one_place_fail_before_anybody_is_asked(store: Store, wait: Any) -> None:
    """Which of them comes first is a matter of time, so an answer could reach the other one."""
    result = Engine(async_asking(unrecorded(wait)), store=store).run({"x": 1}, run_id="r", check=False)
    assert result.status == "failed"
    assert isinstance(result.error, NodeError)
    assert "ctx.record" in str(result.error)
    assert not result.questions


def test_a_branch_that_asks_later_than_another_one_fails(store: Store) -> None:
    async def body(ctx: Context) -> Any:
        return await asyncio.gather(ask_later(ctx, "a?", 0), ask_later(ctx, "b?", 50))

    result = Engine(async_asking(body), store=store).run({"x": 1}, run_id="r")
    assert [q.question for q in result.questions] == ["a?"]
    result = Engine(async_asking(body), store=store).resume("r", answer="A", check=False)
    assert isinstance(result.error, NodeError)


def test_a_failure_beside_a_question_is_a_failure(store: Store) -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def body(ctx: Context) -> Any:
        return await in_a_group(ask_later(ctx, "a?", 0), fail())

    result = Engine(async_asking(body), store=store).run({"x": 1}, run_id="r", check=False)
    assert isinstance(result.error, ExceptionGroup)
    assert [str(each) for each in result.error.exceptions] == ["no"]


def test_a_question_in_a_task_group_is_asked(store: Store) -> None:
    async def body(ctx: Context) -> Any:
        return await in_a_group(ctx.record("a", lambda: ask_later(ctx, "a?", 3)))

    result, asked = answered(async_asking(body), store)
    assert (result["said"], asked) == (["A"], ["a?"])


def test_one_task_may_ask_one_question_after_another(store: Store) -> None:
    async def body(ctx: Context) -> Any:
        first = await ctx.record("a", lambda: ask_later(ctx, "a?", 2))
        return [first, await ask_later(ctx, "b?", 2), ctx.interrupt("c?")]

    result, asked = answered(async_asking(body), store)
    assert (result["said"], asked) == (["A", "B", "C"], ["a?", "b?", "c?"])


def test_interrupt_nodes_and_engines_within_calls_keep_their_questions_apart(store: Store) -> None:
    """A call that runs another engine: the places of its nodes are their own."""
    inside = asking(first_recorded)

    @interrupt(output="ok")
    def approve(x: int) -> str:
        return "ok?"

    def run_inside(ctx: Context) -> Any:
        engine = Engine(inside)
        result = engine.run({"x": 1}, run_id="i")
        outer = ctx.interrupt("a?")
        result = engine.resume("i", answer="i1")
        result = engine.resume("i", answer="i2")
        return [outer, *result["said"]]

    @node(output="said2")
    def plain(x: int, ctx: Context) -> Any:
        return [*ctx.record("run", lambda: run_inside(ctx)), ctx.interrupt("b?")]

    result, _ = answered(Graph([approve, plain]), store)
    assert result["said2"] == ["A", "i1", "i2", "B"]
    assert result["ok"] == "OK"


async def awaits(ctx: Context) -> Any:
    return await ctx.interrupt("a?")


async def awaits_with_options(ctx: Context) -> Any:
    options: dict[str, Any] = {"timeout": 60.0, "default": 1}
    said = [
        await ctx.interrupt(
            "a?",
            **options,
        )
    ]
    return said


async def awaits_the_second(ctx: Context) -> Any:
    first = ctx.interrupt("a?")
    return first, await ctx.interrupt("b?", type=str)


async def awaits_in_a_function(ctx: Context) -> Any:
    async def ask() -> Any:
        return await ctx.interrupt("a?")

    return await ask()


@pytest.mark.parametrize(
    "body, answers",
    [(awaits, 0), (awaits_with_options, 0), (awaits_the_second, 1), (awaits_in_a_function, 0)],
)
def test_a_node_that_awaits_a_question_fails_before_it_asks(store: Store, body: Any, answers: int) -> None:
    @node(output="said")
    async def ask(x: int, ctx: Context) -> Any:
        return await body(ctx)

    result, asked = answered(Graph([ask]), store, check=False)
    assert (type(result.error), len(asked)) == (NodeError, answers)
    assert __file__ in str(result.error)


def test_a_node_may_await_next_to_a_question(store: Store) -> None:
    async def upper(text: str) -> str:
        return text.upper()

    @node(output="said")
    async def ask(x: int, ctx: Context) -> Any:
        async with asyncio.timeout(None):
            return [ctx.interrupt("a?"), await upper(ctx.interrupt("b?")), await asyncio.sleep(0)]

    result, asked = answered(Graph([ask]), store)
    assert (result["said"], asked) == (["A", "B", None], ["a?", "b?"])
