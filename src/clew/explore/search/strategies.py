"""Strategies: the order in which pairs of state and action are tried.

A strategy is immutable and can be used for several explorations; `start` creates a frontier for one of them. The search
adds each new node (a state and what its path allows) with its enabled actions to the frontier, and takes pairs from it
until none is left. Every strategy yields every pair once. Without limits all strategies therefore find the same states;
they differ in what they find first.

The choice of a pair takes O(1), or O(log n) in the number of actions. The order does not depend on hashes: the same
seed gives the same order on every machine.

A custom strategy is any object with `start(actions)` that returns an object with `add`, `pairs` and `oldest_first`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import Any, Protocol

import msgspec

from clew.errors import DefinitionError
from clew.explore.model.actions import Action

Pairs = Iterator[tuple[int, int]]


class SearchFrontier(Protocol):
    """The pairs of node and action that are still to be tried."""

    @property
    def oldest_first(self) -> bool:
        """Return whether older nodes come before newer ones. Their checkpoints are then kept longer."""

    def add(self, node: int, actions: Sequence[int]) -> None:
        """Add a new node and the actions to try there."""

    def pairs(self) -> Pairs:
        """Yield pairs of node and action until none is left. Nodes are added during the iteration."""


class Strategy(Protocol):
    """A search order."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """Return a new frontier. More actions may be appended to `actions` later."""


class BFS(msgspec.Struct, frozen=True):
    """Breadth first: states near the initial one come first, so paths are shortest."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """Return a new frontier."""
        return _Queue()


class DFS(msgspec.Struct, frozen=True):
    """Depth first: continue from the newest state, which needs few rollbacks."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """Return a new frontier."""
        return _Stack()


class RandomWalk(msgspec.Struct, frozen=True):
    """Random walk: try a random action in the newest state; if none is left, continue from a random open state."""

    seed: int = 0

    def __post_init__(self) -> None:
        _check_seed("RandomWalk", self.seed)

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """Return a new frontier."""
        return _Walk(Random(self.seed))


class CoverageGuided(msgspec.Struct, frozen=True):
    """Coverage guided: try the action that was tried least often, in the state that has waited longest for it."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """Return a new frontier."""
        return _LeastTried()


class Weighted(msgspec.Struct, frozen=True):
    """Weighted: try a random action, chosen by weight, in the state that has waited longest for it."""

    seed: int = 0

    def __post_init__(self) -> None:
        _check_seed("Weighted", self.seed)

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """Return a new frontier."""
        return _Lottery(Random(self.seed), actions)


def _check_seed(strategy: str, seed: Any) -> None:
    if type(seed) is not int:
        raise DefinitionError(f"{strategy}: seed must be an int, got {seed!r}")


class _Queue:
    oldest_first = True

    def __init__(self) -> None:
        self._open: deque[tuple[int, Sequence[int]]] = deque()

    def add(self, node: int, actions: Sequence[int]) -> None:
        self._open.append((node, actions))

    def pairs(self) -> Pairs:
        while self._open:
            node, actions = self._open.popleft()
            for action in actions:
                yield node, action


class _Stack:
    oldest_first = False

    def __init__(self) -> None:
        self._open: list[tuple[int, Iterator[int]]] = []

    def add(self, node: int, actions: Sequence[int]) -> None:
        self._open.append((node, iter(actions)))

    def pairs(self) -> Pairs:
        while self._open:
            node, actions = self._open[-1]
            action = next(actions, None)
            if action is None:
                self._open.pop()
            else:
                yield node, action


class _Open(msgspec.Struct):
    node: int
    actions: list[int]
    index: int


class _Walk:
    oldest_first = False

    def __init__(self, random: Random) -> None:
        self._random = random
        self._open: list[_Open] = []

    def add(self, node: int, actions: Sequence[int]) -> None:
        self._here = _Open(node, list(actions), len(self._open))
        self._open.append(self._here)

    def pairs(self) -> Pairs:
        draw = self._random.random
        opened = self._open
        while opened:
            here = self._here
            if not here.actions:
                self._close(here)
                if opened:
                    self._here = opened[int(draw() * len(opened))]
                continue
            actions = here.actions
            chosen = int(draw() * len(actions))
            actions[chosen], actions[-1] = actions[-1], actions[chosen]
            yield here.node, actions.pop()

    def _close(self, done: _Open) -> None:
        last = self._open.pop()
        if last is not done:
            self._open[done.index] = last
            last.index = done.index


class _LeastTried:
    oldest_first = True

    def __init__(self) -> None:
        self._waiting: list[deque[int]] = []
        self._tried: list[int] = []
        self._heap: list[tuple[int, int]] = []  # count of tries and number of each waiting action

    def add(self, node: int, actions: Sequence[int]) -> None:
        for action in actions:
            while action >= len(self._waiting):
                self._waiting.append(deque())
                self._tried.append(0)
            if not self._waiting[action]:
                heapq.heappush(self._heap, (self._tried[action], action))
            self._waiting[action].append(node)

    def pairs(self) -> Pairs:
        heap = self._heap
        while heap:
            tried, action = heap[0]
            waiting = self._waiting[action]
            node = waiting.popleft()
            self._tried[action] = tried + 1
            if waiting:
                heapq.heapreplace(heap, (tried + 1, action))
            else:
                heapq.heappop(heap)
            yield node, action


class _Lottery:
    oldest_first = True

    def __init__(self, random: Random, actions: Sequence[Action]) -> None:
        self._random = random
        self._actions = actions
        # the nodes of each action, oldest first: a random node would rarely have a checkpoint
        self._waiting: dict[int, deque[int]] = {}
        self._sums: tuple[list[int], list[float]] | None = None  # the actions, and the sums of their weights

    def add(self, node: int, actions: Sequence[int]) -> None:
        for action in actions:
            if action not in self._waiting:
                self._waiting[action], self._sums = deque(), None
            self._waiting[action].append(node)

    def pairs(self) -> Pairs:
        while self._waiting:
            if self._sums is None:
                actions = list(self._waiting)
                self._sums = actions, list(accumulate(self._actions[each].weight for each in actions))
            (action,) = self._random.choices(self._sums[0], cum_weights=self._sums[1])
            waiting = self._waiting[action]
            node = waiting.popleft()
            if not waiting:
                del self._waiting[action]
                self._sums = None
            yield node, action
