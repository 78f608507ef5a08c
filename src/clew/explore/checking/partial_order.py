"""Partial-order reduction: which completions need not be tried in every order.

The chain of a run does not depend on the order in which items complete; the engine guarantees that. So two orders can
only end differently through the systems that the items use. An item that uses no system, or only systems that no
other item can use before it completes, may complete first: everything else happens the same way afterwards. Then only
its completion is offered.

The states on the way differ, so the reduction is used only if every invariant checks ended runs.

Rules:

- The user declares which systems a node uses (`node_systems`). Other nodes are assumed to use all systems.
- Everything can happen before an item completes, except the nodes downstream of it. Eager nodes do not wait, so they
  and their downstream nodes can happen first too.
- Only an item of the earliest step goes first. It is executed even if another item fails, while later steps may never
  start after a failure.
- While an item fails without a fault, nothing is left out: the place of a failure matters. The run finds out by trying
  the items (`RunSystem.offered`).

Injected faults. After a "fail" or "timeout" fault the run is resumed, and discarded work is executed again. So with one
fault left:

- An item goes first, with its faults, if neither it nor anything that can happen before it uses a system
  (`no_systems_before`). Every item is then executed as often, and as the same attempt, before the fault or after it.
- Otherwise, among the items whose node and downstream nodes use no system, only the first is offered (`deferrable`
  returns the others): when a fault happens, the lower ones may as well have been executed.
- No fault may have happened before, and no body may raise, because the number of resumes depends on the number of
  failures. Whether a body raises is known after the exploration. If one does (`RunSystem.has_failed_unprompted`), the
  graph is explored again with every order of faults (`keeps_fault_orders`).

The tests compare the reduction with a full search: it finds the same violations and reaches the same ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.engine.program import check_values, program_of
from clew.errors import DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest


def _check(node_systems: Any, graph: Graph, systems: frozenset[str]) -> None:
    if not isinstance(node_systems, Mapping):
        raise DefinitionError(f'node_systems: expected {{"node": ["system", ...]}}, got {node_systems!r}')
    for node, used in node_systems.items():
        if isinstance(used, str) or not isinstance(used, Iterable):
            raise DefinitionError(
                f"node_systems of {node!r}: expected a list of system names, got {used!r}; write [{used!r}]"
            )
        if node not in graph.nodes:
            raise DefinitionError(f"node_systems: node {node!r} does not exist; {nearest(node, graph.nodes)}")
        if unknown := sorted(set(used) - systems):
            raise DefinitionError(
                f"node_systems of {node!r}: system {unknown[0]!r} is not in systems; "
                f"{nearest(unknown[0], sorted(systems))}"
            )


class PartialOrderReduction:
    """Decides which of the running items may complete first."""

    def __init__(
        self,
        graph: Graph,
        given: Mapping[str, Any],
        node_systems: Mapping[str, Iterable[str]],
        systems: Sequence[str],
    ) -> None:
        everything = frozenset(systems)
        _check(node_systems, graph, everything)
        self._uses = {name: frozenset(node_systems.get(name, everything)) for name in graph.nodes}
        check_values(graph, given)  # program_of does not report missing values if it has a cached program
        program = program_of(graph, frozenset(given))
        downstream = {
            name: {program.names[i] for i in program.downstream(number) if i != number}
            for number, name in enumerate(program.names)
        }
        early = {name for name in downstream if graph.nodes[name].eager}
        early |= {after for name in early for after in downstream[name]}
        self._after = {name: after - early for name, after in downstream.items()}
        plain = {name for name, node in graph.nodes.items() if node.kind == "node" and not node.targets}
        self._without_systems = {
            name for name in plain if not any(self._uses[each] for each in {name, *downstream[name]})
        }

    def first(self, running: Sequence[tuple[str, int]], *, no_systems_before: bool = False) -> str | None:
        """Return an item that may complete first, from items with their steps; None if every order matters.

        With `no_systems_before`, neither that item nor anything that can happen before it uses a system.
        """
        if len(running) < 2:
            return None
        nodes = [_node_of(path) for path, _ in running]
        earliest = min(step for _, step in running)
        for (path, step), node in zip(running, nodes, strict=True):
            if step > earliest or (no_systems_before and not self._has_no_systems_before(node)):
                continue
            if self._is_free(node, nodes.count(node)):
                return path
        return None

    def deferrable(self, running: Sequence[tuple[str, int]]) -> set[str]:
        """Return the items that may wait for another one.

        Neither they, nor that one, nor their downstream nodes use a system, so their order makes no difference.
        """
        earliest = min((step for _, step in running), default=0)
        alike = [
            path for path, step in running if step == earliest and _node_of(path) in self._without_systems
        ]
        return set(alike[1:])

    def _has_no_systems_before(self, node: str) -> bool:
        return not any(uses for other, uses in self._uses.items() if other not in self._after[node])

    def _is_free(self, node: str, items: int) -> bool:
        used = self._uses[node]
        if not used:
            return True
        if items > 1:  # the other items of the node use the same systems
            return False
        return all(
            used.isdisjoint(uses)
            for other, uses in self._uses.items()
            if other != node and other not in self._after[node]
        )


def _node_of(path: str) -> str:
    """Return the node of the top-level graph that an item belongs to."""
    return path.partition("/")[0].partition("#")[0]
