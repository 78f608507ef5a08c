"""The machine as a function: a run that is kept stays as it is, whatever is made of it."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from clew import Graph, RetryPolicy, interrupt, node
from clew.engine.copying import copy_of
from clew.engine.frontier import Frontier
from clew.engine.machine import Machine
from clew.engine.programs import program_of
from clew.engine.records import Deadline, Question, Retry, Single, Start, Step
from clew.engine.stepping import (
    Answered,
    Asked,
    Execute,
    Failed,
    Finished,
    Run,
    TimedOut,
    Woken,
    begin,
    step,
)
from clew.engine.strand import Batch, Item, Level, Strand
from clew.engine.terms import Options
from clew.engine.view import View
from clew.errors import InputError, NodeTimeoutError, RunStateError
from clew.graph import Node
from tests.engine.graphs import MAX_STEPS, cases
from tests.engine.nested import nested_cases
from tests.engine.rich import GIVEN, rich
from tests.reference.generate import Knobs

GRAPH, VALUES = rich(), GIVEN
EVENTFUL = Knobs(gates=0.4, backwards=0.4, failures=0.1, sends=0.5, reduced=0.5, cutoff=0.2, defaults=0.3)


def node_at(graph: Graph, path: str) -> Node:
    *around, last = [part.partition("#")[0] for part in path.split("/")]
    for name in around:
        inside = graph.nodes[name].subgraph
        assert inside is not None
        graph = inside.graph
    return graph.nodes[last]


def execute(graph: Graph, effect: Execute) -> Any:
    """What a driver would tell the machine of the item."""
    called = node_at(graph, effect.path)
    args, named = [], {}
    for p in called.params:
        if p.kind == "context":
            value: Any = SimpleNamespace(path=effect.path, attempt=effect.attempt, step_id=0)
        else:
            value = effect.inputs[p.name]
        if p.keyword_only:
            named[p.name] = value
        else:
            args.append(value)
    try:
        value = called.func(*args, **named)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except Exception as error:
        return Failed(effect.path, error)
    return Finished(effect.path, value)


def chain_of(effects: list[Any]) -> list[Any]:
    """What was committed: the steps, each with what its items did, without times."""
    steps = [e.step() if isinstance(e, Single) else e for e in effects if isinstance(e, Single | Step)]
    return [
        (s.prefix, s.number, [(o.path, dict(o.update), o.decision, repr(o.error)) for o in s.outcomes])
        for s in sorted(steps, key=lambda s: (s.prefix, s.epoch, s.number))
    ]


Kept = tuple[Run, dict[str, Execute], list[Any]]


def play(graph: Graph, begun: Kept, rng: Random, keep: float = 0.0) -> tuple[list[Any], str, list[Kept]]:
    """Go on to the end in some order; what was said, how it ended, and what was kept on the way."""
    run, todo, said = begun[0], dict(begun[1]), list(begun[2])
    kept: list[Kept] = []
    while run.executing or run.waiting:
        if rng.random() < keep:
            kept.append((run, dict(todo), list(said)))
        path = rng.choice((*run.executing, *run.waiting))
        event = Woken(path) if path in run.waiting else execute(graph, todo.pop(path))
        run, effects = step(run, event)
        said += effects
        todo.update((e.path, e) for e in effects if isinstance(e, Execute))
    return said, run.status, kept


def check(graph: Graph, given: dict[str, Any], options: Options, seed: int) -> int:
    run, effects = begin(graph, given, options)
    begun: Kept = (run, {e.path: e for e in effects if isinstance(e, Execute)}, list(effects))
    rng = Random(seed)
    said, status, kept = play(graph, begun, rng, keep=0.3)
    for again in (begun, *rng.sample(kept, min(3, len(kept)))):
        other, ended, _ = play(graph, again, Random(rng.random()))
        assert ended == status
        if status == "completed":
            assert chain_of(other) == chain_of(said)
    return len(kept)


def test_a_kept_run_goes_on_to_the_same_end() -> None:
    checked = 0
    for case in cases(range(400), EVENTFUL):
        depth = 1 if case.seed % 3 else 1024
        options = Options(max_steps=MAX_STEPS, on_error=case.on_error, queue_depth=depth)
        with suppress(InputError):  # a value that nobody gives
            checked += check(case.graph, case.given, options, case.seed)
    assert checked > 100


def test_a_kept_run_of_subgraphs_goes_on_to_the_same_end() -> None:
    checked = check(GRAPH, dict(VALUES), Options(), 1) + check(GRAPH, dict(VALUES), Options(), 2)
    for case in nested_cases(range(40), EVENTFUL):
        checked += check(case.graph, case.given, Options(max_steps=MAX_STEPS), case.seed)
    assert checked > 50


def test_a_step_changes_nothing_but_its_copy() -> None:
    @node(output="items")
    def more(items: list[int]) -> list[int]:
        return [*items, 1]

    graph = Graph([more])
    run, effects = begin(graph, {"items": []})
    assert effects == [Execute("more#0", "more", 0, {"items": []})]
    after, said = step(run, Finished("more#0", [1]))
    assert (run.status, run.steps, run.executing, dict(run.values)) == (
        "running",
        0,
        ("more#0",),
        {"items": []},
    )
    assert (after.status, after.steps, after.executing, dict(after.values)) == (
        "completed",
        1,
        (),
        {"items": [1]},
    )
    assert isinstance(said[0], Step)
    other, _ = step(run, Failed("more#0", ValueError("no")))
    assert other.status == "failed"
    assert str(other.error) == "no"
    assert after.error is None


def test_retries_wait_until_they_are_woken() -> None:
    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
    def fetch() -> int:
        return 1

    run, _ = begin(Graph([fetch]), {})
    waiting, said = step(run, Failed("fetch#0", OSError("down")))
    assert isinstance(said[0], Retry)
    assert (waiting.status, waiting.waiting, waiting.executing) == ("running", ("fetch#0",), ())
    again, effects = step(waiting, Woken("fetch#0"))
    assert effects == [Execute("fetch#0", "fetch", 1, {})]
    assert step(again, Finished("fetch#0", 5))[0].values == {"x": 5}
    assert waiting.waiting == ("fetch#0",)


def test_a_question_leaves_the_run_waiting() -> None:
    @interrupt(output="ok")
    def approve(plan: str) -> str:
        return f"do {plan}?"

    @node(output="x")
    def work(plan: str) -> int:
        return 1

    run, _ = begin(Graph([approve, work]), {"plan": "it"})
    asked, said = step(run, Finished("approve#0", "do it?"))
    assert any(isinstance(record, Question) for record in said)
    done, _ = step(asked, Finished("work#0", 1))
    assert done.status == "waiting"
    other, said = step(run, Asked("work#0", "really?"))
    assert [record.question for record in said if isinstance(record, Question)] == ["really?"]
    assert other.executing == ("approve#0",)


def test_an_answer_becomes_the_value_of_an_interrupt() -> None:
    @interrupt(output="ok")
    def approve(plan: str) -> str:
        return f"do {plan}?"

    @node(output="done")
    def work(ok: bool) -> str: ...

    run, _ = begin(Graph([approve, work]), {"plan": "it"})
    asked, _ = step(run, Finished("approve#0", "do it?"))
    assert [(q.path, q.question) for q in asked.questions] == [("approve#0", "do it?")]
    for answer in (True, False):
        answered, effects = step(asked, Answered("approve#0", answer))
        assert [e for e in effects if isinstance(e, Execute)] == [
            Execute("work#0", "work", 0, {"ok": answer})
        ]
        assert (answered.status, answered.questions, answered.steps) == ("running", (), 1)
    assert (asked.status, len(asked.questions), asked.steps) == ("waiting", 1, 0)


def test_a_node_that_asked_starts_over_with_its_answers() -> None:
    @node(output="x")
    def work(plan: str) -> int: ...

    run, _ = begin(Graph([work]), {"plan": "it"})
    asked, _ = step(run, Asked("work#0", "really?"))
    again, effects = step(asked, Answered("work#0", "yes"))
    assert effects == [Execute("work#0", "work", 0, {"plan": "it"}, ("yes",))]
    more, said = step(again, Asked("work#0", "sure?"))
    assert [(record.question, record.number) for record in said] == [("sure?", 1)]
    last, effects = step(more, Answered("work#0", "very"))
    assert effects == [Execute("work#0", "work", 0, {"plan": "it"}, ("yes", "very"))]
    assert step(last, Finished("work#0", 3))[0].values == {"plan": "it", "x": 3}


def test_an_answer_in_a_run_that_failed_beside_it_is_taken() -> None:
    ask = interrupt(name="ask", output="ok")(lambda x: "?")
    run, _ = begin(Graph([ask, node(name="other", output="y")(lambda x: 1)]), {"x": 1})
    asked, _ = step(run, Finished("ask#0", "?"))
    failed, _ = step(asked, Failed("other#0", ValueError("no")))
    answered, _ = step(failed, Answered("ask#0", 7))
    assert (failed.status, answered.status, answered.questions) == ("failed", "failed", ())


def test_what_times_out_fails_or_is_tried_again() -> None:
    once = node(name="once", output="x")(lambda: 1)
    twice = node(name="twice", output="y", retry=RetryPolicy(max_attempts=2, base_delay=1.0))(lambda: 1)
    run, _ = begin(Graph([once, twice]), {})
    retried, said = step(run, TimedOut("twice#0"))
    assert (retried.waiting, type(said[0])) == (("twice#0",), Retry)
    failed, _ = step(run, TimedOut("once#0"))
    assert failed.executing == ("twice#0",)
    assert isinstance(failed.error, NodeTimeoutError)
    assert str(failed.error) == "node 'once' at once#0 did not finish in time"


def test_a_subgraph_times_out_with_all_that_runs_inside() -> None:
    inner = Graph(
        [node(name="a", output="x")(lambda n: n), node(name="b", output="y")(lambda n: n)], name="sub"
    )
    retry = RetryPolicy(max_attempts=2, base_delay=1.0)
    run, effects = begin(Graph([inner.as_node(timeout=5.0, retry=retry)]), {"n": 1})
    assert [(e.item.path, e.seconds) for e in effects if isinstance(e, Deadline)] == [("sub#0", 5.0)]
    assert (run.executing, run.inside) == (("sub#0/a#0", "sub#0/b#0"), ("sub#0",))
    over, _ = step(run, TimedOut("sub#0"))
    assert (over.executing, over.inside, over.waiting) == ((), (), ("sub#0",))
    again, _ = step(over, Woken("sub#0"))
    assert (again.executing, again.inside) == (("sub#0/a#0", "sub#0/b#0"), ("sub#0",))
    again, _ = step(again, Finished("sub#0/a#0", 1))
    again, _ = step(again, Finished("sub#0/b#0", 2))
    assert (again.status, again.inside, dict(again.values)) == ("completed", (), {"n": 1, "x": 1, "y": 2})
    with pytest.raises(RunStateError, match="nothing is to be heard of 'sub#0'; under way: nothing"):
        step(again, TimedOut("sub#0"))


def test_what_was_let_fall_is_neither_executing_nor_waiting_nor_asking() -> None:
    retry = RetryPolicy(max_attempts=2, base_delay=1.0)
    nodes = [
        node(name="runs", output="x")(lambda n: n),
        node(name="retries", output="y", retry=retry)(lambda n: n),
        interrupt(name="asks", output="z")(lambda n: n),
    ]
    run, _ = begin(Graph([Graph(nodes, name="sub").as_node(timeout=5.0)]), {"n": 1})
    run, _ = step(run, Failed("sub#0/retries#0", OSError("down")))
    run, _ = step(run, Finished("sub#0/asks#0", "?"))
    assert (run.executing, run.waiting) == (("sub#0/runs#0",), ("sub#0/retries#0",))
    over, _ = step(run, TimedOut("sub#0"))
    assert (over.status, over.executing, over.waiting, over.inside) == ("failed", (), (), ())
    for event in (Finished("sub#0/runs#0", 1), Woken("sub#0/retries#0"), Answered("sub#0/asks#0", 1)):
        with pytest.raises(RunStateError, match="nothing is to be heard of"):
            step(over, event)


def test_what_nobody_waits_for_is_refused() -> None:
    run, _ = begin(GRAPH, dict(VALUES))
    with pytest.raises(RunStateError, match="nothing is to be heard of 'x#0'; under way: outline#0"):
        step(run, Finished("x#0", 1))


def test_a_run_goes_on_from_a_state() -> None:
    whole = GRAPH.run(VALUES)
    run, effects = begin(GRAPH, whole.state)
    assert (run.status, effects) == ("completed", [])


def test_a_machine_that_has_something_to_say_is_not_copied() -> None:
    machine = Machine.begin(program_of(GRAPH, frozenset(VALUES)), dict(VALUES), Options())
    machine.outbox.append(Start("", {}, frozenset()))
    with pytest.raises(ValueError, match="nothing left to say"):
        copy_of(machine)


def own_parts(thing: Any, found: dict[int, Any]) -> dict[int, Any]:
    """Everything of the machine's own bookkeeping that can be reached from here."""
    if isinstance(thing, Machine | Frontier | Strand | Level | Batch | Item | View):
        if id(thing) not in found:
            found[id(thing)] = thing
            for name in type(thing).__slots__:
                own_parts(getattr(thing, name), found)
    elif isinstance(thing, dict):
        for value in thing.values():
            own_parts(value, found)
    elif isinstance(thing, list | tuple | deque):
        for value in thing:
            own_parts(value, found)
    return found


