"""Actions, and the rules of `requires` and `max_calls`."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest

from clew.errors import DefinitionError
from clew.explore import Action, Agent, Invariant, World
from clew.explore.model.actions import PathRules
from tests.explore.models import Box, counter


def nothing(world: World) -> None: ...


async def later(world: World) -> None: ...


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Action("", nothing), "name of an action"),
        (lambda: Action("a", 7), "run must be a function"),
        (lambda: Action("a", later), "coroutine function"),
        (lambda: Action("a", nothing, precondition="x"), "precondition must be a function"),
        (lambda: Action("a", nothing, requires="login"), "list of names"),
        (lambda: Action("a", nothing, max_calls=0), "max_calls must be an int"),
        (lambda: Action("a", nothing, weight=0), "weight must be"),
        (lambda: Invariant("", nothing), "name of an invariant"),
        (lambda: Invariant("i", None), "check must be a function"),
        (lambda: Invariant("i", later), "coroutine function"),
        (lambda: Invariant("i", nothing, severity="high"), "severity must be a Severity"),
        (lambda: Agent(World(), [Action("a", nothing), Action("a", nothing)]), "two actions are called 'a'"),
        (lambda: Agent(World(), [Action("a", nothing, requires=["b"])]), "requires 'b'"),
        (lambda: Agent(World(), [nothing]), "expected an Action"),
        (lambda: Agent(World(), [], [nothing]), "expected an Invariant"),
        (lambda: Agent(World(), [], [Invariant("i", nothing)] * 2), "two invariants are called 'i'"),
        (lambda: Agent(World(), [], strategy="bfs"), "expected a strategy"),
        (lambda: Agent(World(), [], max_steps=-1), "max_steps must be an int"),
        (lambda: Agent("world", []), "world must be a World"),
    ],
)
def test_invalid_definitions_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


RULES = [
    Action("login", nothing),
    Action("buy", nothing, requires=["login"], max_calls=2),
    Action("refund", nothing, requires=["login", "buy"]),
    Action("look", nothing),
]


def test_required_actions_must_be_on_the_path() -> None:
    rules = PathRules(RULES)
    progress = rules.start
    assert rules.permitted(range(4), progress) == [0, 3]
    progress = rules.after(0, progress)
    assert rules.permitted(range(4), progress) == [0, 1, 3]
    progress = rules.after(1, progress)
    assert rules.permitted(range(4), progress) == [0, 1, 2, 3]
    progress = rules.after(1, progress)
    assert rules.permitted(range(4), progress) == [0, 2, 3]


def test_what_does_not_matter_is_not_remembered() -> None:
    rules = PathRules(RULES)
    once = rules.after(0, rules.start)
    assert rules.after(0, once) == once
    assert rules.after(3, once) == once
    assert not PathRules([Action("a", nothing)]).matter


def test_a_path_covers_another_if_all_that_may_follow_that_one_may_follow_it() -> None:
    rules = PathRules(RULES)
    reachable = {rules.start}
    for _ in range(6):
        reachable |= {
            rules.after(action, progress)
            for progress in reachable
            for action in rules.permitted(range(4), progress)
        }

    def followers(progress: Any, depth: int) -> set[tuple[int, ...]]:
        if not depth:
            return {()}
        return {()} | {
            (action, *rest)
            for action in rules.permitted(range(4), progress)
            for rest in followers(rules.after(action, progress), depth - 1)
        }

    for one, other in product(reachable, repeat=2):
        if rules.covers(one, other):
            assert followers(other, 4) <= followers(one, 4)
    assert not rules.covers(rules.start, rules.after(0, rules.start))


def test_requires_means_on_this_path_and_not_ever() -> None:
    """Two paths lead to one state, and only the one with the required action allows the other."""
    world, box, actions = counter(1)
    seen = []
    actions.append(Action("after_reset", lambda world: seen.append(box.value), requires=["reset"]))
    result = Agent(world, actions).explore()
    paths = {t.from_state_id: [] for t in result.transitions}
    assert len(result.states) == 2
    assert sorted(seen) == [0, 1]
    for transition in result.transitions:
        if transition.action_name == "after_reset":
            paths[transition.from_state_id].append(transition)
    assert all(len(found) == 1 for found in paths.values())


def test_each_action_is_done_once_in_each_state_whatever_the_paths() -> None:
    world, box, actions = counter(3)
    calls: list[tuple[str, int]] = []
    spied = [
        Action(a.name, lambda world, a=a: (calls.append((a.name, box.value)), a.run(world)), a.precondition)
        for a in actions
    ]
    spied.append(Action("last", lambda world: calls.append(("last", box.value)), requires=["reset", "up"]))
    Agent(world, spied).explore()
    assert len(calls) == len(set(calls)) == 3 + 4 + 4


def test_max_calls_bounds_a_path() -> None:
    world, _box, actions = counter(100)
    limited = [Action("up", actions[0].run, actions[0].precondition, max_calls=5)]
    result = Agent(world, limited).explore()
    assert len(result.states) == 6
    assert not result.truncated


def test_large_limits_do_not_multiply() -> None:
    """A path that allows less than a shorter one to the same state is not followed."""
    box = Box({"a": False, "b": False, "c": False})

    def toggle(key: str) -> Action:
        return Action(key, lambda world: box.value.update({key: not box.value[key]}), max_calls=1_000_000)

    agent = Agent(
        World(systems={"box": box}),
        [toggle("a"), toggle("b"), toggle("c")],
        [Invariant("not all", lambda world: not all(box.value.values()))],
    )
    result = agent.explore()
    assert (len(result.states), len(result.transitions)) == (8, 24)
    assert len(result.violations[0].path) == 3
    assert max(len(result.graph.get_path_to(state.id)) for state in result.states) == 3


async def _coroutine(world: World) -> None: ...


class _Awaited:
    async def __call__(self, world: World) -> None: ...


def _generator(world: World) -> Any:
    yield


@pytest.mark.parametrize("function", [_coroutine, partial(_coroutine), _Awaited(), _Awaited().__call__])
def test_coroutine_functions_are_rejected(function: Any) -> None:
    for make in (lambda: Action("a", function), lambda: Invariant("a", function)):
        with pytest.raises(DefinitionError, match="coroutine function"):
            make()


@pytest.mark.parametrize("function", [_generator, partial(_generator)])
def test_generator_functions_are_rejected(function: Any) -> None:
    with pytest.raises(DefinitionError, match="generator function"):
        Action("a", function)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"requires": 3}, "requires .* got 3"),
        ({"requires": [3]}, r"requires .* got \[3\]"),
        ({"weight": "heavy"}, "weight .* got 'heavy'"),
        ({"weight": float("inf")}, "weight .* got inf"),
        ({"weight": float("nan")}, "weight .* got nan"),
        ({"weight": 0}, "weight .* got 0"),
        ({"weight": True}, "weight .* got True"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=f"action 'a': {message}"):
        Action("a", lambda world: None, **options)
