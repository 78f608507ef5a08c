"""Schema changes: fields added to or removed from a state schema after a run began, and nodes that can no longer run.

- A resumed or forked run gets the defaults of fields that it lacks. They are written once, with the record of the
  accepted changes (`AcceptedChanges`). The run then reads as if it had started with them.
- A fork drops the values that its graph does not have. Nothing is written for that: each reader of the fork drops them
  again, according to its graph. Digests cover neither dropped values nor defaults.
- If a node could have run before and now lacks an input that no node will provide, its work would be skipped. That
  raises `GraphChangedError`, even if the changes were accepted.

A value will be provided if a node that writes it is due, or can be reached by links from a node that is due. A node
behind a branch that was not taken lacks its input correctly. So the check reports a node only if its links, or those of
a writer of the input, have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from clew.engine.program import value_names
from clew.engine.working_state import WorkingState
from clew.errors import GraphChangedError
from clew.graph import Graph
from clew.graph.analysis.interface import may_send, required_fields
from clew.graph.analysis.topology import writers_of
from clew.state import GraphState, assemble, located


def with_defaults(state: GraphState, defaults: Mapping[str, Any]) -> GraphState:
    """Return the state with defaults for missing fields, as if the run had started with them."""
    more = {name: value for name, value in defaults.items() if not state.has(name)}
    if not more:
        return state
    position = located(state)
    return assemble(
        values={**state.values, **more},
        versions={**state.versions, **dict.fromkeys(more, 0)},
        decisions=dict(state.gate_decisions),
        terminated=state.has_chosen_end,
        position=replace(position, filled=position.filled | more.keys()),
        history=lambda: dict(state.node_history),
    )


def without_unknown(graph: Graph, state: GraphState) -> GraphState:
    """Return the state without values that the graph does not have."""
    known = value_names(graph)
    lost = set() if known is None else state.values.keys() - known
    if not lost:
        return state
    position = located(state)
    return assemble(
        values={name: value for name, value in state.values.items() if name not in lost},
        versions={name: version for name, version in state.versions.items() if name not in lost},
        decisions=dict(state.gate_decisions),
        terminated=state.has_chosen_end,
        position=replace(
            position,
            given=position.given - lost,
            touched=position.touched - lost,
            filled=position.filled - lost,
        ),
        history=lambda: dict(state.node_history),
    )


def gained(graph: Graph, names: Collection[str]) -> dict[str, Any]:
    """Return the defaults of schema fields that are not among these names."""
    schema = graph.schema
    if schema is None or all(name in names for name in schema.fields):
        return {}
    return schema.defaults(names)


def check_can_run(run_id: str, view: WorkingState, rewired: Collection[str]) -> None:
    """Raise GraphChangedError if a node that can still run lacks an input that no node will provide.

    `rewired` are the nodes whose inputs, outputs or links changed since the run began.
    """
    program, graph = view.program, view.program.graph
    for name in required_fields(graph):
        if name not in view.values and graph.schema is not None:
            raise GraphChangedError(
                f"run {run_id!r} cannot continue: {graph.schema.cls.__name__} now requires {name!r}, which no node "
                f"writes; give the field a default, or fork the run with a value for it"
            )
    writers = writers_of(graph.nodes)
    alive = _reached(view.due, program.topology.targets)
    sent_to = {target for node in graph.nodes.values() if may_send(node) for target in node.targets}
    for number, node in enumerate(program.nodes):
        if node.name in sent_to or number in view.blocked or not (view.wakes[number] or number in alive):
            continue
        for value in view.lacking(number):
            others = [name for name in writers.get(value, ()) if name != node.name]
            if any(program.index[name] in alive for name in others):
                continue
            if not others or not set(rewired).isdisjoint((node.name, *others)):
                raise GraphChangedError(
                    f"run {run_id!r} cannot continue: node {node.name!r} now reads {value!r}, which no node will "
                    f"provide, so the node would never run; give the parameter or the field a default, or fork "
                    f"the run with a value for it"
                )


def _reached(first: Iterable[int], targets: list[list[int]]) -> set[int]:
    """Return these nodes and all nodes that links reach from them."""
    found, waiting = set(first), list(first)
    while waiting:
        fresh = [target for target in targets[waiting.pop()] if target not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found
