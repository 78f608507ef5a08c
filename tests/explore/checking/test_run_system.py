"""A run as a system: its choices by name, what it shows, and that any moment can be taken back."""

from __future__ import annotations

from typing import Any

from clew import Context, Graph, RetryPolicy, node
from clew.explore import World
from clew.explore.checking.checks import _trial
from clew.explore.systems import MemoryStorage, RunSystem


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
    seen, token = run.sight(), run.checkpoint("here")
    ends = []
    for order in (("left", "right"), ("right", "left"), ("left", "right")):
        for name in (*order, "low"):
            run.choose(f"complete {name}#0")
        ends.append((run.digest, run.sight()))
        run.rollback(token)
        assert (run.sight(), run.depth, run.status) == (seen, 1, "running")
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
    assert "append" in trial.writes
    assert not trial.fails
    assert world.observe() == before
    assert (bank.list(), run.effects, len(run._versions._kept)) == ([], (), 0)


def test_a_trial_tells_that_a_body_fails() -> None:
    @node(output="y")
    def broken(x: int) -> int:
        raise ValueError("no")

    world = World(systems={"run": RunSystem(Graph([broken]), {"x": 1})})
    assert _trial(world, "complete broken#0").fails
