"""How runs end: completed, failed, stalled, or out of steps; and which error they report."""

from __future__ import annotations

import operator
from itertools import permutations
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Engine, Graph, Send, interrupt, node, route
from clew.errors import ConflictError, GraphWarning, MaxStepsError, StalledError
from clew.graph import Node
from clew.state import position_of
from clew.testing import Stepper, VirtualClock
from tests.refusing import below_ten

RUN = "run"


def plain(name: str, output: str | None = None, **options: Any) -> Node:
    return node(name=name, output=output or f"v_{name}", **options)(lambda x: f"{name} {x}")


def failing(name: str, *, error: Exception | None = None, **options: Any) -> Node:
    def fail(x: int) -> Any:
        raise error or ValueError(name)

    return node(name=name, output=f"v_{name}", **options)(fail)


# ---- which error


@pytest.mark.parametrize("order", list(permutations(["a#0", "b#0", "c#0"])))
def test_the_error_does_not_depend_on_which_failed_first(order: tuple[str, ...]) -> None:
    run = Stepper(Graph([plain("a"), failing("b"), failing("c")]), {"x": 1})
    for path in order:
        run.complete(path)
    result = run.finish()
    assert (result.status, str(result.error), result.last_step) == ("failed", "b", 0)
    assert [(failure.path, str(failure.error)) for failure in result.failures] == [("b#0", "b"), ("c#0", "c")]


def test_asking_again_for_the_error_adds_nothing_to_it() -> None:
    engine = Engine(Graph([failing("a"), failing("b")]))
    assert not hasattr(engine.run({"x": 1}, run_id=RUN, check=False).error, "__notes__")
    assert engine._live == {}
    assert not hasattr(engine.resume(RUN, check=False).error, "__notes__")


def test_one_error_raised_by_two_items_is_told_once() -> None:
    error = ValueError("shared")
    result = Graph([failing("a", error=error), failing("b", error=error)]).run({"x": 1}, check=False)
    assert [failure.error for failure in result.failures] == [error]


def test_the_error_says_who_raised_it_and_where() -> None:
    result = Graph([failing("a")]).run({"x": 1}, check=False)
    (found,) = result.failures
    assert (found.node, found.path, found.step, found.attempts, found.around) == ("a", "a#0", 1, 1, ())
    assert str(found) == "node 'a' at a#0 in step 1, attempt 1"


def test_the_others_of_a_failed_step_still_run_and_are_kept() -> None:
    calls: list[str] = []

    @node(output="v_b")
    def b(x: int) -> int:
        calls.append("b")
        return x

    engine = Engine(Graph([failing("a"), b]), max_concurrent_nodes=1)
    assert engine.run({"x": 1}, run_id=RUN, check=False).status == "failed"
    assert engine.resume(RUN, check=False).status == "failed"
    assert calls == ["b"]


# ---- confined failures


def test_a_confined_failure_stops_what_is_behind_it_and_nothing_else() -> None:
    tail = node(name="tail", output="t")(lambda v_a=None, v_b=None: (v_a, v_b))
    after = node(name="after", output="u")(lambda v_b: v_b)
    result = Graph([failing("a"), plain("b"), tail, after]).run({"x": 1}, on_error="continue")
    assert (result.status, str(result.error), result["u"]) == ("completed", "a", "b 1")
    assert result.never_ran == {"tail": ()}
    assert position_of(result.state).failed == {"a"}


def test_the_first_of_several_confined_failures_is_told() -> None:
    late = node(name="late", output="w")(lambda v_b: 1 / 0)
    result = Graph([plain("b"), late, failing("c")]).run({"x": 1}, on_error="continue")
    assert str(result.error) == "c"
    assert not hasattr(result.error, "others"), "the other one failed in another step"


