"""Which completions need not be tried in every order.

The chain of a run does not depend on the order in which items complete: that is the engine's promise. So two orders
can only end differently through what the items do outside. An item that uses no system, or none that any other item
may use before it completes, can be completed first: whatever else happens, happens the same way afterwards. Then
only its completion is offered.

On the way there things would be seen in one order only. So this is done only where nobody looks before the run has
ended.

Who uses what is said by the user (`touches`). A node of which nothing is said uses every system. What may happen
before an item completes is everything but what is downstream of its node; an eager node waits for nobody, so it may
happen too, and so may what is downstream of it. While an item may still fail, by a fault or by itself, nothing is
left out: a failure decides what is started after it, so its place matters. That is not seen here but by the run,
which tries the items out.

The tests hold this against the search that leaves nothing out: the same violations are found, and the same ends
reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.engine.programs import check_values, program_of
from clew.errors import DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest


class Commuting:
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

    def first(self, running: Sequence[str]) -> str | None:
        """Of the items that may complete, one that may go first, so that the others need not; or None."""
        if len(running) < 2:
            return None
        nodes = [path.partition("/")[0].partition("#")[0] for path in running]
        for path, node in zip(running, nodes, strict=True):
            if self._is_free(node, nodes.count(node)):
                return path
        return None

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
