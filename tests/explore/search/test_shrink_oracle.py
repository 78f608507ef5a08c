"""The shrink oracle: which paths the state graph rules out."""

from __future__ import annotations

from typing import Any

import pytest

from clew.explore import Action, Severity, StateGraph, Transition
from clew.explore.model.actions import PathRules
from clew.explore.model.violations import RecordedViolation, ViolationGroup, ViolationKind
from clew.explore.search.shrinker import ShrinkOracle, successors_of

ACTIONS = [Action(name, lambda world: None) for name in ("on", "off", "fire")]
NUMBERS = {"on": 0, "off": 1, "fire": 2}
ON, OFF, FIRE = 0, 1, 2
PEACE = ViolationKind("invariant", "peace")
# a switch: `on` leads from a to b, `off` back to a; `fire` is a violation in b and was tried only there
GRAPH = [("a", "on", "b"), ("b", "off", "a"), ("b", "on", "b"), ("b", "fire", "c")]


def oracle(
    *,
    exhaustive: bool = True,
    actions: list[Action] = ACTIONS,
    kind: ViolationKind = PEACE,
    seen: tuple[tuple[Any, Any], ...] = (("b", "fire"),),
) -> ShrinkOracle:
    graph = StateGraph(actions)
    graph.transitions += [Transition(*each) for each in GRAPH]
    group = ViolationGroup(RecordedViolation(kind, Severity.HIGH, "message"), list(seen))
    successors = successors_of(graph, NUMBERS)
    return ShrinkOracle(group, successors, "a", PathRules(actions), NUMBERS, exhaustive=exhaustive)


def test_a_path_without_a_violating_step_is_ruled_out() -> None:
    assert oracle().rules_out((ON, OFF, ON, FIRE), 3, 4)
    assert oracle(exhaustive=False).rules_out((ON, OFF, ON, FIRE), 3, 4)


def test_a_path_with_a_violating_step_is_not_ruled_out() -> None:
    assert not oracle().rules_out((ON, OFF, ON, FIRE), 0, 2)
    assert not oracle().rules_out((ON, ON, FIRE, OFF), 1, 2)


@pytest.mark.parametrize("exhaustive", [True, False])
def test_an_untried_step_is_impossible_only_after_an_exhaustive_search(exhaustive: bool) -> None:
    """`fire` was not tried in a; after an exhaustive search it is not possible there."""
    assert oracle(exhaustive=exhaustive).rules_out((ON, FIRE), 0, 1) is exhaustive
    assert oracle(exhaustive=exhaustive).rules_out((ON, OFF, ON, FIRE), 2, 3) is exhaustive


def test_a_path_outside_of_the_graph_is_not_ruled_out() -> None:
    assert not oracle().rules_out((FIRE, ON, OFF), 2, 3)


def test_a_step_that_the_path_does_not_permit_is_ruled_out() -> None:
    login = [ACTIONS[0], ACTIONS[1], Action("fire", lambda world: None, requires=["off"])]
    assert oracle(actions=login).rules_out((ON, OFF, ON, FIRE), 1, 3)
    assert not oracle(actions=login).rules_out((ON, OFF, ON, ON, FIRE), 2, 3)


def test_preconditions_and_the_initial_state_are_not_predicted() -> None:
    assert not oracle(kind=ViolationKind("precondition", "fire", "KeyError")).rules_out((ON, OFF), 0, 1)
    assert not oracle(seen=(("b", "fire"), (None, None))).rules_out((ON, OFF), 0, 1)


def test_the_oracle_can_be_asked_about_different_paths() -> None:
    known = oracle()
    assert known.rules_out((ON, OFF, ON), 2, 3)
    assert not known.rules_out((ON, ON, FIRE), 0, 1)
    assert known.rules_out((ON, OFF, ON), 0, 1)
