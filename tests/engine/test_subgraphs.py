"""Subgraphs: their inputs and outputs; from outside each one is a single item."""

from __future__ import annotations

import asyncio
import operator
from itertools import permutations
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, GraphState, NodePolicy, RetryPolicy, Send, interrupt, node, route
from clew.engine.records import FinishedItem
from clew.errors import EncodeError, GraphError, InputError, NodeTimeoutError, OutputError
from clew.graph import Node
from clew.testing import Stepper, VirtualClock

RUN = "run"


@node(output="double")
def twice(n: int) -> int:
    return n * 2


@node(output="result")
def plus(double: int, more: int = 1) -> int:
    return double + more


INSIDE = Graph([twice, plus], name="inside")


def items(engine: Engine) -> list[tuple[str, ...]]:
    return [checkpoint.items for checkpoint in engine.history(RUN)[1:]]


def nested(engine: Engine, step: int = 1) -> dict[str, list[tuple[str, ...]]]:
    """The items of the steps inside, by the path of the frame."""
    found = engine.history(RUN, nested=True)[step].nested
    return {path: [c.items for c in checkpoints[1:]] for path, checkpoints in found.items()}


def play(graph: Graph, values: dict[str, Any], **options: Any) -> tuple[Any, Engine]:
    engine = Engine(graph, clock=VirtualClock(), **options)
    return engine.run(values, run_id=RUN, check=False), engine


# ---- in and out


def test_values_pass_by_name() -> None:
    result, engine = play(Graph([INSIDE.as_node()]), {"n": 4})
    assert result.values == {"n": 4, "double": 8, "result": 9}
    assert items(engine) == [("inside#0",)]
    assert nested(engine) == {"inside#0": [("inside#0/twice#0",), ("inside#0/plus#0",)]}


def test_only_what_is_listed_goes_in_and_comes_out() -> None:
    sub = INSIDE.as_node(inputs=("n",), outputs=("result",))
    result, _ = play(
        Graph([sub, node(name="show", output="shown")(lambda result, more: more)]), {"n": 4, "more": 5}
    )
    assert result.values == {"n": 4, "more": 5, "result": 9, "shown": 5}


def test_a_missing_optional_input_uses_the_default_inside() -> None:
    assert play(Graph([INSIDE.as_node()]), {"n": 4, "more": 7})[0]["result"] == 15


def test_enter_makes_the_values_inside_and_leave_the_update_outside() -> None:
    sub = INSIDE.as_node(
        "sub",
        inputs=("text",),
        outputs=("answer",),
        transform_input=lambda seen: {"n": len(seen["text"])},
        transform_output=lambda state: {"answer": f"{state['result']}!"},
    )
    assert play(Graph([sub]), {"text": "four"})[0]["answer"] == "9!"


def test_enter_without_inputs_is_given_the_whole_state() -> None:
    sub = INSIDE.as_node("sub", outputs=("result",), transform_input=lambda state: {"n": sum(state.values())})
    first = node(name="first", output="a")(lambda x: x)
    assert play(Graph([first, sub], edges=[("first", "sub")]), {"x": 3})[0]["result"] == 13


def test_what_crosses_a_boundary_function_is_not_shared() -> None:
    kept: list[Any] = []

    @node(output="size")
    def size(rows: list[int]) -> int:
        kept.append(rows)
        return len(rows)

    rows = [1, 2]
    sub = Graph([size]).as_node("sub", inputs=("rows",), outputs=("size",), transform_input=dict)
    play(Graph([sub]), {"rows": rows})
    assert kept == [rows]
    assert kept[0] is not rows


def test_what_cannot_cross_is_refused_with_its_path() -> None:
    sub = INSIDE.as_node(
        "sub", inputs=("x",), outputs=("result",), transform_input=lambda seen: {"n": object()}
    )
    result, _ = play(Graph([sub]), {"x": 1})
    assert isinstance(result.error, EncodeError)
    assert "sub#0" in str(result.error)


def test_what_leaves_crosses_too() -> None:
    sub = INSIDE.as_node("sub", outputs=("answer",), transform_output=lambda state: {"answer": object()})
    assert isinstance(play(Graph([sub]), {"n": 1})[0].error, EncodeError)


