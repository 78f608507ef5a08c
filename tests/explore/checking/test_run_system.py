"""A run as a system: its choices, its observations, and its rollback."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Context, Graph, RetryPolicy, node
from clew.explore import Check, Invariant, RunSystem, World
from clew.explore.checking.check import _trial
from clew.explore.checking.faults import CrashPointWatch
from clew.explore.systems import MemoryStorage


def made(name: str, reads: str, writes: str) -> Any:
    found: dict[str, Any] = {}
    exec(f"def {name}({reads}): return [{reads}]", found)
    return node(output=writes)(found[name])


def diamond() -> Graph:
    return Graph(
        [made("top", "x", "t"), made("left", "t", "l"), made("right", "t", "r"), made("low", "l, r", "z")]
    )


def test_choices_are_the_items_that_may_complete() -> None:
    run = RunSystem(diamond(), {"x": 1})
    assert run.choices() == ["complete top#0"]
    run.choose("complete top#0")
    assert run.choices() == ["complete left#0", "complete right#0"]
    assert run.running == ["left#0", "right#0"]
    for choice in ("complete right#0", "complete left#0", "complete low#0"):
        run.choose(choice)
    assert (run.status, run.has_ended, run.choices(), run.depth) == ("completed", True, [], 4)
    assert run.state.values["z"] == [[[1]], [[1]]]


def test_any_moment_can_be_taken_back_as_often_as_one_likes() -> None:
    run = RunSystem(diamond(), {"x": 1})
    run.choose("complete top#0")
    seen, token = run.observe().data, run.checkpoint("here")
    ends = []
    for order in (("left", "right"), ("right", "left"), ("left", "right")):
        for name in (*order, "low"):
            run.choose(f"complete {name}#0")
        ends.append((run.digest, run.observe().data))
        run.rollback(token)
        assert (run.observe().data, run.depth, run.status) == (seen, 1, "running")
    assert ends[0] == ends[1] == ends[2]
    run.release(token)
    assert not run.is_valid(token)


def test_a_dead_process_leaves_what_is_on_the_disk() -> None:
    run = RunSystem(diamond(), {"x": 1})
    run.choose("complete top#0")
    run.choose("complete left#0")
    run.choose("crash")
    assert (run.status, run.running, run.choices(), run.had) == ("dead", [], ["resume"], ["crash"])
    run.choose("resume")
    assert run.choices() == ["complete right#0"]


def test_a_failed_attempt_is_tried_again_and_the_last_one_fails_the_run() -> None:
    @node(output="y", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
    def work(x: int) -> int:
        return x

    run = RunSystem(Graph([work]), {"x": 1}, max_faults=2)
    run.choose("fail work#0")
    assert run.choices() == ["retry work#0"]
    run.choose("retry work#0")
    run.choose("fail work#0")
    assert (run.status, run.choices()) == ("failed", ["resume"])


def bounded(timeout: float | None) -> Graph:
    inner = Graph([made("first", "x", "i"), made("second", "i", "y")])
    again = RetryPolicy(max_attempts=2, base_delay=1.0)
    return Graph([inner.as_node("inside", inputs=("x",), outputs=("y",), timeout=timeout, retry=again)])


def test_a_subgraph_takes_too_long_as_a_whole_and_begins_anew() -> None:
    run = RunSystem(bounded(5.0), {"x": 1})
    world = World(systems={"run": run})
    run.choose("complete inside#0/first#0")
    offered = run.fault_choices(run.choices(), lambda choice: _trial(world, choice))
    assert "time out inside#0" in offered
    run.choose("time out inside#0")
    assert (run.choices(), run.running) == (["retry inside#0"], [])
    for choice in ("retry inside#0", "complete inside#0/first#0", "complete inside#0/second#0"):
        run.choose(choice)
    assert (run.status, run.state.values["y"]) == ("completed", [[1]])


def test_a_subgraph_without_a_timeout_does_not_take_too_long() -> None:
    run = RunSystem(bounded(None), {"x": 1})
    world = World(systems={"run": run})
    assert "time out inside#0" not in run.fault_choices(run.choices(), lambda choice: _trial(world, choice))


def test_what_a_subgraph_did_before_it_took_too_long_is_done() -> None:
    """A mistake that people make: the retry of the whole repeats what its first half did."""
    bank = MemoryStorage()

    @node(output="paid")
    def pay(x: int) -> int:
        bank.put(f"charge {len(bank.list()) + 1}", x)
        return x

    @node(output="y")
    def thank(paid: int) -> int:
        return paid

    inner = Graph([pay, thank])
    again = RetryPolicy(max_attempts=2, base_delay=1.0)
    graph = Graph([inner.as_node("inside", inputs=("x",), outputs=("y",), timeout=5.0, retry=again)])
    once = Invariant("charged once", lambda world: len(world.systems["bank"].list()) <= 1)
    check = Check(graph, {"x": 1}, [once], faults={"timeout"}, systems={"bank": bank})
    first = "complete inside#0/pay#0"
    tale = check.replay([first, "time out inside#0", "retry inside#0", first])
    assert [name for name, _ in tale.violated] == ["charged once"]


def test_a_trial_leaves_nothing_behind() -> None:
    bank = MemoryStorage()

    @node(output="y")
    def pay(x: int, ctx: Context) -> Any:
        return ctx.record("pay", bank.put, "paid", x)

    run = RunSystem(Graph([pay]), {"x": 1})
    world = World(systems={"run": run, "bank": bank})
    before = world.observe()
    trial = _trial(world, "complete pay#0")
    assert {"before-call", "after-call", "before-append", "after-append"} <= set(trial.points)
    assert "append" in trial.operations
    assert not trial.fails
    assert world.observe() == before
    assert (bank.list(), run.effects, len(run._versions._versions)) == ([], (), 0)


def test_a_trial_tells_that_a_body_fails() -> None:
    @node(output="y")
    def broken(x: int) -> int:
        raise ValueError("no")

    world = World(systems={"run": RunSystem(Graph([broken]), {"x": 1})})
    assert _trial(world, "complete broken#0").fails


def big() -> Graph:
    """Values that are kept apart, and steps that are worth a snapshot."""
    first = node(output="v0", name="n0")(lambda x: "a" * 100_000)
    rest = [_longer(number) for number in range(1, 6)]
    return Graph([first, *rest])


def _longer(number: int) -> Any:
    found: dict[str, Any] = {}
    exec(f"def n{number}(v{number - 1}): return v{number - 1} + 'b'", found)
    return node(output=f"v{number}")(found[f"n{number}"])


def retried() -> Graph:
    """Two items between two attempts at once."""

    def again(name: str) -> Any:
        found: dict[str, Any] = {"Context": Context}
        exec(f"def {name}(x, ctx: Context): return 1 // ctx.attempt", found)
        return node(output=f"{name}v", retry=RetryPolicy(max_attempts=2, base_delay=1.0))(found[name])

    return Graph([again("one"), again("two")])


@pytest.mark.parametrize("graph", [diamond, big, retried])
def test_a_process_that_was_brought_back_goes_on_as_if_nothing_had_happened(graph: Any) -> None:
    """At every moment: what comes next is written by both in the same way, point by point."""
    plain, restored = RunSystem(graph(), {"x": 1}), RunSystem(graph(), {"x": 1})
    points: set[str] = set()
    while choices := plain.choices():
        assert restored.choices() == choices
        worlds = [World(systems={"run": run}) for run in (plain, restored)]
        trial = _trial(worlds[1], choices[-1])  # which brings the process back
        points.update(trial.points)
        seen: list[str] = []
        with CrashPointWatch(seen.append):
            plain.choose(choices[-1])
        assert tuple(seen) == trial.points
        restored.choose(choices[-1])
        assert restored.observe().data == plain.observe().data
        assert restored.disk.image().blobs == plain.disk.image().blobs
    assert plain.status == "completed"
    assert ("before-snapshot" in points) == (graph is big)
