"""Random finite models, explored by every strategy and by the plainest search there is, must give the same graph."""

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
    """An action of a random model: where it leads from each number, if anywhere, and what its path needs."""

    moves: tuple[int | None, ...]  # -1: it raises
    requires: tuple[int, ...]
    max_calls: int | None


class Model(msgspec.Struct, frozen=True):
    size: int
    rules: tuple[Rule, ...]
    wrong: int  # the number that breaks the invariant


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
    """By whole histories: states, transitions, and the length of the shortest path to each thing that is wrong."""
    start = (0, (0,) * len(model.rules))
    seen, queue = {start}, deque([(start, 0)])
    states, transitions, wrong = {0}, set(), {}
    if model.wrong == 0:
        wrong["invariant"] = 0
    while queue:
        (here, done), depth = queue.popleft()
        for number, rule in enumerate(model.rules):
            there = rule.moves[here]
            if there is None or any(not done[other] for other in rule.requires):
                continue
            if rule.max_calls is not None and done[number] >= rule.max_calls:
                continue
            if there == -1:
                wrong.setdefault(number, depth + 1)
                continue
            transitions.add((here, number, there))
            states.add(there)
            if there == model.wrong:
                wrong.setdefault("invariant", depth + 1)
            # three calls are as many as matter: no model here has a higher max_calls
            counted = (*done[:number], min(done[number] + 1, 3), *done[number + 1 :])
            if (there, counted) not in seen:
                seen.add((there, counted))
                queue.append(((there, counted), depth + 1))
    return states, transitions, wrong


def explored(model: Model, strategy: Any, box: Box, **options: Any) -> Any:
    box.value = 0

    def run(rule: Rule) -> Any:
        def act(world: World) -> None:
            there = rule.moves[box.value]
            if there == -1:
                box.value = 99  # half done
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
    invariants = [Invariant("right", lambda world: box.value != model.wrong)]
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
def test_the_graph_and_the_shortest_violations_are_those_of_plain_search(
    model: Model, strategy: Any, system: Any, memory: int | None
) -> None:
    states, transitions, wrong = searched(model)
    result = explored(model, strategy, system(), memory_limit=memory)
    assert graph_of(result) == (states, transitions)
    assert not result.truncated
    found = {
        "invariant" if each.kind.cause == "invariant" else int(each.name[1:]): len(each.path)
        for each in result.violations
    }
    assert found == wrong
    assert all(each.confirmed for each in result.violations)


@given(models())
@settings(max_examples=100, derandomize=True, deadline=None)
def test_whatever_limit_is_set_the_graph_is_a_part_of_the_whole(model: Model) -> None:
    states, transitions, _ = searched(model)
    for limit in range(4):
        result = explored(model, BFS(), Box(), max_steps=limit)
        some_states, some_transitions = graph_of(result)
        assert some_states <= states
        assert some_transitions <= transitions
        assert result.truncated or some_transitions == transitions
