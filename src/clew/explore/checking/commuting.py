"""Which completions need not be tried in every order.

The chain of a run does not depend on the order in which items complete: that is the engine's promise. So two orders
can only differ in what the items do outside. An item that uses no system can be completed first: whatever else
happens, happens the same way afterwards, and nobody could see the difference on the way. Then only its completion
is offered.

An item that uses a system, but none that any other item may use before it completes, could go first as well; on the
way there, though, its effect and that of another would be seen in one order only. So that is done only where nobody
looks before the run has ended (`only_ends`).

Who uses what is said by the user (`touches`). A node of which nothing is said uses every system. What may happen
before an item completes is everything but what is downstream of its node. While an item may still be told to fail,
nothing is left out: a failure decides what is started after it, so its place matters.

The tests hold this against the search that leaves nothing out: the same violations are found, and the same ends
reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from clew.engine.programs import program_of
from clew.errors import DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest


class Commuting:
    """Knows which item may go first."""

    def __init__(
        self,
        graph: Graph,
        given: Iterable[str],
        touches: Mapping[str, Iterable[str]],
        systems: Sequence[str],
        *,
        only_ends: bool = False,
    ) -> None:
        self._only_ends = only_ends
        everything = frozenset(systems)
        for node, used in touches.items():
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
        program = program_of(graph, frozenset(given))
        self._after = {
            name: {program.names[i] for i in program.downstream(number) if i != number}
            for number, name in enumerate(program.names)
        }

    def first(self, running: Sequence[str]) -> list[str]:
        """Of the items that may complete, those that have to be tried: one that may go first, or all."""
        if len(running) < 2:
            return list(running)
        nodes = [path.partition("/")[0].partition("#")[0] for path in running]
        for path, node in zip(running, nodes, strict=True):
            if self._is_free(node, nodes.count(node)):
                return [path]
        return list(running)

    def _is_free(self, node: str, items: int) -> bool:
        used = self._uses[node]
        if not used:
            return True
        if not self._only_ends or items > 1:  # somebody may look; another item of it uses the same
            return False
        return all(
            used.isdisjoint(uses)
            for other, uses in self._uses.items()
            if other != node and other not in self._after[node]
        )
