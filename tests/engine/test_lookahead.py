"""Lookahead: a node that no unfinished item can affect starts now, and the chain does not change.

`Stepper` holds each item until the test completes it, so a slow node is one that the test leaves running.
"""

from __future__ import annotations

import operator
from random import Random
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Context, Engine, Graph, Send, interrupt, node, route
from clew.errors import ConflictError
from clew.graph import Node
from clew.testing import Stepper, VirtualClock, random_order, run_in_order

RUN = "run"


def pipe(name: str, *reads: str, writes: str | None = None, **options: Any) -> Node:
    """A node whose output tells which values it saw; an input with a question mark has a default."""
    names = [read.rstrip("?") for read in reads]
    parameters = ", ".join(n + "=None" if r.endswith("?") else n for n, r in zip(names, reads, strict=True))
    seen = ", ".join(names)
    namespace: dict[str, Any] = {}
    exec(f"def {name}({parameters}):\n    return '{name}(' + ','.join(map(str, [{seen}])) + ')'", namespace)
    return node(output=writes or f"v_{name}", **options)(namespace[name])


def engine_of(graph: Graph, **options: Any) -> Engine:
    return Engine(graph, clock=VirtualClock(), seed=0, **options)


def chain(engine: Engine) -> list[tuple[str, ...]]:
    return [checkpoint.items for checkpoint in engine.history(RUN)[1:]]


def digests(engine: Engine) -> list[str]:
    return [checkpoint.digest for checkpoint in engine.history(RUN)]


def step_by_step(graph: Graph, values: dict[str, Any], **options: Any) -> list[str]:
    """The digests with one worker."""
    engine = engine_of(graph, max_concurrent_nodes=1, **options)
    engine.run(values, run_id=RUN, check=False)
    return digests(engine)


def stepper(graph: Graph, values: dict[str, Any], **options: Any) -> Stepper:
    return Stepper(engine_of(graph, **options), values, run_id=RUN)


def complete_all_but(run: Stepper, *slow: str) -> list[str]:
    """Let everything complete that is not slow, in the order of its start; what completed."""
    done = []
    while quick := [path for path in run.running if path not in slow]:
        run.complete(quick[0])
        done.append(quick[0])
    return done


QUICK = (pipe("one", "x"), pipe("two", "v_one"), pipe("three", "v_two"))
SLOW = Graph([pipe("slow", "x"), *QUICK, pipe("end", "v_slow", "v_three")])


def test_three_quick_nodes_in_a_row_complete_while_a_slow_one_runs() -> None:
    run = stepper(SLOW, {"x": 1})
    for path in ("one#0", "two#0", "three#0"):
        assert run.running == ["slow#0", path]
        run.complete(path)
    assert run.running == ["slow#0"]
    complete_all_but(run)
    assert run.finish().status == "completed"
    assert chain(run.engine) == [("slow#0", "one#0"), ("two#0",), ("three#0",), ("end#0",)]
    assert digests(run.engine) == step_by_step(SLOW, {"x": 1})


def test_nothing_of_a_later_step_is_committed_before_the_slow_one() -> None:
    run = stepper(SLOW, {"x": 1})
    assert complete_all_but(run, "slow#0") == ["one#0", "two#0", "three#0"]
    result = run.finish()
    assert (result.status, result.last_step, result.values) == ("cancelled", 0, {"x": 1})
    assert result.provisional == {
        "v_one": "one(1)",
        "v_two": "two(one(1))",
        "v_three": "three(two(one(1)))",
    }


def test_a_cancelled_run_goes_on_without_running_again_what_ran_ahead() -> None:
    run = stepper(SLOW, {"x": 1})
    complete_all_but(run, "slow#0", "three#0")
    run.finish()
    result = run.engine.resume(RUN)
    assert (result.status, result.metrics.total_nodes_executed) == ("completed", 5)  # each node once
    assert digests(run.engine) == step_by_step(SLOW, {"x": 1})


def uneven_loop() -> Graph:
    @route(targets=["start", END])
    def again(v_c: str, v_short: str, ctx: Context) -> Any:
        return "start" if ctx.path == "again#0" else END

    branches = pipe("a", "v_start"), pipe("b", "v_a"), pipe("c", "v_b"), pipe("short", "v_start")
    return Graph([pipe("start", "x"), *branches, again])


