"""Validate a graph when it is built.

Each check is a function that raises `GraphError`: the problem, where it is, and how to fix it. The checks run in the
order of ``CHECKS``; later ones rely on names that earlier ones have verified. A valid graph that probably does not do
what its author intended causes a `GraphWarning`.

Two problems depend on the values of a run, so they are not checked here: whether a loop can start (the topology of the
run checks it) and whether a ``Send`` carries what its target needs (the run raises `StalledError`).
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError
from clew.graph.analysis.interface import loops_of, may_send
from clew.graph.analysis.loops import selects_off_loop
from clew.graph.analysis.regions import Regions
from clew.graph.analysis.topology import Link, Topology, links, writers_of
from clew.graph.annotations import fits, shown
from clew.graph.joins import circle_of
from clew.graph.key_functions import wanted_by_key
from clew.graph.names import END, is_misspelt, nearest
from clew.graph_warnings import warn

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node
    from clew.state.schema import Field


def validate(graph: Graph) -> None:
    """Raise `GraphError` for the first problem; warn about probable mistakes."""
    view = ValidationContext(graph)
    for check in CHECKS:
        check(view)


def topology_of(graph: Graph, given: frozenset[str] = frozenset()) -> Topology:
    """Return which nodes wait for which, in a run that starts with values of these names; cached with the graph."""
    found = graph._topologies.get(given)
    if found is None:
        check_declared(graph)
        found = graph._topologies[given] = Topology(graph, given)
    return found


def has_topology(graph: Graph, given: frozenset[str]) -> bool:
    """Return whether `topology_of` has already accepted these names."""
    return given in graph._topologies


def check_declared(graph: Graph) -> None:
    """Raise `GraphError` for an input that is neither declared by the schema, nor bound, nor sent by a gate.

    Runs when the graph is used, because values are bound after the graph is built.
    """
    if graph.schema is None:
        return
    sent_to = {target for node in graph.nodes.values() if may_send(node) for target in node.targets}
    for node in graph.nodes.values():
        for value in node.required if node.name not in sent_to else ():
            if value not in graph.schema.fields and value not in graph.bound:
                raise GraphError(
                    f"{node.name!r} reads {value!r}, which is neither declared by {graph.schema.cls.__name__} nor "
                    f"bound; {nearest(value, graph.schema.fields)}"
                )


class ValidationContext:
    """The graph to validate, with data that several checks share."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes

    @cached_property
    def links(self) -> tuple[Link, ...]:
        return links(self.nodes, self.graph.edges)

    @cached_property
    def targets(self) -> dict[str, list[str]]:
        """The targets of the links of each node."""
        targets: dict[str, list[str]] = {name: [] for name in self.nodes}
        for link in self.links:
            targets[link.source].append(link.target)
        return targets

    @cached_property
    def loops(self) -> dict[str, int]:
        return loops_of(self.nodes, self.links)

    @cached_property
    def regions(self) -> Regions:
        return Regions(self.nodes, self.links)

    def downstream(self, name: str) -> set[str]:
        """Return all nodes that can be reached from ``name``."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            fresh = [target for target in self.targets[waiting.pop()] if target not in found]
            found.update(fresh)
            waiting.extend(fresh)
        return found

    def reduced(self, value: str) -> bool:
        schema = self.graph.schema
        return schema is not None and value in schema.fields and schema.fields[value].reducer is not None


def _has_nodes(view: ValidationContext) -> None:
    if not view.nodes:
        raise GraphError("a graph needs at least one node.")


def _names_exist(view: ValidationContext) -> None:
    def check(names: Iterable[str], what: str) -> None:
        for name in names:
            if name not in view.nodes:
                raise GraphError(
                    f"{what} {name!r}, which is not a node of this graph; {nearest(name, view.nodes)}"
                )

    for node in view.nodes.values():
        check((t for t in node.targets if t != str(END)), f"{node.name!r} may go to")
        check(node.after, f"{node.name!r} runs after")
        if node.name in node.after:
            raise GraphError(f"{node.name!r} runs after itself; remove it from after=.")
    for source, target in view.graph.edges:
        if target == str(END):
            raise GraphError(
                f"an edge leads from {source!r} to END; remove it, because paths end on their own."
            )
        check((source,), "an edge leads from")
        check((target,), f"an edge leads from {source!r} to")
        if source == target:
            raise GraphError(f"an edge leads from {source!r} to itself; remove it, or use a gate.")
    check(view.graph.entry, "entry= names")


def _outputs_are_declared(view: ValidationContext) -> None:
    schema = view.graph.schema
    if schema is None:
        return
    for node in view.nodes.values():
        for value in node.outputs:
            if value not in schema.fields:
                is_unnamed = value == node.name and node.shape == "one"
                how = "name its value with @node(output=...), or return a dict of values with @node(writes=[...]); "
                raise GraphError(
                    f"{node.name!r} writes {value!r}, which {schema.cls.__name__} does not declare; "
                    f"{how if is_unnamed else ''}{nearest(value, schema.fields)}"
                )


def _inputs_are_not_misspelt(view: ValidationContext) -> None:
    """Reject an input that the schema does not declare and that differs from a declared one by a letter.

    Other undeclared inputs may be bound later (`check_declared`).
    """
    schema = view.graph.schema
    if schema is None:
        return
    sent_to = {target for node in view.nodes.values() if may_send(node) for target in node.targets}
    for node in view.nodes.values():
        for value in node.required if node.name not in sent_to else ():
            meant = [] if value in schema.fields else [f for f in schema.fields if is_misspelt(value, f)]
            if meant:
                raise GraphError(
                    f"{node.name!r} reads {value!r}, which {schema.cls.__name__} does not declare; did you mean "
                    f"{meant[0]!r}? If not, declare {value!r}, or give the parameter a default."
                )


def _state_readers_are_pointed_to(view: ValidationContext) -> None:
    """Reject a node that reads the whole state and has no other links: it would run before all writers."""
    pointed_to = {link.target for link in view.links if link.kind != "data"}
    leads = {link.source for link in view.links if link.kind == "control"}
    for node in view.nodes.values():
        if not node.reads_state or node.inputs or node.name in pointed_to or node.name in leads:
            continue
        if node.name in view.graph.entry:
            continue
        later = view.downstream(node.name)
        for other in view.nodes.values():
            if other.outputs and other is not node and other.name not in later:
                raise GraphError(
                    f"{node.name!r} reads the whole state and no link leads to it, so it would run at the "
                    f"start, before {other.name!r} writes; add a link with edges= or after=, "
                    "or name it in entry= if it comes first."
                )


def _producers_take_turns(view: ValidationContext) -> None:
    for value, writers in writers_of(view.nodes).items():
        if len(writers) == 1 or view.reduced(value):
            continue
        after = {name: view.downstream(name) for name in writers}
        for one, other in combinations(writers, 2):
            if other in after[one] or one in after[other] or view.regions.exclusive(one, other):
                continue
            raise GraphError(
                f"{value!r} is written by {one!r} and {other!r} in no defined order; order them with after=, let a "
                "gate choose between them, or give the value a reducer in the schema."
            )


def _joins_can_run(view: ValidationContext) -> None:
    """Reject a node that needs values from both sides of a choice that is made once."""
    for gate in view.nodes.values():
        if gate.kind not in ("route", "ifelse") or gate.multi or may_send(gate) or gate.name in view.loops:
            continue
        for one, other in view.regions.choices(gate):
            if both := one & other:
                name = min(both, key=list(view.nodes).index)
                raise GraphError(
                    f"{name!r} can never run: it needs more than one of the targets that {gate.name!r} "
                    "chooses between; give the parameters that may be missing a default"
                    f"{', or write after=[...] instead of all_of(...)' if view.nodes[name].is_join else ''}."
                )


def _joins_can_start(view: ValidationContext) -> None:
    """Reject joins that wait for each other, and a join that ``entry=`` starts although it waits for its own loop."""
    if circle := circle_of(view.nodes):
        names = " → ".join(reversed(circle))
        raise GraphError(
            f"{circle[0]!r} can never run: all_of() makes {names} → {circle[-1]} wait for each other; "
            "write after=[...] for one of them."
        )
    for name in view.graph.entry:
        node = view.nodes[name]
        for source in node.after if node.is_join and name in view.loops else ():
            if view.loops.get(source) == view.loops[name]:
                raise GraphError(
                    f"entry= names {name!r}, which runs after all_of({source!r}, ...) on its own loop and so cannot "
                    f"start it; name another node, or write after=[...]."
                )


def _key_functions_take_known_values(view: ValidationContext) -> None:
    for node in view.nodes.values():
        if node.policy.idempotency_key_func is not None:
            wanted_by_key(node, node.policy.idempotency_key_func, "idempotency_key")
        if node.cache is not None and node.cache.key is not None:
            wanted_by_key(node, node.cache.key, "Cache(key=...)")


def _cached_nodes_have_a_key(view: ValidationContext) -> None:
    for node in view.nodes.values():
        if node.cache is None:
            continue
        if node.subgraph is not None:
            raise GraphError(
                f"{node.name!r} is a subgraph, so it cannot be cached; cache the nodes inside it."
            )
        if node.kind == "interrupt":
            raise GraphError(f"{node.name!r} asks a person, so it cannot be cached; remove cache=.")
        if node.cache.key is None and any(param.kind == "context" for param in node.params):
            raise GraphError(
                f"{node.name!r} is cached and takes a Context, so equal inputs may have different results; remove the "
                "Context, or name what identifies a result with cache=Cache(key=...)."
            )


def _cycles_settle(view: ValidationContext) -> None:
    data = tuple(link for link in view.links if link.kind == "data" and not view.reduced(link.value or ""))
    cycles: dict[int, list[str]] = {}
    for name, number in loops_of(view.nodes, data).items():
        cycles.setdefault(number, []).append(name)
    gated = {target for node in view.nodes.values() for target in node.targets}
    steered = {view.loops.get(node.name) for node in view.nodes.values() if node.targets}
    for members in cycles.values():
        nodes = [view.nodes[name] for name in members]
        if any(node.cutoff or node.name in gated or view.loops[node.name] in steered for node in nodes):
            continue
        names = ", ".join(repr(name) for name in sorted(members, key=list(view.nodes).index))
        warn(
            f"{names} form a loop that never ends, so a run would stop at max_steps; put a gate on "
            "the loop, or mark one of them @node(cutoff=True) to stop when its output no longer changes."
        )


def _selections_off_a_loop_last(view: ValidationContext) -> None:
    """Warn about a gate that may select both another turn of its loop and a node after the loop.

    The next turn withdraws the selection of the node.
    """
    for gate in view.nodes.values():
        loop = view.loops.get(gate.name)
        if not gate.multi or loop is None:
            continue
        targets = [target for target in gate.targets if target != str(END)]
        on = [target for target in targets if view.loops.get(target) == loop]
        off = [target for target in targets if target not in on and not view.nodes[target].eager]
        if on and off:
            warn(selects_off_loop(gate.name, on, off, verb="may select"))


def _types_agree(view: ValidationContext) -> None:
    if not view.graph.strict_types:
        return
    schema = view.graph.schema
    fields: Mapping[str, Field] = {}
    if schema is not None:
        fields = schema.fields
        for node in view.nodes.values():
            for value in node.outputs:
                if not view.reduced(value):
                    _check_type(node, value, fields[value].type, f"{schema.cls.__name__} declares")
    for link in view.links:
        if link.kind == "data" and link.value is not None and link.value not in fields:
            for wanted in _wanted(view.nodes[link.target], link.value):
                _check_type(view.nodes[link.source], link.value, wanted, f"{link.target!r} reads")
    for node in view.nodes.values():
        for value in node.inputs:
            for wanted in _wanted(node, value):
                if value in fields and not fits(fields[value].type, wanted):
                    raise GraphError(
                        f"{node.name!r} reads {value!r} as {shown(wanted)}, but the schema declares "
                        f"{shown(fields[value].type)}; change one of them."
                    )


def _check_type(producer: Node, value: str, wanted: Any, who: str) -> None:
    produced = _produced(producer, value)
    if not fits(produced, wanted):
        raise GraphError(
            f"{producer.name!r} writes {value!r} as {shown(produced)}, but {who} it as {shown(wanted)}; "
            "change one of them."
        )


def _wanted(node: Node, value: str) -> list[Any]:
    return [p.annotation for p in node.params if p.kind == "value" and p.source == value]


def _produced(node: Node, value: str) -> Any:
    """Return the type of an output according to the return annotation; Any if it is unknown."""
    if node.kind != "node" or node.mode in ("generator", "async_generator") or node.targets:
        return Any
    if node.shape == "one":
        return node.returns
    parts = typing.get_args(node.returns)
    if node.shape == "tuple" and typing.get_origin(node.returns) is tuple and len(parts) == len(node.outputs):
        return parts[node.outputs.index(value)]
    return Any


CHECKS: tuple[Callable[[ValidationContext], None], ...] = (
    _has_nodes,
    _names_exist,
    _outputs_are_declared,
    _inputs_are_not_misspelt,
    _state_readers_are_pointed_to,
    _producers_take_turns,
    _joins_can_run,
    _joins_can_start,
    _types_agree,
    _key_functions_take_known_values,
    _cached_nodes_have_a_key,
    _cycles_settle,
    _selections_off_a_loop_last,
)
