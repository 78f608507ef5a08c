"""The topology of a graph: links between nodes, loops, and which nodes wait for which.

``clew.engine.program`` uses it to decide what runs next. It is computed once for a graph and a set of input names, and
does not change during a run.

*Links* connect two different nodes: data (a writer and a reader of a value), gate (a gate, or a node with ``goto``, and
its target) and control (``edges``, ``after``). A pair of nodes is linked *forward* or *back*.

*Loops* are strongly connected sets of two or more nodes. The *head* of a loop is where it starts; links into the head
from its own loop are *back* links of that loop. Without them, the loop may contain inner loops, which are treated in
the same way. All other links are forward and acyclic. Outer loops have smaller numbers than the loops inside them.

*Up* of a node: the nodes that it waits for when it is due. These are all nodes that lead to it along forward links; of
a loop that the node is not on, all members. *Reach* of a node: the nodes that can affect whether it runs and what it
writes, one step back, two steps back, and so on. Both are bit masks, computed on first use, because a simple chain of
nodes needs neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import InputError
from clew.graph.analysis.loops import Heads, Loop, find_loops

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node


@dataclass(frozen=True, slots=True)
class Link:
    """A reason why `target` may have to run after `source`."""

    source: str
    target: str
    kind: Literal["data", "gate", "control"]
    value: str | None = None


def writers_of(nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    """Return the nodes that write each value, in order of declaration."""
    writers: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for value in node.outputs:
            writers.setdefault(value, []).append(name)
    return writers


def links(nodes: Mapping[str, Node], edges: Iterable[tuple[str, str]]) -> tuple[Link, ...]:
    """Return all links of a graph, in the order in which their targets are declared."""
    writers = writers_of(nodes)
    found: dict[Link, None] = {}
    for name, node in nodes.items():
        for value in node.inputs:
            for writer in writers.get(value, ()):
                found[Link(writer, name, "data", value)] = None
        for source in node.after:
            found[Link(source, name, "control")] = None
    for name, node in nodes.items():
        for target in node.targets:
            found[Link(name, target, "gate")] = None
    for source, target in edges:
        found[Link(source, target, "control")] = None
    return tuple(link for link in found if link.source != link.target and link.target in nodes)


def _sources(n: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the sources of each of `n` nodes, from pairs of a source and a target."""
    found: list[list[int]] = [[] for _ in range(n)]
    for source, target in pairs:
        found[target].append(source)
    return found


def _other_writers(node: Node, nodes: Sequence[Node]) -> int:
    outputs = set(node.outputs)
    return _mask(
        i for i, other in enumerate(nodes) if other is not node and not outputs.isdisjoint(other.outputs)
    )


def _cannot_start(loop: Sequence[Node], wanted: Sequence[str]) -> str:
    joins = [node.name for node in loop if node.is_join]
    instead = f"; or take all_of() away from {', '.join(map(repr, joins))}" if joins else ""
    return (
        f"the loop {' → '.join(node.name for node in loop)} cannot start, because each of its nodes waits for another "
        f"one; pass one of {', '.join(map(repr, wanted))} to the run, or give a parameter a default (a default in the "
        f"state schema does not apply to a value that a node writes){instead}"
    )


