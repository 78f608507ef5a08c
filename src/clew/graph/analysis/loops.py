"""Find the loops of a graph and their heads.

A loop is a strongly connected set of two or more nodes. Its head is the node where a turn starts. A fixed order of
preference selects it: a gate that can decide first is the head (a while loop); otherwise a node that the gate waits
for is (a do-while loop). Only *candidates* are considered: nodes that need nothing from the loop to start.

1. the nodes named by ``Graph(entry=...)``;
2. else a candidate that no gate and no control link of the loop points to;
3. else all candidates that a gate outside the loop targets;
4. else a candidate that a control link of the loop points to;
5. else a gate fed from outside;
6. else a candidate that a gate of the loop targets;
7. else any gate, else any candidate.

The order of declaration breaks ties. Links into a head from its own loop are back links of that loop. The search for
inner loops ignores them. A link into an inner head from a node that also wakes the head of an enclosing loop belongs
to the outermost such loop: it starts a turn of that one.

Nodes are numbers here, and links are pairs of numbers; `Heads` answers questions about nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

Pair = tuple[int, int]
Rule = tuple[Callable[[int], bool], int | None]
"""Which candidates a rule selects, and how many of them."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A strongly connected set and the heads where its turns start. Without heads, it cannot start."""

    members: frozenset[int]
    heads: tuple[int, ...]
    outer: tuple[int, ...]  # the numbers of the enclosing loops, outermost first


@dataclass(frozen=True, slots=True)
class Heads:
    """The properties of nodes that decide which is the head of a loop."""

    entry: frozenset[int]
    startable: Callable[[int, frozenset[int]], bool]
    fed: Callable[[int, frozenset[int]], bool]
    is_gate: Callable[[int], bool]
    gates_of: Callable[[int], Collection[int]]  # the gates that target a node
    controls_of: Callable[[int], Collection[int]]  # the sources of a node's control links

    def of(self, members: frozenset[int]) -> tuple[int, ...]:
        """Return the heads of the loop `members`."""
        entered = tuple(i for i in sorted(members) if i in self.entry)
        if entered:
            return entered
        by_gate = {i for i in members if not members.isdisjoint(self.gates_of(i))}
        by_control = {i for i in members if not members.isdisjoint(self.controls_of(i))}
        rules: tuple[Rule, ...] = (
            (lambda i: i not in by_gate and i not in by_control, 1),
            (lambda i: not members.issuperset(self.gates_of(i)), None),
            (lambda i: i in by_control, 1),
            (lambda i: self.is_gate(i) and self.fed(i, members), 1),
            (lambda i: i in by_gate, 1),
            (self.is_gate, 1),
            (lambda i: True, 1),
        )
        candidates = [i for i in sorted(members) if self.startable(i, members)]
        chosen = ((tuple(filter(wanted, candidates)), most) for wanted, most in rules)
        return next((found[:most] for found, most in chosen if found), ())


def find_loops(n: int, pairs: Sequence[Pair], heads: Heads) -> tuple[tuple[Loop, ...], dict[Pair, int]]:
    """Return all loops, outer ones first, and the number of the loop that each back link closes."""
    loops: list[Loop] = []
    back: dict[Pair, int] = {}
    unread: list[tuple[frozenset[int], list[Pair], tuple[int, ...]]] = [
        (members, inside, ()) for members, inside in reversed(_strong_sets(range(n), pairs))
    ]
    while unread:
        members, inside, outer = unread.pop()
        number = len(loops)
        loop = Loop(members, heads.of(members), outer)
        loops.append(loop)
        if not loop.heads:
            continue
        for s, t in inside:
            if t in loop.heads:
                back[(s, t)] = next((o for o in outer if any((s, h) in back for h in loops[o].heads)), number)
        rest = [(s, t) for s, t in inside if t not in loop.heads]
        inner = _strong_sets(sorted(members), rest)
        unread.extend((m, within, (*outer, number)) for m, within in reversed(inner))
    return tuple(loops), back


def _strong_sets(nodes: Iterable[int], pairs: Sequence[Pair]) -> list[tuple[frozenset[int], list[Pair]]]:
    """Return the strongly connected sets of two or more nodes with the pairs inside each, ordered by first member."""
    found = sorted(_tarjan(list(nodes), pairs), key=min)
    home = {member: number for number, members in enumerate(found) for member in members}
    inside: list[list[Pair]] = [[] for _ in found]
    for s, t in pairs:
        if s in home and home[s] == home.get(t):
            inside[home[s]].append((s, t))
    return list(zip(found, inside, strict=True))


def _tarjan(nodes: Sequence[int], pairs: Sequence[Pair]) -> Iterator[frozenset[int]]:
    """Yield the strongly connected sets of two or more nodes, by Tarjan's algorithm without recursion."""
    targets: dict[int, list[int]] = {i: [] for i in nodes}
    for s, t in pairs:
        targets[s].append(t)
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    pending: dict[int, None] = {}  # a stack of nodes whose sets are not complete
    work: list[tuple[int, Iterator[int]]] = []
    for root in nodes:
        new: int | None = root if root not in order else None
        while work or new is not None:
            if new is not None:
                order[new] = low[new] = len(order)
                pending[new] = None
                work.append((new, iter(targets[new])))
            node, rest = work[-1]
            new = None
            for target in rest:
                if target not in order:
                    new = target
                    break
                if target in pending:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    members = _popped(pending, node)
                    if len(members) > 1:
                        yield members


def _popped(stack: dict[int, None], last: int) -> frozenset[int]:
    """Remove the members above `last`, and `last` itself."""
    members = {last}
    while (member := stack.popitem()[0]) != last:
        members.add(member)
    return frozenset(members)


def selects_off_loop(gate: str, on: Iterable[str], off: Iterable[str], *, verb: str) -> str:
    """Return the warning about a gate on a loop that selects a target on the loop together with one off it."""
    left, kept = (", ".join(map(repr, some)) for some in (off, on))
    return (
        f"{gate!r} {verb} {kept} on its loop together with {left} off it, which waits until the loop has ended: the "
        f"gate's next decision withdraws that selection; send to {left} with Send(...) to run it once for each turn, "
        f"or select it with a gate that is not on the loop."
    )
