"""Nesting: making a node of a graph, so that it can stand in another.

Rules:

- By default the node reads the graph's inputs and writes its outputs, under the same names. An optional input
  has the default ``ABSENT``: if the graph around has no such value, the default inside holds.
- The seed of a loop inside is read only if the loop cannot start without: it is an output too, and a second
  run of the node would else begin where the first one ended.
- ``inputs`` and ``outputs`` narrow that down. What is required inside cannot be left out, unless ``enter``
  makes the values; names that only ``enter`` and ``leave`` know are theirs to choose.
- ``enter`` without ``inputs`` is given the whole state.
- Graphs nest ``MAX_DEPTH`` deep, and no deeper.
- A mapped input must be there, and holds a list.
- What is bound around it reaches what reads it inside: through the node's inputs where they have it, past them where
  they, or ``enter``, do not.

Calling such a node runs the graph in memory; inside a run the engine goes through it step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError, InputError
from clew.graph.names import check_node_name, check_output_name, check_value_name, nearest
from clew.graph.node import Node, make_node
from clew.graph.option_checks import check_function, check_names
from clew.graph.signature import ABSENT, MISSING, Param
from clew.graph.subgraph import MapMode, Subgraph

if TYPE_CHECKING:
    from clew.graph.graph import Graph

MAX_DEPTH = 30
"""How many graphs may stand inside each other: what describes and identifies them is nested four times as deep."""


def subgraph_node(
    graph: Graph,
    name: str | None,
    *,
    inputs: Iterable[str] | None = None,
    outputs: Iterable[str] | None = None,
    enter: Callable[[Any], Any] | None = None,
    leave: Callable[[Any], Any] | None = None,
    mapped: tuple[str, ...] = (),
    mode: MapMode = "zip",
    **options: Any,
) -> Node:
    """The node that runs ``graph``."""
    name = name if name is not None else graph.name
    if name is None:
        raise GraphError(
            "a graph needs a name to be a node; give it one with as_node(name) or Graph(name=...)."
        )
    where = f"subgraph {check_node_name(name)!r}"
    if graph.depth >= MAX_DEPTH:
        raise GraphError(
            f"{where} would be nested more than {MAX_DEPTH} graphs deep; put some of them side by side instead."
        )
    check_function(enter, f"enter= of {where}", "from values outside to values inside")
    check_function(leave, f"leave= of {where}", "from the state inside to an update outside")
    whole = enter is not None and inputs is None
    read = () if whole else _inputs(graph, inputs, enter is not None, where)
    read += tuple(value for value in mapped if value not in read)
    subgraph = Subgraph(
        graph=graph,
        inputs=read,
        outputs=_outputs(graph, outputs, leave is not None, where),
        enter=enter,
        leave=leave,
        mapped=mapped,
        mode=mode,
    )
    state = Param("state", "state", "state", keyword_only=True)
    return make_node(
        _caller(subgraph, name),
        "subgraph",
        name=name,
        shape="update",
        outputs=subgraph.outputs,
        params=(state,) if whole else tuple(_param(subgraph, value) for value in read),
        subgraph=subgraph,
        **{"description": "", **options},
    )


def bound_inside(node: Node, values: Mapping[str, Any]) -> Node:
    """The node of a subgraph with these values bound inside it, where they do not pass through its inputs."""
    inside = node.subgraph
    if inside is None:
        return node
    passed = {p.name for p in node.params if p.kind == "value"} if inside.enter is None else set()
    hidden = {name: value for name, value in values.items() if name not in passed}
    reached = {name: hidden[name] for name in unbound_inputs(inside.graph) if name in hidden}
    if not reached:
        return node
    subgraph = replace(inside, graph=inside.graph.bind(**reached))
    return replace(node, subgraph=subgraph, func=_caller(subgraph, node.name))


def unbound_inputs(graph: Graph) -> tuple[str, ...]:
    """What nodes of the graph, at any depth, read and nobody in it writes or has bound."""
    reads = {value for node in graph.nodes.values() for value in node.inputs}
    names = [name for name in graph.inputs if name in reads and name not in graph.outputs]
    for node in graph.nodes.values():
        if node.subgraph is not None:
            passed = {p.name for p in node.params if p.kind == "value"} if node.subgraph.enter is None else ()
            names += [name for name in unbound_inputs(node.subgraph.graph) if name not in passed]
    return tuple(dict.fromkeys(names))


def _inputs(graph: Graph, inputs: Iterable[str] | None, free: bool, where: str) -> tuple[str, ...]:
    names = _default_inputs(graph) if inputs is None else check_names(inputs, f"inputs= of {where}")
    if not free:
        for name in names:
            if name not in graph.value_names:
                raise GraphError(f"{where} knows no input {name!r}; {nearest(name, graph.value_names)}")
        for name in graph.required_inputs:
            if name not in names:
                raise GraphError(
                    f"{where} needs {name!r}, which inputs= leaves out; add it, or bind it inside."
                )
    return tuple(check_value_name(name, where) for name in names)


def _default_inputs(graph: Graph) -> tuple[str, ...]:
    try:
        graph.topology(frozenset(graph.required_inputs))
    except InputError:
        return graph.inputs
    return tuple(name for name in graph.inputs if name in graph.required_inputs or name not in graph.outputs)


def _outputs(graph: Graph, outputs: Iterable[str] | None, free: bool, where: str) -> tuple[str, ...]:
    names = graph.outputs if outputs is None else check_names(outputs, f"outputs= of {where}")
    for name in names:
        check_output_name(name, where)
        if not free and name not in graph.outputs:
            raise GraphError(f"{where} makes no {name!r}; {nearest(name, graph.outputs)}")
    return names


def _param(subgraph: Subgraph, value: str) -> Param:
    graph = subgraph.graph
    annotation = _annotation(graph, value)
    if value in subgraph.mapped:
        return Param(value, value, "value", keyword_only=True, annotation=GenericAlias(list, (annotation,)))
    needed = subgraph.enter is not None or value in graph.required_inputs
    default = MISSING if needed else ABSENT
    return Param(value, value, "value", keyword_only=True, default=default, annotation=annotation)


def _annotation(graph: Graph, value: str) -> Any:
    """What the first reader inside says about a value."""
    readers = (p for node in graph.nodes.values() for p in node.params if p.kind == "value")
    return next((p.annotation for p in readers if p.source == value), Any)


def _caller(subgraph: Subgraph, name: str) -> Callable[..., Any]:
    def call(**seen: Any) -> dict[str, Any]:
        values = subgraph.values_of(seen.get("state") if not subgraph.inputs and subgraph.enter else seen)
        updates = []
        for item in subgraph.items_of(values):
            result = subgraph.graph.run(item)
            if result.error is not None:
                raise result.error
            updates.append(subgraph.update_of(result.state.values))
        return subgraph.gather(updates)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Run the graph {name!r} in memory."
    return call
