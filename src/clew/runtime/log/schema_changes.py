"""A state schema that has gained or lost fields since a run began, and nodes that can no longer run.

- A resumed state, and that of a fork, gets the defaults of fields that it lacks. They are written once, with the
  record of what was accepted (`Accepted`), and the run reads as if it had had them from the start.
- A fork drops the values that its graph no longer knows. Nothing is written for that: whoever reads the fork drops them
  again, by the graph that it was made with. No digest covers it, as with defaults.
- A node that could have run before, and now lacks an input that nothing will provide, is work that the run would leave
  out. That is `GraphChangedError`, whatever was accepted.

What will be provided is judged by what can still run: a value comes if a node that writes it is due, or can be reached
by links from a node that is due. A node beyond a branch that was not taken lacks its input rightly; it is
told apart by whether it, or a writer of the input, fits into the graph in another way than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from clew.engine.program import value_names
from clew.engine.working_state import WorkingState
from clew.errors import GraphChangedError
from clew.graph import Graph
from clew.graph.interface import may_send, required_fields, writers_of
from clew.state import GraphState


def with_defaults(state: GraphState, defaults: Mapping[str, Any]) -> GraphState:
    """The same state with values for fields that it lacks, as if it had had them from the start."""
    more = {name: value for name, value in defaults.items() if not state.has(name)}
    if not more:
        return state
    position = state.located()
    return GraphState.assemble(
        values={**state.values, **more},
        versions={**state.versions, **dict.fromkeys(more, 0)},
        decisions=dict(state.gate_decisions),
        terminated=state.has_chosen_end,
        position=replace(position, filled=position.filled | more.keys()),
        history=lambda: dict(state.node_history),
    )


def without_unknown(graph: Graph, state: GraphState) -> GraphState:
    """The same state without the values that a graph does not know; itself if there are none."""
    known = value_names(graph)
    lost = set() if known is None else state.values.keys() - known
    if not lost:
        return state
    position = state.located()
    return GraphState.assemble(
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
    """The defaults of the fields of a graph's schema that are not among these names."""
    schema = graph.schema
    if schema is None or all(name in names for name in schema.fields):
        return {}
    return schema.defaults(names)


def check_can_run(run_id: str, view: WorkingState, rewired: Collection[str]) -> None:
    """Raise GraphChangedError if a node waits, or may be woken, for an input that nothing will provide.

    `rewired` are the nodes that fit into the graph in another way than when the run was made with it.
    """
    program, graph = view.program, view.program.graph
    for name in required_fields(graph):
        if name not in view.values and graph.schema is not None:
            raise GraphChangedError(
                f"run {run_id!r} cannot go on: {graph.schema.cls.__name__} requires {name!r} now and no node "
                f"writes it; give the field a default, or fork the run with a value for it"
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
                    f"run {run_id!r} cannot go on: node {node.name!r} reads {value!r} now and nothing will "
                    f"provide it, so its work would be left out; give the parameter or the field a default, or fork "
                    f"the run with a value for it"
                )


def _reached(first: Iterable[int], targets: list[list[int]]) -> set[int]:
    """These nodes, and all that links lead to from them."""
    found, waiting = set(first), list(first)
    while waiting:
        fresh = [target for target in targets[waiting.pop()] if target not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found
