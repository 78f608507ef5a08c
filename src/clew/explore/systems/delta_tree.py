"""A tree of states that differ by items: going from any state to any other costs the items that changed on the way.

An *item* is anything hashable that a state either holds or does not hold, so many times: a row of a table, a key
with its value. A *delta* counts the items that came (+) and went (−) between two states. It is a multiset: the
order of changes does not matter, and what came and went again cancels out. Each node of the tree is a state, held
as the delta from its parent; the delta between two nodes is the sum along the path over their nearest common
ancestor.

A token stands for one checkpoint. Several may stand for one node: a checkpoint of an unchanged state costs nothing.
A node lives as long as a token, a child or the place where the system is now needs it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from clew.explore.systems.version_tokens import VersionTokens

Item = TypeVar("Item", bound=Hashable)
Facts = TypeVar("Facts")


class DeltaNode(Generic[Item, Facts]):
    """One state: how it differs from its parent, and what its system wants to know about it besides."""

    __slots__ = ("children", "delta", "depth", "facts", "parent", "tokens")

    def __init__(self, parent: DeltaNode[Item, Facts] | None, delta: dict[Item, int], facts: Facts) -> None:
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0  # greater than the parent's, also after a merge
        self.delta = delta
        self.facts = facts
        self.tokens = 0
        self.children: set[DeltaNode[Item, Facts]] = set()


def add(total: dict[Item, int], delta: dict[Item, int], sign: int = 1) -> None:
    """Add a delta (or with sign −1 its opposite) to a total; what comes to nothing is left out."""
    for item, count in delta.items():
        sum_ = total.get(item, 0) + sign * count
        if sum_:
            total[item] = sum_
        else:
            del total[item]


class DeltaTree(Generic[Item, Facts]):
    """The states known, the tokens that stand for them, and where the system is now (`here`).

    A tree may have several roots, one for each time that a system had to begin anew; between nodes of different
    roots there is no delta.
    """

    def __init__(self, facts: Facts) -> None:
        self.here: DeltaNode[Item, Facts] = DeltaNode(None, {}, facts)
        self._marked: VersionTokens[DeltaNode[Item, Facts]] = VersionTokens()

    def begin_anew(self, facts: Facts) -> None:
        """Be at a new root."""
        self._leave(DeltaNode(None, {}, facts))

    def step(self, delta: dict[Item, int], facts: Facts) -> None:
        """Be at a new state, a child of the present one."""
        child = DeltaNode(self.here, delta, facts)
        self.here.children.add(child)
        self._leave(child)

    def move(self, node: DeltaNode[Item, Facts]) -> None:
        """Be at a known state."""
        self._leave(node)

    def mark(self) -> int:
        """A new token for the present state."""
        self.here.tokens += 1
        return self._marked.keep(self.here)

    def __contains__(self, token: object) -> bool:
        return token in self._marked

    def __getitem__(self, token: int) -> DeltaNode[Item, Facts]:
        return self._marked[token]

    def release(self, token: int) -> None:
        """Forget a token, and the states that nobody needs any more."""
        if token in self._marked:
            node = self._marked[token]
            self._marked.drop(token)
            node.tokens -= 1
            self._prune(node)

    def between(self, start: DeltaNode[Item, Facts], end: DeltaNode[Item, Facts]) -> dict[Item, int] | None:
        """What leads from one state to another; None if they have no common ancestor."""
        total: dict[Item, int] = {}
        up, down = start, end
        going_down: list[DeltaNode[Item, Facts]] = []
        while up is not down:
            if up.depth >= down.depth:
                add(total, up.delta, -1)
                if up.parent is None:
                    return None
                up = up.parent
            else:
                going_down.append(down)
                assert down.parent is not None  # it is deeper than another node
                down = down.parent
        for node in reversed(going_down):
            add(total, node.delta)
        return total

    def _leave(self, node: DeltaNode[Item, Facts]) -> None:
        left, self.here = self.here, node
        self._prune(left)

    def _prune(self, node: DeltaNode[Item, Facts]) -> None:
        """Drop a node that nobody needs, and then perhaps its parent; a root stays."""
        while not node.tokens and node is not self.here and node.parent is not None:
            parent = node.parent
            if len(node.children) > 1:
                return
            parent.children.discard(node)
            for child in node.children:
                merged = dict(node.delta)
                add(merged, child.delta)
                child.delta, child.parent = merged, parent
                parent.children.add(child)
            node.parent = None
            node = parent