def test_one_failed_item_of_a_batch_fails_the_node_and_keeps_the_others() -> None:
    class State(TypedDict, total=False):
        found: Annotated[list[int], operator.add]
        total: int

    @route(targets=["scan"])
    def fan() -> list[Send]:
        return [Send("scan", {"q": q}) for q in (1, 0, 2)]

    @node(output="found")
    def scan(q: int) -> list[int]:
        return [6 // q]

    @node(output="total", after=["scan"])
    def total(found: list[int]) -> int:
        return sum(found)

    result = Graph([fan, scan, total], state=State).run({}, on_error="continue")
    assert isinstance(result.error, ZeroDivisionError)
    assert (result["found"], result.never_ran) == ([6, 3], {"total": ()})


def test_a_confined_failure_survives_an_interrupt_beside_it() -> None:
    @interrupt(output="answer")
    def ask(x: int) -> str:
        return "well?"

    engine = Engine(
        Graph([ask, failing("a"), node(name="use", output="u")(lambda answer: answer)]), on_error="continue"
    )
    assert engine.run({"x": 1}, run_id=RUN).status == "waiting"
    result = engine.resume(RUN, answer="yes")
    assert (result.status, str(result.error), result["u"]) == ("completed", "a", "yes")


def test_a_confined_failure_in_the_chain_is_told_by_the_resumed_run() -> None:
    @interrupt(output="answer", after=["b"])
    def ask(x: int) -> str:
        return "well?"

    engine = Engine(Graph([failing("a"), plain("b"), ask]), on_error="continue")
    waiting = engine.run({"x": 1}, run_id=RUN)
    assert (waiting.status, waiting.last_step) == ("waiting", 1)
    result = engine.resume(RUN, answer="yes")
    assert (result.status, str(result.error)) == ("completed", "a")


# ---- conflicts


def clash() -> tuple[Graph, list[int]]:
    calls: list[int] = []

    @route(targets=["write"])
    def fan(x: int) -> list[Send]:
        return [Send("write", {"x": 1}), Send("write", {"x": 2})]

    @node(output="v")
    def write(x: int) -> int:
        calls.append(x)
        return x

    return Graph([fan, write, plain("other", after=["fan"])]), calls


def test_a_conflict_names_value_and_writers_and_commits_nothing() -> None:
    graph, _ = clash()
    result = graph.run({"x": 0}, check=False)
    assert isinstance(result.error, ConflictError)
    assert str(result.error) == (
        "write#0[0] and write#0[1] both wrote 'v' in one step; give 'v' a reducer (Annotated[..., clew.append] in "
        'the state schema), put one after the other, or run with on_conflict="last"'
    )
    assert (result.last_step, result.values) == (1, {"x": 0})


@pytest.mark.parametrize("order", list(permutations(["write#0[0]", "write#0[1]", "other#0"])))
def test_nothing_is_lost_in_a_conflict(order: tuple[str, ...]) -> None:
    """Resumed with the last write winning, the run continues without running anything again."""
    graph, calls = clash()
    run = Stepper(Engine(graph, clock=VirtualClock()), {"x": 0}, run_id=RUN)
    run.complete("fan#0")
    for path in order:
        run.complete(path)
    assert run.finish().status == "failed"
    again = Engine(graph, store=run.engine.store, on_conflict="last").resume(RUN)
    assert (again.status, again["v"], again["v_other"], sorted(calls)) == ("completed", 2, "other 0", [1, 2])


def test_a_conflict_stays_one_when_the_run_is_resumed_as_it_was() -> None:
    graph, calls = clash()
    engine = Engine(graph)
    first = engine.run({"x": 0}, run_id=RUN, check=False)
    again = engine.resume(RUN, check=False)
    assert str(again.error) == str(first.error)
    assert sorted(calls) == [1, 2]


def test_the_last_write_wins_where_that_was_asked_for() -> None:
    graph, _ = clash()
    result = graph.run({"x": 0}, on_conflict="last")
    assert (result["v"], result.state.versions["v"]) == (2, 2)


# ---- reducers that refuse


def positive(current: list[int], update: list[int]) -> list[int]:
    if min(update) < 0:
        raise ValueError("negative")
    return [*current, *update]


class Picky(TypedDict, total=False):
    x: int
    log: Annotated[list[int], positive]
    v_c: str


def picky(calls: list[str], *, mended: bool = False) -> Graph:
    def writer(name: str, value: int) -> Node:
        def write(x: int) -> list[int]:
            calls.append(name)
            return [value]

        return node(name=name, output="log")(write)

    return Graph([writer("a", 1), writer("b", 2 if mended else -2), plain("c", after=["b"])], state=Picky)


@pytest.mark.parametrize("order", [("a#0", "b#0"), ("b#0", "a#0")])
def test_an_update_that_a_reducer_refuses_fails_the_item_that_made_it(order: tuple[str, str]) -> None:
    run = Stepper(Engine(picky([])), {"x": 1}, run_id=RUN)
    for path in order:
        run.complete(path)
    result = run.finish()
    assert (result.status, str(result.error), result.values) == ("failed", "negative", {"x": 1, "log": []})
    assert [(found.path, found.step, found.refused) for found in result.failures] == [("b#0", 1, "log")]


@pytest.mark.parametrize("order", [("a#0", "b#0"), ("b#0", "a#0")])
def test_the_refused_item_runs_again_on_resume_and_no_other(order: tuple[str, str]) -> None:
    calls: list[str] = []
    run = Stepper(Engine(picky(calls)), {"x": 1}, run_id=RUN)
    for path in order:
        run.complete(path)
    run.finish()
    with pytest.warns(GraphWarning):  # the code of `b` has changed
        result = Engine(picky(calls, mended=True), store=run.engine.store).resume(RUN)
    assert (result.status, result["log"]) == ("completed", [1, 2])
    assert sorted(calls) == ["a", "b", "b"]


def test_a_refused_update_of_one_item_alone() -> None:
    graph = Graph([node(name="a", output="log")(lambda x: [-1])], state=Picky)
    for options in ({}, {"listeners": [lambda event: None]}):
        result = Engine(graph, **options).run({"x": 1}, check=False)
        assert (result.status, str(result.error)) == ("failed", "negative")


CALLS: list[int] = []


def moody(current: int, update: int) -> int:
    CALLS.append(update)
    if len(CALLS) == 1:
        raise ValueError("not now")
    return current + update


class Moody(TypedDict, total=False):
    x: int
    total: Annotated[int, moody]


@pytest.mark.parametrize("names", ["ab", "a"])
def test_a_reducer_that_refuses_is_not_asked_again(names: str) -> None:
    CALLS.clear()
    nodes = [node(name=name, output="total")(lambda x: 1) for name in names]
    result = Graph(nodes, state=Moody).run({"x": 1}, check=False)
    assert (result.status, str(result.error), CALLS) == ("failed", "not now", [1])


def test_a_refused_update_is_confined_like_any_failure() -> None:
    result = picky([]).run({"x": 1}, on_error="continue")
    assert (result.status, result["log"], result.never_ran) == ("completed", [1], {"c": ()})


# ---- stalled, and out of steps


def test_a_selected_node_that_lacks_an_input_stalls_the_run() -> None:
    door = route(name="door", targets=["a", "maker", END])(lambda x: "a")
    graph = Graph([door, node(name="a", output="y")(lambda made: made), plain("maker", "made")])
    result = graph.run({"x": 1}, check=False)
    assert isinstance(result.error, StalledError)
    assert str(result.error) == (
        "the run cannot continue: 'a' was selected but lacks 'made'; give these values, or let a node write them"
    )
    assert (result.last_step, result.never_ran) == (1, {"a": ("made",), "maker": ()})


def test_a_send_that_lacks_an_input_stalls_the_run_and_names_what_it_does_not_bring() -> None:
    door = route(name="door", targets=["a", "maker", END])(lambda x: [Send("a", {"q": 1})])
    graph = Graph([door, node(name="a", output="y")(lambda q, made: made), plain("maker", "made")])
    result = graph.run({"x": 1}, check=False)
    assert str(result.error).startswith("the run cannot continue: 'a' was selected but lacks 'made';")


def test_a_run_that_does_not_settle_names_what_kept_running() -> None:
    @node(output="n")
    def count(n: int) -> int:
        return n + 1

    more = route(name="more", targets=["count", END])(lambda n: "count")
    result = Graph([count, more]).run({"n": 0}, max_steps=7, check=False)
    assert isinstance(result.error, MaxStepsError)
    assert str(result.error) == (
        "the run did not settle in 7 steps; still due: 'count' (3 times); let a gate end the loop, or raise max_steps"
    )
    assert result.last_step == 7


def test_a_run_that_needs_exactly_max_steps_completes() -> None:
    tail = node(name="tail", output="t")(lambda v_a: v_a)
    assert Graph([plain("a"), tail]).run({"x": 1}, max_steps=2).status == "completed"
    assert Graph([plain("a"), tail]).run({"x": 1}, max_steps=1, check=False).status == "failed"


def test_a_node_that_nothing_selected_and_that_lacks_an_input_is_no_failure() -> None:
    door = route(name="door", targets=["a", END])(lambda x: None)
    result = Graph([door, node(name="a", output="y")(lambda made: made)]).run({"x": 1})
    assert (result.status, result.never_ran) == ("completed", {"a": ("made",)})


# ---- a failure that shows only when the step is merged


class Limited(TypedDict, total=False):
    x: int
    total: Annotated[int, below_ten]
    v_quick: str
    v_below: str
    v_after: str


def counted(calls: list[str], name: str, output: str, *reads: str, value: Any = None, **options: Any) -> Node:
    def run(one: Any) -> Any:
        calls.append(name)
        return name if value is None else value

    return node(name=name, output=output, **options)(run).rename(inputs={"one": reads[0]})


def limited(calls: list[str], **options: Any) -> Stepper:
    graph = Graph(
        [
            counted(calls, "first", "total", "x", value=6),
            counted(calls, "second", "total", "x", value=7),
            counted(calls, "quick", "v_quick", "x"),
            counted(calls, "below", "v_below", "v_quick"),
            counted(calls, "after", "v_after", "x", after=["second"]),
        ],
        state=Limited,
    )
    return Stepper(graph, {"x": 1}, on_error="continue", **options)


def test_what_was_planned_ahead_beside_a_refused_update_runs_once() -> None:
    calls: list[str] = []
    run = limited(calls)
    for path in ("first#0", "quick#0", "below#0", "second#0"):
        run.complete(path)
    result = run.finish()
    assert calls == ["first", "quick", "below", "second"]
    assert (result["v_below"], result["total"], result.last_step) == ("below", 6, 2)
    assert (str(result.error), result.never_ran) == ("6 + 7 is too much", {"after": ()})


def test_what_still_runs_ahead_when_an_update_is_refused_goes_on() -> None:
    calls: list[str] = []
    run = limited(calls)
    for path in ("first#0", "quick#0", "second#0"):
        run.complete(path)
    assert run.running == ["below#0"]
    run.complete("below#0")
    result = run.finish()
    assert (calls.count("below"), result["v_below"], str(result.error)) == (1, "below", "6 + 7 is too much")


@pytest.mark.parametrize("finishes", [True, False])
def test_what_was_started_on_an_update_that_is_refused_leaves_nothing_behind(finishes: bool) -> None:
    calls: list[str] = []
    run = limited(calls)
    run.complete("second#0")
    run.complete("quick#0")
    assert run.running == ["first#0", "after#0", "below#0"]
    if finishes:
        run.complete("after#0")
    run.complete("below#0")
    run.complete("first#0")  # declared before the second, whose update is refused now
    if not finishes:
        run.complete("after#0")
    result = run.finish()
    assert (result.status, result.last_step, "v_after" in result.values) == ("completed", 2, False)
    assert (calls.count("below"), result["v_below"]) == (1, "below")
    assert position_of(result.state).failed == {"second"}
    assert result.never_ran == {"after": ()}


def test_a_failure_of_what_was_let_fall_is_not_told() -> None:
    run = limited([])
    run.complete("second#0")
    run.fail("after#0", KeyError("gone"))
    for path in ("quick#0", "below#0", "first#0"):
        run.complete(path)
    result = run.finish()
    assert (str(result.error), position_of(result.state).failed) == ("6 + 7 is too much", {"second"})


def test_a_question_of_what_was_let_fall_is_not_asked() -> None:
    ask = interrupt(name="after", output="v_after", after=["second"])(lambda x: "sure?")
    second, first = (counted([], name, "total", "x", value=7) for name in ("second", "first"))
    run = Stepper(Graph([first, second, ask], state=Limited), {"x": 1}, on_error="continue")
    run.complete("second#0")
    run.complete("after#0")
    run.complete("first#0")
    result = run.finish()
    assert (result.status, result.questions, str(result.error)) == ("completed", (), "7 + 7 is too much")


def test_a_later_failure_does_not_let_more_start_than_an_earlier_one_did() -> None:
    nodes = [
        failing("bad"),
        counted([], "quick", "v_quick", "x"),
        counted([], "below", "v_below", "v_quick"),
        counted([], "slow", "v_slow", "x"),
        counted([], "after", "v_after", "v_slow"),
    ]
    run = Stepper(Graph(nodes), {"x": 1})
    run.complete("quick#0")
    assert run.running == ["bad#0", "slow#0", "below#0"]
    run.complete("bad#0")  # in step 1: nothing of step 2 is started any more
    run.fail("below#0", ValueError("of step 2"))
    run.complete("slow#0")
    assert run.running == []
    result = run.finish()
    assert (str(result.error), result.provisional) == ("bad", {"v_quick": "quick", "v_slow": "slow"})


@pytest.mark.parametrize("broken_off", [False, True])
def test_what_runs_again_after_a_refused_update_sees_that_it_was_refused(broken_off: bool) -> None:
    """`head` of step 3 was done on what `second` wrote; without that it runs all the same, and sees something else."""

    class State(TypedDict, total=False):
        x: int
        v: int
        h: list[int]
        total: Annotated[int, below_ten]

    seen: list[int] = []

    @node(output="h")
    def head(x: int, v: int = 0) -> list[int]:
        seen.append(v)
        return [len(seen), v]

    first = node(name="first", output="total", eager=True)(lambda h: 6 if h[0] == 1 else 0)
    second = node(name="second", writes=("total", "v"))(lambda h: {"total": 7, "v": 5})
    again = route(name="again", targets=["head", END])(lambda h: "head" if h[0] == 1 else END)
    graph = Graph([first, second, again, head], state=State, entry="head")
    engine = Engine(graph, on_error="continue", clock=VirtualClock())
    run = Stepper(engine, {"x": 1}, run_id=RUN)
    for path in ("head#0", "second#0", "again#0", "head#1"):
        run.complete(path)
    assert seen == [0, 5]
    if broken_off:
        run.finish()
        result = engine.resume(RUN)
    else:
        run.complete("first#0")
        while run.running:
            run.complete(run.running[0])
        result = run.finish()
    assert seen == [0, 5, 0]
    assert (str(result.error), result["h"][1], position_of(result.state).failed) == (
        "6 + 7 is too much",
        0,
        {"second"},
    )


@pytest.mark.parametrize("late", [True, False])
def test_two_steps_with_refused_updates_leave_what_is_beside_them_alone(late: bool) -> None:
    calls: list[str] = []
    graph = Graph(
        [
            counted(calls, "first", "total", "x", value=6),
            counted(calls, "second", "total", "x", value=7),
            counted(calls, "quick", "v_quick", "x"),
            counted(calls, "third", "total", "v_quick", value=5),
            counted(calls, "below", "v_below", "v_quick"),
            counted(calls, "after", "v_after", "v_below"),
        ],
        state=Limited,
    )
    run = Stepper(graph, {"x": 1}, on_error="continue")
    for path in ("quick#0", "below#0", "second#0", "third#0"):
        run.complete(path)
    if not late:
        run.complete("after#0")
    run.complete("first#0")  # now the second is refused in step 1, and the third in step 2
    if late:
        assert run.running == ["after#0"]
        run.complete("after#0")
    result = run.finish()
    assert (result["total"], result["v_after"], result.last_step) == (6, "after", 3)
    assert position_of(result.state).failed == {"second", "third"}
    assert sorted(calls) == ["after", "below", "first", "quick", "second", "third"]
