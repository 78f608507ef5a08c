"""Which completions need not be tried in every order.

The chain of a run does not depend on the order in which items complete: that is the engine's promise. So two orders
can only end differently through what the items do outside. An item that uses no system, or none that any other item
may use before it completes, can be completed first: whatever else happens, happens the same way afterwards. Then
only its completion is offered.

On the way there things would be seen in one order only. So this is done only where nobody looks before the run has
ended.

Who uses what is said by the user (`touches`). A node of which nothing is said uses every system. What may happen
before an item completes is everything but what is downstream of its node; an eager node waits for nobody, so it may
happen too, and so may what is downstream of it. Only an item of the earliest step goes first: that one is executed
whatever fails, while nothing of a step after a failure is started, and perhaps never will be. While an item fails by
itself nothing is left out, because the place of a failure matters. That is not seen here but by the run, which tries
the items out.

Where an item may be told to fail or to take too long, the place of that matters less: the run is resumed afterwards,
and whatever was let fall is executed then. So with one fault to come, an item goes first with its own faults if
neither it nor anything else that may happen before it uses a system (`is_calm`). Each item is then executed as often,
and as the same attempt, whether before the fault or after it. Where other items do use systems, those items from which
nothing comes that uses any (`others`) complete, or meet their faults, one after the other: when a fault comes, the
lower ones may as well be executed already. Nothing may have gone wrong before, nor raise by itself: how often a run
that fails is resumed depends on how often it has failed. The latter is known when all has been explored; if something
does (`RunSystem.has_stumbled`), it is explored once more, without this (`is_wary`).

The tests hold this against the search that leaves nothing out: the same violations are found, and the same ends
reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.engine.program import check_values, program_of
from clew.errors import DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest


class PartialOrderReduction:
    """Knows which item may go first."""

    def __init__(
        self,
        graph: Graph,
        given: Mapping[str, Any],
        touches: Mapping[str, Iterable[str]],
        systems: Sequence[str],
    ) -> None:
        everything = frozenset(systems)
        if not isinstance(touches, Mapping):
            raise DefinitionError(f'touches is {{"node": ["system", ...]}}, not {touches!r}')
        for node, used in touches.items():
            if isinstance(used, str) or not isinstance(used, Iterable):
                raise DefinitionError(
                    f"touches of {node!r} is a list of names of systems, not {used!r}; write [{used!r}]"
                )
            if node not in graph.nodes:
                raise DefinitionError(
                    f"touches names a node {node!r}, and there is none; {nearest(node, graph.nodes)}"
                )
            unknown = sorted(set(used) - everything)
            if unknown:
                raise DefinitionError(
                    f"touches says that {node!r} uses {unknown[0]!r}, and no such system is given; "
                    f"{nearest(unknown[0], systems)}"
                )
        self._uses = {name: frozenset(touches.get(name, everything)) for name in graph.nodes}
        check_values(graph, given)  # a graph that knows a program would not say what is missing any more
        program = program_of(graph, frozenset(given))
        downstream = {
            name: {program.names[i] for i in program.downstream(number) if i != number}
            for number, name in enumerate(program.names)
        }
        early = {name for name in downstream if graph.nodes[name].eager}
        early |= {after for name in early for after in downstream[name]}
        self._after = {name: after - early for name, after in downstream.items()}
        plain = {name for name, node in graph.nodes.items() if node.kind == "node" and not node.targets}
        self._inert = {
            name for name in plain if not any(self._uses[each] for each in {name, *downstream[name]})
        }

    def first(self, running: Sequence[tuple[str, int]], *, is_calm: bool = False) -> str | None:
        """Of the items that may complete, with their steps, one that may go first, so that the others need not.

        With `is_calm`, one of which nothing that may happen before it uses any system.
        """
        if len(running) < 2:
            return None
        nodes = [_node_of(path) for path, _ in running]
        soonest = min(step for _, step in running)
        for (path, step), node in zip(running, nodes, strict=True):
            if step > soonest or (is_calm and not self._is_calm(node)):
                continue
            if self._is_free(node, nodes.count(node)):
                return path
        return None

    def others(self, running: Sequence[tuple[str, int]]) -> set[str]:
        """Of the items that may complete, those that may wait for another one: nothing that comes of either uses any
        system, so which of them has completed when something else happens makes no difference."""
        soonest = min((step for _, step in running), default=0)
        alike = [path for path, step in running if step == soonest and _node_of(path) in self._inert]
        return set(alike[1:])

    def _is_calm(self, node: str) -> bool:
        return not any(uses for other, uses in self._uses.items() if other not in self._after[node])

    def _is_free(self, node: str, items: int) -> bool:
        used = self._uses[node]
        if not used:
            return True
        if items > 1:  # another item of it uses the same
            return False
        return all(
            used.isdisjoint(uses)
            for other, uses in self._uses.items()
            if other != node and other not in self._after[node]
        )


def _node_of(path: str) -> str:
    """The node of the graph itself that an item belongs to."""
    return path.partition("/")[0].partition("#")[0]