class Topology:
    """The links of a graph, for one set of input names. Nodes are numbered in the order of declaration."""

    def __init__(self, graph: Graph, given: frozenset[str]) -> None:
        self.names: tuple[str, ...] = tuple(graph.nodes)
        self.index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.given = given
        self.program: Any = None  # set by the first engine that uses it
        nodes = list(graph.nodes.values())
        n = len(nodes)
        self.links = links(graph.nodes, graph.edges)

        numbers = [(self.index[link.source], self.index[link.target]) for link in self.links]
        self.pairs = pairs = dict.fromkeys(numbers)
        by_kind: dict[str, list[tuple[int, int]]] = {"data": [], "control": [], "gate": []}
        for link, pair in zip(self.links, numbers, strict=True):
            by_kind[link.kind].append(pair)
        self.gates_of = _sources(n, by_kind["gate"])
        self.controls_of = _sources(n, by_kind["control"])

        self.loops, self.back = self._find_loops(graph, nodes)
        self.on_loops: list[int] = [0] * n
        for number, loop in enumerate(self.loops):
            for member in loop.members:
                self.on_loops[member] |= 1 << number
        self.loop_masks: list[int] = [_mask(loop.members) for loop in self.loops]

        forward = [pair for pair in pairs if pair not in self.back]
        self.sources = _sources(n, pairs)
        self.targets = _sources(n, ((target, source) for source, target in pairs))
        self.forward_sources = _sources(n, forward)
        self.forward_targets = _sources(n, ((target, source) for source, target in forward))
        self._eager = [node.eager for node in nodes]
        self._reads_state = [node.reads_state for node in nodes]
        # a cutoff compares with the last write of a value, so the other writers affect it
        self._compared = [0 if node.cutoff is None else _other_writers(node, nodes) for node in nodes]
        self._up: dict[int, int] = {}
        self._reach: dict[int, tuple[int, ...]] = {}
        self._closed = not (self.loops or any(self._eager) or any(self._compared))

    # -- loops -----------------------------------------------------------------------------------------

    def _find_loops(
        self, graph: Graph, nodes: Sequence[Node]
    ) -> tuple[tuple[Loop, ...], dict[tuple[int, int], int]]:
        if not self.pairs:
            return (), {}
        writers: dict[str, list[int]] = {}
        for i, node in enumerate(nodes):
            for value in node.outputs:
                writers.setdefault(value, []).append(i)
        ready = self.given | frozenset(graph.bound) | seeds_that_count(graph)

        def open_inputs(i: int) -> tuple[str, ...]:
            return tuple(value for value in nodes[i].required if value not in ready)

        def startable(i: int, members: frozenset[int]) -> bool:
            return all(
                value not in writers or any(w not in members for w in writers[value])
                for value in open_inputs(i)
            ) and not (nodes[i].is_join and any(self.index[name] in members for name in nodes[i].after))

        def fed(i: int, members: frozenset[int]) -> bool:
            return any(
                value in self.given or any(w not in members for w in writers.get(value, ()))
                for value in nodes[i].inputs
            )

        heads = Heads(
            entry=frozenset(self.index[name] for name in graph.entry if name in self.index),
            startable=startable,
            fed=fed,
            is_gate=lambda i: nodes[i].kind in ("route", "ifelse"),
            gates_of=lambda i: self.gates_of[i],
            controls_of=lambda i: self.controls_of[i],
        )
        loops, back = find_loops(len(nodes), tuple(self.pairs), heads)
        for loop in loops:
            if not loop.heads:
                members = sorted(loop.members)
                wanted = sorted({value for i in members for value in open_inputs(i)})
                raise InputError(_cannot_start([nodes[i] for i in members], wanted))
        return loops, back

    # -- waiting ---------------------------------------------------------------------------------------

    def up(self, node: int) -> int:
        """Return the nodes that `node` waits for when it is due, as a mask."""
        known = self._up.get(node)
        if known is not None:
            return known
        stack = [node]
        while stack:
            top = stack[-1]
            if top in self._up:
                stack.pop()
                continue
            missing = [m for m in self._needed_for_up(top) if m not in self._up]
            if missing:
                stack.extend(missing)
                continue
            mask = 0
            for m in self._needed_for_up(top):
                mask |= self._up[m] | (1 << m)
            self._up[top] = mask & ~(1 << top)
            stack.pop()
        return self._up[node]

    def _needed_for_up(self, node: int) -> Iterator[int]:
        own = self.on_loops[node]
        for source in self.forward_sources[node]:
            foreign = self.on_loops[source] & ~own
            if foreign:
                # the outermost of these loops contains the others
                outermost = (foreign & -foreign).bit_length() - 1
                yield from self.loops[outermost].members
            else:
                yield source

    def may_wait_for(self, node: int) -> int:
        """Return `up`, and for a node that can start a turn also the members of its loop."""
        if self._eager[node]:
            return 0
        mask = self.up(node)
        for source in self.sources[node]:
            loop = self.back.get((source, node))
            if loop is not None:
                mask |= self.loop_masks[loop]
        return mask & ~(1 << node)

    # -- lookahead -------------------------------------------------------------------------------------

    def reach(self, node: int, distance: int) -> int:
        """Return the nodes that can affect, within `distance` steps, whether `node` runs and what it writes."""
        masks = self._reach.get(node)
        if masks is None:
            masks = self._reach[node] = self._make_reach(node)
        return masks[min(distance, len(masks)) - 1]

    def _make_reach(self, node: int) -> tuple[int, ...]:
        mask = self._depends(node)
        masks = [mask]
        if self._closed:
            return (mask,)
        fresh = mask & ~(1 << node)
        while fresh:
            wider = mask
            for m in _members(fresh):
                wider |= self._depends(m)
            fresh = wider & ~mask
            mask = wider
            if fresh:
                masks.append(mask)
        return tuple(masks)

    def _depends(self, node: int) -> int:
        if self._reads_state[node]:
            return (1 << len(self.names)) - 1
        mask = self.may_wait_for(node) | self._compared[node] | (1 << node)
        if self._closed:
            return mask
        sources = 0
        for m in _members(mask):
            for source in self.sources[m]:
                sources |= 1 << source
        return mask | sources

    def behind(self, gate: int) -> frozenset[int]:
        """Return the nodes that forward links lead to from `gate`."""
        found: set[int] = set()
        stack = list(self.forward_targets[gate])
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack.extend(self.forward_targets[node])
        return frozenset(found)


def seeds_that_count(graph: Graph) -> frozenset[str]:
    """Return the values whose schema default makes a reader due: reduced values, and those that no node writes."""
    if graph.schema is None:
        return frozenset()
    written = {value for node in graph.nodes.values() for value in node.outputs}
    return frozenset(
        name
        for name, field in graph.schema.fields.items()
        if field.reducer is not None or (field.has_default and name not in written)
    )


def _mask(members: Iterable[int]) -> int:
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def _members(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
