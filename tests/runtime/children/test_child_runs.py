"""Children on each store: values, failures, questions, children of children, fan-outs, forks, and what lists show."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import pydantic
import pytest

from clew import Context, Engine, Graph, PostgresStore, RetryPolicy, Send, append, interrupt, node, route
from clew.errors import EncodeError, InputError, RunStateError, UnknownRunError
from clew.runtime.calls.children import child_id
from clew.stores import RunRow, Store


@node(output="b")
def double(a: int) -> int:
    return a * 2


@node(output="c")
def increase(b: int) -> int:
    return b + 1


@node(output="c")
async def aincrease(b: int) -> int:
    await asyncio.sleep(0)
    return b + 1


SMALL = Graph([double, increase], name="small")
ASYNC = Graph([double, aincrease], name="async")


@node(output="y")
def outer(x: int, ctx: Context) -> list[int]:
    return [ctx.run(graph, {"a": x + i})["c"] for i, graph in enumerate((SMALL, ASYNC, SMALL))]


@node(output="y")
async def aouter(x: int, ctx: Context) -> list[int]:
    first = await ctx.run(SMALL, {"a": x})
    second, third = await asyncio.gather(ctx.run(ASYNC, {"a": x + 1}), ctx.run(SMALL, {"a": x + 2}))
    return [result["c"] for result in (first, second, third)]


def children(store: Store, run_id: str) -> list[RunRow]:
    return store.rows(of=run_id)


@pytest.mark.parametrize("made", [outer, aouter])
def test_a_node_gets_the_results_of_its_children(store: Store, made: Any) -> None:
    engine = Engine(Graph([made]), store=store)
    result = engine.run({"x": 1}, run_id="r")
    assert result["y"] == [3, 5, 7]
    found = children(store, "r")
    assert {row.place for row in found} == {f"{made.name}#0!{call}" for call in range(3)}
    assert {(row.status, row.child_of) for row in found} == {("completed", "r")}
    first = child_id("r", f"{made.name}#0", (0,), None, 0)
    assert engine.state(first).values == {"a": 1, "b": 2, "c": 3}
    assert store.owner(first) is None


@pytest.mark.parametrize("made", [outer, aouter])
def test_on_an_event_loop(store: Store, made: Any) -> None:
    engine = Engine(Graph([made]), store=store)
    assert asyncio.run(engine.arun({"x": 1}))["y"] == [3, 5, 7]


def test_without_a_store() -> None:
    assert Graph([outer]).run({"x": 1})["y"] == [3, 5, 7]


def test_a_list_of_runs_has_children_on_request(store: Store) -> None:
    engine = Engine(Graph([outer]), store=store)
    engine.run({"x": 1}, run_id="r")
    assert [row.run_id for row in engine.runs()] == ["r"]
    assert len(engine.runs(children=True)) == 4
    with pytest.raises(InputError):
        engine.runs(children="yes")


def test_a_child_is_not_resumed_labelled_or_deleted_alone(store: Store) -> None:
    engine = Engine(Graph([outer]), store=store)
    engine.run({"x": 1}, run_id="r")
    child = children(store, "r")[0].run_id
    inner = Engine(SMALL, store=store)
    for refused in (
        lambda: inner.resume(child),
        lambda: inner.delete(child),
        lambda: inner.label_checkpoint(child, "x"),
    ):
        with pytest.raises(RunStateError, match="'r'"):
            refused()
    engine.delete("r")
    assert store.rows() == []
    with pytest.raises(UnknownRunError):
        engine.state(child)


def test_prune_deletes_children_with_their_run(store: Store) -> None:
    engine = Engine(Graph([outer]), store=store)
    for name in ("r1", "r2", "r3"):
        engine.run({"x": 1}, run_id=name)
    fork = Engine(SMALL, store=store).fork(children(store, "r1")[0].run_id, step=1, run_id="fork")
    assert fork["c"] == 3
    assert engine.prune(keep=2) == ["r2"]  # r1 contains the parent of a fork
    assert len(store.rows()) == 2 * 4 + 1


# -- failures ------------------------------------------------------------------------------------------------------


class Fails:
    """A graph whose second node fails a number of times, and how often its nodes ran."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.ran: list[str] = []

        @node(output="b")
        def first(a: int, ctx: Context) -> int:
            self.ran.append("first")
            return ctx.record("call", self.call, a)

        @node(output="c")
        def second(b: int) -> int:
            self.ran.append("second")
            self.left -= 1
            if self.left >= 0:
                raise ValueError(f"left {self.left}")
            return b + 1

        self.graph = Graph([first, second], name="fails")

    def call(self, a: int) -> int:
        self.ran.append("call")
        return a * 2