def test_a_copy_shares_nothing_that_changes() -> None:
    @node(output="a")
    def slow(x: int) -> int: ...

    quick = [
        node(output=f"q{i + 1}", name=f"quick{i}")(eval(f"lambda {'x' if not i else f'q{i}'}: 0"))
        for i in range(3)
    ]
    machine = Machine.begin(
        program_of(Graph([slow, *quick]), frozenset({"x"})), {"x": 1}, Options(queue_depth=1)
    )
    items = {}
    for _ in range(4):  # two of the quick ones, planned ahead beside the slow one
        while (item := machine.take()) is not None:
            items[item.path] = item
        done = next((path for path in items if path.startswith("quick")), None)
        if done is None or len(machine.root.levels) > 2:
            break
        machine.finish(items.pop(done), 0)
    machine.outbox.clear()
    assert machine.root.open_ahead or len(machine.root.levels) > 1
    made, of = copy_of(machine)
    assert own_parts(machine, {}).keys().isdisjoint(own_parts(made, {}).keys())
    assert len(own_parts(machine, {})) == len(own_parts(made, {}))
    for item in items.values():
        assert of(item) is not item
        assert (of(item).path, of(item).live) == (item.path, item.live)


def test_a_copy_has_a_frontier_of_its_own() -> None:
    nodes = [node(output=f"v{i}", name=f"n{i}")(lambda x: 0) for i in range(3)]
    machine = Machine.begin(program_of(Graph(nodes), frozenset({"x"})), {"x": 1}, Options(queue_depth=1))
    first = machine.take()  # the other two are queued, or wait for room in the queue
    made, _ = copy_of(machine)
    assert own_parts(machine, {}).keys().isdisjoint(own_parts(made, {}).keys())
    taken = [[item.path for item in iter(each.take, None)] for each in (machine, made)]
    assert first is not None
    assert taken == [["n1#0", "n2#0"]] * 2
