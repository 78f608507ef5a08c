"""A tree of states: moving between any two states costs the items that changed on the way.

- An *item* is a hashable value that a state holds zero or more times: a row of a table, or a key with its value.
- A *delta* counts the items that were added (+) and removed (-) between two states. It is a multiset: the order of
  changes does not matter, and an addition and a removal of the same item cancel out.
- Each node of the tree is a state, stored as the delta from its parent. The delta between two nodes is the sum along
  the path through their nearest common ancestor.
- A token stands for one checkpoint. Several tokens may stand for the same node, so a checkpoint of an unchanged state
  is free. A node exists as long as a token, a child, or the current position (`here`) needs it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from clew.explore.systems.version_tokens import VersionTokens

Item = TypeVar("Item", bound=Hashable)
Info = TypeVar("Info")


class DeltaNode(Generic[Item, Info]):
    """One state: its delta from the parent, and the information that the system stores with it."""

    __slots__ = ("children", "delta", "depth", "info", "parent", "tokens")

    def __init__(self, parent: DeltaNode[Item, Info] | None, delta: dict[Item, int], info: Info) -> None:
        self.parent = parent
        # always greater than the parent's, even after a merge
        self.depth: int = parent.depth + 1 if parent else 0
        self.delta = delta
        self.info = info
        self.tokens = 0
        self.children: set[DeltaNode[Item, Info]] = set()


def add(total: dict[Item, int], delta: dict[Item, int], sign: int = 1) -> None:
    """Add a delta, or its inverse if the sign is -1, to a total; drop the items whose count becomes zero."""
    for item, count in delta.items():
        sum_ = total.get(item, 0) + sign * count
        if sum_:
            total[item] = sum_
        else:
            del total[item]


class DeltaTree(Generic[Item, Info]):
    """The states, the tokens that stand for them, and the current state (`here`).

    A tree may have several roots. There is no delta between nodes of different roots.
    """

    def __init__(self, info: Info) -> None:
        self.here: DeltaNode[Item, Info] = DeltaNode(None, {}, info)
        self._marked: VersionTokens[DeltaNode[Item, Info]] = VersionTokens()

    def new_root(self, info: Info) -> None:
        """Move to a new root."""
        self._leave(DeltaNode(None, {}, info))

    def step(self, delta: dict[Item, int], info: Info) -> None:
        """Move to a new child of the current state."""
        child = DeltaNode(self.here, delta, info)
        self.here.children.add(child)
        self._leave(child)

    def move(self, node: DeltaNode[Item, Info]) -> None:
        """Move to a known state."""
        self._leave(node)

    def mark(self) -> int:
        """Return a new token for the current state."""
        self.here.tokens += 1
        return self._marked.keep(self.here)

    def __contains__(self, token: object) -> bool:
        return token in self._marked

    def __getitem__(self, token: int) -> DeltaNode[Item, Info]:
        return self._marked[token]

    def release(self, token: int) -> None:
        """Discard a token, and the states that are no longer needed."""
        if token in self._marked:
            node = self._marked[token]
            self._marked.drop(token)
            node.tokens -= 1
            self._prune(node)

    def between(self, start: DeltaNode[Item, Info], end: DeltaNode[Item, Info]) -> dict[Item, int] | None:
        """Return the delta from one state to another; None if they have different roots."""
        total: dict[Item, int] = {}
        up, down = start, end
        going_down: list[DeltaNode[Item, Info]] = []
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

    def _leave(self, node: DeltaNode[Item, Info]) -> None:
        left, self.here = self.here, node
        self._prune(left)

    def _prune(self, node: DeltaNode[Item, Info]) -> None:
        """Drop a node that is not needed, then its parent if that is not needed either; keep roots."""
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
