"""Links, loops, heads, back links and what is upstream: the part of the rules that a run computes once.

Everything is a literal set of names or of ordered pairs of names, and every function quotes its rule. Nodes
outside a loop of which a rule speaks include those of the enclosing loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from .model import MGraph

Pair = tuple[str, str]


class CannotStart(Exception):
    """No node of a loop can run before the rest of it."""

    def __init__(self, loop: frozenset[str]) -> None:
        super().__init__(f"nothing can start the loop {sorted(loop)}")
        self.loop = loop


@dataclass(frozen=True)
class Links:
    """The ordered pairs with a link of each kind. "A node's links to itself do not count."""

    data: frozenset[Pair]
    gate: frozenset[Pair]
    control: frozenset[Pair]

    @property
    def pairs(self) -> frozenset[Pair]:
        return self.data | self.gate | self.control


@dataclass(frozen=True)
class Loop:
    """A loop, its heads, and the loops that it lies in, the outermost first."""

    nodes: frozenset[str]
    heads: frozenset[str]
    enclosing: tuple[Loop, ...]

    @property
    def depth(self) -> int:
        return len(self.enclosing)


@dataclass(frozen=True)
class Layout:
    """The whole analysis: ``back`` says to which loop a back link belongs; all other pairs are ``forward``;
    ``upstream`` is Up(X) for every node.
    """

    links: Links
    loops: tuple[Loop, ...]
    back: dict[Pair, Loop]
    forward: frozenset[Pair]
    upstream: dict[str, frozenset[str]]

    def is_forward(self, source: str, target: str) -> bool:
        return (source, target) in self.forward

    def loops_with(self, name: str) -> tuple[Loop, ...]:
        return tuple(loop for loop in self.loops if name in loop.nodes)

    def gates_forward_to(self, name: str) -> frozenset[str]:
        return frozenset(gate for gate, target in self.links.gate & self.forward if target == name)

    def gates_back_to(self, name: str) -> frozenset[str]:
        return frozenset(gate for gate, target in self.links.gate - self.forward if target == name)

    def controls_forward_to(self, name: str) -> frozenset[str]:
        return frozenset(source for source, target in self.links.control & self.forward if target == name)

    def behind(self, name: str) -> frozenset[str]:
        """The nodes reachable from ``name`` along one or more forward links."""
        return reachable(name, self.forward)


def links_of(graph: MGraph) -> Links:
    """Rule: "data (writer to reader), gate to target, control (`edges`, `after`)"; a goto node counts as a
    gate.
    """
    data = {(w, node.name) for node in graph.nodes for value in node.reads for w in graph.writers(value)}
    gate = {(node.name, target) for node in graph.nodes for target in node.routes}
    control = set(graph.edges) | {(source, node.name) for node in graph.nodes for source in node.after}
    return Links(*(frozenset((s, t) for s, t in pairs if s != t) for pairs in (data, gate, control)))


def reachable(start: str, pairs: Iterable[Pair]) -> frozenset[str]:
    """The nodes reached from ``start`` along one or more of the pairs."""
    pairs = list(pairs)
    found: set[str] = set()
    waiting = [start]
    while waiting:
        at = waiting.pop()
        for source, target in pairs:
            if source == at and target not in found:
                found.add(target)
                waiting.append(target)
    return frozenset(found)


def strongly_connected(names: Collection[str], pairs: Collection[Pair]) -> list[frozenset[str]]:
    """Rule: "a strongly connected set of nodes is a loop": every set of two or more that all reach each
    other.
    """
    reach = {name: reachable(name, pairs) for name in names}
    found: list[frozenset[str]] = []
    for name in names:
        together = frozenset(other for other in names if other in reach[name] and name in reach[other])
        if len(together) >= 2 and together not in found:
            found.append(together)
    return found


def available_at_start(graph: MGraph, given: Collection[str], value: str, has_default: bool) -> bool:
    """C2. "An input is available at the start if it was given, or is bound, or its parameter has a default,
    or it has a schema default that counts."
    """
    return value in given or value in dict(graph.bound) or has_default or graph.seed_counts(value)


def is_candidate(graph: MGraph, given: Collection[str], loop: frozenset[str], name: str) -> bool:
    """C2. "A node of a loop is a candidate for head iff each of its inputs is available at the start, or is
    written by some node outside the loop, or is written by no node at all." A join whose sources are on the loop
    needs something from the loop, too.
    """
    node = graph.node(name)
    if node.is_join and any(source in loop for source in node.after):
        return False
    return all(
        available_at_start(graph, given, value, has_default)
        or any(writer not in loop for writer in graph.writers(value))
        or not graph.writers(value)
        for value, has_default in node.inputs
    )