def test_values_that_do_not_fit_inside_fail_the_item() -> None:
    sub = INSIDE.as_node("sub", inputs=("x",), outputs=("result",), transform_input=lambda seen: {"m": 1})
    result, _ = play(Graph([sub]), {"x": 1})
    assert isinstance(result.error, InputError)
    assert [(found.path, found.around) for found in result.failures] == [("sub#0", ())]


def test_leave_that_returns_no_mapping() -> None:
    sub = INSIDE.as_node("sub", outputs=("answer",), transform_output=lambda state: 5)
    assert isinstance(play(Graph([sub]), {"n": 1})[0].error, OutputError)


class Grumpy:
    """A value that cannot be compared, as an array of numbers cannot."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("do not compare me")

    __hash__ = None


def test_values_are_passed_without_comparing_them() -> None:
    inner = Graph([node(name="keep", output="kept")(lambda thing: thing)])
    thing = Grumpy()
    assert play(Graph([inner.as_node("sub")]), {"thing": thing})[0]["kept"] is thing


class Log(TypedDict, total=False):
    x: int
    found: Annotated[list[int], operator.add]


def test_a_send_runs_a_subgraph_once_for_each_payload() -> None:
    fan = route(name="fan", targets=["inside"])(lambda x: [Send("inside", {"n": n}) for n in range(3)])
    sub = INSIDE.as_node(
        "inside", inputs=("n",), outputs=("found",), transform_output=lambda s: {"found": [s["result"]]}
    )
    result, engine = play(Graph([fan, sub], state=Log), {"x": 1})
    assert result["found"] == [1, 3, 5]
    assert items(engine)[1] == ("inside#0[0]", "inside#0[1]", "inside#0[2]")
    assert list(nested(engine, 2)) == ["inside#0[0]", "inside#0[1]", "inside#0[2]"]


def test_a_payload_may_bring_what_the_boundary_alone_knows() -> None:
    fan = route(name="fan", targets=["sub"])(lambda x: [Send("sub", {"seed": 5})])
    sub = INSIDE.as_node(
        "sub",
        inputs=("x",),
        outputs=("result",),
        transform_input=lambda seen: {"n": seen["x"] + seen["seed"]},
    )
    assert play(Graph([fan, sub]), {"x": 1})[0]["result"] == 13


def test_a_graph_three_levels_deep() -> None:
    middle = Graph([INSIDE.as_node(), node(name="done", output="d")(lambda result: result)], name="middle")
    result, engine = play(Graph([middle.as_node()], name="outer"), {"n": 1})
    assert result["d"] == 3
    inner = engine.history(RUN, nested=True)[1].nested["middle#0"][1].nested
    assert [c.items for c in inner["middle#0/inside#0"][1:]] == [
        ("middle#0/inside#0/twice#0",),
        ("middle#0/inside#0/plus#0",),
    ]


# ---- bound values


def test_what_is_bound_outside_is_bound_inside_and_in_no_state() -> None:
    inner = Graph([node(name="use", output="u")(lambda n, client: client(n))])
    client = lambda n: n + 1
    graph = Graph([inner.as_node("sub")]).bind(client=client)
    result, engine = play(graph, {"n": 1})
    assert (result["u"], "client" in result) == (2, False)
    (checkpoints,) = engine.history(RUN, nested=True)[1].nested.values()
    assert all("client" not in checkpoint.values for checkpoint in checkpoints)


def test_a_payload_takes_the_place_of_what_is_bound() -> None:
    inner = Graph([node(name="use", output="found")(lambda a, b: [a + b])])
    fan = route(name="fan", targets=["sub"])(
        lambda x: [Send("sub", {"a": 5}), Send("sub", {}), Send("sub", {"b": 7})]
    )
    graph = Graph([fan, inner.as_node("sub", outputs=("found",))], state=BoundLog).bind(a=1, b=2)
    assert play(graph, {"x": 1})[0]["found"] == [7, 3, 8]


def test_what_is_bound_for_others_does_not_go_inside() -> None:
    graph = Graph([INSIDE.as_node(), node(name="show", output="s")(lambda result, client: client)])
    result, _ = play(graph.bind(client=7), {"n": 1})
    assert (result["s"], result["result"]) == (7, 3)


def test_what_is_bound_passes_into_every_item() -> None:
    inner = Graph([node(name="use", output="found")(lambda n, client: [client + n])])
    fan = route(name="fan", targets=["sub"])(lambda x: [Send("sub", {"n": n}) for n in range(3)])
    graph = Graph([fan, inner.as_node("sub", outputs=("found",))]).bind(client=7)
    result, _ = play(graph, {"x": 1}, on_conflict="last")
    assert result["found"] == [9]


def use(n: int, client: Any = None) -> Any:
    return client(n)


INNER = Graph([node(use, output="u")], name="sub")


@pytest.mark.parametrize(
    "options",
    [
        {"inputs": ("n",)},
        {"inputs": ("n",), "transform_input": lambda values: values},
        {"transform_input": lambda values: {"n": values["n"]}},
        {
            "inputs": ("n",),
            "transform_input": lambda values: values,
            "transform_output": lambda state: {"u": state["u"]},
        },
    ],
    ids=["inputs", "inputs and transform", "transform_input", "both"],
)
def test_what_is_bound_outside_reaches_past_a_boundary(options: Any) -> None:
    after = [] if "inputs" in options else [node(name="first", output="n")(lambda m: m)]
    sub = INNER.as_node(**options, after=["first"] if after else [])
    graph = Graph([*after, sub]).bind(client=lambda n: n + 1)
    result, _ = play(graph, {"m": 1} if after else {"n": 1})
    assert (result["u"], "client" in result) == (2, False)
    assert graph.required_inputs == (("m",) if after else ("n",))


def test_what_is_bound_outside_reaches_two_levels_down() -> None:
    middle = Graph([INNER.as_node(inputs=("n",))], name="middle")
    graph = Graph([middle.as_node(transform_input=lambda v: {"n": v["n"]}, inputs=("n",))])
    assert play(graph.bind(client=lambda n: n * 10), {"n": 4})[0]["u"] == 40


def test_what_is_bound_outside_goes_by_the_name_that_it_has_there() -> None:
    sub = INNER.as_node().rename(inputs={"client": "llm"})
    with pytest.raises(GraphError, match="no node reads 'client', so it cannot be bound"):
        Graph([sub]).bind(client=str)
    assert play(Graph([sub]).bind(llm=lambda n: n + 2), {"n": 1})[0]["u"] == 3


def test_what_enter_makes_goes_before_what_is_bound() -> None:
    inner = Graph([node(name="use", output="u")(lambda n, limit=1: n + limit)], name="sub")
    graph = Graph([inner.as_node(inputs=("n",), transform_input=lambda v: {**v, "limit": 100})])
    assert play(graph.bind(limit=10), {"n": 1})[0]["u"] == 101


def test_what_is_written_inside_is_not_bound_from_outside() -> None:
    inner = Graph(
        [node(name="a", output="x")(lambda n: n), node(name="b", output="y")(lambda x: x)], name="sub"
    )
    with pytest.raises(GraphError, match="no node reads 'x'"):
        Graph([inner.as_node(outputs=("y",))]).bind(x=5)


def test_calling_a_node_whose_graph_is_bound_outside_uses_what_is_bound() -> None:
    graph = Graph([INNER.as_node(inputs=("n",))]).bind(client=lambda n: n + 1)
    assert graph.nodes["sub"](n=1) == {"u": 2}


class BoundLog(TypedDict, total=False):
    x: int
    a: int
    b: int
    found: Annotated[list[int], operator.add]


# ---- mapping


def test_map_over_zip_runs_once_for_each_element() -> None:
    graph = INSIDE.map_over("n", "more")
    result, engine = play(graph, {"n": [1, 2], "more": [10, 20]})
    assert (result["double"], result["result"]) == ([2, 4], [12, 24])
    assert list(nested(engine)) == ["inside#0[0]", "inside#0[1]"]
    assert nested(engine)["inside#0[1]"] == [("inside#0[1]/twice#0",), ("inside#0[1]/plus#0",)]


def test_map_over_product_turns_the_last_name_fastest() -> None:
    result, _ = play(INSIDE.map_over("n", "more", mode="product"), {"n": [1, 2], "more": [10, 20]})
    assert result["result"] == [12, 22, 14, 24]


def test_mapping_over_nothing_gives_empty_lists() -> None:
    result, _ = play(INSIDE.map_over("n"), {"n": []})
    assert (result.status, result["result"]) == ("completed", [])


def test_lists_of_two_lengths_do_not_zip() -> None:
    result, _ = play(INSIDE.map_over("n", "more"), {"n": [1], "more": [1, 2]})
    assert isinstance(result.error, InputError)


# ---- failures inside


def failing(*bad: int, name: str = "pick", output: str = "picked", **options: Any) -> Node:
    def pick(n: int) -> int:
        if n in bad:
            raise ValueError(f"no {n}")
        return n

    return node(name=name, output=output, **options)(pick)


def test_a_failure_inside_fails_the_item_and_says_where() -> None:
    result, _ = play(Graph([Graph([failing(3)]).as_node("sub")]), {"n": 3})
    assert (result.status, str(result.error)) == ("failed", "no 3")
    (found,) = result.failures
    assert (found.node, found.path, found.around, found.step) == ("pick", "sub#0/pick#0", ("sub#0",), 1)


TWO_DEEP = Graph(
    [failing(2, name="first", output="a"), node(name="then", output="b")(lambda a, n: 1 // (n - 1))]
)


ELEMENTS = ["sub#0[0]/first#0", "sub#0[0]/then#0"], ["sub#0[1]/first#0"]


@pytest.mark.parametrize("order", [[*ELEMENTS[0], *ELEMENTS[1]], [*ELEMENTS[1], *ELEMENTS[0]]])
def test_of_several_elements_the_lowest_error_is_told_whichever_failed_first(order: list[str]) -> None:
    """Element 0 fails in its second step, element 1 in its first."""
    run = Stepper(TWO_DEEP.map_over("n", name="sub"), {"n": [1, 2]})
    for path in order:
        run.complete(path)
    result = run.finish()
    assert result.status == "failed"
    assert isinstance(result.error, ZeroDivisionError)


def test_elements_after_the_one_that_failed_run_too_as_the_items_of_a_fan_out_do() -> None:
    calls: list[int] = []

    @node(output="out")
    def work(n: int) -> int:
        calls.append(n)
        return 1 // n

    result, _ = play(
        Graph([work]).map_over("n", name="sub"), {"n": [1, 0, 2, 3]}, max_concurrent_nodes=1, queue_depth=1
    )
    assert (result.status, calls) == ("failed", [1, 0, 2, 3])


def test_what_is_deeper_inside_the_elements_after_the_one_that_failed_goes_on() -> None:
    """Three levels: the item fails once a subgraph item inside the second element has ended."""
    deep = Graph([failing(1, name="check", output="c"), INSIDE.as_node()], name="deep")
    run = Stepper(deep.map_over("n", name="sub"), {"n": [1, 5]})
    started = [
        "sub#0[0]/check#0",
        "sub#0[0]/inside#0/twice#0",
        "sub#0[1]/check#0",
        "sub#0[1]/inside#0/twice#0",
    ]
    assert sorted(run.running) == sorted(started)
    run.complete("sub#0[0]/check#0")
    run.complete("sub#0[0]/inside#0/twice#0")
    run.complete("sub#0[0]/inside#0/plus#0")
    assert run._session.machine.status == "running"
    for path in ("sub#0[1]/inside#0/twice#0", "sub#0[1]/check#0", "sub#0[1]/inside#0/plus#0"):
        run.complete(path)
    assert run._session.machine.status == "failed"


def test_a_failed_element_after_one_that_asks_fails_the_item_when_that_is_answered() -> None:
    """The third element has finished, and does not run again."""
    calls: list[int] = []

    @interrupt(output="answer")
    def ask(n: int) -> str:
        return "well?"

    @route(targets=["ask", "bad", "good"])
    def sort(n: int) -> str:
        return ["ask", "bad", "good"][n]

    good = node(name="good", output="g")(lambda n: calls.append(n))
    inner = Graph([sort, ask, failing(1, name="bad", output="b"), good])
    engine = Engine(inner.map_over("n", name="sub"), on_error="continue", max_concurrent_nodes=1)
    waiting = engine.run({"n": [0, 1, 2]}, run_id=RUN)
    assert (waiting.status, [q.path for q in waiting.questions]) == ("waiting", ["sub#0[0]/ask#0"])
    assert [failure.path for failure in waiting.failures] == ["sub#0[1]/bad#0"]
    result = engine.resume(RUN, answer="yes")
    assert (result.status, str(result.error), calls) == ("completed", "no 1", [2])


def test_a_failure_inside_is_confined_to_what_is_behind_it_outside_too() -> None:
    sub = Graph([failing(3), node(name="fine", output="f")(lambda n: n)]).as_node("sub")
    after = node(name="after", output="z")(lambda f: f)
    other = node(name="other", output="o")(lambda n: n)
    result, engine = play(Graph([sub, after, other]), {"n": 3}, on_error="continue")
    assert (result.status, result.values) == ("completed", {"n": 3, "o": 3})
    assert result.never_ran == {"after": ("f",)}
    assert items(engine) == [("sub#0", "other#0")]


def test_a_confined_failure_inside_still_fails_the_item_after_an_interrupt() -> None:
    @interrupt(output="answer", after=["fine"])
    def ask(n: int) -> str:
        return "well?"

    sub = Graph([failing(3), node(name="fine", output="f")(lambda n: n), ask]).as_node("sub")
    engine = Engine(Graph([sub]), on_error="continue")
    assert engine.run({"n": 3}, run_id=RUN).status == "waiting"
    result = engine.resume(RUN, answer="yes")
    assert (result.status, str(result.error), result.values) == ("completed", "no 3", {"n": 3})


def test_a_conflict_inside_fails_the_item() -> None:
    fan = route(name="fan", targets=["w"])(lambda n: [Send("w", {"n": 1}), Send("w", {"n": 2})])
    sub = Graph([fan, node(name="w", output="v")(lambda n: n)]).as_node("sub")
    result, engine = play(Graph([sub]), {"n": 0})
    assert (result.status, result.last_step) == ("failed", 0)
    assert "w#0[0] and w#0[1] both wrote 'v'" in str(result.error)
    assert engine.resume(RUN, check=False).status == "failed"


def test_a_stall_and_a_loop_without_end_inside_fail_the_item() -> None:
    door = route(name="door", targets=["a", "maker"])(lambda n: "a")
    stalling = Graph(
        [door, node(name="a", output="y")(lambda m: m), node(name="maker", output="m")(lambda n: n)]
    )
    assert "'a' was selected" in str(play(Graph([stalling.as_node("sub")]), {"n": 0})[0].error)
    again = route(name="again", targets=["count"])(lambda m: "count")
    endless = Graph([node(name="count", output="m")(lambda n: n), again])
    assert "did not settle" in str(play(Graph([endless.as_node("sub")]), {"n": 0}, max_steps=6)[0].error)


def test_a_failed_frame_waits_for_its_running_items() -> None:
    sub = Graph([failing(3), node(name="slow", output="s")(lambda n: n)]).as_node("sub")
    run = Stepper(Graph([sub]), {"n": 3})
    run.complete("sub#0/pick#0")
    assert run._session.machine.status == "running"
    run.complete("sub#0/slow#0")
    assert run.finish().status == "failed"


def test_nothing_inside_a_later_item_starts_after_a_failure() -> None:
    bad = node(name="bad", output="b")(lambda x: 1 // 0)
    quick = node(name="quick", output="n")(lambda x: x)
    run = Stepper(Graph([bad, quick, INSIDE.as_node()]), {"x": 1})
    run.complete("quick#0")
    assert run.running == ["bad#0", "inside#0/twice#0"]
    run.complete("bad#0")
    run.complete("inside#0/twice#0")
    assert run.running == []
    assert run.finish().status == "failed"


# ---- retries inside and outside


def patient(attempts: int) -> NodePolicy:
    return NodePolicy(retry_policy=RetryPolicy(max_attempts=attempts, base_delay=1.0))


def test_a_node_inside_has_its_own_retries() -> None:
    @node(output="out", policy=patient(3))
    def shaky(n: int, ctx: Context) -> int:
        return 1 // ctx.attempt

    result, _ = play(Graph([Graph([shaky]).as_node("sub")]), {"n": 1})
    assert (result["out"], result.metrics.total_retries) == (1, 1)


def shaky_subgraph(calls: list[str]) -> Graph:
    """Fails in its second step, the first time through."""

    @node(output="a")
    def first(n: int) -> int:
        calls.append("first")
        return n

    @node(output="b")
    def second(a: int) -> int:
        calls.append("second")
        if calls.count("second") == 1:
            raise ValueError("not yet")
        return a

    return Graph([Graph([first, second]).as_node("sub", policy=patient(2))])


def test_a_retry_of_the_item_begins_anew_inside() -> None:
    calls: list[str] = []
    result, engine = play(shaky_subgraph(calls), {"n": 1})
    assert (result.status, calls) == ("completed", ["first", "second"] * 2)
    assert nested(engine) == {"sub#0": [("sub#0/first#0",), ("sub#0/second#0",)]}


def test_what_comes_late_from_an_attempt_that_is_over_is_let_fall() -> None:
    """The first attempt times out, so the item is tried again while a worker of that attempt still runs."""

    @node(output="out")
    def work(n: int) -> int:
        return n

    engine = Engine(Graph([work]).map_over("n", name="sub", policy=patient(2)), clock=VirtualClock())
    run = Stepper(engine, {"n": [2, 3]}, run_id=RUN)
    late = run._running["sub#0[1]/work#0"]
    run._session.machine.expire(late.frame.owner, NodeTimeoutError("late"), 0.0, 0.0)
    run._running.clear()  # dropped, but the workers still run
    run._fill()
    assert run.running == ["sub#0[0]/work#0", "sub#0[1]/work#0"], "the second attempt"
    run._session.returned(late, 0, "stale", 0.0, 0.0)
    for path in run.running:
        run.complete(path)
    assert run.finish()["out"] == [2, 3]
    chain = engine.history(RUN, nested=True)[1].nested["sub#0[1]"]
    assert [checkpoint.values.get("out") for checkpoint in chain] == [None, 3]


def test_a_timeout_of_the_item_holds_for_all_that_happens_inside() -> None:
    @node(output="out")
    async def slow(n: int, ctx: Context) -> int:
        await ctx.sleep(4.0)
        return n

    sub = Graph([slow]).as_node("sub", timeout=2.0)
    result, _ = play(Graph([sub]), {"n": 1})
    assert isinstance(result.error, NodeTimeoutError)


# ---- questions inside


@interrupt(output="answer")
def ask(double: int) -> str:
    return f"is {double} right?"


@node(output="reply")
def reply(answer: str, double: int) -> str:
    return f"{double}: {answer}"


def asking(calls: list[int]) -> Graph:
    @node(output="double")
    def twice(n: int) -> int:
        calls.append(n)
        return n * 2

    return Graph([twice, ask, reply])


def test_a_question_inside_is_asked_outside_and_nothing_finished_runs_again() -> None:
    calls: list[int] = []
    engine = Engine(Graph([asking(calls).as_node("sub")]))
    waiting = engine.run({"n": 2}, run_id=RUN)
    assert [(q.path, q.question) for q in waiting.questions] == [("sub#0/ask#0", "is 4 right?")]
    done = engine.resume(RUN, answer="yes")
    assert (done["reply"], calls) == ("4: yes", [2])


def test_questions_of_several_elements_are_asked_at_once_and_in_order() -> None:
    calls: list[int] = []
    engine = Engine(asking(calls).map_over("n", name="sub"))
    waiting = engine.run({"n": [1, 2, 3]}, run_id=RUN)
    assert [q.path for q in waiting.questions] == [f"sub#0[{i}]/ask#0" for i in range(3)]
    waiting = engine.resume(RUN, answers={"sub#0[1]/ask#0": "b"})
    assert [q.path for q in waiting.questions] == ["sub#0[0]/ask#0", "sub#0[2]/ask#0"]
    done = engine.resume(RUN, answers={"sub#0[0]/ask#0": "a", "sub#0[2]/ask#0": "c"})
    assert (done["reply"], sorted(calls)) == (["2: a", "4: b", "6: c"], [1, 2, 3])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_questions_are_told_in_order_whichever_was_asked_first(order: tuple[int, ...]) -> None:
    run = Stepper(asking([]).map_over("n", name="sub"), {"n": [1, 2, 3]})
    for i in order:
        run.complete(f"sub#0[{i}]/twice#0")
        run.complete(f"sub#0[{i}]/ask#0")
    assert [q.path for q in run.finish().questions] == [f"sub#0[{i}]/ask#0" for i in range(3)]


def test_a_context_asks_inside_a_subgraph_too() -> None:
    @node(output="out")
    def work(n: int, ctx: Context) -> str:
        return f"{ctx.interrupt('first?')}, {ctx.interrupt('second?')}"

    engine = Engine(Graph([Graph([work]).as_node("sub")]))
    waiting = engine.run({"n": 1}, run_id=RUN)
    assert (waiting.questions[0].path, waiting.questions[0].number) == ("sub#0/work#0", 0)
    waiting = engine.resume(RUN, answer="a")
    assert (waiting.questions[0].question, waiting.questions[0].number) == ("second?", 1)
    assert engine.resume(RUN, answer="b")["out"] == "a, b"


# ---- resuming inside


def test_a_run_cancelled_inside_a_subgraph_goes_on_inside_it() -> None:
    calls: list[str] = []
    names = ["one", "two", "three"]
    nodes = [
        node(name=name, output=name)(lambda before, name=name: calls.append(name) or name).rename(
            inputs={"before": before}
        )
        for name, before in zip(names, ["n", "one", "two"], strict=True)
    ]
    run = Stepper(Engine(Graph([Graph(nodes).as_node("sub")])), {"n": 1}, run_id=RUN)
    run.complete("sub#0/one#0")
    run.complete("sub#0/two#0")
    run.finish()
    result = run.engine.resume(RUN)
    assert (result["three"], calls) == ("three", names)
    assert nested(run.engine) == {"sub#0": [(f"sub#0/{name}#0",) for name in names]}


def test_a_failed_node_inside_runs_again_on_resume_and_the_finished_ones_do_not() -> None:
    calls: list[str] = []

    @node(output="a")
    def first(n: int) -> int:
        calls.append("first")
        return n

    @node(output="b")
    def second(a: int) -> int:
        calls.append("second")
        if calls.count("second") == 1:
            raise ValueError("not yet")
        return a

    engine = Engine(Graph([Graph([first, second]).as_node("sub")]))
    assert engine.run({"n": 1}, run_id=RUN, check=False).status == "failed"
    assert engine.resume(RUN).status == "completed"
    assert calls == ["first", "second", "second"]


def test_a_state_inside_is_a_state_like_any_other() -> None:
    _, engine = play(Graph([INSIDE.as_node()]), {"n": 4})
    (checkpoints,) = engine.history(RUN, nested=True)[1].nested.values()
    middle = GraphState.from_checkpoint(checkpoints[1].state.to_checkpoint())
    done = Engine(INSIDE).run(middle)
    assert done.state.digest == checkpoints[2].digest


def test_what_still_runs_of_an_attempt_that_is_over_says_nothing_any_more() -> None:
    """`below` was started ahead, in step 2 inside, when `bad` of step 1 failed and the subgraph was tried again."""
    nodes = [
        node(name="bad", output="x")(lambda n: n),
        node(name="quick", output="y")(lambda n: n),
        node(name="below", output="z")(lambda y: y),
    ]
    retry = RetryPolicy(max_attempts=2, base_delay=1.0)
    engine = Engine(Graph([Graph(nodes, name="sub").as_node(retry=retry)]), clock=VirtualClock())
    run = Stepper(engine, {"n": 1}, run_id=RUN)
    run.complete("sub#0/quick#0")
    item = run._running["sub#0/below#0"]
    run.fail("sub#0/bad#0", OSError("down"))
    said = len(engine.store.entries(RUN))
    run.complete("sub#0/below#0")  # which only lets the time of the retry come
    journaled = [e.path for e in engine.store.entries(RUN)[said:] if isinstance(e, FinishedItem)]
    assert (item.batch.open_step.is_void, journaled) == (True, [])
    for path in ("sub#0/bad#0", "sub#0/quick#0", "sub#0/below#0"):
        run.complete(path)
    assert run.finish()["z"] == 1


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_subgraph_that_fails_as_it_is_entered_is_tried_again_and_then_fails(asynchronously: bool) -> None:
    deep = Graph([node(name="f", output="x")(lambda n: n)], name="deep")
    middle = Graph([deep.as_node(inputs=("n",), transform_input=lambda values: {})], name="sub")
    retry = RetryPolicy(max_attempts=3, base_delay=1.0)
    engine = Engine(Graph([middle.as_node(retry=retry)]), clock=VirtualClock())
    result = (
        asyncio.run(engine.arun({"n": 1}, check=False))
        if asynchronously
        else engine.run({"n": 1}, check=False)
    )
    assert (result.status, type(result.error), result.metrics.total_retries) == ("failed", InputError, 2)
