"""Regions: the nodes that run only if a gate has chosen a certain target.

The region of a gate's target contains the target, if nothing else can wake it, and every node that cannot run without
a node of the region: all gate and control links into it come from the region, it waits for a node of the region with
``all_of``, or it needs a value that only the region writes. Two nodes in the regions of different targets of a gate
that chooses one target are *exclusive*: they never both run. A *way* to a node is a set of choices that gates must have
made for the node to run. Two nodes are also exclusive if every way to one contradicts every way to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from clew.graph.analysis.topology import Link, writers_of
from clew.graph.node import Node

Way = dict[str, str]
"""The target that each gate must have chosen, by gate."""

_MANY_WAYS = 64
"""The limit on the number and the length of ways to a node. Beyond it, nothing is concluded from them."""


class Regions:
    """The regions of a graph, computed on first use."""

    def __init__(self, nodes: Mapping[str, Node], links: Iterable[Link]) -> None:
        self._nodes = nodes
        self._writers = writers_of(nodes)
        self._readers: dict[str, list[str]] = {}
        self._wakers: dict[str, set[str]] = {name: set() for name in nodes}
        self._woken: dict[str, list[str]] = {name: [] for name in nodes}
        for link in links:
            if link.kind == "data":
                self._readers.setdefault(link.source, []).append(link.target)
            else:
                self._wakers[link.target].add(link.source)
                self._woken[link.source].append(link.target)
        self._found: dict[tuple[str, str], frozenset[str]] = {}
        self._known_ways: dict[str, list[Way]] = {}

    def exclusive(self, one: str, other: str) -> bool:
        """Return whether these two nodes never both run."""
        if any(
            (one in first and other in second) or (one in second and other in first)
            for gate in self._nodes.values()
            if not gate.multi
            for first, second in self.choices(gate)
        ):
            return True
        return all(self._contradict(a, b) for a in self._ways(one) for b in self._ways(other))

    def _contradict(self, one: Way, other: Way) -> bool:
        return any(
            gate in other and other[gate] != target and not self._nodes[gate].multi
            for gate, target in one.items()
        )

    def _ways(self, name: str, depth: int = 0) -> list[Way]:
        """Return the ways to a node. Any one of them is enough; all choices of it are needed."""
        known = self._known_ways.get(name)
        if known is not None:
            return known
        if depth > _MANY_WAYS:
            return [{}]
        self._known_ways[name] = [{}]  # ends the recursion around a loop
        ways: list[Way] = []
        for waker in sorted(self._wakers[name]):
            chosen = {waker: name} if name in self._nodes[waker].targets else {}
            ways += [{**way, **chosen} for way in self._ways(waker, depth + 1)]
            if len(ways) > _MANY_WAYS:
                ways = []
                break
        self._known_ways[name] = ways or [{}]
        return self._known_ways[name]

    def choices(self, gate: Node) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """Yield the pairs of regions between which a gate chooses."""
        targets = [target for target in gate.targets if target in self._nodes]
        for one, other in combinations(targets, 2):
            yield self._region(gate.name, one), self._region(gate.name, other)

    def _region(self, gate: str, target: str) -> frozenset[str]:
        found = self._found.get((gate, target))
        if found is None:
            region = self._behind(target)
            if not self._wakers[target] <= region | {gate}:
                region = set()  # something else also wakes the target, so it does not depend on this choice
            found = self._found[gate, target] = frozenset(region)
        return found

    def _behind(self, target: str) -> set[str]:
        region = {target}
        waiting = [target]
        while waiting:
            name = waiting.pop()
            for reader in (*self._woken[name], *self._readers.get(name, ())):
                if reader not in region and self._depends_on(reader, region):
                    region.add(reader)
                    waiting.append(reader)
        return region

    def _depends_on(self, name: str, region: set[str]) -> bool:
        wakers, node = self._wakers[name], self._nodes[name]
        if (wakers and wakers <= region) or (node.is_join and not region.isdisjoint(node.after)):
            return True
        return any(
            region.issuperset(writers) and name not in writers
            for value in node.required
            if (writers := self._writers.get(value))
        )