def test_uneven_branches_inside_a_loop_run_ahead_until_a_new_turn_could_begin() -> None:
    """Two steps after ``short`` the gate may have decided, and ``c`` would wait for the start of the next turn."""
    run = stepper(uneven_loop(), {"x": 1})
    assert complete_all_but(run, "short#0") == ["start#0", "a#0", "b#0"]
    assert run.running == ["short#0"]
    complete_all_but(run)
    assert digests(run.engine) == step_by_step(uneven_loop(), {"x": 1})
    assert chain(run.engine)[-1] == ("again#1",)


def test_an_eager_node_runs_ahead_of_what_it_would_have_waited_for() -> None:
    graph = Graph([pipe("slow", "x"), pipe("quick", "x"), pipe("log", "v_quick", "v_slow?", eager=True)])
    run = stepper(graph, {"x": 1})
    run.complete("quick#0")
    assert run.running == ["slow#0"], "it reads what the slow one writes: which version is not known yet"
    complete_all_but(run)
    assert digests(run.engine) == step_by_step(graph, {"x": 1})


def test_an_eager_node_of_another_branch_does_not_wait_for_a_slow_one() -> None:
    graph = Graph(
        [
            pipe("slow", "x"),
            pipe("later", "v_slow"),
            pipe("quick", "x"),
            pipe("log", "v_quick", "v_later?", eager=True),
        ]
    )
    run = stepper(graph, {"x": 1})
    assert complete_all_but(run, "slow#0") == ["quick#0", "log#0"]
    complete_all_but(run)
    assert digests(run.engine) == step_by_step(graph, {"x": 1})
    assert chain(run.engine) == [("slow#0", "quick#0"), ("later#0", "log#0"), ("log#1",)]


def test_an_eager_node_downstream_of_a_slow_one_waits_where_failures_are_confined() -> None:
    """Should the slow one fail, the eager one may not run at all."""
    graph = Graph(
        [
            pipe("slow", "x"),
            pipe("later", "v_slow"),
            pipe("quick", "x"),
            pipe("log", "v_quick", "v_later?", eager=True),
        ]
    )
    run = stepper(graph, {"x": 1}, on_error="continue")
    assert complete_all_but(run, "slow#0") == ["quick#0"]
    run.fail("slow#0", ValueError("no"))
    assert run.running == []
    assert chain(run.engine) == [("slow#0", "quick#0")]


def test_a_whole_state_reader_waits_for_everything() -> None:
    @node(output="report", after=["one"])
    def report(state: Any) -> str:
        return ",".join(sorted(state))

    graph = Graph([pipe("slow", "x"), *QUICK, report])
    run = stepper(graph, {"x": 1})
    assert complete_all_but(run, "slow#0") == ["one#0", "two#0", "three#0"]
    complete_all_but(run)
    assert run.finish()["report"] == "v_one,v_slow,x"
    assert digests(run.engine) == step_by_step(graph, {"x": 1})


