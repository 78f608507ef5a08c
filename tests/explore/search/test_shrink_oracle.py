"""What the explored graph says of a path that is not done."""

from __future__ import annotations

from typing import Any

import pytest

from clew.explore import Action, Severity, StateGraph, Transition
from clew.explore.model.actions import PathRules
from clew.explore.model.violations import ViolationGroup, ViolationKind
from clew.explore.search.shrink_oracle import ShrinkOracle, leads_of

ACTIONS = [Action(name, lambda world: None) for name in ("on", "off", "fire")]
NUMBERS = {"on": 0, "off": 1, "fire": 2}
ON, OFF, FIRE = 0, 1, 2
PEACE = ViolationKind("invariant", "peace")
# a switch: on leads from a to b, off back to a; to fire is wrong in b, and was tried nowhere else
GRAPH = [("a", "on", "b"), ("b", "off", "a"), ("b", "on", "b"), ("b", "fire", "c")]


def foresight(
    *,
    everything: bool = True,
    actions: list[Action] = ACTIONS,
    kind: ViolationKind = PEACE,
    seen: tuple[tuple[Any, Any], ...] = (("b", "fire"),),
) -> ShrinkOracle:
    graph = StateGraph(actions)
    graph.transitions += [Transition(*each) for each in GRAPH]
    found = ViolationGroup(kind, Severity.HIGH, "wrong", list(seen))
    leads = leads_of(graph, NUMBERS)
    return ShrinkOracle(found, leads, "a", PathRules(actions), NUMBERS, everything=everything)


def test_a_path_whose_steps_are_all_known_to_be_right_is_ruled_out() -> None:
    assert foresight().rules_out((ON, OFF, ON, FIRE), 3, 4)
    assert foresight(everything=False).rules_out((ON, OFF, ON, FIRE), 3, 4)


def test_one_on_which_the_violation_was_seen_is_not() -> None:
    assert not foresight().rules_out((ON, OFF, ON, FIRE), 0, 2)
    assert not foresight().rules_out((ON, ON, FIRE, OFF), 1, 2)


@pytest.mark.parametrize("everything", [True, False])
def test_a_step_that_was_never_tried_is_impossible_only_if_everything_was(everything: bool) -> None:
    """To fire in a: where everything was explored, it is not possible there."""
    assert foresight(everything=everything).rules_out((ON, FIRE), 0, 1) is everything
    assert foresight(everything=everything).rules_out((ON, OFF, ON, FIRE), 2, 3) is everything


def test_where_the_path_itself_leaves_what_is_known_nothing_is_said() -> None:
    assert not foresight().rules_out((FIRE, ON, OFF), 2, 3)


def test_a_step_that_the_path_does_not_permit_is_ruled_out() -> None:
    login = [ACTIONS[0], ACTIONS[1], Action("fire", lambda world: None, requires=["off"])]
    assert foresight(actions=login).rules_out((ON, OFF, ON, FIRE), 1, 3)
    assert not foresight(actions=login).rules_out((ON, OFF, ON, ON, FIRE), 2, 3)


def test_of_preconditions_and_of_the_initial_state_nothing_is_said() -> None:
    assert not foresight(kind=ViolationKind("precondition", "fire", "KeyError")).rules_out((ON, OFF), 0, 1)
    assert not foresight(seen=(("b", "fire"), (None, None))).rules_out((ON, OFF), 0, 1)


def test_it_follows_the_path_that_it_is_asked_about() -> None:
    known = foresight()
    assert known.rules_out((ON, OFF, ON), 2, 3)
    assert not known.rules_out((ON, ON, FIRE), 0, 1)
    assert known.rules_out((ON, OFF, ON), 0, 1)
