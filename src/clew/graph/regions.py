"""Regions: what runs only if a gate has chosen one particular target.

The region of a gate's target is the target, if nothing else can wake it, and every node that cannot run
without a node of the region: because only nodes of the region point to it with gates and control links, or
because it needs a value that only they write. Two nodes in the regions of different targets of a gate that
chooses one target are *exclusive*: the gate never chose both. So are two nodes if every *way* to the one, a set of
choices that gates must have made for it to run, contradicts every way to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from clew.graph.interface import writers_of
from clew.graph.node import Node
from clew.graph.topology import Link

Way = dict[str, str]
"""Gates, and the target that each of them must have chosen."""

_MANY_WAYS = 64
"""Where more ways than this lead to a node, or longer ones, nothing is concluded from them."""


class Regions:
    """The regions of one graph, each found when first asked for."""

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
        """Whether some gate chooses between these two nodes, on every way that leads to them."""
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
        """What gates must have chosen for a node to run: one way is enough, and all of a way is needed."""
        known = self._known_ways.get(name)
        if known is not None:
            return known
        if depth > _MANY_WAYS:
            return [{}]
        self._known_ways[name] = [{}]  # around a loop nothing more is known
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
        """The pairs of regions between which a gate chooses."""
        targets = [target for target in gate.targets if target in self._nodes]
        for one, other in combinations(targets, 2):
            yield self._region(gate.name, one), self._region(gate.name, other)

    def _region(self, gate: str, target: str) -> frozenset[str]:
        found = self._found.get((gate, target))
        if found is None:
            region = self._behind(target)
            if not self._wakers[target] <= region | {gate}:
                region = set()  # something else wakes the target too, so nothing hangs on this choice alone
            found = self._found[gate, target] = frozenset(region)
        return found

    def _behind(self, target: str) -> set[str]:
        region = {target}
        waiting = [target]
        while waiting:
            name = waiting.pop()
            for reader in (*self._woken[name], *self._readers.get(name, ())):
                if reader not in region and self._hangs_on(reader, region):
                    region.add(reader)
                    waiting.append(reader)
        return region

    def _hangs_on(self, name: str, region: set[str]) -> bool:
        wakers = self._wakers[name]
        if wakers and wakers <= region:
            return True
        return any(
            region.issuperset(writers) and name not in writers
            for value in self._nodes[name].required
            if (writers := self._writers.get(value))
        )