def heads_of(graph: MGraph, given: Collection[str], links: Links, loop: frozenset[str]) -> frozenset[str]:
    """C3. The heads of a loop; the numbers are those of the rule."""
    forced = frozenset(graph.entry) & loop
    if forced:
        return forced
    candidates = [name for name in graph.names if name in loop and is_candidate(graph, given, loop, name)]
    if not candidates:
        raise CannotStart(loop)

    def pointed_at(pairs: frozenset[Pair], name: str, *, inside: bool) -> bool:
        return any(target == name and (source in loop) is inside for source, target in pairs)

    def fed_from_outside(name: str) -> bool:
        return any(v in given or any(w not in loop for w in graph.writers(v)) for v in graph.node(name).reads)

    gates = [name for name in candidates if graph.node(name).kind == "gate"]
    free = [n for n in candidates if not pointed_at(links.gate | links.control, n, inside=True)]
    if free:  # 1
        return frozenset(free[:1])
    selected_from_outside = [n for n in candidates if pointed_at(links.gate, n, inside=False)]
    if selected_from_outside:  # 2: all of them
        return frozenset(selected_from_outside)
    preferences = [
        [n for n in candidates if pointed_at(links.control, n, inside=True)],  # 3
        [n for n in gates if fed_from_outside(n)],  # 4
        [n for n in candidates if pointed_at(links.gate, n, inside=True)],  # 5
        gates,  # 6
        candidates,
    ]
    return frozenset(next(choice for choice in preferences if choice)[:1])


def find_loops(graph: MGraph, given: Collection[str]) -> tuple[Links, tuple[Loop, ...], dict[Pair, Loop]]:
    """C4. "Links into a head from its own loop are back links of that loop. They are removed and the rest of
    the loop is analysed again for inner strongly connected sets."
    """
    links = links_of(graph)
    loops: list[Loop] = []
    back: dict[Pair, Loop] = {}

    def search(names: Collection[str], pairs: frozenset[Pair], enclosing: tuple[Loop, ...]) -> None:
        for nodes in strongly_connected(names, pairs):
            loop = Loop(nodes, heads_of(graph, given, links, nodes), enclosing)
            loops.append(loop)
            own = frozenset((s, t) for s, t in pairs if s in nodes and t in nodes)
            turning = frozenset((s, t) for s, t in own if t in loop.heads)
            back.update(dict.fromkeys(turning, loop))
            search([name for name in graph.names if name in nodes], own - turning, (*enclosing, loop))

    search(graph.names, links.pairs, ())
    return links, tuple(loops), back


def give_to_outer_loops(links: Links, back: dict[Pair, Loop]) -> dict[Pair, Loop]:
    """C4. "A back link s -> h' of an inner loop, where s also has a link into a head of an enclosing loop
    (that link being a back link there), belongs to the outermost such enclosing loop instead."
    """
    settled: dict[Pair, Loop] = {}
    for (source, head), loop in back.items():
        outer = [
            o
            for o in loop.enclosing
            if any((source, h) in links.pairs and back.get((source, h)) is o for h in o.heads)
        ]
        settled[source, head] = outer[0] if outer else loop
    return settled


def upstream_of(name: str, forward: frozenset[Pair], loops: Collection[Loop]) -> frozenset[str]:
    """C6. "Up(X): nodes reached from X backwards along forward links, where reaching a node of a loop that X
    is not on reaches all nodes of that loop (and what is upstream of them, likewise)."
    """
    found: set[str] = set()
    waiting = [source for source, target in forward if target == name]
    while waiting:
        reached = waiting.pop()
        if reached in found:
            continue
        found.add(reached)
        waiting += [source for source, target in forward if target == reached]
        for loop in loops:
            if reached in loop.nodes and name not in loop.nodes:
                waiting += loop.nodes
    return frozenset(found)


def analyse(graph: MGraph, given: Collection[str]) -> Layout:
    """Rule: "computed once per run from the graph and the names given." Raises CannotStart."""
    links, loops, back = find_loops(graph, given)
    forward = links.pairs - back.keys()
    upstream = {name: upstream_of(name, forward, loops) for name in graph.names}
    return Layout(links, loops, give_to_outer_loops(links, back), forward, upstream)
