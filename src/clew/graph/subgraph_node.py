"""Make a node that runs a graph, for use in another graph.

Rules:

- By default the node reads the graph's inputs and writes its outputs, under the same names. An optional input
  has the default ``ABSENT``: if the outer graph has no such value, the default inside applies.
- The node reads the seed of an inner loop only if the loop cannot start without it. The seed is also an output, so a
  second run of the node would otherwise start where the first one ended.
- ``inputs`` and ``outputs`` limit what is read and written. A required input cannot be omitted, unless
  ``transform_input`` makes the values. Names that only the transforms use are not checked.
- ``transform_input`` without ``inputs`` receives the whole state.
- Graphs nest at most ``MAX_DEPTH`` deep.
- A mapped input is required, and is a list.
- Values bound in the outer graph reach the inner nodes that read them: through the node's inputs, or directly if
  the node has no such input or ``transform_input`` is set.

Calling such a node runs the graph in memory. In a run, the engine executes the inner steps one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Unpack

from clew.errors import GraphError, InputError
from clew.graph.analysis.validation import topology_of
from clew.graph.names import check_node_name, check_output_name, check_value_name, nearest
from clew.graph.node import Node, check_options, make_node
from clew.graph.node_options import SubgraphOptions
from clew.graph.option_checks import check_function, check_names
from clew.graph.signature import ABSENT, MISSING, Param
from clew.graph.subgraph import MapMode, Subgraph

if TYPE_CHECKING:
    from clew.graph.graph import Graph

MAX_DEPTH = 30
"""How deep graphs may nest. Descriptions and hashes nest four levels for each of them."""


def subgraph_node(
    graph: Graph,
    name: str | None,
    *,
    inputs: Iterable[str] | None = None,
    outputs: Iterable[str] | None = None,
    transform_input: Callable[[Any], Any] | None = None,
    transform_output: Callable[[Any], Any] | None = None,
    mapped: tuple[str, ...] = (),
    mode: MapMode = "zip",
    **options: Unpack[SubgraphOptions],
) -> Node:
    """Return a node that runs ``graph``."""
    name = name if name is not None else graph.name
    if name is None:
        raise GraphError(
            "a graph needs a name to be a node; give it one with as_node(name) or Graph(name=...)."
        )
    where = f"subgraph {check_node_name(name)!r}"
    check_options(options, where, ("inputs", "outputs", "transform_input", "transform_output"))
    if _depth(graph) >= MAX_DEPTH:
        raise GraphError(
            f"{where} would nest more than {MAX_DEPTH} graphs deep; place some of them next to each other instead."
        )
    check_function(transform_input, f"transform_input= of {where}", "from outer values to inner values")
    check_function(
        transform_output, f"transform_output= of {where}", "from the inner state to an outer update"
    )
    whole = transform_input is not None and inputs is None
    read = () if whole else _inputs(graph, inputs, transform_input is not None, where)
    read += tuple(value for value in mapped if value not in read)
    subgraph = Subgraph(
        graph=graph,
        inputs=read,
        outputs=_outputs(graph, outputs, transform_output is not None, where),
        transform_input=transform_input,
        transform_output=transform_output,
        mapped=mapped,
        mode=mode,
    )
    options.setdefault("description", "")
    state = Param("state", "state", "state", keyword_only=True)
    return make_node(
        _caller(subgraph, name),
        "subgraph",
        name=name,
        shape="update",
        outputs=subgraph.outputs,
        params=(state,) if whole else tuple(_param(subgraph, value) for value in read),
        subgraph=subgraph,
        **options,
    )


def bound_inside(node: Node, values: Mapping[str, Any]) -> Node:
    """Return the node with these values bound in its subgraph, except those that pass through its inputs."""
    inside = node.subgraph
    if inside is None:
        return node
    passed = _passed_by_name(node, inside)
    hidden = {name: value for name, value in values.items() if name not in passed}
    reached = {name: hidden[name] for name in unbound_inputs(inside.graph) if name in hidden}
    if not reached:
        return node
    subgraph = replace(inside, graph=inside.graph.bind(**reached))
    return replace(node, subgraph=subgraph, func=_caller(subgraph, node.name))


def unbound_inputs(graph: Graph) -> tuple[str, ...]:
    """Return the values that nodes of the graph, at any depth, read and that are neither written nor bound in it."""
    reads = {value for node in graph.nodes.values() for value in node.inputs}
    names = [name for name in graph.inputs if name in reads and name not in graph.outputs]
    for node in graph.nodes.values():
        if node.subgraph is not None:
            passed = _passed_by_name(node, node.subgraph)
            names += [name for name in unbound_inputs(node.subgraph.graph) if name not in passed]
    return tuple(dict.fromkeys(names))


def _passed_by_name(node: Node, subgraph: Subgraph) -> set[str]:
    return {p.name for p in node.params if p.kind == "value"} if subgraph.transform_input is None else set()


def _inputs(graph: Graph, inputs: Iterable[str] | None, free: bool, where: str) -> tuple[str, ...]:
    names = _default_inputs(graph) if inputs is None else check_names(inputs, f"inputs= of {where}")
    if not free:
        for name in names:
            if name not in graph.value_names:
                raise GraphError(f"{where} has no input {name!r}; {nearest(name, graph.value_names)}")
        for name in graph.required_inputs:
            if name not in names:
                raise GraphError(
                    f"{where} requires {name!r}, but inputs= does not list it; add it, or bind it in the subgraph."
                )
    return tuple(check_value_name(name, where) for name in names)


def _depth(graph: Graph) -> int:
    """Return how deep subgraphs nest; 1 if no node is a subgraph."""
    inner = [_depth(node.subgraph.graph) for node in graph.nodes.values() if node.subgraph is not None]
    return 1 + max(inner, default=0)


def _default_inputs(graph: Graph) -> tuple[str, ...]:
    try:
        topology_of(graph, frozenset(graph.required_inputs))
    except InputError:
        return graph.inputs
    return tuple(name for name in graph.inputs if name in graph.required_inputs or name not in graph.outputs)


def _outputs(graph: Graph, outputs: Iterable[str] | None, free: bool, where: str) -> tuple[str, ...]:
    names = graph.outputs if outputs is None else check_names(outputs, f"outputs= of {where}")
    for name in names:
        check_output_name(name, where)
        if not free and name not in graph.outputs:
            raise GraphError(f"{where} has no output {name!r}; {nearest(name, graph.outputs)}")
    return names


def _param(subgraph: Subgraph, value: str) -> Param:
    graph = subgraph.graph
    annotation = _annotation(graph, value)
    if value in subgraph.mapped:
        return Param(value, value, "value", keyword_only=True, annotation=GenericAlias(list, (annotation,)))
    needed = subgraph.transform_input is not None or value in graph.required_inputs
    default = MISSING if needed else ABSENT
    return Param(value, value, "value", keyword_only=True, default=default, annotation=annotation)


def _annotation(graph: Graph, value: str) -> Any:
    """Return the annotation of the first inner parameter that reads a value."""
    readers = (p for node in graph.nodes.values() for p in node.params if p.kind == "value")
    return next((p.annotation for p in readers if p.source == value), Any)


def _caller(subgraph: Subgraph, name: str) -> Callable[..., Any]:
    def call(**seen: Any) -> dict[str, Any]:
        whole = not subgraph.inputs and subgraph.transform_input is not None
        values = subgraph.values_of(seen.get("state") if whole else seen)
        updates = []
        for item in subgraph.items_of(values):
            result = subgraph.graph.run(item)
            updates.append(subgraph.update_of(result.state.values))
        return subgraph.gather(updates)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Run the graph {name!r} in memory."
    return call
