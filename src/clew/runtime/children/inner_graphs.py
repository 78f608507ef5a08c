"""Which graph executes a run that starts inside another one.

- A child is executed with its own graph: one with the structure of the child's graph, or a changed one with its name.
  This is never the graph of the run that contains it. The engine cannot know a child's graph, so the caller passes it.
- A subgraph is a part of the engine's graph: the graph at its path, with the values that are bound around it. An engine
  of the inner graph itself is valid too.
"""

from __future__ import annotations

from clew.errors import InputError
from clew.graph import Graph
from clew.runtime.log.checks.fingerprints import is_made_with
from clew.state import GraphState
from clew.stores import RunRow, Store


def check_child_graph(store: Store, row: RunRow, graph: Graph) -> None:
    """Raise InputError if a run is a child, and this is not the graph of the child."""
    if row.child_of is None or is_made_with(row, graph):
        return
    if (graph.name or "") == row.graph and not _is_around(store, row, graph):
        return
    raise InputError(
        f"run {row.run_id!r} is a child of run {row.child_of!r}, started at {row.place} with the {_named(row)}, and "
        f"this engine has the graph {graph.name or 'without name'!r}; use Engine(child_graph, store=...), with the "
        f"graph that was passed to ctx.run"
    )


def _is_around(store: Store, row: RunRow, graph: Graph) -> bool:
    """Return whether a run around a child has this graph."""
    while row.child_of is not None:
        row = store.row(row.child_of)
        if is_made_with(row, graph):
            return True
    return False


def _named(row: RunRow) -> str:
    if row.graph:
        return f"graph {row.graph!r}"
    nodes = [name[:-1] for name in row.codes if name.endswith(":")]
    known = row.description.nodes if isinstance(row.description, Graph) else nodes
    return f"graph of {', '.join(map(repr, known))}"


def subgraph_at(graph: Graph, inner: Graph, prefix: str, state: GraphState, run_id: str) -> Graph:
    """Return the graph to execute from a state of the subgraph at `prefix`, which was made with `inner`.

    `graph` is that of the engine. Raise InputError if it neither contains the subgraph nor is its graph.
    """
    if graph.structure_hash == inner.structure_hash:
        return graph
    found: Graph | None = graph
    for part in prefix.split("/")[:-1]:
        found = None if found is None else _inside(found, part.partition("#")[0], state)
    if found is not None:
        return found
    if graph.name == inner.name:
        return graph
    raise InputError(
        f"the graph of this engine has no subgraph at {prefix[:-1]!r}, where run {run_id!r} has the graph "
        f"{inner.name or 'without name'!r}; use Engine(graph, store=...), with that graph or with the one around it"
    )


def _inside(graph: Graph, name: str, state: GraphState) -> Graph | None:
    """Return the graph of a subgraph node, with what is bound around it and passed by name; None without one."""
    node = graph.nodes.get(name)
    inside = None if node is None else node.subgraph
    if node is None or inside is None:
        return None
    passed = {
        param.name: graph.bound[param.source]
        for param in node.params
        if param.kind == "value" and param.source in graph.bound and not state.has(param.name)
    }
    return inside.graph.bind(**passed) if passed and inside.transform_input is None else inside.graph