def counting_loop(turns: int) -> Graph:
    @node(output="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def more(n: int) -> Any:
        return "count" if n < turns else END

    return Graph([pipe("slow", "x"), count, more])


def test_a_loop_of_a_thousand_turns_beside_a_slow_node_runs_to_its_end() -> None:
    run = stepper(counting_loop(1000), {"x": 1, "n": 0})
    done = complete_all_but(run, "slow#0")
    assert done[-2:] == ["count#999", "more#1000"]
    complete_all_but(run)
    assert run.finish()["n"] == 1000
    assert digests(run.engine) == step_by_step(counting_loop(1000), {"x": 1, "n": 0})


class Counting(list[Any]):
    """The open steps of a run, counting how many of them anybody looks at."""

    looked_at = 0

    def __iter__(self) -> Any:
        for each in list.__iter__(self):
            Counting.looked_at += 1
            yield each

    def __getitem__(self, key: Any) -> Any:
        found = list.__getitem__(self, key)
        Counting.looked_at += len(found) if isinstance(key, slice) else 1
        return found

    def index(self, *key: Any) -> int:
        found = list.index(self, *key)
        Counting.looked_at += found
        return found


def test_running_ahead_costs_the_same_for_each_turn() -> None:
    """However many finished steps lie between the slow node and the newest one, only a few are checked."""
    run = stepper(counting_loop(500), {"x": 1, "n": 0})
    root = run._session.machine.root
    root.open_steps = Counting(root.open_steps)
    Counting.looked_at = 0
    assert len(complete_all_but(run, "slow#0")) == 1001
    assert Counting.looked_at < 1001 * 10
    complete_all_but(run)
    assert Counting.looked_at < 1001 * 20
    assert run.finish()["n"] == 500


def test_a_step_further_ahead_sees_what_the_last_item_of_an_earlier_one_decided() -> None:
    """``door`` decides last of its step, while ``slow`` keeps a step between it and its target open."""

    @route(targets=["target"])
    def door(x: int) -> list[Send]:
        return [Send("target", {"v_one": "sent"})]

    target = pipe("target", "v_one", after=["two"])
    graph = Graph(
        [door, pipe("zero", "x"), pipe("one", "v_zero"), pipe("slow", "v_zero"), pipe("two", "v_one"), target]
    )
    for seed in range(50):
        engine = engine_of(graph)
        run_in_order(engine, {"x": 1}, choose=random_order(seed), run_id=RUN)
        assert digests(engine) == step_by_step(graph, {"x": 1}), seed


def test_a_step_that_was_planned_ahead_gets_the_nodes_that_were_not_known() -> None:
    graph = Graph([pipe("slow", "x"), *QUICK, pipe("beside", "v_slow"), pipe("join", "v_beside", "v_two")])
    run = stepper(graph, {"x": 1})
    assert complete_all_but(run, "slow#0") == ["one#0", "two#0", "three#0"]
    run.complete("slow#0")
    assert run.running == ["beside#0"]
    complete_all_but(run)
    assert chain(run.engine)[1] == ("two#0", "beside#0")
    assert digests(run.engine) == step_by_step(graph, {"x": 1})


# ---- failures and questions


def test_a_failure_ahead_starts_nothing_later_and_lets_the_rest_run() -> None:
    run = stepper(SLOW, {"x": 1})
    run.complete("one#0")
    run.fail("two#0", ValueError("no"))
    assert run.running == ["slow#0"]
    run.complete("slow#0")
    result = run.finish()
    assert (result.status, result.last_step, str(result.error)) == ("failed", 1, "no")
    assert run.running == []


def test_a_failure_further_back_wins_over_one_ahead_of_it() -> None:
    run = stepper(SLOW, {"x": 1})
    run.complete("one#0")
    run.fail("two#0", ValueError("ahead"))
    run.fail("slow#0", ValueError("first"))
    result = run.finish()
    assert str(result.error) == "first"
    assert not hasattr(result.error, "others"), "which later items had been started depends on time"


def test_items_ahead_of_a_failure_that_wait_for_a_worker_are_not_started() -> None:
    graph = Graph([pipe("slow", "x"), pipe("one", "x"), pipe("two", "v_one"), pipe("three", "v_one")])
    run = Stepper(engine_of(graph), {"x": 1}, run_id=RUN, workers=2)
    run.complete("one#0")
    assert run.running == ["slow#0", "two#0"]
    run.fail("slow#0", ValueError("no"))
    assert run.running == ["two#0"]
    run.complete("two#0")
    assert run.running == []
    assert run.finish().last_step == 0


def test_others_go_on_while_one_asks() -> None:
    @interrupt(output="v_slow")
    def slow(x: int) -> str:
        return "well?"

    graph = Graph([slow, *QUICK, pipe("end", "v_slow", "v_three")])
    engine = engine_of(graph)
    waiting = engine.run({"x": 1}, run_id=RUN)
    assert (waiting.status, waiting.last_step) == ("waiting", 0)
    assert waiting.provisional["v_three"] == "three(two(one(1)))"
    done = engine.resume(RUN, answer="yes")
    assert (done["v_end"], done.metrics.total_nodes_executed) == ("end(yes,three(two(one(1))))", 5)
    assert chain(engine) == [("slow#0", "one#0"), ("two#0",), ("three#0",), ("end#0",)]


def test_questions_come_in_the_order_of_the_items_whichever_asked_first() -> None:
    def asking(name: str) -> Node:
        return interrupt(output=f"v_{name}", name=name)(lambda x: f"{name}?")

    run = stepper(Graph([asking("a"), asking("b"), pipe("c", "v_a", "v_b")]), {"x": 1})
    run.complete("b#0")
    run.complete("a#0")
    assert [question.path for question in run.finish().questions] == ["a#0", "b#0"]


# ---- values that meet


class Log(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
    done: str


@node(output="log")
def early(x: int) -> list[str]:
    return ["early"]


@node(output="log")
def late(x: int) -> list[str]:
    return ["late"]


def test_updates_that_meet_in_a_reduced_value_merge_in_order_whenever_they_come() -> None:
    graph = Graph([early, late, pipe("read", "log", writes="done", after=["early", "late"])], state=Log)
    run = stepper(graph, {"x": 1})
    run.complete("late#0")
    complete_all_but(run)
    assert run.finish()["log"] == ["early", "late"]
    assert digests(run.engine) == step_by_step(graph, {"x": 1})


def clashing() -> Graph:
    """Two items of ``write`` write ``v``, two steps in, while ``slow`` runs."""

    @route(targets=["write"])
    def twice(x: int) -> list[Send]:
        return [Send("write", {"x": "first"}), Send("write", {"x": "second"})]

    write = pipe("write", "x", writes="v")
    return Graph([pipe("slow", "x"), twice, write, pipe("use", "v"), pipe("more", "v_use", "v_slow")])


def test_a_conflict_ahead_is_told_when_its_step_is_committed() -> None:
    run = stepper(clashing(), {"x": 1})
    complete_all_but(run, "slow#0")
    assert run.finish().error is None
    run = stepper(clashing(), {"x": 1})
    complete_all_but(run)
    result = run.finish()
    assert isinstance(result.error, ConflictError)
    assert result.last_step == 1


@pytest.mark.parametrize("seed", range(20))
def test_where_the_last_write_wins_it_is_the_last_in_order_not_in_time(seed: int) -> None:
    engine = engine_of(clashing(), on_conflict="last")
    result = run_in_order(engine, {"x": 1}, choose=random_order(seed), run_id=RUN)
    assert result["v_use"] == "use(write(second))"
    assert digests(engine) == step_by_step(clashing(), {"x": 1}, on_conflict="last")


def refuse_second(current: list[str], update: list[str]) -> list[str]:
    if current:
        raise ValueError("one is enough")
    return [*current, *update]


def keep_positive(current: list[int], update: list[int]) -> list[int]:
    if min(update) < 0:
        raise ValueError("negative")
    return [*current, *update]


class Picky(TypedDict, total=False):
    x: int
    log: Annotated[list[str], refuse_second]
    v_after: str


@pytest.mark.parametrize("first", ["early#0", "late#0"])
def test_what_was_planned_on_an_update_that_was_refused_does_not_count(first: str) -> None:
    """Alone, the update of ``late`` is accepted, so ``after`` starts; with that of ``early`` it is rejected."""
    graph = Graph([early, late, pipe("after", "x", writes="v_after", after=["late"])], state=Picky)
    run = stepper(graph, {"x": 1}, on_error="continue")
    run.complete(first)
    complete_all_but(run, "after#0")
    complete_all_but(run)
    result = run.finish()
    assert (result.status, result["log"], "v_after" in result) == ("completed", ["early"], False)
    assert chain(run.engine) == [("early#0", "late#0")]


class Signed(TypedDict, total=False):
    x: int
    log: Annotated[list[int], keep_positive]
    v_slow: str
    v_one: str
    v_two: str
    v_three: str
    v_beside: str


def test_an_update_ahead_that_will_be_refused_keeps_nothing_from_running() -> None:
    """``beside`` joins the step of ``two`` and ``bad`` late, when the lookahead states can no longer be built."""
    slow = node(name="slow", writes=("log", "v_slow"))(lambda x: {"log": [1], "v_slow": "s"})
    bad = node(name="bad", output="log")(lambda v_one: [-1])
    graph = Graph([slow, *QUICK, bad, pipe("beside", "v_slow", "v_two?", eager=True)], state=Signed)
    run = stepper(graph, {"x": 1})
    for path in ("one#0", "two#0", "bad#0", "three#0", "slow#0"):
        run.complete(path)
    assert run.running == ["beside#0"]
    run.complete("beside#0")
    result = run.finish()
    assert (result.status, str(result.error), result.last_step) == ("failed", "negative", 1)


def test_an_item_ahead_sees_the_state_of_its_own_step() -> None:
    run = stepper(SLOW, {"x": 1})
    run.complete("one#0")
    work = run._running["two#0"].work_item()
    assert (work.step_id, work.state) == (2, {"x": 1, "v_one": "one(1)"})


# ---- many at once


def wide() -> Graph:
    """Thirty branches of twenty nodes that meet in one."""
    nodes = [
        pipe(
            f"n{branch}_{place}", f"v_n{branch}_{place - 1}" if place else "x", writes=f"v_n{branch}_{place}"
        )
        for place in range(20)
        for branch in range(30)
    ]

    @node(output="total")
    def total(state: Any) -> int:
        return sum(len(value) for name, value in state.items() if name != "x")

    return Graph([*nodes, total], edges=[(f"n{branch}_19", "total") for branch in range(30)])


def test_thirty_branches_of_twenty_in_any_order_give_the_chain_of_one_worker() -> None:
    graph = wide()
    expected = step_by_step(graph, {"x": 1})
    for seed in range(5):
        engine = engine_of(graph)
        run_in_order(
            engine, {"x": 1}, choose=random_order(seed), workers=[None, 2, 7, 64, 1][seed], run_id=RUN
        )
        assert digests(engine) == expected, seed


def test_a_branch_may_be_twenty_steps_ahead_of_the_others() -> None:
    run = stepper(wide(), {"x": 1})
    while ahead := [path for path in run.running if path.startswith("n7_")]:
        run.complete(ahead[0])
    assert ahead == []
    assert all(path.endswith("_0#0") for path in run.running)
    assert len(run.running) == 29
    rng = Random(0)
    while run.running:
        run.complete(rng.choice(run.running))
    assert run.finish().status == "completed"


def test_a_late_writer_of_an_earlier_step_does_not_hide_what_a_later_one_wrote() -> None:
    """`a` of step 3 finishes after `b` of step 5; both write `v`, and `reader` of step 6 is started ahead."""

    @node(output="n")
    def tick(n: int = 0) -> int:
        return n + 1

    @route(targets=["tick", END])
    def again(n: int) -> str:
        return "tick" if n < 2 else END

    @route(targets=["a", "b"], eager=True)
    def pick(n: int) -> str:
        return "a" if n < 2 else "b"

    def write(name: str) -> Node:
        return node(name=name, output="v", eager=True)(lambda x: name)

    reader = node(name="reader", output="seen")(lambda v: v)
    slow = node(name="slow", output="s")(lambda x: x)
    beyond = node(name="beyond", output="w", after=["b"])(
        lambda x: x
    )  # so that step 6 is planned before `a` is done
    graph = Graph([tick, again, pick, write("a"), write("b"), reader, slow, beyond])
    run = Stepper(graph, {"x": 1})
    for path in ("tick#0", "again#0", "pick#0", "tick#1", "again#1", "pick#1", "b#0"):
        run.complete(path)
    assert run.running == ["slow#0", "a#0", "beyond#0"]
    run.complete("a#0")
    assert run.running == ["slow#0", "beyond#0", "reader#0"]
    run.complete("beyond#0")
    run.complete("reader#0")
    run.complete("slow#0")
    assert (run.finish()["seen"], graph.run({"x": 1}, max_concurrent_nodes=1)["seen"]) == ("b", "b")


def test_a_cutoff_compares_with_what_all_writers_of_earlier_steps_wrote() -> None:
    pick = route(name="pick", targets=["slow", "same"])(lambda n: "slow" if n == 0 else "same")
    count = node(name="count", output="n")(lambda n: n + 1)
    more = route(name="more", targets=["count", END], after=["pick"])(lambda n: "count" if n == 0 else END)
    slow = node(name="slow", output="v", eager=True)(lambda n: "equal")
    same = node(name="same", output="v", eager=True, cutoff=True)(lambda n: "equal")
    graph = Graph([pick, count, more, slow, same])
    run = stepper(graph, {"n": 0})
    done = complete_all_but(run, "slow#0")
    assert "count#0" in done
    assert "same#0" not in done, "it has to know what `slow` writes"
    complete_all_but(run)
    assert run.finish().state.versions["v"] == 1
    assert digests(run.engine) == step_by_step(graph, {"n": 0})
