"""Strategies: which pair comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.explore import BFS, DFS, Action, Agent, CoverageGuided, RandomWalk, Weighted
from clew.explore.search.strategies import _Lottery
from tests.explore.models import records
from tests.explore.test_agent import STRATEGIES, edges


def actions(*weights: float) -> list[Action]:
    return [Action(f"a{number}", lambda world: None, weight=weight) for number, weight in enumerate(weights)]


def taken(
    frontier: Any, nodes: dict[int, Sequence[int]], later: dict[tuple[int, int], int] | None = None
) -> list[Any]:
    """Return all pairs. A node of `later` is added after its pair was taken, the others at the beginning."""
    later = later or {}
    for node, open_actions in nodes.items():
        if node not in later.values():
            frontier.add(node, open_actions)
    found = []
    for pair in frontier.pairs():
        found.append(pair)
        if pair in later:
            frontier.add(later[pair], nodes[later[pair]])
    return found


TREE = {0: (0, 1), 1: (0, 1), 2: (0, 1), 3: (0,)}
GROWS = {(0, 0): 1, (0, 1): 2, (1, 0): 3}


def test_breadth_first_takes_the_oldest_node_first() -> None:
    assert taken(BFS().start(actions(1, 1)), TREE, GROWS) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
        (3, 0),
    ]


def test_depth_first_continues_from_the_newest_node() -> None:
    assert taken(DFS().start(actions(1, 1)), TREE, GROWS) == [
        (0, 0),
        (1, 0),
        (3, 0),
        (1, 1),
        (0, 1),
        (2, 0),
        (2, 1),
    ]


def test_a_random_walk_continues_from_the_newest_node() -> None:
    for seed in range(20):
        found = taken(RandomWalk(seed).start(actions(1, 1)), TREE, GROWS)
        for before, after in pairwise(found):
            if before in GROWS:
                assert after[0] == GROWS[before]


def test_coverage_tries_the_least_tried_action_first() -> None:
    frontier = CoverageGuided().start(actions(1, 1, 1))
    tried: Counter[int] = Counter()
    for node in range(30):
        frontier.add(node, (0, 1, 2))
    for _, action in frontier.pairs():
        tried[action] += 1
        assert max(tried.values()) - min(tried.get(each, 0) for each in range(3)) <= 1


def test_coverage_catches_up_when_an_action_becomes_possible() -> None:
    frontier = CoverageGuided().start(actions(1, 1))
    for node in range(10):
        frontier.add(node, (0,))
    pairs = frontier.pairs()
    assert [next(pairs)[1] for _ in range(5)] == [0] * 5
    frontier.add(10, (1,))
    frontier.add(11, (1,))
    assert [action for _, action in islice(pairs, 3)] == [1, 1, 0]


def test_weights_determine_how_often_an_action_is_chosen() -> None:
    frontier = Weighted(5).start(actions(1, 8, 1))
    for node in range(2_000):
        frontier.add(node, (0, 1, 2))
    drawn = Counter(action for _, action in islice(frontier.pairs(), 1_000))
    assert drawn[1] / 1_000 == pytest.approx(0.8, abs=0.05)


def test_weights_of_actions_that_became_known_later() -> None:
    known = actions(1)
    frontier = Weighted(5).start(known)
    frontier.add(0, (0,))
    known += actions(1, 1, 1, 1, 1, 1e9)
    for node in range(1, 50):
        frontier.add(node, range(7))
    assert {action for _, action in islice(frontier.pairs(), 40)} == {6}


@st.composite
def growing(draw: st.DrawFn) -> tuple[dict[int, tuple[int, ...]], dict[tuple[int, int], int]]:
    """Draw nodes with open actions; some are added when an earlier pair is taken."""
    count = draw(st.integers(1, 12))
    nodes = {node: tuple(draw(st.sets(st.integers(0, 5), min_size=1))) for node in range(count)}
    later: dict[tuple[int, int], int] = {}
    for node in range(1, count):
        pairs = [(n, a) for n in range(node) for a in nodes[n] if (n, a) not in later]
        if pairs and draw(st.booleans()):
            later[draw(st.sampled_from(pairs))] = node
    return nodes, later


@given(growing(), st.sampled_from([*STRATEGIES, RandomWalk(1), Weighted(9)]))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_every_pair_comes_once(growth: Any, strategy: Any) -> None:
    nodes, later = growth
    found = taken(strategy.start(actions(1, 2, 3, 4, 5, 6)), nodes, later)
    assert sorted(found) == sorted((node, action) for node, each in nodes.items() for action in each)


def test_a_custom_strategy_needs_no_base_class() -> None:
    class LastAction:
        """Takes the last action of the newest node first."""

        oldest_first = False

        def start(self, actions: Sequence[Action]) -> LastAction:
            self.open: list[tuple[int, int]] = []
            return self

        def add(self, node: int, actions: Sequence[int]) -> None:
            self.open += [(node, action) for action in actions]

        def pairs(self) -> Iterator[tuple[int, int]]:
            while self.open:
                yield self.open.pop()

    world, known = records(values=3)
    result = Agent(world, known, strategy=LastAction()).explore()
    assert edges(result) == edges(Agent(world, known).explore())
    assert result.strategy == "LastAction"


def test_a_random_walk_chooses_actions_at_random() -> None:
    firsts = Counter()
    for seed in range(60):
        frontier = RandomWalk(seed).start(actions(1, 1, 1))
        frontier.add(0, (0, 1, 2))
        order = [action for _, action in frontier.pairs()]
        assert sorted(order) == [0, 1, 2]
        firsts[order[0]] += 1
    assert min(firsts[action] for action in range(3)) > 8


def test_weighted_chooses_a_random_action_in_the_oldest_state() -> None:
    firsts = Counter()
    for seed in range(60):
        frontier = Weighted(seed).start(actions(1, 1, 1))
        for node in range(3):
            frontier.add(node, (0, 1, 2))
        pairs = list(frontier.pairs())
        for action in range(3):
            assert [node for node, each in pairs if each == action] == [0, 1, 2]
        firsts[pairs[0][1]] += 1
    assert min(firsts[action] for action in range(3)) > 8


def test_rounding_errors_of_weights_select_no_closed_action() -> None:
    """0.1 + 0.5 + 1.1 - 0.1 - 0.5 is more than 1.1, so the highest random number exceeds the last action."""

    class Highest(Random):
        def random(self) -> float:
            return 1 - 2**-53

    lottery = _Lottery(Highest(), actions(0.1, 0.5, 1.1))
    lottery.add(0, (0, 1, 2))
    assert [action for _, action in lottery.pairs()] == [2, 1, 0]
