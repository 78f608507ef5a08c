"""Describe a graph as text for people, or as plain data for programs.

The data is JSON. It is complete: it contains everything that decides which nodes run and what their updates mean. A run
stores the description of its graph; `clew.graph.skeleton` rebuilds a graph from it to read the run without the user's
code. Lists are in the order of declaration.

========================  =============================================================================================
``name``                  the name of the graph, or None
``inputs``, ``outputs``   the inputs of a run (``required_inputs``: those it needs), and what nodes write
``bound``                 names of bound values
``selected``              the arguments of ``Graph.select``, or None; ``unselected``: values that only removed nodes use
``edges``, ``entry``      control links; where loops start
``state``                 None, or the schema: ``name``, ``validates``, ``is_mapping`` and its ``fields`` by name
a field                   ``type`` as text, ``schema`` (JSON Schema), ``reducer`` (its name, or None), ``has_default``
``nodes``                 in order; ``kind``, ``shape`` and so on are those of `clew.graph.Node`
a parameter               ``name``, ``source`` (the value that it reads), ``kind``, ``keyword_only``, ``has_default``,
                          ``default`` as text, ``type``, ``schema``
``writes``                pairs: the name of an output in the function, and the name of its value
``subgraph``              None, or ``graph`` (a description), ``inputs``, ``outputs``, ``mapped``, ``mode``, and whether
                          it has a ``transform_input`` and a ``transform_output``
``structure_hash``        a digest of the structure (``clew.graph.hashing.hashes``)
``unhashed``              only from ``Graph.describe``: by node, what its code hash does not cover
========================  =============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.graph.annotations import function_name, shown
from clew.graph.json_schema import json_schema
from clew.graph.signature import ABSENT, MISSING

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node
    from clew.graph.signature import Param
    from clew.graph.subgraph import Subgraph
    from clew.state.schema import StateSchema


def describe(graph: Graph) -> dict[str, Any]:
    """Describe a graph as data that can be written as JSON."""
    return {
        "name": graph.name,
        "inputs": list(graph.inputs),
        "required_inputs": list(graph.required_inputs),
        "outputs": list(graph.outputs),
        "bound": sorted(graph.bound),
        "selected": None if graph.selected is None else list(graph.selected),
        "unselected": sorted(graph.unselected),
        "state": None if graph.schema is None else _state(graph.schema),
        "nodes": [_node(node) for node in graph.nodes.values()],
        "edges": [list(pair) for pair in graph.edges],
        "entry": list(graph.entry),
        "structure_hash": graph.structure_hash,
    }


def _state(schema: StateSchema) -> dict[str, Any]:
    return {
        "name": schema.cls.__name__,
        "validates": schema.validates,
        "is_mapping": schema.is_mapping,
        "fields": {
            field.name: {
                "type": shown(field.type),
                "schema": json_schema(field.type),
                "reducer": None if field.reducer is None else function_name(field.reducer),
                "has_default": field.has_default,
            }
            for field in schema.fields.values()
        },
    }


def _node(node: Node) -> dict[str, Any]:
    *schemas, returned = _schemas(node)
    return {
        "name": node.name,
        "kind": node.kind,
        "description": node.description,
        "params": [_param(param, schema) for param, schema in zip(node.params, schemas, strict=True)],
        "returns": {"type": shown(node.returns), "schema": returned},
        "shape": node.shape,
        "writes": [list(pair) for pair in node.writes.items()],
        "targets": list(node.targets),
        "pruned": list(node.pruned),
        "multi": node.multi,
        "when": None if node.when is None else list(node.when),
        "after": list(node.after),
        "is_join": node.is_join,
        "eager": node.eager,
        "cutoff": node.cutoff is not None,
        "subgraph": None if node.subgraph is None else _subgraph(node.subgraph),
    }


def _schemas(node: Node) -> list[dict[str, Any]]:
    """Return the schemas of the parameters of a node, and of what it returns.

    The node keeps them, because making them takes long, and other graphs may have the node too.
    """
    kept = node.__dict__.get("_schemas")
    if kept is None:
        made = [json_schema(each) for each in (*(param.annotation for param in node.params), node.returns)]
        kept = node.__dict__["_schemas"] = msgspec.json.encode(made)
    found: list[dict[str, Any]] = msgspec.json.decode(kept)
    return found


def _param(param: Param, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": param.name,
        "source": param.source,
        "kind": param.kind,
        "keyword_only": param.keyword_only,
        "has_default": param.default is not MISSING,
        "default": _default(param.default),
        "type": shown(param.annotation),
        "schema": schema,
    }


def _default(default: Any) -> str | None:
    """Return a default as text; an object of a user's class by its class name, because its repr may hold an address."""
    if default is MISSING or default is ABSENT:
        return None
    if type(default) in (str, bytes, int, float, bool, complex, type(None)):
        try:
            return repr(default)
        except ValueError:  # an integer that is too long to print
            return hex(default)
    if type(default) in (list, tuple, dict, set) and not default:
        return repr(default)
    return f"<{type(default).__name__}>"


def _subgraph(inside: Subgraph) -> dict[str, Any]:
    return {
        "graph": describe(inside.graph),
        "inputs": list(inside.inputs),
        "outputs": list(inside.outputs),
        "transform_input": inside.transform_input is not None,
        "transform_output": inside.transform_output is not None,
        "mapped": list(inside.mapped),
        "mode": inside.mode,
    }


def describe_as_text(graph: Graph, unhashed: Mapping[str, Iterable[str]]) -> str:
    """Describe a graph as lines to read. `unhashed` is what the code hashes of its nodes do not cover."""
    missing = [f"  not in the code hash of {name}: {', '.join(found)}" for name, found in unhashed.items()]
    return "\n".join([*_lines(describe(graph)), *missing])


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
            reducer = f", reduced by {_short_name(field['reducer'])}" if field["reducer"] else ""
            lines.append(f"    {name}: {field['type']}{reducer}")
    for node in graph["nodes"]:
        lines += [f"  {line}" for line in _node_lines(node)]
    lines += [f"  edge {source} -> {target}" for source, target in graph["edges"]]
    return lines


def _short_name(function: str) -> str:
    return function.rpartition(":")[2].rpartition(".")[2]


def _node_lines(node: dict[str, Any]) -> list[str]:
    reads: dict[str, str] = {}
    for param in node["params"]:
        if param["kind"] == "value":
            default = ""
            if param["has_default"]:
                default = "?" if param["default"] is None else f"={param['default']}"
            reads.setdefault(param["source"], param["source"] + default)
    whole = ["the whole state"] if any(param["kind"] == "state" for param in node["params"]) else []
    line = f"{node['kind']} {node['name']}({', '.join([*reads.values(), *whole])})"
    if node["writes"]:
        line += f" -> {', '.join(value for _, value in node['writes'])}"
    if node["targets"]:
        line += f" => {' | '.join(node['targets'])}"
    if node["after"]:
        line += f", after {'all of ' if node['is_join'] else ''}{', '.join(node['after'])}"
    lines = [line]
    if node["description"]:
        lines.append(f"  {node['description']}")
    if node["subgraph"] is not None:
        lines += [f"  {inner}" for inner in _lines(node["subgraph"]["graph"])]
    return lines