def test_the_failure_of_a_child_is_the_failure_of_its_run(store: Store) -> None:
    fails = Fails(1)

    @node(output="y")
    def outside(x: int, ctx: Context) -> int:
        return ctx.run(fails.graph, {"a": x})["c"]

    engine = Engine(Graph([outside]), store=store)
    result = engine.run({"x": 1}, run_id="r", check=False)
    assert (result.status, type(result.error), str(result.error)) == ("failed", ValueError, "left 0")
    assert [row.status for row in children(store, "r")] == ["failed"]
    assert engine.resume("r")["y"] == 3
    assert fails.ran == ["first", "call", "second", "second"]
    assert [row.status for row in children(store, "r")] == ["completed"]


def test_a_new_attempt_resumes_a_failed_child(store: Store) -> None:
    fails = Fails(2)

    @node(output="y", retry=RetryPolicy(max_attempts=3, base_delay=0.001))
    def outside(x: int, ctx: Context) -> int:
        return ctx.run(fails.graph, {"a": x})["c"]

    result = Engine(Graph([outside]), store=store).run({"x": 1}, run_id="r")
    assert result["y"] == 3
    assert fails.ran == ["first", "call", "second", "second", "second"]
    assert len(children(store, "r")) == 1


def test_a_new_attempt_with_other_values_starts_another_child(store: Store) -> None:
    fails = Fails(1)

    @node(output="y", retry=RetryPolicy(max_attempts=3, base_delay=0.001))
    def outside(x: int, ctx: Context) -> int:
        return ctx.run(fails.graph, {"a": x + ctx.attempt})["c"]

    result = Engine(Graph([outside]), store=store).run({"x": 1}, run_id="r")
    assert result["y"] == 5
    assert [row.status for row in children(store, "r")] == ["failed", "completed"]
    assert fails.ran == ["first", "call", "second", "first", "call", "second"]


def test_a_node_may_catch_the_failure(store: Store) -> None:
    fails = Fails(1)

    @node(output="y")
    def outside(x: int, ctx: Context) -> int:
        try:
            return int(ctx.run(fails.graph, {"a": x})["c"])
        except ValueError:
            return int(ctx.run(SMALL, {"a": x})["c"])

    engine = Engine(Graph([outside]), store=store)
    assert engine.run({"x": 1}, run_id="r")["y"] == 3
    assert [row.status for row in children(store, "r")] == ["failed", "completed"]
    fails.left = 1
    assert engine.replay("r").ok
    fails.left = 0  # the failed child would succeed now
    (difference,) = engine.replay("r").divergences
    assert (difference.kind, difference.path) == ("error", "outside#0!0/second#0")
    assert [row.status for row in children(store, "r")] == ["failed", "completed"]


def test_a_child_that_succeeded_is_not_repeated_by_a_retry(store: Store) -> None:
    fails, left = Fails(0), [1]

    @node(output="y", retry=RetryPolicy(max_attempts=2, base_delay=0.001))
    def outside(x: int, ctx: Context) -> int:
        y = ctx.run(fails.graph, {"a": x})["c"]
        if left:
            left.pop()
            raise OSError
        return int(y)

    assert Engine(Graph([outside]), store=store).run({"x": 1})["y"] == 3
    assert fails.ran == ["first", "call", "second"]


def test_without_a_store_a_result_is_reused_too() -> None:
    fails, left = Fails(0), [1]

    @node(output="y", retry=RetryPolicy(max_attempts=2, base_delay=0.001))
    def outside(x: int, ctx: Context) -> int:
        y = ctx.run(fails.graph, {"a": x})["c"]
        if left:
            left.pop()
            raise OSError
        return int(y)

    assert Graph([outside]).run({"x": 1})["y"] == 3
    assert fails.ran == ["first", "call", "second"]


# -- questions -----------------------------------------------------------------------------------------------------


@interrupt(output="name")
def ask_name(topic: str) -> str:
    return f"name of {topic}?"


@node(output="size")
def ask_size(topic: str, ctx: Context) -> int:
    return int(ctx.interrupt("size?")) + int(ctx.interrupt("more?"))


class Form(TypedDict, total=False):
    topic: str
    name: str
    size: int


FORM = Graph([ask_name, ask_size], state=Form, name="form")


