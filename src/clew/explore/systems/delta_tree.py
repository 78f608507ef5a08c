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
    """The states, the tokens that stand for them, the current state (`here`), and what changed since it (`pending`).

    A tree may have several roots. There is no delta between nodes of different roots. `here` needs a root.
    """

    here: DeltaNode[Item, Info]

    def __init__(self) -> None:
        self.pending: dict[Item, int] = {}
        self._tokens: VersionTokens[DeltaNode[Item, Info]] = VersionTokens()

    def new_root(self, info: Info) -> None:
        """Move to a new root."""
        self.move(DeltaNode(None, {}, info))

    def step(self, info: Info) -> None:
        """Move to a new child of the current state, which differs by what is pending."""
        child = DeltaNode(self.here, self.pending, info)
        self.here.children.add(child)
        self.move(child)

    def move(self, node: DeltaNode[Item, Info]) -> None:
        """Move to a state; nothing is pending then."""
        left = getattr(self, "here", node)
        self.here, self.pending = node, {}
        self._prune(left)

    def mark(self) -> int:
        """Return a new token for the current state."""
        self.here.tokens += 1
        return self._tokens.keep(self.here)

    def __contains__(self, token: object) -> bool:
        return token in self._tokens

    def __getitem__(self, token: int) -> DeltaNode[Item, Info]:
        return self._tokens[token]

    def release(self, token: int) -> None:
        """Discard a token, and the states that are no longer needed."""
        if token in self._tokens:
            node = self._tokens[token]
            self._tokens.drop(token)
            node.tokens -= 1
            self._prune(node)

    def path_to(self, node: DeltaNode[Item, Info]) -> dict[Item, int]:
        """Return the delta from the current state, with what is pending, to a state of the same root."""
        total: dict[Item, int] = {}
        add(total, self.pending, -1)
        up, down = self.here, node
        going_down: list[DeltaNode[Item, Info]] = []
        while up is not down:
            if up.depth >= down.depth:
                add(total, up.delta, -1)
                assert up.parent is not None  # both have the same root
                up = up.parent
            else:
                going_down.append(down)
                assert down.parent is not None  # it is deeper than another node
                down = down.parent
        for each in reversed(going_down):
            add(total, each.delta)
        return total

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
