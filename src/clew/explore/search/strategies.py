"""Strategies: in which order pairs of state and action are tried.

A strategy is a description, so one may be used for several explorations; `start` makes a frontier from it. A frontier
is told of each new node (a state, with what its path allows) and its open actions, and hands out pairs until nothing is
left. All strategies hand out every pair once, so to exhaustion all find the same states; they differ in what they
find first.

Picking is O(1), or O(log n) in the number of actions; none looks at all open pairs. Nothing depends on hashes: one
seed gives one order, on every machine.

Own strategies are objects with `start(actions)`, which returns an object with `add`, `pairs` and `oldest_first`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Protocol

import msgspec

from clew.errors import DefinitionError
from clew.explore.model.actions import Action

Pairs = Iterator[tuple[int, int]]


class SearchFrontier(Protocol):
    """What is still to be tried."""

    @property
    def oldest_first(self) -> bool:
        """Whether nodes that were added long ago come before new ones; their checkpoints are then kept longer."""

    def add(self, node: int, actions: Sequence[int]) -> None:
        """A new node, and the actions that are open there."""

    def pairs(self) -> Pairs:
        """Node and action, again and again, until nothing is open. Nodes are added while it runs."""


class Strategy(Protocol):
    """Makes frontiers."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """A new frontier. More actions may become known while it is used."""


class BFS(msgspec.Struct, frozen=True):
    """Breadth first: the states nearest to the initial one before those further away. Paths are shortest."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """A new frontier."""
        return _Queue()


class DFS(msgspec.Struct, frozen=True):
    """Depth first: on from the newest state, so that there is little to roll back."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """A new frontier."""
        return _Stack()


class RandomWalk(msgspec.Struct, frozen=True):
    """A walk: on from the newest state by an action drawn by lot; where nothing is left, on from a random open one."""

    seed: int = 0

    def __post_init__(self) -> None:
        _check_seed("RandomWalk", self.seed)

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """A new frontier."""
        return _Walk(Random(self.seed))


class CoverageGuided(msgspec.Struct, frozen=True):
    """The action that was tried least often comes first, in the state that waits longest for it."""

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """A new frontier."""
        return _LeastTried()


class Weighted(msgspec.Struct, frozen=True):
    """An action drawn by lot, by the actions' weights, in the state where it has been open for longest."""

    seed: int = 0

    def __post_init__(self) -> None:
        _check_seed("Weighted", self.seed)

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """A new frontier."""
        return _Lottery(Random(self.seed), actions)


def _check_seed(strategy: str, seed: Any) -> None:
    if type(seed) is not int:
        raise DefinitionError(f"{strategy}: a seed is a whole number, not {seed!r}")


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
        self._heap: list[tuple[int, int]] = []  # times tried and number, of the actions that wait somewhere

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
        self._waiting: list[
            deque[int]
        ] = []  # by action: a state drawn by lot would be cold, and its path long
        self._size = 1
        self._tree = [0.0, 0.0]  # each entry is the sum of the two below it; leaves are actions

    def add(self, node: int, actions: Sequence[int]) -> None:
        for action in actions:
            if action >= len(self._waiting):
                self._grow(action + 1)
            if not self._waiting[action]:
                self._set(action, float(self._actions[action].weight))
            self._waiting[action].append(node)

    def _grow(self, count: int) -> None:
        self._waiting += [deque() for _ in range(len(self._waiting), count)]
        if count > self._size:
            leaves = self._tree[self._size :]
            self._size = 1 << (count - 1).bit_length()
            self._tree = [0.0] * (2 * self._size)
            for action, weight in enumerate(leaves):
                self._set(action, weight)

    def _set(self, action: int, weight: float) -> None:
        at = self._size + action
        self._tree[at] = weight
        while at > 1:
            at >>= 1
            self._tree[at] = self._tree[2 * at] + self._tree[2 * at + 1]

    def _drawn(self) -> int:
        at, left = 1, self._random.random() * self._tree[1]
        while at < self._size:
            at *= 2
            # the right side only where it holds something: sums of floats may be a little off
            if left >= self._tree[at] and self._tree[at + 1] > 0:
                left -= self._tree[at]
                at += 1
        return at - self._size

    def pairs(self) -> Pairs:
        while self._tree[1] > 0:
            action = self._drawn()
            waiting = self._waiting[action]
            node = waiting.popleft()
            if not waiting:
                self._set(action, 0.0)
            yield node, action