@node(output="y")
def fill(x: str, ctx: Context) -> str:
    result = ctx.run(FORM, {"topic": x})
    return f"{result['name']} {result['size']}"


@node(output="y")
async def afill(x: str, ctx: Context) -> str:
    result = await ctx.run(FORM, {"topic": x})
    return f"{result['name']} {result['size']}"


@pytest.mark.parametrize("made", [fill, afill])
def test_the_questions_of_a_child_are_questions_of_its_run(store: Store, made: Any) -> None:
    engine = Engine(Graph([made]), store=store)
    at = f"{made.name}#0!0"
    result = engine.run({"x": "it"}, run_id="r")
    assert result.status == "waiting"
    asked = {question.path: question.question for question in result.questions}
    assert asked == {f"{at}/ask_name#0": "name of it?", f"{at}/ask_size#0": "size?"}
    assert {q.path for q in engine.result("r").questions} == set(asked)
    with pytest.raises(RunStateError):
        engine.resume("r", answer="Ann")
    result = engine.resume("r", answers={f"{at}/ask_size#0": 3})
    asked = {question.path: question.question for question in result.questions}
    assert asked == {f"{at}/ask_name#0": "name of it?", f"{at}/ask_size#0": "more?"}
    assert engine.replay("r").ok
    result = engine.resume("r", answers={f"{at}/ask_size#0": 4, f"{at}/ask_name#0": "Ann"})
    assert (result.status, result["y"]) == ("completed", "Ann 7")
    assert [row.status for row in children(store, "r")] == ["completed"]
    assert engine.replay("r").ok


def test_an_answer_that_the_child_rejects_is_asked_for_again(store: Store) -> None:
    class Age(pydantic.BaseModel):
        topic: str
        age: int | None = None

    @interrupt(output="age")
    def ask_age(topic: str) -> str:
        return "age?"

    graph = Graph([ask_age], state=Age)

    @node(output="y")
    def outside(x: str, ctx: Context) -> int:
        return int(ctx.run(graph, {"topic": x})["age"])

    engine = Engine(Graph([outside]), store=store)
    engine.run({"x": "it"}, run_id="r")
    for _ in range(2):
        result = engine.resume("r", answer="old")
        assert [q.question for q in result.questions] == ["age?"]
    assert engine.resume("r", answer=7)["y"] == 7


def test_children_of_children_ask_and_fail(store: Store) -> None:
    fails = Fails(1)

    @node(output="said")
    def inside(topic: str, ctx: Context) -> str:
        return f"{ctx.run(FORM, {'topic': topic})['name']} {ctx.run(fails.graph, {'a': 1})['c']}"

    middle = Graph([inside], name="middle")

    @node(output="y")
    def outside(x: str, ctx: Context) -> str:
        return str(ctx.run(middle, {"topic": x})["said"])

    engine = Engine(Graph([outside]), store=store)
    at = "outside#0!0/inside#0!0"
    result = engine.run({"x": "it"}, run_id="r")
    assert {q.path for q in result.questions} == {f"{at}/ask_name#0", f"{at}/ask_size#0"}
    result = engine.resume("r", answers={f"{at}/ask_name#0": "Ann", f"{at}/ask_size#0": 1})
    result = engine.resume("r", answer=1, check=False)
    assert (result.status, str(result.error)) == ("failed", "left 0")
    assert engine.resume("r")["y"] == "Ann 3"
    assert fails.ran == ["first", "call", "second", "second"]
    (child,) = children(store, "r")
    assert len(children(store, child.run_id)) == 2
    assert engine.replay("r").ok
    engine.delete("r")
    assert store.rows() == []


# -- the rest ------------------------------------------------------------------------------------------------------


def test_children_in_a_fan_out(store: Store) -> None:
    @route(targets=["part"])
    def spread(n: int) -> list[Send]:
        return [Send("part", {"x": i}) for i in range(n)]

    @node(output="parts")
    def part(x: int, ctx: Context) -> int:
        return int(ctx.run(SMALL, {"a": x})["c"])

    class State(TypedDict, total=False):
        n: int
        x: int
        parts: Annotated[list[int], append]

    engine = Engine(Graph([spread, part], state=State), store=store, max_concurrent_nodes=3)
    assert engine.run({"n": 20, "parts": []}, run_id="r")["parts"] == [2 * i + 1 for i in range(20)]
    assert len(children(store, "r")) == 20


