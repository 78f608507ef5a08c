"""Random finite models: every strategy finds the same graph as a plain breadth-first search."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.explore import BFS, Action, Agent, Invariant, World
from tests.explore.models import Box, Pile
from tests.explore.test_agent import STRATEGIES


class Rule(msgspec.Struct, frozen=True):
    """An action of a random model: the next number for each number, or None, and the rules of its path."""

    moves: tuple[int | None, ...]  # -1: it raises
    requires: tuple[int, ...]
    max_calls: int | None


class Model(msgspec.Struct, frozen=True):
    size: int
    rules: tuple[Rule, ...]
    violating: int  # the number that breaks the invariant


@st.composite
def models(draw: st.DrawFn) -> Model:
    size = draw(st.integers(1, 7))
    count = draw(st.integers(1, 4))
    move = st.one_of(st.none(), st.integers(0, size - 1), st.integers(0, size - 1), st.just(-1))
    rules = tuple(
        Rule(
            tuple(draw(move) for _ in range(size)),
            tuple(draw(st.sets(st.integers(0, count - 1), max_size=2))) if draw(st.booleans()) else (),
            draw(st.one_of(st.none(), st.none(), st.integers(1, 2))),
        )
        for _ in range(count)
    )
    return Model(size, rules, draw(st.integers(0, size)))


def searched(model: Model) -> tuple[set[int], set[tuple[int, int, int]], dict[Any, int]]:
    """Return the states, the transitions, and the length of the shortest path to each violation."""
    start = (0, (0,) * len(model.rules))
    seen, queue = {start}, deque([(start, 0)])
    states, transitions, violations = {0}, set(), {}
    if model.violating == 0:
        violations["invariant"] = 0
    while queue:
        (here, done), depth = queue.popleft()
        for number, rule in enumerate(model.rules):
            there = rule.moves[here]
            if there is None or any(not done[other] for other in rule.requires):
                continue
            if rule.max_calls is not None and done[number] >= rule.max_calls:
                continue
            if there == -1:
                violations.setdefault(number, depth + 1)
                continue
            transitions.add((here, number, there))
            states.add(there)
            if there == model.violating:
                violations.setdefault("invariant", depth + 1)
            # more than three calls make no difference, because max_calls is at most 2
            counted = (*done[:number], min(done[number] + 1, 3), *done[number + 1 :])
            if (there, counted) not in seen:
                seen.add((there, counted))
                queue.append(((there, counted), depth + 1))
    return states, transitions, violations


def explored(model: Model, strategy: Any, box: Box, **options: Any) -> Any:
    box.value = 0

    def run(rule: Rule) -> Any:
        def act(world: World) -> None:
            there = rule.moves[box.value]
            if there == -1:
                box.value = 99  # a partial change
                raise ValueError("boom")
            box.value = there

        return act

    actions = [
        Action(
            f"a{number}",
            run(rule),
            precondition=lambda world, rule=rule: rule.moves[box.value] is not None,
            requires=[f"a{other}" for other in rule.requires],
            max_calls=rule.max_calls,
        )
        for number, rule in enumerate(model.rules)
    ]
    invariants = [Invariant("rule", lambda world: box.value != model.violating)]
    return Agent(World(systems={"n": box}), actions, invariants, strategy=strategy, **options).explore()


def graph_of(result: Any) -> tuple[set[int], set[tuple[int, int, int]]]:
    number = {state.id: state["n"] for state in result.states}
    transitions = {
        (number[t.from_state_id], int(t.action_name[1:]), number[t.to_state_id]) for t in result.transitions
    }
    assert len(transitions) == len(result.transitions)
    return set(number.values()), transitions


@given(models(), st.sampled_from(STRATEGIES), st.sampled_from([Box, Pile]), st.sampled_from([None, 0, 3000]))
@settings(max_examples=400, derandomize=True, deadline=None)
def test_the_graph_and_the_shortest_paths_equal_those_of_a_plain_search(
    model: Model, strategy: Any, system: Any, memory: int | None
) -> None:
    states, transitions, violations = searched(model)
    result = explored(model, strategy, system(), memory_limit=memory)
    assert graph_of(result) == (states, transitions)
    assert not result.truncated
    found = {
        "invariant" if each.kind.cause == "invariant" else int(each.name[1:]): len(each.path)
        for each in result.violations
    }
    assert found == violations
    assert all(each.confirmed for each in result.violations)


@given(models())
@settings(max_examples=100, derandomize=True, deadline=None)
def test_with_a_limit_the_graph_is_a_subgraph(model: Model) -> None:
    states, transitions, _ = searched(model)
    for limit in range(4):
        result = explored(model, BFS(), Box(), max_steps=limit)
        some_states, some_transitions = graph_of(result)
        assert some_states <= states
        assert some_transitions <= transitions
        assert result.truncated or some_transitions == transitions
