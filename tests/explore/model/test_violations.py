"""Violations: invariants, actions that raise, grouping, shrinking, confirmation."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.explore import BFS, DFS, Action, Agent, Invariant, Observation, RandomWalk, Severity, World
from clew.explore.model.violations import ViolationKind
from clew.explore.search.action_table import ActionTable
from clew.explore.search.shrinker import TrialRun, shrink
from tests.explore.models import Box, counter, records


def explored(check: Any, limit: int = 3, **options: Any) -> Any:
    world, box, actions = counter(limit)
    return Agent(world, actions, [Invariant("rule", lambda world: check(box.value), **options)]).explore()


# -- invariants -------------------------------------------------------------------------------------------------


def test_only_true_passes() -> None:
    assert explored(lambda value: True).ok
    for returned in (False, None, 1, "", [], "a reason"):
        assert not explored(lambda value, returned=returned: returned).ok


def test_a_string_is_the_message() -> None:
    (violation,) = explored(lambda value: value < 2 or f"it is {value}").violations
    assert violation.message == "it is 2"


def test_without_a_string_the_message_of_the_invariant_is_used() -> None:
    assert explored(lambda value: False, message="never so").violations[0].message == "never so"
    assert explored(lambda value: None).violations[0].message == "the check returned None, not True"


def test_a_check_that_raises_is_a_violation() -> None:
    (violation,) = explored(lambda value: 1 / (2 - value) > -9).violations
    assert violation.message == "the check raised ZeroDivisionError: division by zero"
    assert violation.actions == ("up", "up")


def test_the_initial_state_is_checked_too() -> None:
    (violation,) = explored(lambda value: value > 0).violations
    assert violation.path == []
    assert violation.action is None
    assert violation.confirmed


def test_invariants_are_checked_after_each_action_and_never_during_a_rollback() -> None:
    world, box, actions = counter(4)
    log: list[str] = []
    box.rollback = lambda token, real=box.rollback: (log.append("rollback"), real(token))
    spied = [
        Action(a.name, lambda world, a=a: (log.append("act"), a.run(world)), a.precondition) for a in actions
    ]
    Agent(world, spied, [Invariant("rule", lambda world: log.append("check") is None)]).explore()
    assert log[0] == "check"
    assert log.count("check") == log.count("act") + 1
    for before, after in itertools.pairwise(log):
        assert (after == "check") is (before == "act")


def test_an_invariant_may_read_what_is_not_observed() -> None:
    """Invariants are checked after each action, even if it leads to a known state."""
    box = Box({"value": 0, "writes": 0})
    box.observe = lambda: Observation("", box.value["value"])

    def write(world: World) -> None:
        box.value["writes"] += 1

    result = Agent(
        World(systems={"box": box}),
        [Action("write", write)],
        [Invariant("read only", lambda world: box.value["writes"] == 0)],
    ).explore()
    assert len(result.states) == 1
    assert result.violations[0].actions == ("write",)


def test_severity_orders_violations() -> None:
    world, box, actions = counter(2)
    invariants = [
        Invariant(severity.name, lambda world: box.value < 1, severity=severity)
        for severity in (Severity.LOW, Severity.CRITICAL, Severity.MEDIUM, Severity.HIGH)
    ]
    result = Agent(world, actions, invariants).explore()
    assert [each.severity for each in result.violations] == list(Severity)
    assert [each.invariant for each in result.violations] == ["CRITICAL", "HIGH", "MEDIUM", "LOW"]


# -- actions that raise -----------------------------------------------------------------------------------------


def test_an_action_that_raises_is_a_violation_and_is_rolled_back() -> None:
    world, box, actions = counter(3)

    def half(world: World) -> None:
        box.value = 77
        raise RuntimeError("broken")

    result = Agent(
        world, [Action("half", half, precondition=lambda world: box.value == 1), *actions]
    ).explore()
    assert sorted(state["count"] for state in result.states) == [0, 1, 2, 3]
    (violation,) = result.violations
    assert violation.actions == ("up", "half")
    assert violation.path[-1].to_state_id is None
    assert (violation.name, violation.invariant, violation.message) == ("half", None, "broken")
    assert violation.kind == ViolationKind("action", "half", "RuntimeError")
    assert "RuntimeError: broken" in violation.error
    assert violation.confirmed


def test_a_precondition_that_raises_is_a_violation_and_disables_the_action() -> None:
    world, box, actions = counter(3)
    done = []
    actions.append(
        Action("odd", lambda world: done.append(1), precondition=lambda world: 1 / (box.value - 2) < 0)
    )
    (violation,) = Agent(world, actions).explore().violations
    assert violation.kind == ViolationKind("precondition", "odd", "ZeroDivisionError")
    assert violation.actions == ("up", "up")
    assert violation.confirmed


def test_violations_of_one_kind_are_counted_and_reported_once() -> None:
    world, box, actions = counter(5)

    def fail(world: World) -> None:
        raise (ValueError if box.value % 2 else TypeError)(f"at {box.value}")

    result = Agent(
        world,
        [*actions, Action("fail", fail), Action("fail too", fail)],
        [Invariant("small", lambda world: box.value < 3)],
    ).explore()
    found = {(each.name, each.kind.exception): (each.count, each.actions) for each in result.violations}
    assert found == {
        ("small", ""): (3, ("up", "up", "up")),
        ("fail", "TypeError"): (3, ("fail",)),
        ("fail", "ValueError"): (3, ("up", "fail")),
        ("fail too", "TypeError"): (3, ("fail too",)),
        ("fail too", "ValueError"): (3, ("up", "fail too")),
    }


def test_fail_fast_stops_at_the_first() -> None:
    world, actions = records(values=5)
    invariants = [Invariant("empty", lambda world: not world.systems["records"].value)]
    result = Agent(world, actions, invariants, fail_fast=True).explore()
    assert len(result.transitions) == 1
    assert result.truncated
    assert result.violations[0].actions == ("create_r0",)


# -- shortest, shrunk, confirmed --------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [BFS(), DFS(), RandomWalk(5)])
def test_every_strategy_reports_the_shortest_path(strategy: Any) -> None:
    world, actions = records(values=6)
    rows = world.systems["records"]
    invariants = [Invariant("sum", lambda world: sum(rows.value.values()) < 4)]
    (violation,) = Agent(world, actions, invariants, strategy=strategy).explore().violations
    assert len(violation.path) == 5  # create one record, change it four times
    assert violation.confirmed
    assert violation.state_id == violation.path[-1].to_state_id


def test_a_path_is_shrunk_beyond_what_the_search_knew() -> None:
    """The search stopped early and saw the violation only at the end of a long path."""
    box = Box({"steps": 0, "armed": False})

    def noise(world: World) -> None:
        box.value["steps"] += 1

    def arm(world: World) -> None:
        box.value["armed"] = True

    def fire(world: World) -> None:
        box.value["fired"] = True

    actions = [
        Action("noise", noise, precondition=lambda world: box.value["steps"] < 30),
        Action("arm", arm, precondition=lambda world: box.value["steps"] >= 12 or not box.value["armed"]),
        Action("fire", fire, precondition=lambda world: box.value["armed"]),
    ]
    invariants = [Invariant("not fired", lambda world: "fired" not in box.value)]
    agent = Agent(World(systems={"gun": box}), actions, invariants, strategy=DFS(), fail_fast=True)
    (violation,) = agent.explore().violations
    assert violation.actions == ("arm", "fire")
    assert violation.shrunk_from == 32
    assert violation.confirmed


@given(st.sets(st.integers(0, 9), min_size=1, max_size=4), st.lists(st.integers(0, 9), max_size=24))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_the_shrunk_path_is_one_minimal(needed: set[int], noise: list[int]) -> None:
    """The violation needs certain numbers as an increasing subsequence; all others can be removed."""
    box = Box([])
    actions = [Action(str(n), lambda world, n=n: box.value.append(n)) for n in range(10)]

    def holds(world: World) -> bool:
        wanted = iter(sorted(needed))
        missing = next(wanted, None)
        for number in box.value:
            if number == missing:
                missing = next(wanted, None)
        return missing is not None

    world = World(systems={"list": box})
    start = world.checkpoint("initial")
    trial = TrialRun(world, ActionTable(actions), [Invariant("rule", holds)], lambda: world.rollback(start))
    kind = ViolationKind("invariant", "rule")
    first = trial.reproduce((*noise, *sorted(needed)), kind)
    assert first is not None
    shrunk = shrink(trial, first, kind)
    assert shrunk.path == tuple(sorted(needed))
    for left_out in range(len(shrunk.path)):
        assert trial.reproduce(shrunk.path[:left_out] + shrunk.path[left_out + 1 :], kind) is None


def test_shrinking_keeps_required_actions() -> None:
    box = Box(0)
    actions = [
        Action("login", lambda world: None),
        Action("break", lambda world: setattr(box, "value", 1), requires=["login"]),
    ]
    world = World(systems={"box": box})
    (violation,) = (
        Agent(world, actions, [Invariant("whole", lambda world: box.value == 0)]).explore().violations
    )
    assert violation.actions == ("login", "break")


def test_a_violation_that_a_replay_does_not_reproduce_is_not_confirmed() -> None:
    world, _box, actions = counter(2)
    asked = iter(range(100))
    invariants = [Invariant("flaky", lambda world: next(asked) != 3)]
    (violation,) = Agent(world, actions, invariants).explore().violations
    assert not violation.confirmed
    assert violation.count == 1
    assert "NOT confirmed" in str(Agent(world, actions, [Invariant("f", _flaky())]).explore())


def _flaky() -> Any:
    asked = iter(range(100))
    return lambda world: next(asked) != 3


def test_a_long_path_is_shrunk_without_a_run_per_step() -> None:
    """Candidates that the state graph rules out are not run."""
    world, box, actions = counter(600)
    done = []
    up = Action(
        "up", lambda world: (done.append(1), actions[0].run(world)), precondition=actions[0].precondition
    )
    (violation,) = (
        Agent(world, [up, actions[1]], [Invariant("low", lambda world: box.value < 600)]).explore().violations
    )
    assert violation.actions == ("up",) * 600
    assert violation.confirmed
    assert len(done) < 600 * 5


def test_an_exception_that_cannot_be_printed_is_a_violation() -> None:
    class Speechless(Exception):
        def __str__(self) -> str:
            raise RuntimeError("nothing to say")

        __repr__ = __str__

    def raises(world: World) -> None:
        raise Speechless

    def returns(world: World) -> Any:
        return Speechless()

    result = Agent(World(), [Action("act", raises)], [Invariant("rule", returns)]).explore()
    assert {each.name: each.message for each in result.violations} == {
        "act": "Speechless",
        "rule": "the check returned a Speechless, not True",
    }


def test_a_path_that_differs_in_the_last_replay_is_not_confirmed() -> None:
    """The last replay shows the violation after fewer steps than the one before it."""
    world, box, actions = counter(4)
    asked = []

    def holds(world: World) -> bool:
        asked.append(box.value)
        # the exploration checks 10 times; then the path of 4 steps is replayed twice
        return box.value < (4 if len(asked) <= 16 else 3)

    (violation,) = Agent(world, actions, [Invariant("low", holds)]).explore().violations
    assert len(violation.path) == 4
    assert not violation.confirmed