def test_a_child_in_a_subgraph(store: Store) -> None:
    engine = Engine(Graph([Graph([outer], name="in").as_node("sub", outputs=["y"])]), store=store)
    assert engine.run({"x": 1}, run_id="r")["y"] == [3, 5, 7]
    assert {row.place for row in children(store, "r")} == {f"sub#0/outer#0!{i}" for i in range(3)}


def test_a_fork_has_children_of_its_own(store: Store) -> None:
    @node(output="z")
    def after(y: list[int], ctx: Context) -> int:
        return int(ctx.run(SMALL, {"a": y[0]})["c"])

    engine = Engine(Graph([outer, after]), store=store)
    assert engine.run({"x": 1}, run_id="r")["z"] == 7
    assert engine.fork("r", step=1, run_id="late")["z"] == 7
    assert [row.place for row in children(store, "late")] == ["after#0!0"]
    assert engine.fork("r", step=0, values={"x": 2}, run_id="early")["z"] == 11
    assert [row.place for row in children(store, "early")] == [
        *(f"outer#0!{i}" for i in range(3)),
        "after#0!0",
    ]
    ids = [row.run_id for name in ("r", "late", "early") for row in children(store, name)]
    assert len(set(ids)) == len(ids) == 9


def test_a_replay_compares_the_values_of_a_child(store: Store) -> None:
    more = [0]

    @node(output="y")
    def start(x: int, ctx: Context) -> int:
        return int(ctx.run(SMALL, {"a": x + more[0]})["c"])

    engine = Engine(Graph([start]), store=store)
    assert engine.run({"x": 1}, run_id="r")["y"] == 3
    assert engine.replay("r").ok
    more[0] = 1
    (difference,) = engine.replay("r").divergences
    assert (difference.kind, difference.path) == ("call", "start#0")
    assert "a" in difference.diff
    assert len(store.rows()) == 2  # no child ran


def test_values_of_a_child_are_stored_once(store: Store) -> None:
    @node(output="size")
    def measure(text: str) -> int:
        return len(text)

    graph = Graph([measure])

    @node(output="y")
    def start(x: int, ctx: Context) -> int:
        return int(ctx.run(graph, {"text": "long " * 100})["size"])

    Engine(Graph([start]), store=store).run({"x": 1}, run_id="r")
    assert b"long long" not in b"".join(e.body for e in store.entries("r") if store.encodes)


def test_a_value_that_cannot_be_stored(store: Store) -> None:
    @node(output="y")
    def start(x: int, ctx: Context) -> int:
        return int(ctx.run(SMALL, {"a": object()})["c"])

    error = Engine(Graph([start]), store=store).run({"x": 1}, check=False).error
    assert isinstance(error, EncodeError if store.encodes else TypeError)
    assert len(store.rows(of="")) == 1


def test_keys_and_random_numbers_follow_from_the_place(store: Store) -> None:
    @node(output="draw")
    def draw(a: int, ctx: Context) -> int:
        return ctx.random.randrange(10**9)

    graph = Graph([draw])

    @node(output="y")
    def outside(x: int, ctx: Context) -> list[int]:
        return [ctx.run(graph, {"a": x}, key=key)["draw"] for key in ("one", "two", None)]

    draws = [
        Engine(Graph([outside]), store=store, seed=5).run({"x": 1}, run_id=f"r{i}")["y"] for i in range(2)
    ]
    assert draws[0] == draws[1]
    assert len(set(draws[0])) == 3
    assert children(store, "r0")[0].run_id == child_id("r0", "outside#0", (0,), "one", 0)


def test_wrong_arguments(store: Store) -> None:
    @node(output="y")
    def outside(x: Any, ctx: Context) -> Any:
        return ctx.run(*x)

    @node(output="y")
    def keyed(x: Any, ctx: Context) -> Any:
        return ctx.run(SMALL, {"a": 1}, key=x)

    engine = Engine(Graph([outside]), store=store)
    for wrong in ([], ["small"], ["small", 1]):
        assert engine.run({"x": wrong}, check=False).status == "failed"
    for key in ("", 1):
        assert type(Engine(Graph([keyed]), store=store).run({"x": key}, check=False).error) is InputError

    @node(output="y")
    def values(x: Any, ctx: Context) -> Any:
        return ctx.run(SMALL, x)

    for given in ({"nothing": 1}, 3):
        assert isinstance(
            Engine(Graph([values]), store=store).run({"x": given}, check=False).error, InputError
        )


