"""Description: a graph as text for people, and as plain data for programs.

Both say the same: what goes in, what comes out, and for each node what it reads, writes and leads to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.graph.annotations import shown
from clew.graph.signature import ABSENT, MISSING

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node


def describe(graph: Graph) -> dict[str, Any]:
    """A graph as data that JSON can hold."""
    schema = graph.schema
    return {
        "name": graph.name,
        "inputs": list(graph.inputs),
        "required_inputs": list(graph.required_inputs),
        "outputs": list(graph.outputs),
        "bound": sorted(graph.bound),
        "state": None
        if schema is None
        else {
            "name": schema.cls.__name__,
            "fields": {
                field.name: {
                    "type": shown(field.type),
                    "reducer": field.reducer and getattr(field.reducer, "__name__", "a function"),
                }
                for field in schema.fields.values()
            },
        },
        "nodes": [_node(node) for node in graph.nodes.values()],
        "edges": [list(pair) for pair in graph.edges],
        "entry": list(graph.entry),
        "structure_hash": graph.structure_hash,
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "kind": node.kind,
        "description": node.description,
        "inputs": [_input(node, value) for value in node.inputs],
        "reads_state": node.reads_state,
        "outputs": list(node.outputs),
        "targets": list(node.targets),
        "after": list(node.after),
        "subgraph": None if node.subgraph is None else describe(node.subgraph.graph),
    }


def _input(node: Node, value: str) -> dict[str, Any]:
    param = next(p for p in node.params if p.kind == "value" and p.source == value)
    found: dict[str, Any] = {"name": value, "type": shown(param.annotation)}
    found["required"] = value in node.required
    if param.default is not MISSING and param.default is not ABSENT:
        found["default"] = repr(param.default)
    return found


def describe_as_text(graph: Graph) -> str:
    """A graph as lines to read."""
    return "\n".join(_lines(describe(graph)))


def _lines(graph: dict[str, Any]) -> list[str]:
    lines = [f"graph {graph['name'] or 'without name'}"]
    inputs = [name if name in graph["required_inputs"] else f"{name}?" for name in graph["inputs"]]
    for title, names in (("inputs", inputs), ("outputs", graph["outputs"]), ("bound", graph["bound"])):
        if names:
            lines.append(f"  {title}: {', '.join(names)}")
    if graph["entry"]:
        lines.append(f"  starts at: {', '.join(graph['entry'])}")
    if graph["state"] is not None:
        lines.append(f"  state {graph['state']['name']}")
        for name, field in graph["state"]["fields"].items():
            reducer = f", reduced by {field['reducer']}" if field["reducer"] else ""
            lines.append(f"    {name}: {field['type']}{reducer}")
    for node in graph["nodes"]:
        lines += [f"  {line}" for line in _node_lines(node)]
    lines += [f"  edge {source} -> {target}" for source, target in graph["edges"]]
    return lines


def _node_lines(node: dict[str, Any]) -> list[str]:
    reads = [
        value["name"] + (f"={value['default']}" if "default" in value else "" if value["required"] else "?")
        for value in node["inputs"]
    ]
    reads += ["the whole state"] if node["reads_state"] else []
    line = f"{node['kind']} {node['name']}({', '.join(reads)})"
    if node["outputs"]:
        line += f" -> {', '.join(node['outputs'])}"
    if node["targets"]:
        line += f" => {' | '.join(node['targets'])}"
    if node["after"]:
        line += f", after {', '.join(node['after'])}"
    lines = [line]
    if node["description"]:
        lines.append(f"  {node['description']}")
    if node["subgraph"] is not None:
        lines += [f"  {inner}" for inner in _lines(node["subgraph"])]
    return lines