def test_events_of_a_child_are_in_the_stream_with_their_path(store: Store) -> None:
    engine = Engine(Graph([outer]), store=store)
    events = list(engine.stream({"x": 1}, run_id="r"))
    assert (events[0].kind, events[0].path, events[-1].kind, events[-1].path) == (
        "run_started",
        "",
        "run_finished",
        "",
    )
    inside = [event for event in events if event.path.startswith("outer#0!0")]
    assert inside[0].kind == "child_started"
    assert inside[-1].kind == "child_finished"
    assert {event.run_id for event in inside} == {child_id("r", "outer#0", (0,), None, 0)}
    assert "outer#0!0/double#0" in {event.path for event in inside if event.kind == "item_finished"}


def test_a_question_is_announced_once(store: Store) -> None:
    events = list(Engine(Graph([fill]), store=store).stream({"x": "it"}, run_id="r"))
    asked = [(event.path, event.run_id) for event in events if event.kind == "interrupted"]
    assert sorted(asked) == [("fill#0!0/ask_name#0", "r"), ("fill#0!0/ask_size#0", "r")]


@pytest.mark.parametrize("publish", [False, True])
def test_a_handle_follows_children(store: Store, publish: bool) -> None:
    @node(output="b")
    def says(a: int, ctx: Context) -> int:
        ctx.emit("hello", a)
        return a

    graph = Graph([says])

    @node(output="y")
    def start(x: int, ctx: Context) -> int:
        ctx.emit("first", 0)
        return sum(ctx.run(graph, {"a": i})["b"] for i in range(x))

    @node(output="z")
    def after(y: int, ctx: Context) -> int:
        ctx.emit("last", 9)
        return y

    handle = Engine(Graph([start, after]), store=store, publish=publish).start({"x": 3}, run_id="r")
    events = list(handle.events())
    assert handle.result()["z"] == 3
    assert [event.data["data"] for event in events if event.kind == "emitted"] == [0, 0, 1, 2, 9]
    ends = [event.path for event in events if event.kind == "child_finished"]
    assert ends == ["start#0!0", "start#0!1", "start#0!2"]
    assert [event.path for event in events if event.kind == "child_started"] == ends
    assert [event.kind for event in events if event.kind.startswith("run_")] == [
        "run_started",
        "run_finished",
    ]


def test_emitted_data_of_a_child_arrives_while_it_runs(store: Store) -> None:
    seen: list[Any] = []

    @node(output="b")
    def says(a: int, ctx: Context) -> int:
        ctx.emit("hello", a)
        seen.append("returns")
        return a

    graph = Graph([says])

    @node(output="y")
    def outside(x: int, ctx: Context) -> int:
        return int(ctx.run(graph, {"a": x})["b"])

    def listen(event: Any) -> None:
        if event.kind == "emitted":
            seen.append((event.path, event.data["data"]))

    Engine(Graph([outside]), store=store, listeners=[listen]).run({"x": 1})
    assert seen == [("outside#0!0/says#0", 1), "returns"]


def test_a_thousand_children(store: Store) -> None:
    live: list[int] = []

    @node(output="b")
    def one(a: int) -> int:
        live.append(threading.active_count())
        return a + 1

    graph = Graph([one])

    @node(output="y")
    def outside(x: int, ctx: Context) -> int:
        return sum(ctx.run(graph, {"a": i})["b"] for i in range(x))

    engine = Engine(Graph([outside]), store=store)
    most = 100 if isinstance(store, PostgresStore) else 1_000  # a child takes ten round trips
    assert engine.run({"x": most}, run_id="r")["y"] == most * (most + 1) // 2
    assert len(children(store, "r")) == most
    assert max(live[1:]) <= live[0]  # children start no threads
    assert [row.run_id for row in engine.runs()] == ["r"]
    engine.delete("r")
    assert store.rows() == []


def test_a_failure_inside_is_raised_also_if_the_run_confines_failures(store: Store) -> None:
    @node(output="checked")
    def check(topic: str) -> str:
        if topic == "coffee":
            raise ValueError("no coffee")
        return topic

    inner = Graph([check])

    @node(output="report")
    def careful(topics: list[str], ctx: Context) -> list[str]:
        parts = []
        for topic in topics:
            try:
                parts.append(ctx.run(inner, {"topic": topic})["checked"])
            except ValueError as error:
                parts.append(str(error))
        return parts

    engine = Engine(Graph([careful]), store=store, on_error="continue")
    assert engine.run({"topics": ["tea", "coffee"]})["report"] == ["tea", "no coffee"]
